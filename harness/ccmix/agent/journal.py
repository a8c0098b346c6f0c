"""Keeps the undo journal: before a run changes this machine, the command that undoes it is on disk.

A journal is a file of JSON lines in the state folder, held open and locked (flock) by the process
that writes it. A file without a lock was left by a process that died; `restore` carries out its
undos, last change first. Only its user may read it, because everybody who can read a file can lock
it.

Its first line has the boot id and the network namespace. The boot id keeps it from being applied
after a reboot, which has already undone the changes. It is applied only in its network namespace,
because agents in namespaces of one machine may share a state folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import TypeGuard

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SO_NETNS_COOKIE = 71  # asm-generic/socket.h; Python has no name for it
JOURNALS = "undo-*.jsonl"
_OUR_PREFIXES = (
    "undo-",
    "pscheduler-task-",
    "index",
    "ccmix-cca-",
)  # the prefix of names in a state folder
BEGINS_WITHIN_S = 60.0  # between a journal's file and its lock
UNDO_TIMEOUT_S = 660.0  # a little more than a run's own commands may take
GREATEST_STATUS = (
    128  # of a command that ended by itself; a shell returns 128 + N if signal N ended it
)
LONGEST_OUTPUT = 2000  # bytes of an undo's output that are reported
STATE = "CCMIX_STATE"


def boot_id() -> str:
    return BOOT_ID.read_text().strip()


def host_id() -> str:
    """Returns an id that distinguishes this host from others: that of machine-id(5), or the host's
    name if it has none.
    """
    try:
        return Path("/etc/machine-id").read_text().strip() or os.uname().nodename
    except OSError:
        return os.uname().nodename


def network_namespace() -> int:
    """Returns a number that belongs only to this process's network namespace until the next boot.
    On kernels before 5.14, a later namespace can get the same number after this one has ended.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        try:
            return int.from_bytes(
                any_socket.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder
            )
        except OSError:
            return Path("/proc/self/ns/net").stat().st_ino


def state_folder() -> Path:
    """Returns the folder of journals: $CCMIX_STATE, otherwise /var/lib/ccmix for root, and
    ~/.local/state/ccmix (or in $XDG_STATE_HOME) for other users.
    """
    if from_environment := os.environ.get(STATE):
        return Path(from_environment)
    if os.geteuid() == 0:
        return Path("/var/lib/ccmix")
    return Path(os.environ.get("XDG_STATE_HOME") or _home() / ".local/state", "ccmix")


