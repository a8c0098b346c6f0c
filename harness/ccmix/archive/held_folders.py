"""Hold a folder, so that one process at a time works on it; the kernel lets go of it when the process ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Yields whether nobody else holds the folder; if so, it is held in this context.

    Raises OSError, also where a link is in the folder's place.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(opened)
