"""Archives that tests read as folders: those of archive/ are packed."""

import atexit
import json
import shutil
import tempfile
import zipfile
from pathlib import Path

from ccmix.archive import packed
from support.commands import REPOSITORY

DEMO_60_FILE = REPOSITORY / "archive" / "demo.zip"
EMULATED_FILE = REPOSITORY / "archive" / "real-and-emulated.zip"
TABLE_FILE = REPOSITORY / "archive" / "tierney-2021-bost-40g.csv"
TWIN_FILE = REPOSITORY / "archive" / "twins" / "tierney-2021-twin.zip"
ENTRIES = ("all-cubic", "all-bbr", "mixed")


def _temporary_folder() -> Path:
    """Returns a folder that is removed when the tests have ended."""
    place = tempfile.mkdtemp(prefix="ccmix-tests-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def unpacked(file: Path) -> Path:
    """Returns a folder of the archive, which is removed when the tests have ended."""
    return packed.unpack(file, _temporary_folder() / packed.folder_name(file)).outdir


def _first_iterations() -> Path:
    """Returns a folder with the first iteration of each condition of three of the demo's
    five entries.
    """
    outdir = _temporary_folder() / "demo"
    with zipfile.ZipFile(DEMO_60_FILE) as demo:
        plan = json.loads(demo.read("campaign.json"))
        plan["runs"] = [
            run for run in plan["runs"] if run["entry"] in ENTRIES and run["iteration"] == 1
        ]
        names = [
            name for name in demo.namelist() if name.split("/")[0] in ENTRIES and "/001/" in name
        ]
        demo.extractall(outdir, names)
    (outdir / "campaign.json").write_text(json.dumps(plan, indent=1))
    return outdir


DEMO = _first_iterations()  # 12 runs
DEMO_FILE = DEMO.with_suffix(packed.SUFFIX)
packed.pack(DEMO, DEMO_FILE)
