"""Keeps on disk which tasks were posted, so that `ccmix restore` can cancel those of a campaign that died.

A task outlives the machine that posted it, so this is no part of the undo journal, which a reboot empties. A record
is a file of two JSON lines in the state folder: what lets us find and cancel the task, from before it is posted, and
its path, once it has one. The process that posted the task holds a lock (flock) on the file. Only its user may read it,
since it has the task's key.
"""

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ccmix.agent.journal import host_id, private_folder, remove_begun, state_folder
from ccmix.failures import naming
from ccmix.generators.pscheduler.cancelling import cancelled, posted_as
from ccmix.generators.pscheduler.rest import Interruption, PschedulerError, PschedulerServer

PATTERN = "pscheduler-task-*.jsonl"


class TaskRecord:
    """Represents a task's record, until its task is over, or left to `ccmix restore`."""

    def __init__(self, server: PschedulerServer, identity: str, key: str, folder: Path | None = None) -> None:
        """Writes the record of a task that is about to be posted. Raises OSError."""
        folder = folder or state_folder()
        private_folder(folder)
        self._path = folder / PATTERN.replace("*", str(uuid.uuid4()))
        unlocked = self._path.with_suffix(".new")  # cancel_left() must not find it before it is locked
        self._file: IO[bytes] = os.fdopen(os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 0)
        head = {"host": host_id(), "lead": server.address, "ca": server.ca_file, "identity": identity, "key": key}
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            with naming(unlocked):
                self._write(head)
            unlocked.rename(self._path)
        except OSError:
            unlocked.unlink()
            self._file.close()
            raise

    def posted(self, path: str) -> None:
        """Notes the task's path below /pscheduler/ if it can: without it, the task is found by its identity."""
        with contextlib.suppress(OSError):
            self._write({"path": path})

    def over(self) -> None:
        """Removes the record: nothing is left of the task."""
        self._path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Leaves the task to `ccmix restore`."""
        self._file.close()

    def _write(self, line: dict[str, str | None]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


def cancel_left(folder: Path | None = None) -> Iterator[tuple[str, str | None]]:
    """Cancels the tasks that dead campaigns of this host have left; yields each with the reason why it could not, or
    None.

    A record is removed when its task is gone, or was never posted.
    """
    folder = folder or state_folder()
    remove_begun(folder, PATTERN)
    for path in sorted(folder.glob(PATTERN)):
        try:
            opened = path.open("rb")
        except FileNotFoundError:
            continue  # another one has just removed it
        except OSError as error:
            yield str(path), f"can't be opened: {error.strerror}"
            continue
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its campaign lives
            what, reason = _cancel(path)
            if not what:
                continue
            if reason is None:
                path.unlink(missing_ok=True)
            yield what, reason and f"{reason} (remove {path} if nothing is left of it)"


def _lines(file: Path) -> list[dict[str, str]]:
    """Returns a record's lines, without a last one that a kill cut short. Raises OSError and ValueError."""
    text = file.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _cancel(file: Path) -> tuple[str, str | None]:
    """Cancels a record's task; returns what it is, and why it could not be cancelled, or None. The text is empty for a
    record of another host: homes may be shared over a network.
    """
    try:
        head, *rest = _lines(file)
        if head["host"] != host_id():
            return "", None
        lead, key, identity = head["lead"], head["key"], head["identity"]
        path = rest[0]["path"] if rest else None
        server = PschedulerServer(lead, head["ca"], Interruption())
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        return str(file), f"can't be read: {error!r:.200}"
    except PschedulerError as error:
        return f"pScheduler task at {lead}", str(error)
    try:
        path = path or posted_as(server, identity)
    except PschedulerError as error:
        return f"a pScheduler task that may have been posted to {lead}", str(error)
    if path is None:
        return f"a pScheduler task at {lead}, which was never posted", None
    return f"pScheduler task {server.url(path)}", cancelled(server, path, key)
