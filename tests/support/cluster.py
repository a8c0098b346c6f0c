"""Makes grids of short runs, and compares campaigns."""

from pathlib import Path

from ccmix.archive import Campaign
from ccmix.compare.repeated import compare_run
from support.commands import SMALL, Ccmix
from support.dask_cluster import DaskCluster


def grid(file: Path, cells: int) -> Path:
    """Writes a configuration of so many short runs; returns the file."""
    delays = ", ".join(f"{5 + number / 10:g}ms" for number in range(cells // 2))
    file.write_text(SMALL.replace("duration = 2s", f"duration = 1s\nsweep.delay = {delays}"))
    return file


def executor(cluster: DaskCluster) -> tuple[str, str]:
    return "--executor", cluster.address.replace("tcp", "dask").replace("tls", "dask+tls")


def expect_same_as_local(ccmix: Ccmix, ini: Path, spread: Path, limit_s: float = 240) -> None:
    """Makes the same campaign on this machine, and compares all files, and run.json but for times
    and tools.
    """
    local = spread.with_name("local")
    done = ccmix("run", ini, "--lab", "-o", local, timeout=limit_s)
    assert done.returncode == 0, done.stderr
    assert differing(local, spread) == []
    assert not list(spread.rglob("*.partial"))


def differing(local: Path, other: Path) -> list[str]:
    """Returns the differences between two campaigns: files that one lacks, files of both, and
    fields of run.json.
    """
    campaign = Campaign.load(local)
    assert campaign.runs == Campaign.load(other).runs
    names, others = files(local), files(other)
    compared = [compare_run(run, local, other) for run in campaign.runs]
    return sorted(names ^ others) + [
        f"{each.run.name}: {name}" for each in compared for name in each.differing
    ]


def files(outdir: Path) -> set[str]:
    """Returns the files of all runs, also of partial and damaged ones."""
    return {str(file.relative_to(outdir)) for file in outdir.glob("*/*/*/*/**/*") if file.is_file()}


def finished(outdir: Path) -> int:
    return sum(not file.parent.name.endswith(".partial") for file in outdir.rglob("run.json"))
