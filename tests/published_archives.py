"""Archives that tests read as folders: those of tests/data and archive/ are packed."""

import atexit
import shutil
import tempfile
from pathlib import Path

from ccmix.archive import packed
from support import REPOSITORY

DEMO_FILE = REPOSITORY / "tests" / "data" / "schema-2" / "demo.zip"
DEMO_60_FILE = REPOSITORY / "archive" / "demo.zip"
EMULATED_FILE = REPOSITORY / "archive" / "real-and-emulated.zip"
TWIN_FILE = REPOSITORY / "archive" / "twins" / "tierney-2021-twin.zip"


def unpacked(file: Path) -> Path:
    """Returns a folder of the archive, which is removed when the tests have ended."""
    place = tempfile.mkdtemp(prefix="ccmix-tests-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return packed.unpack(file, Path(place, packed.folder_name(file))).outdir


DEMO = unpacked(DEMO_FILE)  # 12 runs of schema 2: one iteration of each condition that the demo had
