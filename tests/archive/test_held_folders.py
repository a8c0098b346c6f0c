"""Tests that a folder is held by one at a time, and that a link is never followed."""

from pathlib import Path

import pytest

from ccmix.archive.held_folders import held


def test_one_at_a_time_holds_a_folder(tmp_path: Path) -> None:
    with held(tmp_path) as first, held(tmp_path) as second:
        assert (first, second) == (True, False)
    with held(tmp_path) as again:
        assert again


def test_a_link_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(OSError, match="link"), held(tmp_path / "link"):
        pass