def _home() -> Path:
    """Returns the user's home directory. Raises JournalError if there is none."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise JournalError(errno.ENOENT, "this user has no home", "~") from error


class JournalError(OSError):
    """Reports that an undo can't be written to disk, with the file and what to do. The change is
    not made then.
    """

    def __str__(self) -> str:
        return (
            f"{self.filename}: {self.strerror}: nothing is changed without its undo on the disk: "
            "make room there and "
            f"let this user write, or name another folder by {STATE}"
        )


class JournalLine(TypedDict, total=False):
    """Holds a line of a journal: the head, or a change (`what`) with its undo, or a note that the
    change with this number was made, is being undone, or was undone.
    """

    boot_id: str
    netns: int
    host: str
    pid: int
    number: int
    what: str
    undo: list[str]
    made: bool
    undoing: bool
    undone: bool


@dataclass(frozen=True)
class Undo:
    """Describes a command that takes back one change.

    It is `certain` if the change was surely made and not taken back. Otherwise the process died
    while it made the change or took it back, so there may be nothing to undo, and the command may
    fail.
    """

    number: int
    what: str
    argv: tuple[str, ...]
    certain: bool


class Journal:
    """Writes the journal of this process, in a context. When the context ends with nothing left to
    undo, the file is removed; otherwise `ccmix restore` finds it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Takes the state folder, in which the journal's file is made when the context begins; None
        means that of this user.
        """
        self._folder = folder or state_folder()
        self._file: IO[bytes] | None = None
        self._next_number = 0
        self._not_undone: set[int] = set()

    def __enter__(self) -> Journal:
        """Begins the journal. Raises JournalError."""
        try:
            self._create_file()
        except OSError as error:
            raise JournalError(
                error.errno, error.strerror, error.filename or str(self._folder)
            ) from error
        return self

    def _create_file(self) -> None:
        """Makes the journal's file, locks it and writes its head. Only then does it get the name by
        which restore() finds it.
        """
        private_folder(self._folder)
        self._path = self._folder / JOURNALS.replace("*", f"{os.getpid()}-{os.urandom(4).hex()}")
        new_path = self._path.with_suffix(".new")  # restore() must not find it before it is locked
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.fdopen(os.open(new_path, flags, 0o600), "a+b", 0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            head = {
                "boot_id": boot_id(),
                "netns": network_namespace(),
                "host": host_id(),
                "pid": os.getpid(),
            }
            self._write(head)
            new_path.rename(self._path)
        except OSError:
            new_path.unlink()
            self._file.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Removes the journal's file, unless it has a change that was not undone."""
        assert self._file
        if not self._not_undone:
            self._path.unlink()
        self._file.close()

    def about_to(self, what: str, undo: Sequence[str]) -> int:
        """Records a change before it is made, with the command that takes it back, and returns the
        change's number. The record is on disk when this returns. Raises JournalError.
        """
        number, self._next_number = self._next_number, self._next_number + 1
        self._write({"number": number, "what": what, "undo": list(undo)})
        self._not_undone.add(number)
        return number

    def made(self, number: int) -> None:
        """Notes that the change was made, so its undo is certain: it must succeed."""
        self._write({"number": number, "made": True})

    def undoing(self, number: int) -> None:
        """Notes that the undo begins. If no later note follows, nobody knows whether the undo has
        taken effect.
        """
        _write_if_possible(self._opened, {"number": number, "undoing": True})

    def not_undone(self, number: int) -> None:
        """Notes that the undo failed, so the change still exists."""
        _write_if_possible(self._opened, {"number": number, "made": True})

    def undone(self, number: int) -> None:
        """Notes that the change was taken back, or never made, so nothing is left to do."""
        self._not_undone.discard(number)
        self._write({"number": number, "undone": True})

    def undo_all(self) -> list[tuple[Undo, str | None]]:
        """Carries out the remaining undos, last change first. Returns each with the reason why it
        failed, or None.
        """
        assert self._file
        lines, _ = read_lines(self._file)
        undos = list(undo_all(lines, self._file))
        self._not_undone.difference_update(undo.number for undo, reason in undos if reason is None)
        return undos

    @property
    def _opened(self) -> IO[bytes]:
        assert self._file
        return self._file

    def _write(self, line: dict[str, object]) -> None:
        """Writes a line, which is on disk when this returns. Raises JournalError."""
        try:
            _write(self._opened, line)
        except OSError as error:
            raise JournalError(error.errno, error.strerror, str(self._path)) from error


def private_folder(folder: Path) -> None:
    """Makes a state folder that only its user may enter. Raises OSError.

    A folder that exists is made private, unless it seems to be shared on purpose: all users may
    write in it, or it has files that are not ccmix's.
    """
    try:
        folder.mkdir(0o700, parents=True)
    except FileExistsError:
        status = folder.stat()
        is_open = (
            status.st_mode & 0o077 and not status.st_mode & 0o002 and status.st_uid == os.geteuid()
        )
        if is_open and all(file.name.startswith(_OUR_PREFIXES) for file in folder.iterdir()):
            folder.chmod(0o700)


def remove_begun(folder: Path, pattern: str) -> None:
    """Removes journals that were begun by processes that died at once, and have nothing to undo.

    A journal's file has the suffix .new until it is locked, and then gets its final name, which
    matches `pattern`. Its process changes nothing before that.
    """
    for path in folder.glob(str(Path(pattern).with_suffix(".new"))):
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
            if age_s > BEGINS_WITHIN_S:  # otherwise its process may be about to lock it
                path.unlink()


def is_of_this_boot(lines: Sequence[JournalLine]) -> bool:
    """Returns whether a journal was written since the last boot, by the boot id in its first line.
    An older journal has nothing to undo, because the boot has undone all changes.

    Also returns True if the journal has no readable lines: its age is then unknown.
    """
    return not lines or lines[0].get("boot_id") == boot_id()


def is_of_this_host(head: JournalLine) -> bool:
    """Returns whether a journal belongs to this host. A home directory that several hosts share has
    the journals of all.
    """
    return bool(head.get("host", host_id()) == host_id())


