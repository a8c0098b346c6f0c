"""Turns fields of the stream's rows into columns of tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ccmix.probes.stream.format import codes
from ccmix.probes.stream.records import SampleIndex

Numbers = npt.NDArray[Any]

_DTYPES = {"B": "u1", "H": "<u2", "I": "<u4", "i": "<i4", "Q": "<u8"}


def dtype_of(code: str) -> str:
    """Returns numpy's name for a code of the module struct."""
    return _DTYPES[code]


def row_dtype(declaration: type, **members: Sequence[str]) -> np.dtype[Any]:
    """Returns the layout of a row; `members` names the numbers in an array, which then are fields of that field."""
    layout: list[tuple[Any, ...]] = []
    for name, code in codes(declaration).items():
        count, dtype = code[:-1], dtype_of(code[-1])
        if name in members:
            assert len(members[name]) == int(count)
            layout.append((name, [(member, dtype) for member in members[name]]))
        else:
            layout.append((name, dtype, int(count)) if count else (name, dtype))
    return np.dtype(layout)


def sample_times(samples: SampleIndex) -> dict[str, pl.Series]:
    """Returns the columns with which every table begins."""
    rows = np.array(samples.rows, np.int64)
    return {
        "time_s": pl.Series(np.repeat(np.array(samples.wall_ns, np.uint64) / 1e9, rows)),
        "monotonic_s": pl.Series(np.repeat(np.array(samples.mono_ns, np.uint64) / 1e9, rows)),
        "took_s": pl.Series(np.repeat(np.array(samples.took_ns, np.uint64) / 1e9, rows)),
    }


def by_id(ids: Numbers, values: Sequence[Any], dtype: Any) -> pl.Series:
    """Returns a property of identities for each row. Gathering a few strings is quicker than making one per row."""
    return pl.Series(values, dtype=dtype).gather(pl.Series(ids))


def nullable(values: Numbers, known: Numbers) -> pl.Series:
    """Returns the values, null where `known` is false."""
    if known.all():
        return pl.Series(values)
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def text(name: bytes) -> str:
    """Returns the text of a char array, which ends at the first zero byte."""
    return name.partition(b"\0")[0].decode(errors="replace")
