"""Keeps Python from looking for garbage."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Looks for no cycles of objects in this context.

    A command that makes millions of objects, and needs all of them, would spend a fifth of its time on that.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
