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
from ccmix.generators.expected import option_value
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
    """Cancels a pScheduler task with all its runs. While the server is busy or can't be reached, it
    tries again for 20 s. Returns the reason if the task was not cancelled, otherwise None. A task
    that is gone counts as cancelled.

    path: path of the task below /pscheduler/
    key: the secret with which the task was posted

    Ctrl-C does not interrupt it.
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
    Raises PschedulerError.

    ccmix gives each task an identity (a UUID) when it posts it, so that the task can be found even
    if the server's answer, which has the path, was lost.
    """
    query = {"json": json.dumps({"reference": {"ccmix": {"id": identity}}})}
    for url in server.free().get_patiently("tasks", Deadline(CANCELS_WITHIN_S), query):
        return path_of(server, url)
    return None


def path_of(server: PschedulerServer, url: object) -> str:
    """Returns the part of a URL that follows /pscheduler/: the path of a task or of a run. The host
    in the URL is ignored, because the server may use another name for itself than we do.

    Raises AnswerNotUnderstood, a PschedulerError, if it is not the URL of a task or a run.
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
        """Writes the record of a task that is about to be posted, so that the task can be cancelled
        even if this process is killed. It is written into `folder`, by default ccmix's state
        folder. Raises OSError.

        identity: the UUID by which the task can be found
        key: the secret with which the task can be cancelled
        """
        folder = folder or state_folder()
        private_folder(folder)
        self._path = folder / PATTERN.replace("*", str(uuid.uuid4()))
        new_file = self._path.with_suffix(
            ".new"
        )  # cancel_left() must not find it before it is locked
        self._file: IO[bytes] = os.fdopen(
            os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 0
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
            with naming(new_file):
                self._write(first_line)
            new_file.rename(self._path)
        except OSError:
            new_file.unlink()
            self._file.close()
            raise

    def posted(self, path: str) -> None:
        """Adds the path of the posted task to the record. If the path can't be written, `ccmix
        restore` can still find the task by its identity.
        """
        with contextlib.suppress(OSError):
            self._write({"path": path})

    def over(self) -> None:
        """Removes the record, because the task is gone or has ended."""
        self._path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Keeps the record, but gives up its lock, so that `ccmix restore` can cancel the task."""
        self._file.close()

    def _write(self, line: dict[str, str | None]) -> None:
        """Appends a line to the record, and waits until it is on disk."""
        self._file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self._file.fileno())


def cancel_left(folder: Path | None = None) -> Iterator[tuple[str, str | None]]:
    """Cancels the pScheduler tasks that killed campaigns of this host have left, by their records
    in `folder`. Yields for each task its description, and the reason if it was not cancelled,
    otherwise None.

    The record of a task is removed if the task is gone. A locked record belongs to a campaign that
    still runs, so its task is not touched.
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
    """Cancels the task that a record (the file) describes. Returns a description of the task, and
    the reason if it was not cancelled, otherwise None.

    The description is empty if another host wrote the record, whose campaign may still run: home
    directories may be shared over a network.
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
        """Prepares the search for the task that a src-cmd posts.

        src: the host on which the src-cmd runs
        line: the src-cmd, a shell line
        process: the running src-cmd
        output: the file with its standard output
        """
        self._src = src
        self._cancel = _cancel_command(line)
        self._process = process
        self._output = output
        self._next_look = Deadline(0)
        self._number: int | None = None
        self.url: str | None = None

    def look(self) -> None:
        """Looks for the URL of the task that the src-cmd posts, if it is not known and the last
        look was at least 0.5 s ago. Raises CommandError.
        """
        if self.url is None and self._next_look.expired:
            self._look_now()
            self._next_look = Deadline(LOOKS_EACH_S)

    def cancel(self) -> str:
        """Cancels the task that the src-cmd has posted. Returns a sentence for the user: that the
        task was cancelled, or why not and how to cancel it by hand.
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
        """Lets the task continue, because it need not be cancelled any more: removes the undo that
        would cancel it if ccmix died. Raises CommandError.
        """
        if self._number is not None:
            self._src.forget(self._number)
            self._number = None

    def _look_now(self) -> None:
        """Looks for the task's URL, both in the src-cmd's output and in the command lines of its
        processes. If it is found, stores an undo on the source, which cancels the task if ccmix
        dies.
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
        """Begins without any src-cmd. `tell` is called with sentences for the user."""
        self._tell = tell
        self._running: list[PostedByCommand] = []

    @contextmanager
    def watched(
        self, src: RealHost, line: str, process: ContainedProcess, output: Path
    ) -> Iterator[None]:
        """While the context lasts, watches a running src-cmd for the task that it posts at
        pScheduler. At the end, the task is cancelled, unless the src-cmd has ended by itself. Does
        nothing if the src-cmd posts no task.

        line: the src-cmd, a shell line
        output: the file with its standard output
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
        """Looks for the URLs of the tasks that the running src-cmds post. Call it again and again;
        each src-cmd is looked at every 0.5 s. Raises CommandError.
        """
        for posted in self._running:
            posted.look()

    def cancel(self) -> None:
        """Cancels the tasks of all running src-cmds, and tells the user the outcome."""
        for posted in list(self._running):
            self._cancel(posted)

    def _cancel(self, posted: PostedByCommand) -> None:
        """Cancels a src-cmd's task and tells the user the outcome, unless another thread does
        so.
        """
        if self._take(posted):
            self._tell(posted.cancel())

    def _take(self, posted: PostedByCommand) -> bool:
        """Removes a src-cmd's task from those that are running. Returns True if the caller has
        removed it and so must deal with it, and False if another thread was faster.
        """
        try:
            self._running.remove(posted)
        except ValueError:
            return False
        return True


def _cancel_command(line: str) -> Sequence[str]:
    """Returns the command that cancels the task which a shell line posts at pScheduler, still
    without the task's URL: ['pscheduler', 'cancel'], and the task's key if it has one. Returns an
    empty list if the line posts no task.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # the shell will report it
        return []
    for program, command in itertools.pairwise(words):
        if PurePosixPath(program).name == "pscheduler" and command == "task":
            key = option_value(words, "--key")
            return [program, "cancel", *(["--key", key] if key else [])]
    return []
