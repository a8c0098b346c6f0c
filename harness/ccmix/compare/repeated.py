"""Compares runs of the lab with their repetitions, byte by byte."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import polars as pl

from ccmix.archive import RunFolder
from ccmix.model import FinishedRun, Run, run_files

UNREPEATED_FILES = frozenset({run_files.SUMMARY, run_files.FACTS})
"""run.json is compared by its fields, and facts.json names the tools."""
RESIDENT_MEMORY = "memory_bytes"
"""The column of processes.parquet that depends on the processor (docs/explanation/reproducibility.md)."""
UNREPEATED_FIELDS = frozenset({"execution", "facts"})
"""The fields of run.json with the machine's times, and with the tools."""


@dataclass(frozen=True)
class Repetition:
    """Says in what a run and its repetition differ."""

    run: Run
    compared: int  # files, run.json among them
    differing: tuple[str, ...]  # names of files, and of fields of run.json

    @property
    def same(self) -> bool:
        return not self.differing


def compare_run(run: Run, outdir: Path, repeated_outdir: Path) -> Repetition:
    """Compares each file that the first campaign has of the run.

    Leaves out the machine's times, and the facts about tools. Raises ArchiveError if a run.json can't be read.
    """
    folder, repeated = RunFolder.of(outdir, run), RunFolder.of(repeated_outdir, run)
    names = sorted(str(file.relative_to(folder.path)) for file in folder.path.rglob("*") if file.is_file())
    names = [name for name in names if name not in UNREPEATED_FILES]
    differing = [name for name in names if not _same_file(folder.path / name, repeated.path / name)]
    in_summary = [f"{run_files.SUMMARY}: {name}" for name in _differing_fields(folder.read(), repeated.read())]
    return Repetition(run, len(names) + 1, (*differing, *in_summary))


def _differing_fields(first: FinishedRun, second: FinishedRun) -> list[str]:
    second = replace(second, run=first.run)  # an older ccmix may have written it in another way
    names = [field.name for field in fields(FinishedRun) if field.name not in UNREPEATED_FIELDS]
    return [name for name in names if getattr(first, name) != getattr(second, name)]


def _same_file(first: Path, second: Path) -> bool:
    if not second.is_file():
        return False
    if first.read_bytes() == second.read_bytes():
        return True
    return first.name == run_files.PROCESSES and _without_memory(first).equals(_without_memory(second))


def _without_memory(file: Path) -> pl.DataFrame:
    return pl.read_parquet(file).drop(RESIDENT_MEMORY, strict=False)
