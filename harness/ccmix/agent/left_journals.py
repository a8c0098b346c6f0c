"""Undoes the changes of processes that died, from the journals (see journal.py) that they left.

A journal's lock counts only while the process that wrote the journal has it open.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import fnmatch
import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ccmix.agent.journal import (
    JOURNALS,
    JournalLine,
    Undo,
    is_of_this_boot,
    is_of_this_host,
    network_namespace,
    pending,
    read_lines,
    remove_begun,
    state_folder,
    undo_all,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_TRIES, LOCK_TRIED_EACH_S = 10, 0.1


def restore(folder: Path | None = None) -> Iterator[tuple[Undo, str | None]]:
    """Carries out the undos in the journals of dead processes. Yields each undo with the reason why
    it failed, or None.

    A journal is removed if all of it was undone, or if it is from an earlier boot. A journal of
    another network namespace is left for an agent there. A damaged journal stays, after its
    readable part was undone. `folder` is the state folder; None means that of this user.
    """
    folder = folder or state_folder()
    remove_begun(folder, JOURNALS)
    for path, file, reason in left_journals(folder):
        if not file:
            yield Undo(0, str(path), (), certain=True), reason
            continue
        lines, damaged = read_lines(file)
        damaged = damaged and is_of_this_boot(lines)  # a reboot has undone everything
        if damaged:
            yield (
                Undo(0, str(path), (), certain=True),
                "is damaged: what it has to undo may be lost",
            )
        with contextlib.suppress(OSError):  # the disk is full
            file.write(b"\n")  # the last line may lack its end
        failed = damaged
        for undo, failure in undo_all(lines, file):
            failed = failed or failure is not None
            yield undo, failure
        if not failed:
            path.unlink()


def remaining_undos(folder: Path | None = None) -> list[Undo]:
    """Returns the undos that restore() would carry out, in its order, but carries out nothing. A
    journal that can't be opened is listed as an undo without a command.
    """
    undos: list[Undo] = []
    for path, file, reason in left_journals(folder or state_folder()):
        undos += (
            reversed(pending(read_lines(file)[0]))
            if file
            else [Undo(0, f"{path} {reason}", (), certain=True)]
        )
    return undos


def left_journals(folder: Path) -> Iterator[tuple[Path, IO[bytes] | None, str]]:
    """Yields the journals of dead processes of this host and network namespace, as (path, file,
    reason): the file is open and locked, or None with the reason why it can't be opened or locked.
    """
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - Path's glob() does not report a folder that it can't read
    except FileNotFoundError:
        return
    except OSError as error:
        yield folder, None, f"can't be read: {error.strerror}"
        return
    for path in (folder / name for name in names if fnmatch.fnmatch(name, JOURNALS)):
        try:
            opened = _open_journal(path)
        except FileNotFoundError:
            continue  # another process has just carried out its undos and removed it
        except OSError as error:
            yield path, None, f"can't be opened: {error.strerror}"
            continue
        with opened as file:
            lines, _ = read_lines(file)
            head = lines[0] if lines else JournalLine()
            this_namespace = network_namespace()
            if not is_of_this_host(head) or (
                is_of_this_boot(lines) and head.get("netns", this_namespace) != this_namespace
            ):
                continue
            is_free = _try_lock(file, head.get("pid"))
            if is_free:
                yield path, file, ""
            elif is_free is False and is_of_this_boot(lines):
                yield (
                    path,
                    None,
                    "is locked, though its ccmix has died: end the process that has it open "
                    "(fuser)",
                )


def _open_journal(path: Path) -> IO[bytes]:
    """Opens a journal, and makes it private. Raises OSError, also if another user could have
    written it: restore() runs its commands with the rights of this user.
    """
    file = os.fdopen(
        os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC),
        "a+b",
        0,
    )
    status = os.fstat(file.fileno())
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        file.close()
        raise PermissionError(errno.EPERM, "another user could have written it")
    os.fchmod(file.fileno(), 0o600)
    return file


def _try_lock(file: IO[bytes], pid: int | None) -> bool | None:
    """Locks a journal and returns whether that worked. It tries for a second, because a dying
    process may still hold the lock.

    `pid` is the process that wrote the journal. Returns None if it is alive, so the journal is in
    use.
    """
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _has_open(pid, os.fstat(file.fileno())):
                return None
            time.sleep(LOCK_TRIED_EACH_S)
        else:
            return True
    return False


def _has_open(pid: int | None, journal: os.stat_result) -> bool:
    """Returns whether the process `pid` runs as this user and has this file open. If it does not,
    the process that wrote the journal has died, and the pid may belong to a new process.

    A comparison of start times would prove less, and would not work for journals of older versions.
    """
    process = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        for descriptor in (
            (process / "fd").iterdir() if process.stat().st_uid == os.geteuid() else ()
        ):
            with contextlib.suppress(OSError):  # just closed
                if os.path.samestat(descriptor.stat(), journal):
                    return True
    return False
