"""Tests messages about files that can't be written."""

import errno
import os
from pathlib import Path

import polars as pl
import pytest

from ccmix.archive import parquet
from ccmix.failures import located, naming

FULL = Path("/dev/full")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_sentence_has_the_file_the_reason_and_what_to_do(number: int) -> None:
    told = located(OSError(number, os.strerror(number), "results/a"), "elsewhere")
    file, reason, what_to_do = told.split(": ", 2)
    assert (file, reason) == ("results/a", os.strerror(number))
    assert "choose another place" in what_to_do


def test_a_file_that_the_system_does_not_name() -> None:
    with pytest.raises(OSError, match="No space left") as raised, naming(FULL):
        FULL.write_text("x")
    assert raised.value.errno == errno.ENOSPC
    assert located(raised.value).startswith("/dev/full: No space left on device: make room")


def test_no_file_at_all() -> None:
    assert (
        located(OSError(errno.ECONNRESET, "Connection reset by peer")) == "Connection reset by peer"
    )
    assert located(OSError("of a library")) == "of a library"


@pytest.mark.parametrize("lazy", [False, True])
def test_a_table_on_a_full_disk(lazy: bool) -> None:
    table = pl.DataFrame({"a": range(100_000)})
    with pytest.raises(OSError, match="No space left on device") as raised:
        parquet.write(table.lazy() if lazy else table, FULL)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_table_that_polars_itself_refuses(tmp_path: Path) -> None:
    with pytest.raises(pl.exceptions.PolarsError):
        parquet.write(pl.LazyFrame({"a": [1]}).select("b"), tmp_path / "table.parquet")
