"""Cancels pScheduler tasks that a campaign has posted, also after it was killed: a record of each.

`ccmix restore` cancels the tasks of a killed campaign by the records. The task of a `src-cmd =
pscheduler task ...` is cancelled if its run is given up.

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


def cancel_task(server: PschedulerServer, path: str, key: str) -> str | None:
    """Cancels a task with all its runs, and tries again for 20 s while the server is busy. Returns
    the reason of a failure, or None. An interruption of the campaign doesn't stop it.

    `path` is the task's below /pscheduler/, and `key` is the secret that it was posted with.
    """
    uninterrupted = server.free()
    deadline = Deadline(CANCELS_WITHIN_S)
    for wait_s in back_off():
        try:
            uninterrupted.delete(path, {"key": key})
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


def find_posted_task(server: PschedulerServer, identity: str) -> str | None:
    """Returns the path of the task that was posted with this identity; None if there is none.

    The identity is a UUID of ccmix in the task's reference, and finds a task whose path we don't
    know. Raises PschedulerError.
    """
    query = {"json": json.dumps({"reference": {"ccmix": {"id": identity}}})}
    for url in server.free().get_patiently("tasks", Deadline(CANCELS_WITHIN_S), query):
        return path_of(server, url)
    return None


def path_of(server: PschedulerServer, url: object) -> str:
    """Returns the path below /pscheduler/ of the URL of a task or a run. The URL's host may be
    another name of the server than ours.

    Raises PschedulerError if it is not such a URL.
    """
    _, separator, path = str(url).partition("/pscheduler/")
    if not separator or not path.startswith("tasks/") or "?" in path:
        raise AnswerNotUnderstood(
            f"{server.address}: {str(url)[:100]!r} is not the address of a task"
        )
    return path.rstrip("/")


class TaskRecord:
    """Represents the file that records a posted task, until the task is over or is left to `ccmix
    restore`.
    """

    def __init__(
        self, server: PschedulerServer, identity: str, key: str, folder: Path | None = None
    ) -> None:
        """Writes the record of a task that is about to be posted, into `folder` or the state
        folder. Raises OSError.
        """
        folder = folder or state_folder()
        private_folder(folder)
        self._path = folder / PATTERN.replace("*", str(uuid.uuid4()))
        unlocked = self._path.with_suffix(
            ".new"
        )  # cancel_left() must not find it before it is locked
        self._file: IO[bytes] = os.fdopen(
            os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 0
        )
        first_line = {
            "host": host_id(),
            "lead": server.address,
            "ca": server.ca_file,
            "identity": identity,
            "key": key,
        }
        try:
            try_lock(self._file)
            with naming(unlocked):
                self._write(first_line)
            unlocked.rename(self._path)
        except OSError:
            unlocked.unlink()
            self._file.close()
            raise

    def posted(self, path: str) -> None:
        """Adds the task's path below /pscheduler/. If that fails, the task is still found by its
        identity.
        """
        with contextlib.suppress(OSError):
            self._write({"path": path})

    def over(self) -> None:
        """Removes the record, because the task is gone or has ended."""
        self._path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Keeps the record but unlocks it, so that `ccmix restore` cancels the task."""
        self._file.close()

    def _write(self, line: dict[str, str | None]) -> None:
        """Appends a line to the record, and waits until it is on disk."""
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


def cancel_left(folder: Path | None = None) -> Iterator[tuple[str, str | None]]:
    """Cancels the tasks that killed campaigns of this host have left. Yields a description of each
    task with the reason of a failure, or None.

    A record is removed if its task is gone, or was never posted. A record that is locked belongs to
    a running campaign.
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
            description, failure = _cancel_recorded_task(path)
            if not description:
                continue
            if failure is None:
                path.unlink(missing_ok=True)
            yield description, failure and f"{failure} (remove {path} if the task is gone)"


def _read_record(file: Path) -> list[dict[str, str]]:
    """Returns a record's JSON lines, without a last line that a kill cut off. Raises OSError and
    ValueError.
    """
    text = file.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _cancel_recorded_task(file: Path) -> tuple[str, str | None]:
    """Cancels a record's task. Returns a description of the task, and the reason of a failure or
    None. The description is empty for a record of another host, because home directories may be
    shared over a network.
    """
    try:
        first_line, *further_lines = _read_record(file)
        if first_line["host"] != host_id():
            return "", None
        lead, key, identity = first_line["lead"], first_line["key"], first_line["identity"]
        path = further_lines[0]["path"] if further_lines else None
        server = PschedulerServer(lead, first_line["ca"], Interruption())
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        return str(file), f"can't be read: {error!r:.200}"
    except PschedulerError as error:
        return f"pScheduler task at {lead}", str(error)
    try:
        path = path or find_posted_task(server, identity)
    except PschedulerError as error:
        return f"a pScheduler task that may have been posted to {lead}", str(error)
    if path is None:
        return f"a pScheduler task at {lead}, which was never posted", None
    return f"pScheduler task {server.url(path)}", cancel_task(server, path, key)


class PostedByCommand:
    """Finds the task that a running src-cmd posts at pScheduler, by the URL that it prints, and
    cancels it.

    If this process can't cancel it any more, the undo on the source's disk cancels it.
    """

    def __init__(self, src: RealHost, line: str, process: ContainedProcess, output: Path) -> None:
        """Prepares the search. `line` is the src-cmd, `output` the file with its standard
        output.
        """
        self._src = src
        self._cancel = _cancel_command(line)
        self._process = process
        self._output = output
        self._next_look = Deadline(0)
        self._number: int | None = None
        self.url: str | None = None

    def look(self) -> None:
        """Looks for the URL if the last look is a while ago. Raises CommandError."""
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
        """Leaves the task as it is, and forgets the undo that would cancel it. Raises
        CommandError.
        """
        if self._number is not None:
            self._src.forget(self._number)
            self._number = None

    def _look_now(self) -> None:
        """Looks for the task's URL in the output, and in the command lines of the src-cmd's
        processes. Stores an undo that cancels the task when it is found.
        """
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
    """Holds the pScheduler tasks of the running src-cmds, to cancel them if a run is given up.
    Other threads may call cancel().
    """

    def __init__(self, tell: Log) -> None:
        self._tell = tell
        self._running: list[PostedByCommand] = []

    @contextmanager
    def watched(
        self, src: RealHost, line: str, process: ContainedProcess, output: Path
    ) -> Iterator[None]:
        """Cancels the task that a shell line posts at pScheduler when the context ends, unless the
        command has ended by itself. Does nothing for a line that posts no task.
        """
        if not _cancel_command(line):
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
        """Cancels the tasks of all running src-cmds, and tells the user the outcome."""
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


def _cancel_command(line: str) -> Sequence[str]:
    """Returns the command, without the URL, that cancels the task of a shell line: ['pscheduler',
    'cancel'], with the task's key if it has one; empty for a line that posts no task.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # the shell will report it
        return []
    for program, command in itertools.pairwise(words):
        if PurePosixPath(program).name == "pscheduler" and command == "task":
            key = _option_value(words, "--key")
            return [program, "cancel", *(["--key", key] if key else [])]
    return []


def _option_value(words: Sequence[str], name: str) -> str | None:
    """Returns the value of an option, '--key VALUE' or '--key=VALUE'; None without the option."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