def undo_all(lines: Sequence[JournalLine], file: IO[bytes]) -> Iterator[tuple[Undo, str | None]]:
    """Carries out the undos of a journal (`lines`) that are left to do, last change first. Notes
    each undo in the journal's file, and yields it with the reason why it failed, or None.
    """
    for undo in reversed(pending(lines)):
        _write_if_possible(file, {"number": undo.number, "undoing": True})
        reason, ran_to_end = _carry_out(undo.argv)
        if ran_to_end and not undo.certain:
            reason = None  # there may have been nothing to undo
        if reason is None:  # noted, so that it is not carried out again if another undo fails
            _write_if_possible(file, {"number": undo.number, "undone": True})
        elif undo.certain:
            _write_if_possible(file, {"number": undo.number, "made": True})
        yield undo, reason


def _write_if_possible(file: IO[bytes], line: dict[str, object]) -> None:
    """Writes a line, but ignores an error: a full disk must not prevent an undo."""
    with contextlib.suppress(OSError):
        _write(file, line)


def _carry_out(argv: Sequence[str]) -> tuple[str | None, bool]:
    """Runs the command of an undo. Returns the reason why it failed, in one line (None if it did
    not), and whether it ran to its end.

    It does not wait for processes that the command leaves in the background. So the outputs go to a
    file: a pipe would stay open as long as such a process lives.
    """
    with _file_for_output() as output:
        try:
            undo = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            return error.strerror or str(error), False
        try:
            status = undo.wait(UNDO_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(undo.pid, signal.SIGKILL)
            undo.wait()
            return f"has not ended after {UNDO_TIMEOUT_S:g} s", False
        if status == 0:
            return None, True
        output.seek(max(0, os.fstat(output.fileno()).st_size - LONGEST_OUTPUT))
        lines = output.read().decode(errors="replace").strip().splitlines()[-3:]
        return (
            f"exit status {status}{': ' + ' / '.join(lines) if lines else ''}",
            0 < status <= GREATEST_STATUS,
        )


def _file_for_output() -> IO[bytes]:
    """Opens a temporary file without a name, in memory if no disk has room, because an undo must be
    possible even then.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return os.fdopen(os.memfd_create("undo"), "w+b")


def _write(file: IO[bytes], line: dict[str, object]) -> None:
    """Writes a line, which is on disk when this returns. If the disk is full, it leaves no part of
    the line. Raises OSError.
    """
    text = json.dumps(line).encode() + b"\n"
    size = os.fstat(file.fileno()).st_size
    try:
        if file.write(text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), size)
        raise


def pending(lines: Sequence[JournalLine]) -> list[Undo]:
    """Returns the undos of a journal that were not carried out, in the order of the changes. There
    are none in a journal from an earlier boot.
    """
    if not is_of_this_boot(lines):
        return []
    notes = [line for line in lines if "number" in line]
    undone = {line["number"] for line in notes if line.get("undone")}
    made: set[int] = set()
    for line in notes:
        if line.get("made"):
            made.add(line["number"])
        elif line.get("undoing"):
            made.discard(line["number"])
    return [
        Undo(line["number"], line["what"], tuple(line["undo"]), line["number"] in made)
        for line in notes
        if "undo" in line and line["number"] not in undone
    ]


def read_lines(file: IO[bytes]) -> tuple[list[JournalLine], bool]:
    """Returns the lines of a journal, the head first, and whether it is damaged.

    A last line that was cut short when its process died is not damage, because the change of that
    line had not been made yet.
    """
    file.seek(0)
    texts = [text for text in file.read().decode(errors="replace").splitlines() if text.strip()]
    lines: list[JournalLine] = []
    damaged = False
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if _is_journal_line(line):
            lines.append(line)
        else:
            damaged = True
    if texts and not (lines and "boot_id" in lines[0]):
        return [], True
    return lines, damaged


def _is_journal_line(line: object) -> TypeGuard[JournalLine]:
    """Returns whether a JSON value is a line of a journal: a head, a change with its undo, or a
    note.
    """
    if not isinstance(line, dict):
        return False
    if "boot_id" in line:  # a head
        return True
    if not isinstance(line.get("number"), int):
        return False
    if not {"what", "undo"} & line.keys():  # a note, which has neither key of a change
        return True
    undo = line.get("undo")
    return (
        isinstance(line.get("what"), str)
        and isinstance(undo, list)
        and all(isinstance(word, str) for word in undo)
    )
