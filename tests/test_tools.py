"""Where ccmix looks for the programs that it brings along."""

import sys
from pathlib import Path

import pytest

from ccmix import tools


def program(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("CCMIX_IPERF3", raising=False)
    monkeypatch.delenv("CCMIX_LAB_KERNEL", raising=False)


def test_named_by_the_environment_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "prefix/bin/ccmix-iperf3")
    named = program(tmp_path / "mine")
    monkeypatch.setenv("CCMIX_IPERF3", str(named))
    assert tools.find_iperf3() == named


def test_then_beside_python_then_on_path(tmp_path: Path) -> None:
    on_path = program(tmp_path / "path/ccmix-iperf3")
    assert tools.find_iperf3() == on_path
    installed = program(tmp_path / "prefix/bin/ccmix-iperf3")
    assert tools.find_iperf3() == installed


def test_missing_says_what_installs_it() -> None:
    with pytest.raises(tools.ToolError, match=r"the lab's kernel is not at .*make setup"):
        tools.find_kernel()


def test_a_link_into_a_removed_cache_is_missing(tmp_path: Path) -> None:
    (tmp_path / "prefix/bin").mkdir(parents=True)
    (tmp_path / "prefix/bin/ccmix-iperf3").symlink_to(tmp_path / "cache/iperf3")
    with pytest.raises(tools.ToolError, match="make setup"):
        tools.find_iperf3()
