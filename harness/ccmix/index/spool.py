"""Keeps documents on disk until they are sent, so that a crash or a dead server loses none.

An item is the body of a bulk request, or the end of a run, which comes after its last body. A file
is whole or missing: it is written under another name, and renamed when it is on the disk. The next
process that opens the spool sends the files that a killed process left. Documents that the server
will never accept are in `rejected`, in a file for each run.
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
    """A file of the spool, or `content` that could not be written there.

    It is the body of a bulk request or, if `is_end`, the end of a run or campaign.
    """

    owner: str  # id of the run or campaign
    is_end: bool
    file: Path | None
    content: bytes | None = None
    indices: frozenset[str] | None = None  # of its documents; None: to be read from the content

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file else len(self.content or b"")

    def read(self) -> bytes:
        """Returns the content, from memory or from the file."""
        if self.file is None:
            assert self.content is not None
            return self.content
        return self.file.read_bytes()


class Spool:
    """A folder of items; one process at a time owns it, by the lock of a subfolder."""

    def __init__(self, folder: Path) -> None:
        """Takes a subfolder that no other process uses. Raises OSError."""
        self.rejected_folder = folder / "rejected"
        self.rejected_folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._lock = _lock_subfolder(folder)
        for file in self._folder.glob(f"*{PARTIAL}"):
            file.unlink()
        self._number = max((_item_number(file) for file in self._files()), default=0)

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes the spool's subfolder if no item is left in it, and then closes the lock, so that
        another process may take over the subfolder and its items.
        """
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
        """Writes an item to the disk, and returns when it is safe there.

        `owner` is the id of the run or campaign. If the item can't be written, leaves no part of it
        on the disk, and raises OSError.
        """
        self._number += 1
        file = self._folder / f"{self._number:012d}-{owner}{END if is_end else BULK}"
        with replacing(file) as out:
            out.write(content)
        _sync_folder(self._folder)
        return self._item(file, indices)

    def remove(self, item: Item) -> None:
        """Removes an item that was sent."""
        if item.file:
            item.file.unlink(missing_ok=True)

    def forget_rejected(self, owner: str) -> None:
        """Removes the rejected documents of a run or campaign, because they are made again."""
        self._rejected_file(owner).unlink(missing_ok=True)

    def reject(self, owner: str, reason: str, action: JsonObject, document: Any) -> None:
        """Keeps a document that the server refuses, with the reason, unless it is already kept.

        `action` has the document's index and id. Raises OSError.
        """
        file = self._rejected_file(owner)
        text = file.read_text() if file.exists() else ""
        complete_lines = text[
            : text.rfind("\n") + 1
        ]  # a process that was killed may have left half a line
        if action in [json.loads(line)["action"] for line in complete_lines.splitlines()]:
            return
        if complete_lines != text:
            os.truncate(file, len(complete_lines))
        with naming(file), open_to_append(file) as out:
            out.write(
                json.dumps({"reason": reason, "action": action, "document": document}).encode()
                + b"\n"
            )
            out.flush()
            os.fsync(out.fileno())

    def rejected(self, owner: str) -> int:
        """Returns the number of rejected documents of a run or campaign."""
        file = self._rejected_file(owner)
        return len(file.read_text().splitlines()) if file.exists() else 0

    def _rejected_file(self, owner: str) -> Path:
        return self.rejected_folder / f"{owner}.ndjson"

    def _files(self) -> list[Path]:
        return sorted([*self._folder.glob(f"*{BULK}"), *self._folder.glob(f"*{END}")])

    def _item(self, file: Path, indices: frozenset[str] | None = None) -> Item:
        return Item(file.stem.partition("-")[2], file.suffix == END, file, indices=indices)


def _lock_subfolder(folder: Path) -> tuple[Path, IO[bytes]]:
    """Locks a subfolder that no other process uses, and returns it with its lock.

    Tries first the subfolders in which an earlier process left items, so that these are sent. If no
    subfolder is free, makes a new one.
    """
    existing = [subfolder for subfolder in folder.glob("[0-9]*") if subfolder.is_dir()]
    new = folder / str(max((int(subfolder.name) for subfolder in existing), default=0) + 1)
    for subfolder in (
        *sorted(
            existing,
            key=lambda subfolder: (len(list(subfolder.iterdir())) < 2, int(subfolder.name)),
        ),
        new,
    ):
        subfolder.mkdir(exist_ok=True)
        lock = (subfolder / "lock").open("ab")
        # if the file does not exist, another process has just removed the subfolder
        if try_lock(lock) and (subfolder / "lock").exists():
            return subfolder, lock
        lock.close()
    return _lock_subfolder(folder)


def _item_number(file: Path) -> int:
    """Returns the number with which an item's file name begins."""
    return int(file.name.partition("-")[0])


def _sync_folder(folder: Path) -> None:
    """Puts the names of the folder's files on the disk; syncing a file doesn't do that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
