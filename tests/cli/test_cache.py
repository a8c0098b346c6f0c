"""`ccmix cache` with a cache for the test: which entries it lists, which it removes, and which it
never touches.
"""

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ccmix import files, payload
from ccmix.cli.installed import FOR_BUILDS, FOR_RUNS
from ccmix.cli.lab import kernel_named
from ccmix.cli.main import main
from ccmix.lab.guest_code import guest_code
from ccmix.model import STOCK_KERNEL
from ccmix.payload import COMPLETE, MANIFEST
from ccmix.tools import find_iperf3, find_rtt, find_sockmon, find_userland
from support.commands import REPOSITORY, Ccmix

OLD, NEW, NAMED, OTHER = (digit * 16 for digit in "abcd")
DAY_S = 86400


class Cache:
    """A cache, and the command that uses it."""

    def __init__(self, tmp_path: Path, ccmix: Ccmix) -> None:
        self.folder, self._ccmix = tmp_path / "cache", ccmix

    def has(self, name: str, days: float = 0, size: int = 1000) -> Path:
        """Makes a folder with a program that is this many days old."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        program = folder / "program"
        program.write_bytes(bytes(size))
        program.chmod(0o755)
        then = time.time() - days * DAY_S
        os.utime(folder, (then, then))
        return program

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._ccmix("cache", *arguments)

    def listed(self) -> dict[str, dict[str, object]]:
        rows = json.loads(self("list", "--format", "json").stdout)
        return {str(Path(row["path"]).relative_to(self.folder)): row for row in rows}

    def names(self) -> set[str]:
        return set(self.listed())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    for name in ("CCMIX_SOCKMON", "CCMIX_LAB_KERNEL", "CCMIX_LAB_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CCMIX_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "launch-of-cache"
    folder.mkdir()
    return Cache(tmp_path, Ccmix(folder))


@pytest.fixture
def full(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """Uses entries in each way: by a variable, a name, a lock and a process. The other entries are
    old, recent or unknown.
    """
    monkeypatch.setenv("CCMIX_SOCKMON", str(cache.has(f"sockmon/{NEW}", days=9)))
    cache.has(f"sockmon/{NEW}--sanitize", days=10)
    cache.has(f"sockmon/{OLD}", days=12)
    cache.has(f"lab-kernel/{OLD}", days=5)
    cache.has(f"lab-kernel/{OLD}.tree", days=5)
    named = cache.has(f"lab-kernel/{NAMED}", days=7)
    (cache.folder / "lab-kernel" / "named").mkdir()
    (cache.folder / "lab-kernel" / "named" / "mine").symlink_to(named)
    (cache.folder / "userland" / "keys").mkdir(parents=True)
    (cache.folder / "userland" / "keys" / NEW).symlink_to(f"../{OTHER}")
    cache.has(f"lab-kernel/{NEW}")
    cache.has(f"userland/{OLD}", days=2)
    cache.has(f"userland/{OTHER}/guest-code/{NAMED}", days=3)
    old_userland = cache.has(f"userland/{NAMED}/guest-code/{OLD}", days=3)
    cache.has("iperf3/build.abc123", days=1)
    cache.has("iperf3/build.abc124")
    cache.has(f"cca/libbpf-{OLD}", days=9)
    running = cache.has(f"rtt/{OLD}", days=3)
    cache.has(f"rtt/{NEW}", days=1)
    cache.has("docker/data", days=3)
    cache.has("my-own/notes", days=99)
    cache.has("sockmon/notes", days=99)
    for folder in (old_userland.parents[2], cache.folder / "userland" / OTHER):
        os.utime(folder, (0, 0))
    with (
        another_process("CCMIX_RTT", running),
        (cache.folder / "userland" / f"{OLD}.lock").open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        files.hold(cache.folder / "userland" / OTHER)
        yield Cache(cache.folder.parent, Ccmix(cache.folder.parent / "launch-of-cache"))
        files.release(cache.folder / "userland" / OTHER)


@contextlib.contextmanager
def another_process(variable: str, program: Path) -> Iterator[None]:
    """Runs a ccmix that has found the program and goes on."""
    script = (
        f"from ccmix.tools import find; find('any', {variable!r}, 'it'); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {variable: str(program)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stdout.readline()
        yield
        process.kill()


def test_what_is_listed(full: Cache) -> None:
    rows = full.listed()
    assert "my-own/notes" not in rows
    assert "sockmon/notes" not in rows
    assert {name: row["used_by"] for name, row in rows.items() if row["used_by"]} == {
        f"sockmon/{NEW}": "CCMIX_SOCKMON",
        f"lab-kernel/{NAMED}": "kernel mine",
        f"lab-kernel/{NEW}": "recent",
        "iperf3/build.abc124": "recent",
        f"userland/{OLD}": "locked",
        f"userland/{OTHER}": "locked",
        f"rtt/{OLD}": "locked",
    }
    assert {name for name, row in rows.items() if row["kind"] == "build"} == {
        f"lab-kernel/{OLD}.tree",
        f"cca/libbpf-{OLD}",
        "docker/data",
    }
    assert rows[f"lab-kernel/{OLD}"]["size_bytes"] == 4096 * 2  # a folder and a file, a block each
    table = full()
    assert table.returncode == 0
    assert re.search(
        rf"^run +8\.19 kB +7\.0 d  kernel mine +lab-kernel/{NAMED}$", table.stdout, re.MULTILINE
    )
    assert table.stderr.startswith(f"{len(rows)} entries, ")


def test_prune_removes_what_runs_do_not_use(full: Cache) -> None:
    before = full.names()
    shown = full("prune", "--dry-run")
    assert (shown.returncode, full.names()) == (0, before)
    done = full("prune")
    assert (done.returncode, done.stdout) == (0, shown.stdout), done.stderr
    assert before - full.names() == {
        f"sockmon/{NEW}--sanitize",
        f"sockmon/{OLD}",
        f"lab-kernel/{OLD}",
        "iperf3/build.abc123",
        f"userland/{OTHER}/guest-code/{NAMED}",
        f"userland/{NAMED}/guest-code/{OLD}",
        f"userland/{NAMED}",
        f"rtt/{NEW}",
    }
    assert done.stderr.startswith("8 entries, ")
    assert full("prune").stderr == "0 entries, 0 B removed\n"


def test_prune_all_keeps_what_is_in_use_and_what_it_does_not_know(full: Cache) -> None:
    assert full("prune", "--all").returncode == 0
    assert full.names() == {
        f"sockmon/{NEW}",
        f"lab-kernel/{NAMED}",
        f"lab-kernel/{NEW}",
        f"userland/{OLD}",
        f"userland/{OTHER}",
        f"rtt/{OLD}",
        "iperf3/build.abc124",
    }
    assert (full.folder / "my-own/notes/program").exists()
    assert (full.folder / "sockmon/notes/program").exists()
    assert (full.folder / "lab-kernel" / "named" / "mine").resolve().is_file()
    assert (full.folder / "userland" / f"{OLD}.lock").exists()


def test_what_a_guest_needs_is_locked_while_this_process_may_start_one() -> None:
    userland = find_userland()
    code = guest_code(
        userland, {"iperf3": find_iperf3(), "sockmon": find_sockmon(), "rtt": find_rtt()}
    )
    for folder in (code, userland.parent, find_iperf3().parent, kernel_named(STOCK_KERNEL).parent):
        opened = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(opened)


def test_of_unpacked_packages_this_one_stays(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, dict[str, str]] = {"programs": {}, "files": {}, "links": {}}
    manifest = [
        {"archive": f"{part}.tar.gz", "sha256": NAMED * 4, **fields} for part in ("tools", "lab")
    ]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    monkeypatch.setattr(payload, "FOLDER", tmp_path)
    payload.parts.cache_clear()
    for part in ("tools", "lab"):
        for key, days in ((NEW, 1), (NAMED, 3)):
            cache.has(f"package/{part}-{key}", days=days)
    try:
        rows = json.loads(CliRunner().invoke(main, ["cache", "list", "--format", "json"]).stdout)
        done = CliRunner().invoke(main, ["cache", "prune"])
    finally:
        payload.parts.cache_clear()
    this = {f"package/tools-{NAMED}", f"package/lab-{NAMED}"}
    assert {Path(row["path"]).name for row in rows if row["used_by"] == "this package"} == {
        f"{part}-{NAMED}" for part in ("tools", "lab")
    }
    assert done.exit_code == 0
    assert cache.names() == this


def test_a_package_without_its_list_is_named(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / MANIFEST).write_text("{")
    monkeypatch.setattr(payload, "FOLDER", tmp_path)
    payload.parts.cache_clear()
    for command in (["cache", "prune"], ["version", "--check"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2
        assert f"{tmp_path / MANIFEST} can't be read" in done.stderr
        assert "install ccmix again" in done.stderr


def test_what_a_process_holds_by_its_mark_stays(cache: Cache) -> None:
    mark = cache.has(f"package/lab-{OLD}", days=1).with_name(COMPLETE)
    mark.touch()
    os.utime(mark.parent, (0, 0))
    with mark.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert cache("prune").returncode == 0
    assert cache.names() == {f"package/lab-{OLD}"}
    assert cache("prune").returncode == 0
    assert cache.names() == set()


@pytest.mark.parametrize("lock", ["", "lock"])
def test_what_lies_in_a_locked_place_stays(cache: Cache, lock: str) -> None:
    cache.has("docker/data", days=1)
    (cache.folder / "docker/lock").touch()
    opened = os.open(cache.folder / "docker" / lock, os.O_RDONLY)
    fcntl.flock(opened, fcntl.LOCK_SH)
    assert cache("prune", "--all").returncode == 0
    assert cache.names() == {"docker/data"}
    os.close(opened)
    assert cache("prune", "--all").returncode == 0
    assert cache.names() == set()


def test_links_are_never_followed(cache: Cache, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    removed = cache.has(f"rtt/{OLD}", days=9)
    (removed.parent / "out").symlink_to(outside)
    os.utime(removed.parent, (0, 0))
    (cache.folder / "rtt" / OTHER).symlink_to(outside)  # its name is that of a known entry
    (cache.folder / "sockmon").symlink_to(outside)
    (outside / OLD).mkdir()
    assert cache("prune", "--all").returncode == 0
    assert not removed.exists()
    assert {path.name for path in cache.folder.iterdir()} == {"rtt", "sockmon"}
    assert [path.name for path in (cache.folder / "rtt").iterdir()] == [OTHER]
    assert sorted(path.name for path in outside.iterdir()) == [OLD, "precious"]


def test_what_cannot_be_removed_is_said(cache: Cache) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may remove everything")
    kept = cache.has(f"rtt/{OLD}", days=9).parent
    kept.parent.chmod(0o555)
    done = cache("prune")
    kept.parent.chmod(0o755)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{kept}: Permission denied" in done.stderr
    assert kept.is_dir()


def test_without_a_cache_there_is_nothing(cache: Cache) -> None:
    for arguments in ((), ("prune", "--all")):
        done = cache(*arguments)
        assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(cache("list", "--format", "json").stdout) == []


def test_what_only_builds_and_tests_need_is_known(cache: Cache) -> None:
    kept = {
        "chroot/trixie-python3-venv.tar.new",
        f"older-kernel/bullseye-{OLD}",
        f"emulator/{OLD}-sid",
    }
    for name in kept:
        cache.has(name)
    assert {name: row["kind"] for name, row in cache.listed().items()} == dict.fromkeys(
        kept, "build"
    )


# Scripts call ccmix_cache; programs use the result of cache_folder, or the variable. The name of the
# folder follows.
NAMING = re.compile(
    r"""\$\(ccmix_cache\)/(?P<shell>[a-z0-9-]+)"""
    r"""|(?:cache_folder\(\)|\bcache|\.cache/ccmix"\)) / (?:"(?P<python>[a-z0-9-]+)"|(?P<constant>[A-Z]+)\b)"""
    r"""|Path\(caches, "ccmix", "(?P<joined>[a-z0-9-]+)"\)"""
)
OF_DOCKER = {"lock", "data"}  # in container/private-engine, whose cache is this folder of the cache


def test_all_that_keeps_something_there_is_known() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    )
    named: dict[str, str] = {}
    for path in listed.stdout.split("\0"):
        file = REPOSITORY / path
        if path.endswith((".sh", ".py")) or "." not in file.name:
            text = file.read_text(errors="replace") if file.is_file() else ""
            for found in NAMING.finditer(text):
                constant = found["constant"] and re.search(
                    rf'^{found["constant"]} = "(.+)"$', text, re.MULTILINE
                )
                named[constant[1] if constant else found[found.lastgroup or 0]] = path
    assert {"lab-kernel", "iperf3", "sockmon", "package", "wheels", "guest-code", "docker"} <= set(
        named
    )
    assert {name for name in named if name not in FOR_RUNS + FOR_BUILDS} == OF_DOCKER, named
