"""Writes the log of one run: what was done when."""

import datetime
from pathlib import Path


class RunLog:
    """Writes lines with the time in UTC, on disk at once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, text: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with self._file.open("a") as out:
            out.write(f"{now} {text}\n")
