"""Declares the columns of a run's time series, and checks a table that may come from other people.

A series may lack columns that its probe or an older ccmix does not have, and may have others.
Import this only where polars is already loaded, because importing polars takes long.
"""

import polars as pl

from ccmix.model import run_files

_TEXTS = (
    "bbr_phase ca_state cca counted_by destination_address device direction end failed group "
    "handle host kind "
    "local_address name netns parent place remote_address source_address state step"
)
TEXTS = frozenset(_TEXTS.split())  # the others are numbers
FLAGS = frozenset(["app_limited", "ecn", "final", "omitted"])
MOST = 1e18  # the largest number with a fraction, without its sign
REQUIRED = {
    run_files.INTERVALS: "time_s",
    run_files.SOCKETS: "time_s",
    run_files.RTT: "time_s rtt_s",
    run_files.COMPLETIONS: "group seconds",
    run_files.STEPS_SERIES: "step begin_s end_s asked_s failed time_s seconds",
    run_files.PACKETS: "time_s",
    "queues.parquet": "time_s place",
    run_files.COUNTERS: "time_s",
    run_files.CPU: "time_s",
    run_files.PROCESSES: "time_s",
}


def wrong_columns(schema: pl.Schema, file_name: str) -> str | None:
    """Returns the mistake in the columns of the series in the file of this name, as the end of a
    sentence; None if there is none.
    """
    required = REQUIRED.get(file_name, "").split()
    for name in required:
        if name not in schema:
            return f"it has no column '{name}'"
    # Nothing reads connections.parquet, whose columns depend on ccmix-capflow
    for name, kind in schema.items() if file_name != run_files.CONNECTIONS else ():
        if not _has_type(name, kind) or (name in required and kind == pl.Null):
            return f"its column '{name:.60}' has values of the type {kind}"
    return None


def _has_type(name: str, kind: pl.DataType) -> bool:
    """Returns whether a column of this name may have this type."""
    if name in TEXTS:
        return kind in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    if name in FLAGS:
        return kind == pl.Boolean
    return kind.is_numeric() or kind in (pl.Boolean, pl.Null)  # Null: no row has a value


def impossible_values(table: pl.DataFrame) -> str | None:
    """Returns the end of a sentence that names a column with values that no measurement has, such
    as NaN; None if there is no such column.
    """
    fractions = pl.col(pl.Float64, pl.Float32).fill_null(0.0)
    for column in table.select(~fractions.is_between(-MOST, MOST).all()):
        if column.any():
            return f"its column '{column.name:.60}' has values that are not numbers"
    return None
