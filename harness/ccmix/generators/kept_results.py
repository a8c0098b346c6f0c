"""Reads the results that a run between hosts keeps in its folder, of a src-cmd or of pScheduler."""

import os
from pathlib import Path
from typing import IO

from ccmix.archive.folders import campaign_folder
from ccmix.archive.inside import open_file
from ccmix.generators.results import GeneratorError, GeneratorResult, of_pscheduler_run, read_json, read_result
from ccmix.hosts.caps import result_bytes
from ccmix.model import Traffic, run_files
from ccmix.units import format_bytes

BEGINNING = 4096  # characters that show whether an output is JSON


def of_src_command(generators: Path, traffic: Traffic) -> GeneratorResult:
    """Returns the result that a src-cmd printed; a kept one has not printed it yet. What is no JSON is no result.

    Raises GeneratorError if it is longer than a result of this traffic can be, and ArchiveError if a link leads to it.
    """
    most_bytes = result_bytes(traffic.streams, traffic.seconds, traffic.interval_s)
    try:
        with _opened(generators / run_files.SRC_COMMAND_OUTPUT) as text:
            if (size := os.fstat(text.fileno()).st_size) <= most_bytes:
                return read_result(text.read())
            if not text.read(BEGINNING).lstrip().startswith("{"):
                return GeneratorResult("other")
    except FileNotFoundError:
        return GeneratorResult("other")
    raise GeneratorError(
        f"src-cmd: its result has {format_bytes(size)}, more than the {format_bytes(most_bytes)} that ccmix reads of "
        "such a run: set the duration and the interval of the entry to those of the command"
    )


def of_pscheduler(generators: Path) -> GeneratorResult:
    """Returns the result of a run of pScheduler. Raises GeneratorError if it can't be read, and ArchiveError if a link
    leads to it.
    """
    try:
        with _opened(generators / run_files.PSCHEDULER) as text:
            record = read_json(text.read(), run_files.PSCHEDULER)
    except OSError as error:
        raise GeneratorError(f"{run_files.PSCHEDULER}: can't be read: {error}") from error
    try:
        return of_pscheduler_run(record["run"])
    except (LookupError, TypeError, AttributeError) as error:
        raise GeneratorError(f"{run_files.PSCHEDULER}: the run has no result that is understood: {error!r}") from error


def _opened(file: Path) -> IO[str]:
    """Opens a raw file, of a run of others perhaps. Raises ArchiveError if it is a link or no file, and OSError."""
    return os.fdopen(open_file(campaign_folder(file.parents[1]), file), errors="replace")
