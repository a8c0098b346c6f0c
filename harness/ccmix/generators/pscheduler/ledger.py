"""Keeps posted tasks on disk, so that `ccmix restore` can cancel those of a killed campaign.
Cancels the tasks of a `src-cmd = pscheduler task ...` if its run is given up.

A task outlives the machine that posted it, so it is not in the undo journal, which a reboot
empties. A record is a file in the state folder with two JSON lines. The first line is written
before the task is posted, and is enough to find and cancel the task; the second line has the path
of the task. The process that posted the task holds a lock (flock) on the file. Only its user may
read the file, because it contains the task's key.

If only the command of a src-cmd ended, the task would stay, and with `--repeat` all its runs.
pScheduler prints the task's URL unless a format is requested. In that case, the URL is an argument
of the `pscheduler watch` that replaces `pscheduler task`.
"""

import contextlib
import itertools
import json
import os
import re
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from ccmix.agent.deadline import Deadline
from ccmix.agent.journal import host_id, private_folder, remove_begun, state_folder
from ccmix.failures import naming
from ccmix.files import try_lock
from ccmix.generators.pscheduler.rest import (
    AnswerNotUnderstood,
    Busy,
    Interruption,
    PschedulerError,
    PschedulerServer,
    RequestRefused,
    Unreachable,
    back_off,
)
from ccmix.hosts import CommandError
from ccmix.hosts.host import ContainedProcess, RealHost

CANCELS_WITHIN_S = 20.0
NOT_FOUND = 404

PATTERN = "pscheduler-task-*.jsonl"
LOOKS_EACH_S = 0.5
COMMAND_CANCELS_WITHIN_S = 30.0
MOST_BYTES = 65536  # of the output: the URL is at its beginning
URL = re.compile(r"https?://[^\s/'\"]+/pscheduler/tasks/[0-9a-fA-F-]{36}")
# A task that is gone need not be cancelled
_CANCEL = (
    'said=$("$@" 2>&1) && exit 0; case $said in *"not found"*) exit 0;; esac; echo '
    '"$said" >&2; exit 1'
)
Log = Callable[[str], None]


def cancelled(server: PschedulerServer, path: str, key: str) -> str | None:
    """Cancels a task with all its runs; returns the reason of a failure. Can't be interrupted."""
    free = server.free()
    deadline = Deadline(CANCELS_WITHIN_S)
    for wait_s in back_off():
        try:
            free.delete(path, {"key": key})
        except RequestRefused as error:
            return None if error.status == NOT_FOUND else f"not cancelled: {error}"
        except (Busy, Unreachable) as error:
            if not deadline.allows(wait_s):
                return (
                    f"not cancelled: {error}: 'ccmix restore' tries again from here; or there, "
                    "give "
                    f"pscheduler cancel https://localhost/pscheduler/{path}"
                )
            time.sleep(wait_s)
        except PschedulerError as error:
            return f"not cancelled: {error}"
        else:
            return None
    raise AssertionError("back_off() has no end")


def posted_as(server: PschedulerServer, identity: str) -> str | None:
    """Returns the path of the task that was posted with this identity, if there is one. Raises
    PschedulerError.
    """
    query = {"json": json.dumps({"reference": {"ccmix": {"id": identity}}})}
    for url in server.free().patiently("tasks", Deadline(CANCELS_WITHIN_S), query):
        return path_of(server, url)
    return None


def path_of(server: PschedulerServer, url: object) -> str:
    """Returns the path of a task or a run below /pscheduler/. The server's name for itself may
    differ from ours.

    Raises PschedulerError.
    """
    _, separator, path = str(url).partition("/pscheduler/")
    if not separator or not path.startswith("tasks/") or "?" in path:
        raise AnswerNotUnderstood(
            f"{server.address}: {str(url)[:100]!r} is not the address of a task"
        )
    return path.rstrip("/")


class TaskRecord:
    """Represents a task's record, until the task is over or is left to `ccmix restore`."""

    def __init__(
        self, server: PschedulerServer, identity: str, key: str, folder: Path | None = None
    ) -> None:
        """Writes the record of a task that is about to be posted. Raises OSError."""
        folder = folder or state_folder()
        private_folder(folder)
        self._path = folder / PATTERN.replace("*", str(uuid.uuid4()))
        unlocked = self._path.with_suffix(
            ".new"
        )  # cancel_left() must not find it before it is locked
        self._file: IO[bytes] = os.fdopen(
            os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 0
        )
        head = {
            "host": host_id(),
            "lead": server.address,
            "ca": server.ca_file,
            "identity": identity,
            "key": key,
        }
        try:
            try_lock(self._file)
            with naming(unlocked):
                self._write(head)
            unlocked.rename(self._path)
        except OSError:
            unlocked.unlink()
            self._file.close()
            raise

    def posted(self, path: str) -> None:
        """Notes the task's path below /pscheduler/ if possible. Without the path, the task is found
        by its identity.
        """
        with contextlib.suppress(OSError):
            self._write({"path": path})

    def over(self) -> None:
        """Removes the record, because the task is gone."""
        self._path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Leaves the task to `ccmix restore`."""
        self._file.close()

    def _write(self, line: dict[str, str | None]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


def cancel_left(folder: Path | None = None) -> Iterator[tuple[str, str | None]]:
    """Cancels the tasks that killed campaigns of this host have left. Yields each task with the
    reason of a failure, or None.

    A record is removed if its task is gone, or was never posted.
    """
    folder = folder or state_folder()
    remove_begun(folder, PATTERN)
    for path in sorted(folder.glob(PATTERN)):
        try:
            opened = path.open("rb")
        except FileNotFoundError:
            continue  # another process has just removed it
        except OSError as error:
            yield str(path), f"can't be opened: {error.strerror}"
            continue
        with opened as file:
            if not try_lock(file):
                continue  # its campaign still runs
            what, reason = _cancel(path)
            if not what:
                continue
            if reason is None:
                path.unlink(missing_ok=True)
            yield what, reason and f"{reason} (remove {path} if the task is gone)"


def _lines(file: Path) -> list[dict[str, str]]:
    """Returns a record's lines, without a last line that a kill cut off. Raises OSError and
    ValueError.
    """
    text = file.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _cancel(file: Path) -> tuple[str, str | None]:
    """Cancels a record's task. Returns a description of the task, and the reason of a failure or
    None. The description is empty for a record of another host, because homes may be shared over a
    network.
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


