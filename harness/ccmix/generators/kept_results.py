"""Reads the results that a run between hosts keeps in its folder, of a src-cmd or of pScheduler."""

from pathlib import Path

from ccmix.generators.results import GeneratorError, GeneratorResult, load_json, of_pscheduler_run, read_result
from ccmix.hosts.caps import result_bytes
from ccmix.model import Traffic, run_files
from ccmix.units import format_bytes

BEGINNING = 4096  # characters that show whether an output is JSON


def of_src_command(generators: Path, traffic: Traffic) -> GeneratorResult:
    """Returns the result that a src-cmd printed; a kept one has not printed it yet. What is no JSON is no result.

    Raises GeneratorError if it is longer than a result of this traffic can be.
    """
    output = generators / run_files.SRC_COMMAND_OUTPUT
    if not output.exists():
        return GeneratorResult("other")
    most_bytes = result_bytes(traffic.streams, traffic.seconds, traffic.interval_s)
    if (size := output.stat().st_size) <= most_bytes:
        return read_result(output.read_text(errors="replace"))
    with output.open(errors="replace") as text:
        if not text.read(BEGINNING).lstrip().startswith("{"):
            return GeneratorResult("other")
    raise GeneratorError(
        f"src-cmd: its result has {format_bytes(size)}, more than the {format_bytes(most_bytes)} that ccmix reads of "
        "such a run: set the duration and the interval of the entry to those of the command"
    )


def of_pscheduler(generators: Path) -> GeneratorResult:
    """Returns the result of a run of pScheduler. Raises GeneratorError if it can't be read."""
    record = load_json(generators / run_files.PSCHEDULER)
    try:
        return of_pscheduler_run(record["run"])
    except (LookupError, TypeError, AttributeError) as error:
        raise GeneratorError(f"{run_files.PSCHEDULER}: the run has no result that is understood: {error!r}") from error
