"""Carries out the journals of dead processes. A lock counts only while the process that wrote the
journal has it open.
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
    is_here,
    is_of_this_boot,
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
    """Carries out the undos that dead processes left; yields each undo with the reason why it
    failed, or None.

    A journal is removed when all of it was undone, or if it is from an earlier boot. A journal of
    another network namespace is left for an agent there. A damaged one stays, after its readable
    part was undone.
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
        for undo, why in undo_all(lines, file):
            failed = failed or why is not None
            yield undo, why
        if not failed:
            path.unlink()


def left(folder: Path | None = None) -> list[Undo]:
    """Returns the undos that `restore` would carry out, in its order, and the journals that it
    can't open. Carries out nothing.
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
    """Yields the journals of dead processes of this host and network namespace: each open and
    locked, or None and the reason why it can't be opened or locked.
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
            opened = _opened(path)
        except FileNotFoundError:
            continue  # another one has just carried it out
        except OSError as error:
            yield path, None, f"can't be opened: {error.strerror}"
            continue
        with opened as file:
            lines, _ = read_lines(file)
            head, here = lines[0] if lines else JournalLine(), network_namespace()
            if not is_here(head) or (is_of_this_boot(lines) and head.get("netns", here) != here):
                continue
            is_free = _lock(file, head.get("pid"))
            if is_free:
                yield path, file, ""
            elif is_free is False and is_of_this_boot(lines):
                yield (
                    path,
                    None,
                    "is locked, though its ccmix has died: end the process that has it open "
                    "(fuser)",
                )


def _opened(path: Path) -> IO[bytes]:
    """Opens a journal, and makes it private. Raises OSError, also if another user could have
    written it, because its commands run with the rights of this user.
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


def _lock(file: IO[bytes], pid: int | None) -> bool | None:
    """Locks a journal and returns whether that worked. It tries again for a second, because a dying
    process may still hold the lock. Returns None if the process that wrote the journal, which has
    this number, is alive.
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
    """Returns whether the process of this number runs as this user and has the file open. That
    proves more than its start time, and also works for journals of older versions.
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
