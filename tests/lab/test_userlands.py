"""Tests the identity of a userland, which comes from the build.json next to it."""

from pathlib import Path

import pytest

from ccmix.lab.spec import GuestError, identify_userland
from ccmix.model import GuestRoot


@pytest.mark.parametrize("pinned", [True, False])
def test_only_pinned_packages_are_repeatable_elsewhere(tmp_path: Path, pinned: bool) -> None:
    (tmp_path / "build.json").write_text(f'{{"sha256": "abc", "pinned": {str(pinned).lower()}}}')
    assert identify_userland(tmp_path / "root") == GuestRoot("abc", repeatable_elsewhere=pinned)


@pytest.mark.parametrize("noted", [None, "{", "[]", '{"pinned": true}', '{"sha256": "abc"}'])
def test_an_incomplete_one_is_to_be_built_again(tmp_path: Path, noted: str | None) -> None:
    if noted is not None:
        (tmp_path / "build.json").write_text(noted)
    with pytest.raises(GuestError, match="run 'make setup', which builds it again"):
        identify_userland(tmp_path / "root")
