"""Lets a thread of this process enter network namespaces of ip-netns(8)."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ccmix.hosts.errors import CommandError

NAMES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)  # os.setns is of Python 3.12


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Puts this thread into the network namespace, and back into its own afterwards. Raises CommandError."""
    try:
        with Path("/proc/thread-self/ns/net").open("rb") as own, (NAMES / namespace).open("rb") as other:
            _enter(other.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())
    except OSError as error:
        raise CommandError(namespace, ["setns"], error.strerror or str(error)) from error


def _enter(file: int) -> None:
    if _libc.setns(file, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
