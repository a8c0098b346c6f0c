"""Files that are written whole or not at all."""

import os
from pathlib import Path

PARTIAL = ".partial"


def write_whole(file: Path, text: str) -> None:
    """Writes beside the file and renames; the text is on disk when this returns. Raises OSError."""
    part = file.with_name(file.name + PARTIAL)
    with part.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.rename(file)
