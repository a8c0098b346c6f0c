"""Compares runs of the lab with their repetitions, file by file, to show that they are the same."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from ccmix.archive import ArchiveError, RunFolder, parquet
from ccmix.archive.members import RAW, list_files
from ccmix.files import open_file
from ccmix.model import Run, run_files

TOOLS = ("kernel", "kernel_version", "iperf3", "lab_kernel", "guest_root", "lab_programs")
"""The fields of a run's facts that name tools. Other tools may give the same bytes."""
RESIDENT_MEMORY = "memory_bytes"
"""The column of processes.parquet that depends on the processor
(docs/explanation/reproducibility.md).
"""
CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Repetition:
    """Lists the differences between a run and its repetition."""

    run: Run
    compared: int  # files, run.json among them
    differing: tuple[str, ...]  # names of files, and of fields of run.json and facts.json
    missing: tuple[str, ...] = ()  # names of files that only the repetition has
    extra: tuple[str, ...] = ()  # names of files that only the original has
    unchecked: tuple[str, ...] = ()  # names of raw files, which an archive may leave out

    @property
    def same(self) -> bool:
        return not (self.differing or self.missing or self.extra)


def compare_run(run: Run, outdir: Path, repeated_outdir: Path) -> Repetition:
    """Compares each file of a run with the same file of its repetition in another campaign.

    Times of the machine and the names of tools may differ. A file that can't be read counts as
    different. Raises ArchiveError if a run.json can't be read.
    """
    folder, repeated = RunFolder.of(outdir, run), RunFolder.of(repeated_outdir, run)
    names, repeated_names = (set(list_files(each.path, "")) for each in (folder, repeated))
    compared = sorted(names & repeated_names - {run_files.SUMMARY, run_files.FACTS})
    only_repeated = sorted(repeated_names - names)
    unchecked = [name for name in only_repeated if name.partition("/")[0] in RAW]
    differing = [
        name
        for name in compared
        if not _is_same(outdir, folder.path / name, repeated_outdir, repeated.path / name)
    ]
    return Repetition(
        run,
        len(names & repeated_names),
        (*differing, *_differing_fields(folder, repeated)),
        tuple(name for name in only_repeated if name not in unchecked),
        tuple(sorted(names - repeated_names)),
        tuple(unchecked),
    )


def _differing_fields(folder: RunFolder, repeated: RunFolder) -> list[str]:
    """Returns the names of the fields of run.json and facts.json that differ between a run and its
    repetition, such as 'run.json: metrics'. Raises ArchiveError if a run.json can't be read.
    """
    finished, again = folder.read(), repeated.read()
    tools = {tool: getattr(finished.facts, tool) for tool in TOOLS}
    expected = replace(
        again,
        run=finished.run,  # an older ccmix may have written it in another way
        execution=finished.execution,  # times of the machine
        facts=replace(again.facts, **tools),
    )
    differing = [f"{run_files.SUMMARY}: {name}" for name in unequal(finished, expected)]
    try:
        measured, again_measured = folder.read_measurement(), repeated.read_measurement()
    except FileNotFoundError:
        return differing  # it is among the missing files
    except (ArchiveError, ValueError):
        return [*differing, run_files.FACTS]
    # facts.json names the same tools as run.json
    named = replace(again_measured, facts=replace(again_measured.facts, **tools))
    return differing + [f"{run_files.FACTS}: {name}" for name in unequal(measured, named)]


def unequal(first: object, second: object) -> list[str]:
    """Returns the names of the fields that differ between two objects of the same dataclass."""
    return [name for name, value in vars(first).items() if value != getattr(second, name)]


def _is_same(outdir: Path, file: Path, repeated_outdir: Path, repeated: Path) -> bool:
    """Returns whether two files have the same content, apart from the memory of processes.

    The folders of the campaigns are given because a file must lie in its campaign.
    """
    try:
        if _same_bytes(outdir, file, repeated_outdir, repeated):
            return True
        return file.name == run_files.PROCESSES and _without_memory(file).equals(
            _without_memory(repeated)
        )
    except (ArchiveError, OSError):
        return False


def _same_bytes(outdir: Path, file: Path, repeated_outdir: Path, repeated: Path) -> bool:
    """Returns whether two files are equal byte by byte. Raises OSError."""
    with (
        os.fdopen(open_file(outdir, file), "rb") as first,
        os.fdopen(open_file(repeated_outdir, repeated), "rb") as second,
    ):
        return all(
            chunk == second.read(CHUNK_BYTES)
            for chunk in iter(lambda: first.read(CHUNK_BYTES), b"")
        ) and (second.read(1) == b"")


def _without_memory(file: Path) -> pl.DataFrame:
    """Reads processes.parquet without the memory of processes, which is never repeated exactly."""
    return parquet.read(file).drop(RESIDENT_MEMORY, strict=False)
