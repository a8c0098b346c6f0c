"""Keeps items on disk until they are sent: bodies of bulk requests in their order, and the end of a
run after its last body.

A file is whole or missing: it is written under another name, and renamed when it is on the disk.
The next process that opens the spool sends the files that a killed process left. Documents that the
server will never accept are in `rejected`, in a file for each run.
"""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ccmix.failures import naming
from ccmix.files import PARTIAL, open_to_append, replacing, try_lock
from ccmix.index.fields import JsonObject

BULK, END = ".bulk", ".end"


@dataclass(frozen=True)
class Item:
    """A file of the spool; or an item that could not be written there, which `content` has."""

    owner: str  # id of the run or campaign
    is_end: bool
    file: Path | None
    content: bytes | None = None
    indices: frozenset[str] | None = (
        None  # that documents of it go to; None: only its actions say so
    )

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file else len(self.content or b"")

    def read(self) -> bytes:
        if self.file is None:
            assert self.content is not None
            return self.content
        return self.file.read_bytes()


class Spool:
    """Belongs to one process at a time: it holds the lock of a folder below `folder`."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self.rejected_folder = folder / "rejected"
        self.rejected_folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._lock = _lockable(folder)
        for file in self._folder.glob(f"*{PARTIAL}"):
            file.unlink()
        self._number = max((_number(file) for file in self._files()), default=0)

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Releases the folder, so that another process may use it."""
        if not self._files():
            with contextlib.suppress(OSError):
                (self._folder / "lock").unlink()
                self._folder.rmdir()
        self._lock.close()

    @property
    def left(self) -> list[Item]:
        """Returns the items that an earlier process could not send, in order."""
        return [self._item(file) for file in self._files()]

    def add(
        self,
        owner: str,
        content: bytes,
        *,
        is_end: bool = False,
        indices: frozenset[str] | None = None,
    ) -> Item:
        """Puts an item on disk before it returns. Raises OSError, and then leaves nothing there."""
        self._number += 1
        file = self._folder / f"{self._number:012d}-{owner}{END if is_end else BULK}"
        with replacing(file) as out:
            out.write(content)
        _sync(self._folder)
        return self._item(file, indices)

    def remove(self, item: Item) -> None:
        """Removes an item that was sent."""
        if item.file:
            item.file.unlink(missing_ok=True)

    def forget_rejected(self, owner: str) -> None:
        """Forgets rejected documents before they are made again."""
        self._rejected_file(owner).unlink(missing_ok=True)

    def reject(self, owner: str, reason: str, action: JsonObject, document: Any) -> None:
        """Keeps a document aside, once. Raises OSError."""
        file = self._rejected_file(owner)
        there = file.read_text() if file.exists() else ""
        whole = there[
            : there.rfind("\n") + 1
        ]  # a process that was killed may have left half a line
        if action in [json.loads(line)["action"] for line in whole.splitlines()]:
            return
        if whole != there:
            os.truncate(file, len(whole))
        with naming(file), open_to_append(file) as out:
            out.write(
                json.dumps({"reason": reason, "action": action, "document": document}).encode()
                + b"\n"
            )
            out.flush()
            os.fsync(out.fileno())

    def rejected(self, owner: str) -> int:
        file = self._rejected_file(owner)
        return len(file.read_text().splitlines()) if file.exists() else 0

    def _rejected_file(self, owner: str) -> Path:
        return self.rejected_folder / f"{owner}.ndjson"

    def _files(self) -> list[Path]:
        return sorted([*self._folder.glob(f"*{BULK}"), *self._folder.glob(f"*{END}")])

    def _item(self, file: Path, indices: frozenset[str] | None = None) -> Item:
        return Item(file.stem.partition("-")[2], file.suffix == END, file, indices=indices)


def _lockable(folder: Path) -> tuple[Path, IO[bytes]]:
    """Locks the first subfolder that no other process has, beginning with those that have items."""
    existing = [place for place in folder.glob("[0-9]*") if place.is_dir()]
    new = folder / str(max((int(place.name) for place in existing), default=0) + 1)
    for place in (
        *sorted(
            existing,
            key=lambda subfolder: (len(list(subfolder.iterdir())) < 2, int(subfolder.name)),
        ),
        new,
    ):
        place.mkdir(exist_ok=True)
        lock = (place / "lock").open("ab")
        # without the file, another process has just removed the place
        if try_lock(lock) and (place / "lock").exists():
            return place, lock
        lock.close()
    return _lockable(folder)


def _number(file: Path) -> int:
    return int(file.name.partition("-")[0])


def _sync(folder: Path) -> None:
    """Puts a file's name on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
