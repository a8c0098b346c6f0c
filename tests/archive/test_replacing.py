"""Tests that files are written completely or not at all."""

from pathlib import Path

import pytest

from ccmix.archive import ArchiveError
from ccmix.files import replacing

TWICE = "another process is writing it: wait until that ends, and try again"


def test_the_second_of_two_writers_that_ends_first_has_written_the_file(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    first = replacing(file)
    first.__enter__().write(b"first")
    with replacing(file) as second:
        second.write(b"second")
    with pytest.raises(ArchiveError, match=TWICE):
        first.__exit__(None, None, None)
    assert file.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [file]


def test_the_first_of_two_writers_does_not_put_the_half_of_the_second_in_place(
    tmp_path: Path,
) -> None:
    file = tmp_path / "report.html"
    first, second = replacing(file), replacing(file)
    out = first.__enter__()
    with second as beside:
        beside.write(b"sec")
        beside.flush()
        out.write(b"first")
        with pytest.raises(ArchiveError, match=TWICE):
            first.__exit__(None, None, None)
        assert not file.exists()
        beside.write(b"ond")
    assert file.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [file]
