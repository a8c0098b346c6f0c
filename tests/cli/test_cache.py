"""`ccmix cache`: what it lists and removes of a cache of the test's own, and what it never touches."""

import fcntl
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ccmix import payload
from ccmix.cli.cache_items import KINDS, items
from ccmix.cli.cache_use import locked
from ccmix.cli.main import main
from ccmix.payload import COMPLETE, MANIFEST
from support import REPOSITORY, Ccmix

OLD, NEW, NAMED, OTHER = (digit * 16 for digit in "abcd")
DAY_S = 86400


class Cache:
    """A cache, and the command on it."""

    def __init__(self, tmp_path: Path, ccmix: Ccmix) -> None:
        self.folder, self._ccmix = tmp_path / "cache", ccmix

    def has(self, name: str, days: float = 0, size: int = 1000) -> Path:
        """Makes a folder with a program, so many days old."""
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
        return {str(item.path) for item in items(self.folder)}


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
    """Has something of each kind of use: a variable, a name, a lock, a process; the rest is old, current or unknown."""
    monkeypatch.setenv("CCMIX_SOCKMON", str(cache.has(f"sockmon/{NEW}", days=9)))
    cache.has(f"sockmon/{NEW}--sanitize", days=10)
    cache.has(f"sockmon/{OLD}", days=12)
    cache.has(f"lab-kernel/{OLD}", days=5)
    cache.has(f"lab-kernel/{OLD}.tree", days=5)
    cache.has(f"lab-kernel/{NEW}.tree", days=6)
    named = cache.has(f"lab-kernel/{NAMED}", days=7)
    (cache.folder / "lab-kernel" / "named").mkdir()
    (cache.folder / "lab-kernel" / "named" / "mine").symlink_to(named)
    (cache.folder / "userland" / "keys").mkdir(parents=True)
    (cache.folder / "userland" / "keys" / NEW).symlink_to(f"../{OTHER}")
    cache.has(f"lab-kernel/{NEW}")
    cache.has(f"userland/{OLD}", days=2)
    code = cache.has(f"userland/{OTHER}/guest-code/{OLD}", days=4)
    cache.has(f"userland/{OTHER}/guest-code/{NAMED}", days=3)
    cache.has(f"userland/{OTHER}/guest-code/{NEW}")
    cache.has("iperf3/build.abc123", days=1)
    cache.has("iperf3/build.abc124")
    running = cache.has(f"rtt/{OLD}", days=3)
    cache.has(f"rtt/{NEW}")
    cache.has("docker/data", days=3)
    cache.has("my-own", days=99)
    cache.has("sockmon/notes", days=99)
    processes = [subprocess.Popen(["sleep", "600"], cwd=folder) for folder in (running.parent, code.parent)]
    with (cache.folder / "userland" / f"{OLD}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield Cache(cache.folder.parent, Ccmix(cache.folder.parent / "launch-of-cache"))
        finally:
            for process in processes:
                process.kill()
                process.wait()


def test_what_is_listed(full: Cache) -> None:
    rows = full.listed()
    assert set(rows) == full.names()
    assert {name: row["kind"] for name, row in rows.items() if row["kind"] == "unknown"} == {
        "my-own": "unknown", "sockmon/notes": "unknown",
    }  # fmt: skip
    uses = {name: str(row["used_by"]).split()[0] for name, row in rows.items() if row["used_by"]}
    assert uses == {
        f"sockmon/{NEW}": "CCMIX_SOCKMON",
        f"lab-kernel/{NAMED}": "kernel",
        f"userland/{OLD}": "locked",
        f"rtt/{OLD}": "process",
        f"userland/{OTHER}": "process",
        f"userland/{OTHER}/guest-code/{OLD}": "process",
    }
    assert rows[f"lab-kernel/{OLD}"]["size_bytes"] == 4096 * 2  # a folder and a file, a block each
    table = full()
    assert table.returncode == 0
    assert f"lab kernel        lab-kernel/{NAMED}" in table.stdout
    assert "7 d  kernel mine" in table.stdout
    assert table.stderr.startswith(f"{len(rows)} entries, ")


def test_prune_removes_what_is_older_and_unused(full: Cache) -> None:
    before = full.names()
    shown = full("prune", "--dry-run")
    assert (shown.returncode, full.names()) == (0, before)
    done = full("prune")
    assert (done.returncode, done.stdout) == (0, shown.stdout), done.stderr
    assert before - full.names() == {
        f"sockmon/{OLD}",
        f"lab-kernel/{OLD}",
        f"lab-kernel/{OLD}.tree",
        "iperf3/build.abc123",
        f"userland/{OTHER}/guest-code/{NAMED}",
    }
    assert done.stderr.startswith("5 entries, ")
    assert full("prune").stderr == "0 entries, 0 B removed\n"


def test_prune_all_keeps_what_is_in_use_and_what_it_does_not_know(full: Cache) -> None:
    assert full("prune", "--all").returncode == 0
    assert full.names() == {
        f"sockmon/{NEW}",
        f"lab-kernel/{NAMED}",
        f"userland/{OLD}",
        f"userland/{OTHER}",
        f"userland/{OTHER}/guest-code/{OLD}",
        f"rtt/{OLD}",
        "iperf3/build.abc124",
        "my-own",
        "sockmon/notes",
    }
    assert (full.folder / "lab-kernel" / "named" / "mine").resolve().is_file()
    assert (full.folder / "userland" / f"{OLD}.lock").exists()


def test_of_unpacked_packages_this_one_and_both_parts_of_the_newest_stay(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"programs": {}, "files": {}, "links": {}}
    manifest = [{"archive": f"{part}.tar.gz", "sha256": NAMED * 4, **fields} for part in ("tools", "lab")]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    monkeypatch.setattr(payload, "FOLDER", tmp_path)
    payload.parts.cache_clear()
    for part in ("tools", "lab"):
        for key, days in ((NEW, 1), (OTHER, 2), (NAMED, 3)):
            cache.has(f"package/{part}-{key}", days=days)
    try:
        rows = json.loads(CliRunner().invoke(main, ["cache", "list", "--format", "json"]).stdout)
        uses = {Path(row["path"]).name: row["used_by"] for row in rows}
        done = CliRunner().invoke(main, ["cache", "prune"])
    finally:
        payload.parts.cache_clear()
    assert {name for name, use in uses.items() if use == "this package"} == {f"tools-{NAMED}", f"lab-{NAMED}"}
    assert done.exit_code == 0
    assert cache.names() == {f"package/{part}-{key}" for part in ("tools", "lab") for key in (NEW, NAMED)}


def test_a_package_without_its_list_is_named(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MANIFEST).write_text("{")
    monkeypatch.setattr(payload, "FOLDER", tmp_path)
    payload.parts.cache_clear()
    for command in (["cache", "prune"], ["version", "--check"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2
        assert f"{tmp_path / MANIFEST} can't be read" in done.stderr
        assert "install ccmix again" in done.stderr


def test_what_a_process_holds_by_its_mark_is_locked(cache: Cache) -> None:
    mark = cache.has(f"package/lab-{OLD}").with_name(COMPLETE)
    mark.touch()
    (item,) = items(cache.folder)
    with mark.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with locked(cache.folder, item) as has_lock:
            assert not has_lock
    with locked(cache.folder, item) as has_lock:
        assert has_lock


def test_what_is_just_being_sent_is_locked(cache: Cache) -> None:
    sent = f"by-hash/{NAMED * 4}"
    cache.has(sent)
    locks = cache.folder / "by-hash" / "locks"
    locks.mkdir()
    assert cache.names() == {sent}
    (item,) = items(cache.folder)
    with (locks / item.path.name).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with locked(cache.folder, item) as has_lock:
            assert not has_lock


def test_links_are_never_followed(cache: Cache, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    removed = cache.has(f"rtt/{OLD}", days=9)
    (removed.parent / "out").symlink_to(outside)
    cache.has(f"rtt/{NEW}")
    (cache.folder / "rtt" / OTHER).symlink_to(outside)  # has the name of something known
    (cache.folder / "sockmon").symlink_to(outside)
    (outside / OLD).mkdir()
    assert cache("prune", "--all").returncode == 0
    assert cache.names() == {f"rtt/{OTHER}", "sockmon"}
    assert sorted(path.name for path in outside.iterdir()) == [OLD, "precious"]


def test_what_cannot_be_removed_is_said(cache: Cache) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may remove everything")
    kept = cache.has(f"rtt/{OLD}", days=9).parent
    cache.has(f"rtt/{NEW}")
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


def test_what_tests_and_benches_keep_is_known(cache: Cache) -> None:
    kept = {
        "chroot/bookworm-python3-venv.tar": "chroot",
        "chroot/trixie-python3-venv-make-xz-utils.tar.new": "chroot",
        f"older-kernel/bullseye-{OLD}": "older kernel",
        f"emulator/{OLD}-sid": "emulator",
    }
    for name in kept:
        cache.has(name)
    assert {str(item.path): item.kind for item in items(cache.folder)} == kept


# The scripts call ccmix_cache; programs take what cache_folder returned, or the variable. Each names the folder behind.
NAMING = re.compile(
    r"""\$\(ccmix_cache\)/(?P<shell>[a-z0-9-]+)"""
    r"""|(?:cache_folder\(\)|\bcache|\.cache/ccmix"\)) / (?:"(?P<python>[a-z0-9-]+)"|(?P<constant>[A-Z]+)\b)"""
    r"""|Path\(caches, "ccmix", "(?P<joined>[a-z0-9-]+)"\)"""
)
OF_DOCKER = {"lock", "data"}  # in container/private-engine, whose cache is this folder of the cache


def test_all_that_keeps_something_there_is_known() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    named: dict[str, str] = {}
    for path in listed.stdout.split("\0"):
        file = REPOSITORY / path
        if path.endswith((".sh", ".py")) or "." not in file.name:
            text = file.read_text(errors="replace") if file.is_file() else ""
            for found in NAMING.finditer(text):
                constant = found["constant"] and re.search(rf'^{found["constant"]} = "(.+)"$', text, re.MULTILINE)
                named[constant[1] if constant else found[found.lastgroup or 0]] = path
    assert {"lab-kernel", "iperf3", "sockmon", "package", "wheels", "by-hash", "guest-code", "docker"} <= set(named)
    assert {name for name in named if name not in KINDS} == OF_DOCKER, named
