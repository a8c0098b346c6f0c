"""Tests where ccmix looks for its own programs."""

import os
import pwd
import re
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from ccmix import tools
from support.commands import REPOSITORY


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


def test_named_by_the_environment_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("empty", [True, False])
def test_the_cache_without_a_home_in_the_environment(
    empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd sets no HOME for services of root."""
    monkeypatch.delenv("CCMIX_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    if empty:
        monkeypatch.setenv("HOME", "")
    assert tools.cache_folder() == Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache/ccmix")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a repository with the sources of every program, as after its set-up."""
    for patterns in tools.SOURCES.values():
        for pattern in patterns:
            file = tmp_path / pattern.replace("*", "one").replace("[ch]", "c")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("as it was built\n")
    harness = tmp_path / "harness" / "ccmix"
    harness.mkdir(parents=True)
    (harness / "module.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(tools, "REPOSITORY", tmp_path)
    monkeypatch.setattr(tools, "HARNESS", harness)
    monkeypatch.setattr(tools, "SETUP", program(tmp_path / "tools/setup"))
    set_up(tmp_path)
    return tmp_path


def set_up(checkout: Path) -> None:
    """Writes the same file as tools/setup does last."""
    kept = checkout / "prefix/built-from"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("".join(f"{what}\t{now}\n" for what, now in tools.fingerprints().items()))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ("iperf3-patch/one.patch", "the patched iperf3 is older"),
        ("probes/rtt/one.c", "ccmix-rtt is older"),
        (
            "probes/common/one.c",
            "ccmix-sockmon, ccmix-capflow, ccmix-rtt, ccmix-confine, ccmix-cca are older",
        ),
        ("lab/kernel.config", "the lab's kernel is older"),
    ],
)
def test_a_program_older_than_its_sources_is_named_with_the_command_that_builds_it(
    checkout: Path, changed: str, what: str
) -> None:
    assert tools.outdated() is None
    (checkout / changed).write_text("as it was pulled\n")
    sentence = tools.outdated() or ""
    assert sentence.startswith(what)
    assert sentence.endswith(f"run {checkout}/tools/setup")
    set_up(checkout)
    assert tools.outdated() is None


def test_a_new_patch_and_a_set_up_before_this_check_are_noticed(checkout: Path) -> None:
    (checkout / "iperf3-patch/two.patch").write_text("new\n")
    assert (tools.outdated() or "").startswith("the patched iperf3 is older")
    (checkout / "prefix/built-from").unlink()
    assert (tools.outdated() or "").startswith(
        "the patched iperf3, the lab's kernel, the lab's userland, "
    )


def test_old_byte_code_is_compiled_anew(checkout: Path) -> None:
    """Otherwise each guest would compile it. A module that can't be compiled represents a folder
    that can't be written.
    """
    module = checkout / "harness/ccmix/module.py"
    compiled = Path(cache_from_source(str(module)))
    assert tools.outdated() is None
    before = compiled.read_bytes()
    module.write_text("VALUE = 2\n")
    os.utime(module, (1e9, 1e9))  # Python compares whole seconds
    assert tools.outdated() is None
    assert compiled.read_bytes() != before
    module.write_text("VALUE =\n")
    assert (tools.outdated() or "").startswith("Python's byte code is older")


def test_without_sources_nothing_is_older(checkout: Path) -> None:
    (checkout / "prefix/built-from").unlink()
    (checkout / "tools/setup").unlink()
    assert tools.outdated() is None


@pytest.mark.parametrize(
    ("noted", "begin"),
    [
        (
            '{"pinned": false, "source_version": "7.3.1-1"}',
            "built from 7.3.1-1 instead of what tools/sources.lock pins",
        ),
        (
            '{"pinned": false, "packages": []}',
            "built from newer packages instead of what lab/userland/packages.lock pins",
        ),
        (
            '{"pinned": true, "pinned_compiler": false, "compiler": "gcc 14"}',
            "built by gcc 14 instead of the compiler that tools/toolchain/packages.lock pins",
        ),
        ('{"pinned": true}', None),
        ('{"pinned": true, "pinned_compiler": true}', None),
        ('{"sha256": "0"}', None),
        ("[]", None),
        ("{", None),
        (None, None),
    ],
)
def test_what_was_not_built_from_the_pinned_source_is_said(
    tmp_path: Path, noted: str | None, begin: str | None
) -> None:
    if noted is not None:
        (tmp_path / "build.json").write_text(noted)
    sentence = tools.unpinned(tmp_path / "linux")
    assert sentence is None if begin is None else (sentence or "").startswith(begin)


def test_every_source_of_the_build_scripts_counts() -> None:
    """Compares with the scripts, which compute their keys in the cache from the same files."""
    for what, patterns in tools.SOURCES.items():
        assert all(list(REPOSITORY.glob(pattern)) for pattern in patterns), what
    script = (REPOSITORY / "lab/build").read_text()
    key = next(line for line in script.splitlines() if "key=$(cache_key" in line)
    compiler = (
        (REPOSITORY / "tools/cache.sh")
        .read_text()
        .partition("toolchain_key() {")[2]
        .partition("\n}")[0]
    )
    assert {
        f"tools/{name}" for name in re.findall(r"[\w/]+(?:/build|\.lock|\.sh)", compiler)
    } == set(tools.COMPILER)
    names = {
        name
        for name in ("build", "unpack", "kernel.config", "patches/*.patch")
        if f"/{name}" in key
    }
    ccas = {f"cca/{name}" for name in ("*/*.[ch]", "module/K*") if f'"$cca"/{name}' in key}
    lock = {"tools/sources.lock"} if "sources.lock" in key else set()
    pinned = set(tools.COMPILER) if "use_pinned_compiler" in script else set()
    assert {f"lab/{name}" for name in names} | ccas | lock | pinned == set(
        tools.SOURCES["the lab's kernel"]
    )
