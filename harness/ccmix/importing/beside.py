"""Does a part of some work in a second process."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from typing import TYPE_CHECKING

from ccmix.archive import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    # What the work raised: of an OSError its number, text and file, of another error its text
    Reason = tuple[int | None, str | None, str | None] | str | None

_FORK = multiprocessing.get_context("fork")  # which passes on what the work needs without writing it down


@contextlib.contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Does the work in a process of its own, which ends with the context; raises in the end the OSError that it raises,
    and ArchiveError with the text of another error.

    The work must not use Polars or the terminal, whose threads are not in that process.
    """
    result, sends = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_do, args=(work, sends))
    process.start()
    sends.close()
    try:
        yield
        if error := _received(result):
            raise error
    finally:
        process.kill()  # it has ended, unless this one fails
        process.join()


def _do(work: Callable[[], None], sends: Connection[Reason, None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes, and the first one ends this one
    try:
        work()
    except OSError as error:
        sends.send((error.errno, error.strerror, error.filename and str(error.filename)))
    except Exception as error:
        sends.send(str(error))
    else:
        sends.send(None)


def _received(result: Connection[None, Reason]) -> OSError | ArchiveError | None:
    try:
        reason = result.recv()
    except EOFError:
        return OSError("the second process of the import was killed")
    if isinstance(reason, str):
        return ArchiveError(reason)
    return OSError(*reason) if reason else None
