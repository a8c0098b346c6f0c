"""Copies the runs of an experiment's archive into a new campaign, so that only new runs are made.

`python -m paper_pages.kept_runs NAME OUTDIR` does so for
`ccmix reproduce NAME --tried --resume -o OUTDIR`, if an entry or an iteration was added. The result
of a run depends only on its own settings and its seed, and the seed stays the same; each run.json
says which ccmix made it.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from ccmix.archive import Campaign
from ccmix.archive.campaign import RunFolder
from ccmix.archive.packed import opened
from ccmix.model import run_files
from ccmix.papers.forms import form, planned


def keep_runs(name: str, archive: Path, outdir: Path) -> int:
    """Creates a campaign in the folder `outdir` with all runs of the experiment `name` in its
    reduced form. Copies the results of those runs that are the same in the old archive, and returns
    how many were copied.

    `ccmix reproduce --resume` then makes only the other runs. Raises ArchiveError if the folder is
    not empty, or if the archive can't be read.
    """
    with opened([archive]) as archives:
        [folder] = archives.folders
        old = Campaign.load(folder)
        assert old.origin.seed is not None  # of the lab
        runs = planned(name, old.origin.seed, full=False)
        new = Campaign.create(
            outdir, replace(old.plan, ini=form(name, full=False), runs=runs, file_order=())
        )
        made = {run.name: run for run in old.runs if RunFolder.of(folder, run).finished}
        kept = [run for run in runs if made.get(run.name) == run]
        for run in kept:
            place = RunFolder.of(new.outdir, run).path
            place.mkdir(parents=True)
            shutil.copy(RunFolder.of(folder, run).path / run_files.SUMMARY, place)
    return len(kept)


if __name__ == "__main__":
    experiment, outdir = sys.argv[1:]
    if Path(outdir).is_dir() and any(Path(outdir).iterdir()):
        sys.exit(f"{outdir}: has runs already: move it away first")
    count = keep_runs(experiment, Path("archive", "papers", f"{experiment}.zip"), Path(outdir))
    print(f"{experiment}: kept {count} runs of the archive")
