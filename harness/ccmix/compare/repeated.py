"""Compares runs of the lab with their repetitions, file by file, to show that they are the same."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

import polars as pl

from ccmix.archive import ArchiveError, RunFolder, parquet
from ccmix.files import open_file
from ccmix.model import Run, run_files
from ccmix.model.results import FinishedRun

UNREPEATED_FILES = frozenset({run_files.SUMMARY, run_files.FACTS})
"""run.json is compared by its fields, and facts.json names the tools."""
RESIDENT_MEMORY = "memory_bytes"
"""The column of processes.parquet that depends on the processor
(docs/explanation/reproducibility.md).
"""
CHUNK_BYTES = 2**20
UNREPEATED_FIELDS = frozenset({"execution", "facts"})
"""The fields of run.json with the machine's times, and with the tools."""


@dataclass(frozen=True)
class Repetition:
    """Lists the differences between a run and its repetition."""

    run: Run
    compared: int  # files, run.json among them
    differing: tuple[str, ...]  # names of files, and of fields of run.json

    @property
    def same(self) -> bool:
        return not self.differing


def compare_run(run: Run, outdir: Path, repeated_outdir: Path) -> Repetition:
    """Compares each file of a run with the same file of its repetition in another campaign.

    Times of the machine and facts about tools may differ. A file that can't be read counts as
    different. Raises ArchiveError if a run.json can't be read.
    """
    folder, repeated = RunFolder.of(outdir, run), RunFolder.of(repeated_outdir, run)
    names = sorted(
        str(file.relative_to(folder.path)) for file in folder.path.rglob("*") if not file.is_dir()
    )
    names = [name for name in names if name not in UNREPEATED_FILES]
    differing = [
        name
        for name in names
        if not _is_same(outdir, folder.path / name, repeated_outdir, repeated.path / name)
    ]
    in_summary = [
        f"{run_files.SUMMARY}: {name}" for name in _differing_fields(folder.read(), repeated.read())
    ]
    return Repetition(run, len(names) + 1, (*differing, *in_summary))


def _differing_fields(first: FinishedRun, second: FinishedRun) -> list[str]:
    """Returns the names of the fields of run.json that differ, without UNREPEATED_FIELDS."""
    second = replace(second, run=first.run)  # an older ccmix may have written it in another way
    names = [field.name for field in fields(FinishedRun) if field.name not in UNREPEATED_FIELDS]
    return [name for name in names if getattr(first, name) != getattr(second, name)]


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
