"""Renders a table of rich as plain text."""

from rich.console import Console
from rich.table import Table

MOST_WIDTH = 10_000


def plain(table: Table) -> str:
    """Returns the table without colours, as wide as it needs to be."""
    console = Console(color_system=None)
    console.width = MOST_WIDTH
    if table.title or table.caption:  # which are in the middle of that width
        console.width = console.measure(table, options=console.options.update(width=MOST_WIDTH)).maximum
    with console.capture() as capture:
        console.print(table)
    return capture.get()
