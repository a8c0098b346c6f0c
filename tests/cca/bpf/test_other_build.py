"""Tests what ccmix-cca shows of CCAs that another build of it has loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cca_bpf import Loader

OTHER = 0x0123456789ABCDEF


@pytest.fixture
def other(loader: Loader, tmp_path: Path) -> Loader:
    """Gives a copy that identifies itself as another build."""
    build = int(loader.must("--version").split()[-1], 16)
    return changed(loader, tmp_path, build.to_bytes(8, "little"), OTHER.to_bytes(8, "little"))


def changed(loader: Loader, folder: Path, what: bytes, into: bytes) -> Loader:
    text = loader.program.read_bytes()
    assert what in text
    copy = folder / "ccmix-cca"
    copy.write_bytes(text.replace(what, into))
    copy.chmod(0o755)
    return Loader(copy)


def test_the_list_names_the_other_build(loader: Loader, other: Loader) -> None:
    other.must("load", "bbr3", "loss_thresh=5")
    entry = loader.list()["bbr3"]
    assert (entry["program"], entry["sockets"], entry["parameters"]) == (f"{OTHER:016x}", None, {})
    refused = loader.run("set", "bbr3", "loss_thresh=6")
    assert (refused.returncode, "another build" in refused.stderr) == (1, True)
    loader.must("unload", "bbr3")
    assert loader.list() == {}


def test_the_list_has_null_for_a_build_whose_number_is_not_found(
    loader: Loader, tmp_path: Path
) -> None:
    changed(loader, tmp_path, b".data.control\0", b".data.xxxxxxx\0").must("load", "bbr3")
    assert loader.list()["bbr3"]["program"] is None


@pytest.mark.usefixtures("lists_of_sockets")
def test_watch_goes_on_with_what_this_build_has_loaded(loader: Loader, other: Loader) -> None:
    other.must("load", "bbr2")
    loader.must("load", "bbr3")
    done = loader.run("watch", "--", "env")
    assert done.returncode == 0, done.stderr
    assert "bbr2 was loaded by another build" in done.stderr
    assert [
        line.partition("=")[0] for line in done.stdout.splitlines() if "CCMIX_STATE" in line
    ] == ["CCMIX_STATE_BBR3"]


@pytest.mark.usefixtures("lists_of_sockets")
def test_status_goes_on_with_what_this_build_has_loaded(loader: Loader, other: Loader) -> None:
    other.must("load", "bbr2")
    for words in ((), ("bbr2",)):
        done = loader.run("status", *words, "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, [])
        assert "bbr2 was loaded by another build" in done.stderr
