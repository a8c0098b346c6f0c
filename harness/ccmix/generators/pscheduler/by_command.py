"""Cancels what a `src-cmd = pscheduler task ...` has posted, if its run is given up.

Ending the command alone would leave the task, with `--repeat` all its runs. pScheduler prints the task's URL unless a
format is asked for; then the URL is an argument of the `pscheduler watch` by which `pscheduler task` replaces itself.
"""

import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ccmix.agent.deadline import Deadline
from ccmix.hosts import CommandError
from ccmix.hosts.host import ContainedProcess, RealHost

LOOKS_EACH_S = 0.5
CANCELS_WITHIN_S = 30.0
MOST_BYTES = 65536  # of the output: the URL is at its beginning
URL = re.compile(r"https?://[^\s/'\"]+/pscheduler/tasks/[0-9a-fA-F-]{36}")
# A task that is gone needs no cancelling
_CANCEL = 'said=$("$@" 2>&1) && exit 0; case $said in *"not found"*) exit 0;; esac; echo "$said" >&2; exit 1'
Log = Callable[[str], None]


class PostedByCommand:
    """Knows the task of one src-cmd, once it can be seen, and cancels it.

    The undo on the source's disk cancels it where this process can't any more.
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
        """Looks for the URL, now and then. Raises CommandError."""
        if self.url is None and self._next_look.expired:
            self._look_now()
            self._next_look = Deadline(LOOKS_EACH_S)

    def cancel(self) -> str:
        """Cancels the task; returns in a sentence what became of it, and what to do if it is left."""
        try:
            if self.url is None:
                self._look_now()
            if self.url is None:
                return (
                    f"src-cmd on {self._src.name}: pscheduler may have posted a task, and has not named it yet: there, "
                    "'pscheduler schedule' lists its runs with their tasks, and 'pscheduler cancel URL' ends one"
                )
            self._src.run(["sh", "-c", _CANCEL, "cancel", *self._cancel, self.url], timeout_s=CANCELS_WITHIN_S)
        except CommandError as error:
            if self.url is None:
                return f"src-cmd on {self._src.name}: it is not known whether a task of pScheduler is left: {error}"
            by_hand = shlex.join([*self._cancel, self.url])
            return f"pScheduler task {self.url}: not cancelled: {error}: on its lead, give: {by_hand}"
        self.over()
        return f"pScheduler task {self.url}: cancelled"

    def over(self) -> None:
        """Keeps the task as it is. Raises CommandError."""
        if self._number is not None:
            self._src.forget(self._number)
            self._number = None

    def _look_now(self) -> None:
        with self._output.open("rb") as file:
            printed = file.read(MOST_BYTES).decode(errors="replace")
        match = URL.search(printed) or next(filter(None, map(URL.search, self._process.command_lines())), None)
        if match:
            self.url = match.group()
            undo = ["sh", "-c", _CANCEL, "cancel", *self._cancel, self.url]
            self._number = self._src.remember(f"pScheduler task {self.url}", undo)


class CommandTasks:
    """Holds the tasks of the src-cmds that run now and post one; cancel() may be called from another thread."""

    def __init__(self, tell: Log) -> None:
        self._tell = tell
        self._running: list[PostedByCommand] = []

    @contextmanager
    def watched(self, src: RealHost, line: str, process: ContainedProcess, output: Path) -> Iterator[None]:
        """Cancels what the command of a shell line has posted, unless the command has ended by itself."""
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
        """Looks for the tasks' URLs, now and then. Raises CommandError."""
        for posted in self._running:
            posted.look()

    def cancel(self) -> None:
        """Cancels all tasks, and says what became of them."""
        for posted in list(self._running):
            self._cancel(posted)

    def _cancel(self, posted: PostedByCommand) -> None:
        if self._take(posted):
            self._tell(posted.cancel())

    def _take(self, posted: PostedByCommand) -> bool:
        """Returns whether the task is left to the caller; False if it is cancelled already, or by another thread."""
        try:
            self._running.remove(posted)
        except ValueError:
            return False
        return True


def _cancel_words(line: str) -> Sequence[str]:
    """Returns the command that cancels what a shell line posts, without the URL; none for a line that posts nothing."""
    try:
        words = shlex.split(line)
    except ValueError:  # the shell will say so
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
