"""Tests what a worker keeps of the files that are sent to it, by their hashes."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ccmix.cluster import files
from ccmix.lab.userlands import identify_userland, tree_sha256
from ccmix.tools import find_userland


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no userland but what is there."""
    monkeypatch.setenv("CCMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CCMIX_USERLAND", "/bin/false")
    return tmp_path / "cache"


@pytest.fixture
def userland(tmp_path: Path) -> Path:
    """A small userland, with each kind of file that the lab's has."""
    root = tmp_path / "built" / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "usr" / "bin" / "sh").write_text("shell")
    (root / "usr" / "bin" / "sh").chmod(0o755)
    (root.parent / "build.json").write_text(json.dumps({"sha256": tree_sha256(root), "pinned": True}))
    return root


@pytest.mark.lab
def test_the_hash_is_that_of_the_build_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCMIX_USERLAND")
    userland = find_userland()
    assert tree_sha256(userland) == identify_userland(userland).userland_sha256


def test_a_userland_that_was_sent_is_found(userland: Path, cache: Path) -> None:
    sha256 = tree_sha256(userland)
    assert files.found_userland(sha256) is None
    files.keep_userland(sha256, files.packed_userland(userland))
    kept = files.found_userland(sha256)
    assert kept == cache / "by-hash" / sha256 / "root"
    assert tree_sha256(kept) == sha256
    assert identify_userland(kept).repeatable_elsewhere
    assert kept_in(cache) == [sha256]


def kept_in(cache: Path) -> list[str]:
    return [place.name for place in (cache / "by-hash").iterdir() if place.name != files.LOCKS]


def test_a_userland_that_another_worker_was_sent_stays(userland: Path) -> None:
    """Lets four workers with one cache be sent it at the same time, and one later: guests may run from the first."""
    sha256, packed = tree_sha256(userland), files.packed_userland(userland)
    with ThreadPoolExecutor(4) as workers:
        first_seen = list(workers.map(lambda _: kept_as(sha256, packed), range(4)))
    assert {*first_seen, kept_as(sha256, packed)} == {first_seen[0]}


def kept_as(sha256: str, packed: bytes) -> int:
    """Returns the inode of the root that is there when a worker has kept it."""
    files.keep_userland(sha256, packed)
    root = files.found_userland(sha256)
    assert root
    return root.stat().st_ino


@pytest.mark.parametrize(
    ("change", "said"),
    [(lambda packed: packed[: len(packed) // 2], "came damaged"), (lambda _: other_userland(), "another hash")],
)
def test_a_userland_with_another_hash_is_refused(
    change: Callable[[bytes], bytes], said: str, userland: Path, cache: Path
) -> None:
    sha256 = tree_sha256(userland)
    with pytest.raises(ValueError, match=said):
        files.keep_userland(sha256, change(files.packed_userland(userland)))
    assert files.found_userland(sha256) is None
    assert not kept_in(cache)


def other_userland() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        root = tarfile.TarInfo("root")
        root.type, root.mode = tarfile.DIRTYPE, 0o755
        packed.addfile(root)
    return out.getvalue()


def test_a_userland_that_was_changed_since_is_sent_again(userland: Path) -> None:
    sha256 = tree_sha256(userland)
    files.keep_userland(sha256, files.packed_userland(userland))
    kept = files.found_userland(sha256)
    assert kept
    (kept / "usr" / "bin" / "sh").chmod(0o777)
    getattr(files, "_hash_of_tree").cache_clear()  # noqa: B009 - as another process begins
    assert files.found_userland(sha256) is None
    files.keep_userland(sha256, files.packed_userland(userland))
    assert files.found_userland(sha256) == kept


def test_a_file_with_another_hash_is_refused(cache: Path) -> None:
    content = b"a kernel"
    sha256 = hashlib.sha256(content).hexdigest()
    with pytest.raises(ValueError, match="another hash"):
        files.keep(sha256, b"another")
    assert not files.found([sha256])
    files.keep(sha256, content)
    assert files.found([sha256]) == {sha256: cache / "by-hash" / sha256}


def test_a_file_that_was_changed_is_not_found_any_more(cache: Path) -> None:
    content = b"a kernel"
    sha256 = hashlib.sha256(content).hexdigest()
    files.keep(sha256, content)
    assert files.found([sha256])
    (cache / "by-hash" / sha256).write_bytes(b"another")
    assert not files.found([sha256])
    files.keep(sha256, content)
    assert files.found([sha256])


def test_an_own_file_that_was_built_again_is_known_by_its_new_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "kernel"
    monkeypatch.setenv("CCMIX_LAB_KERNEL", str(kernel))
    for content in (b"one", b"another"):
        kernel.write_bytes(content)
        kernel.chmod(0o755)
        sha256 = hashlib.sha256(content).hexdigest()
        assert files.found([sha256]) == {sha256: kernel}
