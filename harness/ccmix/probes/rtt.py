"""Reads the round-trip times that the probe ccmix-rtt measures while the traffic flows.

probes/rtt/README.md defines them.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

SCHEMA: Mapping[str, type[pl.DataType]] = {
    "time_s": pl.Float64,
    "sequence": pl.Int64,
    "rtt_s": pl.Float64,
}


class RttError(Exception):
    """Explains why a file is not ccmix-rtt's output."""


@dataclass(frozen=True)
class Rtts:
    """Holds a table with the columns of SCHEMA, a row per question (ICMP echo or TCP SYN).

    `rtt_s` is null if no answer came. Questions that were not sent in time have no row; `missed`
    counts them.
    """

    table: pl.DataFrame
    missed: int


def read(file: Path) -> Rtts:
    """Reads the output of ccmix-rtt, a CSV file; drops a last line that a crash has cut.

    Raises RttError if ccmix-rtt did not write the file.
    """
    try:
        text = file.read_bytes()
        text = text[: text.rfind(b"\n") + 1]
        if text.partition(b"\n")[0].decode() != ",".join(SCHEMA):
            raise RttError(f"{file}: not the columns of ccmix-rtt")
        table = pl.read_csv(io.BytesIO(text), schema=dict(SCHEMA))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise RttError(f"{file}: not the output of ccmix-rtt: {error}") from error
    numbers = table.get_column("sequence")
    last = numbers.max()
    return Rtts(table, 0 if last is None else int(str(last)) + 1 - numbers.len())