class PostedByCommand:
    """Knows the task of a src-cmd as soon as it appears, and cancels it.

    If this process can't cancel it any more, the undo on the source's disk cancels it.
    """

    def __init__(self, src: RealHost, line: str, process: ContainedProcess, output: Path) -> None:
        self._src = src
        self._cancel = _cancel_words(line)
        self._process = process
        self._output = output
        self._next_look = Deadline(0)
        self._number: int | None = None
        self.url: str | None = None

    def look(self) -> None:
        """Looks for the URL from time to time. Raises CommandError."""
        if self.url is None and self._next_look.expired:
            self._look_now()
            self._next_look = Deadline(LOOKS_EACH_S)

    def cancel(self) -> str:
        """Cancels the task. Returns a sentence on the outcome, with a remedy if a task is
        left.
        """
        try:
            if self.url is None:
                self._look_now()
            if self.url is None:
                return (
                    f"src-cmd on {self._src.name}: pscheduler may have posted a task without "
                    "naming it yet: there, 'pscheduler schedule' lists runs with their tasks, and "
                    "'pscheduler cancel URL' ends a task"
                )
            self._src.run(
                ["sh", "-c", _CANCEL, "cancel", *self._cancel, self.url],
                timeout_s=COMMAND_CANCELS_WITHIN_S,
            )
        except CommandError as error:
            if self.url is None:
                return (
                    f"src-cmd on {self._src.name}: it is not known whether a task of "
                    f"pScheduler is left: {error}"
                )
            by_hand = shlex.join([*self._cancel, self.url])
            return (
                f"pScheduler task {self.url}: not cancelled: {error}: on its lead, give: {by_hand}"
            )
        self.over()
        return f"pScheduler task {self.url}: cancelled"

    def over(self) -> None:
        """Leaves the task as it is. Raises CommandError."""
        if self._number is not None:
            self._src.forget(self._number)
            self._number = None

    def _look_now(self) -> None:
        with self._output.open("rb") as file:
            printed = file.read(MOST_BYTES).decode(errors="replace")
        match = URL.search(printed) or next(
            filter(None, map(URL.search, self._process.command_lines())), None
        )
        if match:
            self.url = match.group()
            undo = ["sh", "-c", _CANCEL, "cancel", *self._cancel, self.url]
            self._number = self._src.remember(f"pScheduler task {self.url}", undo)


class CommandTasks:
    """Holds the tasks of the running src-cmds that post tasks. Other threads may call
    cancel().
    """

    def __init__(self, tell: Log) -> None:
        self._tell = tell
        self._running: list[PostedByCommand] = []

    @contextmanager
    def watched(
        self, src: RealHost, line: str, process: ContainedProcess, output: Path
    ) -> Iterator[None]:
        """Cancels the task that a shell line has posted, unless the command has ended by itself."""
        if not _cancel_words(line):
            yield
            return
        posted = PostedByCommand(src, line, process, output)
        self._running.append(posted)
        try:
            yield
        except BaseException:
            self._cancel(posted)
            raise
        if not process.ended():
            self._cancel(posted)
        elif self._take(posted):
            posted.over()

    def look(self) -> None:
        """Looks for the tasks' URLs from time to time. Raises CommandError."""
        for posted in self._running:
            posted.look()

    def cancel(self) -> None:
        """Cancels all tasks, and prints the outcome."""
        for posted in list(self._running):
            self._cancel(posted)

    def _cancel(self, posted: PostedByCommand) -> None:
        if self._take(posted):
            self._tell(posted.cancel())

    def _take(self, posted: PostedByCommand) -> bool:
        """Returns whether the caller must cancel the task; False if it is already cancelled, or if
        another thread cancels it.
        """
        try:
            self._running.remove(posted)
        except ValueError:
            return False
        return True


def _cancel_words(line: str) -> Sequence[str]:
    """Returns the command, without the URL, that cancels the task of a shell line; empty for a line
    that posts no task.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # the shell will report it
        return []
    for program, command in itertools.pairwise(words):
        if PurePosixPath(program).name == "pscheduler" and command == "task":
            key = _option(words, "--key")
            return [program, "cancel", *(["--key", key] if key else [])]
    return []


def _option(words: Sequence[str], name: str) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
