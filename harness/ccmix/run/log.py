"""Writes the log of one run: what was done when."""

import datetime
from pathlib import Path

from ccmix.archive.replacing import open_to_append


class RunLog:
    """Writes lines with the time in UTC, on disk at once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, text: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with open_to_append(self._file) as out:
            out.write(f"{now} {text}\n".encode(errors="replace"))
