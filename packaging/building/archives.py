"""Packs folders into archives that are the same for the same content, and lists them for
ccmix.payload.
"""

import gzip
import hashlib
import io
import json
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = "tar.gz"
"""gzip's format: xz would save 11 of 30 MB, but each first run would take 1.1 s instead of 0.3 s
to unpack."""


@dataclass
class Archive:
    """Describes a part of a wheel's bundled files: its folder, and the programs in it by their
    names.
    """

    name: str
    folder: Path
    programs: dict[str, str] = field(default_factory=dict)


def write_all(archives: list[Archive], to: Path) -> None:
    """Writes each archive and the manifest that ccmix.payload reads into the folder `to`."""
    to.mkdir(parents=True, exist_ok=True)
    manifest = json.dumps([_write(archive, to) for archive in archives], indent=1, sort_keys=True)
    (to / "manifest.json").write_text(f"{manifest}\n", encoding="utf-8")


def _write(archive: Archive, to: Path) -> dict[str, Any]:
    paths = sorted(
        archive.folder.rglob("*"), key=lambda path: str(path.relative_to(archive.folder))
    )
    file = to / f"{archive.name}.{SUFFIX}"
    files: dict[str, tuple[int, int, str]] = {}
    links: dict[str, str] = {}
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        _tar(packed) as tar,
    ):
        for path in paths:
            entry = _entry(path, str(path.relative_to(archive.folder)))
            if entry.issym():
                links[entry.name] = entry.linkname
                tar.addfile(entry)
            elif entry.isdir():
                tar.addfile(entry)
            else:
                content = path.read_bytes()
                files[entry.name] = (entry.mode, len(content), hashlib.sha256(content).hexdigest())
                tar.addfile(entry, io.BytesIO(content))
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    return {
        "archive": file.name,
        "sha256": sha256,
        "programs": archive.programs,
        "files": files,
        "links": links,
    }


def _tar(packed: gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT)


def _entry(path: Path, name: str) -> tarfile.TarInfo:
    """Describes a file without owner and time, with the permissions that every user needs."""
    entry = tarfile.TarInfo(name)
    found = path.lstat()
    if path.is_symlink():
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISREG(found.st_mode):
        entry.size, entry.mode = found.st_size, 0o755 if found.st_mode & 0o111 else 0o644
    else:
        raise ValueError(f"{path} is neither a file, a folder nor a link")
    return entry
