"""Turns the raw files of a measured run into tables, metrics and a verdict, and stores them."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from polars.exceptions import PolarsError

from ccmix import archive
from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.raw_files import as_measured, read_tables
from ccmix.analysis.validity import judge
from ccmix.archive.codec import MEASUREMENT
from ccmix.files import write_whole
from ccmix.generators.results import GeneratorError
from ccmix.model import Measurement, Run, run_files
from ccmix.model.results import Execution, FinishedRun
from ccmix.payload import manifest_sha256
from ccmix.probes import capflow
from ccmix.tools import ToolError
from ccmix.version import version

# Exceptions from reading a file that is incomplete, or not from its tool
NOT_UNDERSTOOD = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    PolarsError,
)


def conclude(
    run: Run, folder: archive.RunFolder, measurement: Measurement, execution: Execution
) -> FinishedRun:
    """Turns the raw files in the folder of a measured run into tables, metrics and a verdict, and
    writes these and run.json. The folder then gets its final name. Returns the content of run.json.

    measurement: facts that are not in the raw files, such as counters
    execution: how the run was made, for example how long it took

    Raises GeneratorError if a raw file can't be understood.
    """
    try:
        facts_text = json.dumps(MEASUREMENT.encode(measurement), indent=1)
        write_whole(folder.partial / run_files.FACTS, facts_text, sync=False)
        # the run with the times that it really had: it may have settled early, or a user's command
        # may use other times
        as_made = as_measured(run, folder.partial, measurement.settled_after_s)
        tables = read_tables(as_made, folder.partial, measurement)
        tables.write(folder.partial)
        converted = _packets(run, folder.partial)
        captured = measurement.facts.capture
        facts = replace(
            measurement.facts,
            probes={**measurement.facts.probes, **tables.series.probes},
            capture=replace(captured, shortened=converted.shortened) if captured else None,
        )
        measurement = replace(measurement, facts=facts)
        metrics = run_metrics(as_made, tables, measurement.ping_rtt_s, measurement)
        diagnostics = (*measurement.diagnostics, *tables.series.diagnostics, *converted.problems)
        finished = FinishedRun(
            run=run,
            execution=replace(
                execution,
                ccmix=version().name,
                package=manifest_sha256(),
                diagnostics=(*execution.diagnostics, *diagnostics),
            ),
            facts=facts,
            started_s=measurement.started_s,
            began_s=tables.began_s,
            ended_s=measurement.ended_s,
            settled_after_s=measurement.settled_after_s,
            ping_rtt_s=measurement.ping_rtt_s,
            metrics=metrics,
            verdict=judge(as_made, tables, measurement, metrics),
        )
    except NOT_UNDERSTOOD as error:
        raise GeneratorError(
            f"{folder.partial}: a raw file can't be understood: {error!r}"
        ) from error
    folder.finish(finished)
    return finished


@dataclass(frozen=True)
class _Converted:
    """Says why the tables of a packet capture are incomplete: limits that have cut them, and
    problems; empty if they are complete.
    """

    shortened: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def _packets(run: Run, folder: Path) -> _Converted:
    """Turns the packet capture of a run, if there is one, into the tables packets.parquet and
    connections.parquet. Returns why they are incomplete, if they are.

    packets.parquet counts packets in intervals: those of the run, if they are shorter than the
    usual ones.
    """
    capture = folder / run_files.CAPTURE
    if not capture.exists():
        return _Converted()
    limits = run.path.capture.conversion if run.path.capture else None
    try:
        connections = capflow.convert(
            capture,
            folder / run_files.PACKETS,
            folder / run_files.CONNECTIONS,
            run.traffic.packets_interval_s,
            limits,
        )
    except (capflow.CaptureError, ToolError) as error:
        return _Converted(problems=(f"the capture was not analysed: {error}",))
    missing = (
        (f"the capture's end is missing: {connections.problem}",) if connections.problem else ()
    )
    return _Converted(connections.shortened, missing)
