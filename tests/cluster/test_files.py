"""Tests what a worker keeps of the files that are sent to it, by their hashes."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
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
    assert [folder.name for folder in (cache / "by-hash").iterdir()] == [sha256]


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
    assert not list((cache / "by-hash").iterdir())


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
        files.keep({sha256: b"another"})
    assert not files.found([sha256])
    files.keep({sha256: content})
    assert files.found([sha256]) == {sha256: cache / "by-hash" / sha256}
