"""Tests that the programs in a wheel, as packaging/dist packs them, are unpacked once, completely,
and by one process at a time.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ccmix import files, payload, tools
from ccmix.cli.main import main
from support.commands import REPOSITORY, loaded, small_disk

FIRST = """
import sys
from pathlib import Path
from ccmix import payload
payload.FOLDER = Path(sys.argv[1])
print(payload.find("ccmix-one", Path(sys.argv[2])))
"""
USES = FIRST + "sys.stdout.flush(); sys.stdin.read()"
REPAIRS = FIRST + "payload.repaired(payload.parts()[0], Path(sys.argv[2]))"
WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Makes every test read its own manifest, without data of an earlier test."""
    forget()
    yield
    forget()


def forget() -> None:
    payload.parts.cache_clear()
    payload.unpacked.cache_clear()
    for folder in [*files.held]:
        files.release(folder)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of a package with two parts."""
    archives = loaded(REPOSITORY / "packaging/building/archives.py", "archives")
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "bin").mkdir(parents=True)
    (one / "bin/ccmix-one").write_text("#!/bin/sh\necho one\n")
    (one / "bin/ccmix-one").chmod(0o700)
    (one / "empty").mkdir()
    (one / "link").symlink_to("bin/ccmix-one")
    two.mkdir()
    (two / "ccmix-two").write_bytes(bytes(3_000_000))
    (two / "ccmix-two").chmod(0o755)
    folder = tmp_path / "package"
    parts = [
        archives.Archive("one", one, {"ccmix-one": "bin/ccmix-one"}),
        archives.Archive("two", two, {"ccmix-two": "ccmix-two"}),
    ]
    archives.write_all(parts, folder)
    monkeypatch.setattr(payload, "FOLDER", folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def inode(program: Path) -> int:
    return program.stat().st_ino


def test_a_program_is_unpacked_at_its_first_use_and_only_its_part(
    package: Path, cache: Path
) -> None:
    program = payload.find("ccmix-one", cache)
    assert program
    assert subprocess.check_output([program], text=True) == "one\n"
    one, two = payload.parts()
    assert program == one.folder(cache) / "bin/ccmix-one"
    assert (one.folder(cache) / "link").readlink() == Path("bin/ccmix-one")
    assert (one.folder(cache) / "empty").is_dir()
    assert not two.folder(cache).exists()
    before = inode(program)
    forget()
    assert payload.find("ccmix-one", cache) == program
    assert inode(program) == before


def test_a_clone_brings_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload, "FOLDER", tmp_path / "none")
    assert payload.find("ccmix-one", cache) is None
    assert not cache.exists()


def test_the_same_content_gives_the_same_archives(package: Path, tmp_path: Path) -> None:
    archives = loaded(REPOSITORY / "packaging/building/archives.py", "archives")
    for file in (tmp_path / "one").rglob("*"):
        os.utime(file, (1e9, 1e9), follow_symlinks=False)
    (tmp_path / "one/bin/ccmix-one").chmod(0o755)
    archives.write_all([archives.Archive("one", tmp_path / "one", {})], tmp_path / "again")
    assert (tmp_path / "again/one.tar.gz").read_bytes() == (package / "one.tar.gz").read_bytes()


@pytest.mark.parametrize("damage", ["shorter", "gone", "not executable", "link"])
def test_what_is_damaged_is_unpacked_again(package: Path, cache: Path, damage: str) -> None:
    program = payload.find("ccmix-one", cache)
    assert program
    match damage:
        case "shorter":
            program.write_text("#!/bin/sh\n")
        case "gone":
            program.unlink()
        case "not executable":
            program.chmod(0o644)
        case "link":
            (program.parents[1] / "link").unlink()
    forget()
    assert payload.find("ccmix-one", cache) == program
    assert subprocess.check_output([program.parents[1] / "link"], text=True) == "one\n"
    assert sorted(path.name for path in program.parents[2].iterdir()) == [
        program.parents[1].name,
        f"{program.parents[1].name}.lock",
    ]


def test_other_bytes_of_the_same_size_are_found_by_reading_all(package: Path, cache: Path) -> None:
    program = payload.find("ccmix-one", cache)
    assert program
    part = payload.parts()[0]
    assert payload.repaired(part, cache) == []
    other_bytes(program)
    forget()
    assert payload.find("ccmix-one", cache) == program
    assert payload.repaired(part, cache) == [program]
    assert subprocess.check_output([program], text=True) == "one\n"
    assert payload.repaired(part, cache) == []


def other_bytes(program: Path) -> None:
    """Damages a program so that only reading it shows the damage."""
    program.write_text("#!/bin/sh\necho 111\n"[: program.stat().st_size])


@contextlib.contextmanager
def another_process(script: str, package: Path, cache: Path) -> Iterator["subprocess.Popen[str]"]:
    argv: list[str | Path] = [sys.executable, "-c", script, package, cache]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("damage", ["other bytes", "shorter"])
def test_what_another_process_uses_is_not_replaced(package: Path, cache: Path, damage: str) -> None:
    part = payload.parts()[0]
    program = part.folder(cache) / "bin/ccmix-one"
    with another_process(USES, package, cache) as process:
        assert process.stdout
        assert process.stdout.readline() == f"{program}\n"
        if damage == "shorter":
            program.write_text("")
        else:
            other_bytes(program)
        before, content = inode(program), program.read_text()
        with pytest.raises(
            payload.PayloadError, match="is damaged, but another process uses it: end that process"
        ):
            payload.repaired(part, cache)
        assert (inode(program), program.read_text()) == (before, content)
        assert (part.folder(cache) / payload.COMPLETE).exists()
        process.communicate()
    forget()
    payload.repaired(part, cache)
    assert subprocess.check_output([program], text=True) == "one\n"


def test_only_the_process_that_has_the_lock_takes_the_mark_away(package: Path, cache: Path) -> None:
    folder = payload.parts()[0].folder(cache)
    program = folder / "bin/ccmix-one"
    subprocess.run([sys.executable, "-c", FIRST, package, cache], check=True)
    other_bytes(program)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with another_process(REPAIRS, package, cache) as process:
            end = time.monotonic() + WITHIN_S
            while f" {process.pid} " not in "".join(
                line
                for line in Path("/proc/locks").read_text().splitlines(keepends=True)
                if "->" in line
            ):
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            assert (folder / payload.COMPLETE).exists()
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert process.wait(WITHIN_S) == 0
    assert subprocess.check_output([program], text=True) == "one\n"


def test_the_command_that_reads_all(
    package: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCMIX_CACHE", str(cache))
    whole = CliRunner().invoke(main, ["version", "--check"])
    assert (whole.exit_code, whole.stdout) == (0, "2 files are the same as in the package\n")
    program = payload.find("ccmix-one", cache)
    assert program
    other_bytes(program)
    damaged = CliRunner().invoke(main, ["version", "--check"])
    assert damaged.exit_code == 1
    assert f"{program}: differed from the package" in damaged.stderr
    assert CliRunner().invoke(main, ["version", "--check"]).exit_code == 0
    monkeypatch.setattr(payload, "FOLDER", package / "none")
    forget()
    assert "not installed from a package" in CliRunner().invoke(main, ["version", "--check"]).stdout


def test_a_damaged_archive_is_refused_and_leaves_nothing(package: Path, cache: Path) -> None:
    archive = package / "one.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(payload.PayloadError, match=r"one\.tar\.gz is damaged: install ccmix again"):
        payload.find("ccmix-one", cache)
    assert [path.suffix for path in (cache / "package").iterdir()] == [".lock"]


def test_what_a_killed_process_left_goes(package: Path, cache: Path) -> None:
    part = payload.parts()[0]
    left = part.folder(cache).with_name(f"{part.folder(cache).name}.new-dead")
    (left / "bin").mkdir(parents=True)
    part.folder(cache).mkdir()  # without its mark
    assert payload.find("ccmix-one", cache)
    assert not left.exists()


def test_processes_that_begin_together_unpack_once(package: Path, cache: Path) -> None:
    argv: list[str | Path] = [sys.executable, "-c", FIRST, package, cache]
    together = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {process.communicate()[0] for process in together}
    assert [process.returncode for process in together] == [0] * 4
    assert said == {f"{payload.parts()[0].folder(cache) / 'bin/ccmix-one'}\n"}


@pytest.mark.parametrize("place", ["a file", "noexec", "full"])
@pytest.mark.namespaces
def test_a_cache_that_can_not_be_used_is_named(package: Path, tmp_path: Path, place: str) -> None:
    cache = tmp_path / "place"
    if place == "a file":
        cache.touch()
        with pytest.raises(
            payload.PayloadError, match=r"place.*: Not a directory: set CCMIX_CACHE"
        ):
            payload.find("ccmix-two", cache)
        return
    with small_disk(cache, "1m"):
        if place == "noexec":
            subprocess.run(["mount", "-o", "remount,bind,noexec", cache], check=True)
        sentence = {
            "noexec": "is mounted noexec",
            "full": r"no room for ccmix's programs \(3 MiB\): make room",
        }[place]
        with pytest.raises(payload.PayloadError, match=sentence):
            payload.find("ccmix-two", cache)
        assert [path.suffix for path in (cache / "package").iterdir()] in ([], [".lock"])


@pytest.mark.namespaces
def test_a_cache_that_is_read_only_serves_what_is_in_it(package: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "place", "1m") as cache:
        program = payload.find("ccmix-one", cache)
        subprocess.run(["mount", "-o", "remount,bind,ro", cache], check=True)
        forget()
        assert payload.find("ccmix-one", cache) == program
        with pytest.raises(payload.PayloadError, match=r"Read-only file system: set CCMIX_CACHE"):
            payload.find("ccmix-two", cache)
        forget()  # files that it holds would keep the disk mounted


def test_tools_take_it_after_what_setup_made_and_before_path(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("CCMIX_CACHE", str(tmp_path / "cache"))
    for folder in ("path", "prefix/bin"):
        (tmp_path / folder).mkdir(parents=True)
    on_path, installed = tmp_path / "path/ccmix-one", tmp_path / "prefix/bin/ccmix-one"
    on_path.write_text("#!/bin/sh\n")
    on_path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    brought = tools.find("ccmix-one", "CCMIX_ONE", "one")
    assert brought.is_relative_to(tmp_path / "cache/package")
    installed.symlink_to(on_path)
    assert tools.find("ccmix-one", "CCMIX_ONE", "one") == on_path
    installed.unlink()
    (package / "one.tar.gz").write_bytes(b"")
    forget()
    brought.unlink()
    with pytest.raises(tools.ToolError, match="install ccmix again"):
        tools.find("ccmix-one", "CCMIX_ONE", "one")


def test_where_a_guest_with_the_hosts_files_finds_programs(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCMIX_CACHE", str(tmp_path / "cache"))
    beside_python = Path(sys.prefix) / "bin"
    assert tools.program_folders() == [beside_python]
    manifest = package / payload.MANIFEST
    manifest.write_text(manifest.read_text().replace("ccmix-one", "ccmix-iperf3"))
    forget()
    (one, _two) = payload.parts()
    assert tools.program_folders() == [beside_python, one.folder(tmp_path / "cache") / "bin"]
