"""`ccmix cache`: lists what was built and kept, and removes what nothing uses any more."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options, status
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.cli.cache_items import CacheItem
    from ccmix.cli.cache_use import Uses

LEFT_OVER_AFTER_S = 3600.0  # a build that has changed nothing for that long was killed
DAY_S = 86400.0


@dataclass(frozen=True)
class Kept:
    """Describes something in the cache, and why it is kept: what uses it, or that it is of the present sources."""

    item: CacheItem
    used_by: str  # '' if nothing does
    current: bool


@click.group(
    "cache", short_help="List what was built and kept, and remove what nothing uses.", invoke_without_command=True
)
@click.pass_context
def cache(ctx: click.Context) -> None:
    """List what was built and kept in the cache, $CCMIX_CACHE or ~/.cache/ccmix; remove what nothing uses.

    \b
    ccmix cache list               also what `ccmix cache` alone does
    ccmix cache prune --dry-run    what would be removed
    ccmix cache prune
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(cache_list, form="table")


@cache.command("list", short_help="List kernels, userlands and programs: size, age, and what uses them.")
@options.form("table", "json")
def cache_list(form: str) -> None:
    """List what is in the cache, each with its kind, size and age, and with what uses it.

    This installation, the name of a kernel, a lock, a mount or a process uses something. "current" is what nothing uses
    now, but was made of the present sources, or is the newest of its kind.

    \b
    ccmix cache list
    ccmix cache list --format json
    """
    folder = _folder()
    kept = _kept(folder)
    if form == "json":
        put(json.dumps([_row(folder, each) for each in kept], indent=2) + "\n")
    elif kept:
        put(_table(kept))
    tell(f"{_total(kept)} in {folder}")


@cache.command("prune", short_help="Remove what nothing uses.")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option("--all", "everything", is_flag=True,
              help="Also what only builds and ccmix's own tests need, and what is current.")  # fmt: skip
def cache_prune(dry_run: bool, everything: bool) -> None:
    """Remove what was built of older sources and is not in use, and what killed builds have left; list it.

    Never removed: what this installation, the name of a kernel, a lock, a mount or a process uses, and what ccmix does
    not know. Another clone's programs may be among what is removed: its next `make setup` builds them
    again. Of processes of other users only root sees what they use.

    The exit status is 1 if something could not be removed.

    \b
    ccmix cache prune --dry-run
    ccmix cache prune
    ccmix cache prune --all
    rm ~/.cache/ccmix/lab-kernel/named/NAME    give up a kernel with a name
    """
    folder = _folder()
    chosen = [each for each in _kept(folder) if _can_go(each, everything)]
    gone = chosen if dry_run else [each for each in chosen if _remove(folder, each.item)]
    if gone:
        put(_table(gone))
    tell(f"{_total(gone)} {'would be removed' if dry_run else 'removed'}")
    sys.exit(status.GOOD if len(gone) == len(chosen) else status.BAD)


def _folder() -> Path:
    from ccmix.tools import cache_folder

    return Path(os.path.realpath(cache_folder()))


def _kept(folder: Path) -> list[Kept]:
    from ccmix.cli.cache_items import items
    from ccmix.cli.cache_use import Uses

    found, uses = items(folder), Uses(folder)
    reasons = {item.path: _reason(item, uses) for item in found}
    present = {_sources(item) for item in (*_newest(found), *(item for item in found if reasons[item.path]))}
    return [Kept(item, reasons[item.path], _is_keyed(item) and _sources(item) in present) for item in found]


def _reason(item: CacheItem, uses: Uses) -> str:
    from ccmix.cli.cache_items import UNKNOWN

    return "" if item.kind == UNKNOWN else uses.reason(item)


def _newest(found: Sequence[CacheItem]) -> Iterable[CacheItem]:
    """Returns the newest of each kind that has keys."""
    from ccmix.cli.cache_items import OBJECTS

    keyed = [item for item in found if _is_keyed(item) and item.kind != OBJECTS]
    return {item.kind: item for item in sorted(keyed, key=lambda item: item.modified_s)}.values()


def _is_keyed(item: CacheItem) -> bool:
    from ccmix.cli.cache_items import LEFT_OVER

    return item.key is not None and item.kind != LEFT_OVER


def _sources(item: CacheItem) -> tuple[Path, str | None]:
    """Returns what names the sources that it was built of: equal where these are."""
    return item.path.parent, item.key


def _can_go(kept: Kept, everything: bool) -> bool:
    from ccmix.cli.cache_items import LEFT_OVER, UNKNOWN

    if kept.used_by or kept.item.kind == UNKNOWN:
        return False
    if kept.item.kind == LEFT_OVER:
        return time.time() - kept.item.modified_s > LEFT_OVER_AFTER_S
    return everything or not (kept.current or kept.item.extra)


def _remove(folder: Path, item: CacheItem) -> bool:
    """Removes it, and says why where that fails; what somebody has locked meanwhile stays."""
    from ccmix.cli.cache_items import REMOVED
    from ccmix.cli.cache_use import locked
    from ccmix.failures import located

    path = folder / item.path
    with locked(folder, item) as has_lock:
        if not has_lock:
            tell(f"{path}: is locked, so it stays")
            return False
        try:
            aside = path.rename(path.with_name(f"{path.name}{REMOVED}{os.getpid()}"))
            if aside.is_dir():
                shutil.rmtree(aside)
            else:
                aside.unlink()
        except OSError as error:
            tell(located(error, path))
            return False
    return True


def _table(kept: Sequence[Kept]) -> str:
    from rich.table import Table
    from rich.text import Text

    from ccmix.plain_text import plain
    from ccmix.units import format_bytes

    table = Table("kind", "name", "size", "age", "in use", box=None, pad_edge=False)
    table.columns[2].justify = table.columns[3].justify = "right"
    for each in kept:
        size = "unknown" if each.item.size_bytes is None else format_bytes(each.item.size_bytes)
        use = each.used_by or ("current" if each.current else "")
        cells = (each.item.kind, _printable(each.item.path), size, _age(each.item.modified_s), _printable(use))
        table.add_row(*map(Text, cells))
    return plain(table)


def _printable(text: object) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def _age(modified_s: float) -> str:
    days = (time.time() - modified_s) / DAY_S
    return f"{days:.0f} d" if days >= 1 else f"{max(days, 0.0) * 24:.0f} h"


def _total(kept: Sequence[Kept]) -> str:
    from ccmix.units import format_bytes

    sizes = [each.item.size_bytes for each in kept]
    count = f"{len(kept)} {'entry' if len(kept) == 1 else 'entries'}"
    at_least = "at least " if None in sizes else ""
    return f"{count}, {at_least}{format_bytes(sum(size or 0 for size in sizes))}"


def _row(folder: Path, kept: Kept) -> dict[str, str | float | bool | None]:
    item = kept.item
    return {
        "kind": item.kind,
        "path": str(folder / item.path),
        "size_bytes": item.size_bytes,
        "modified_s": item.modified_s,
        "used_by": kept.used_by or None,
        "current": kept.current,
    }
