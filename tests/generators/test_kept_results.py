"""Tests that raw files of a possibly third-party archive are not read through a link or from a
pipe.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.archive import ArchiveError
from ccmix.generators.command import read_pscheduler_result, read_src_command_result
from ccmix.model import CommandSource, Traffic, run_files

TRAFFIC = Traffic((CommandSource("", "src", "true"),), 1.0, 0.0, 0.5)
FILES: dict[str, Callable[[Path], object]] = {
    run_files.SRC_COMMAND_OUTPUT: lambda generators: read_src_command_result(generators, TRAFFIC),
    run_files.PSCHEDULER: read_pscheduler_result,
}


@pytest.fixture
def generators(tmp_path: Path) -> Path:
    folder = tmp_path / "archive" / "entry" / "all" / "dst" / "001" / run_files.GENERATORS
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", ["file", "folder", "pipe"])
def test_a_raw_file_of_others_that_leads_elsewhere_is_refused(
    name: str, way: str, generators: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / name).write_text("{}")
    if way == "file":
        (generators / name).symlink_to(tmp_path / "outside" / name)
    elif way == "folder":
        generators.rmdir()
        generators.symlink_to(tmp_path / "outside")
    else:
        os.mkfifo(generators / name)
    with pytest.raises(ArchiveError, match=r"is a link|is not a regular file"):
        FILES[name](generators)


def test_a_src_cmd_that_has_printed_nothing_yet(generators: Path) -> None:
    assert read_src_command_result(generators, TRAFFIC).kind == "other"
