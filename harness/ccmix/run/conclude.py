"""The raw files of a measured run to its tables, metrics and verdict; and with run.json written, a finished run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polars.exceptions import PolarsError

from ccmix import archive
from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.tables import as_measured, read_tables
from ccmix.analysis.validity import judge
from ccmix.archive import parquet
from ccmix.generators.results import GeneratorError
from ccmix.model import Run
from ccmix.probes import capflow
from ccmix.probes.capture import FILE as CAPTURE
from ccmix.tools import ToolError

# What reading a file that its tool did not write, or not to the end, may raise
NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, PolarsError)
FACTS = (
    "kernel", "kernel_version", "iperf3", "sysctls", "commands", "generator", "hosts", "device", "capture", "probes",
    "pscheduler", "offloads",
)  # fmt: skip


def conclude(run: Run, folder: archive.RunFolder, where: dict[str, Any]) -> dict[str, Any]:
    """Returns run.json's content; `where` says on what machine and how long the run took.

    Raises GeneratorError where a raw file can't be understood.
    """
    try:
        facts = json.loads((folder.partial / "facts.json").read_text())
        measured = as_measured(run, folder.partial)
        tables = read_tables(measured, folder.partial)
        tables.write(folder.partial)
        facts["probes"] |= tables.series.probes
        notices = [*where.get("notices", ()), *facts.get("notices", ()), *tables.series.notices]
        summary = {
            "run": run.to_json(),
            "where": where | {"notices": [*notices, *_packets(folder.partial)]},
            "facts": {key: facts[key] for key in FACTS if key in facts},
            "started_s": facts["started_s"],
            "began_s": tables.began_s,
            "ended_s": facts["ended_s"],
            "ping_rtt_s": facts["ping_rtt_s"],
            "metrics": run_metrics(measured, tables, facts),
            "validity": judge(measured, tables, facts).to_json(),
        }
    except NOT_UNDERSTOOD as error:
        raise GeneratorError(f"{folder.partial}: a raw file can't be understood: {error!r}") from error
    folder.finish(summary)
    return summary


def _packets(folder: Path) -> Iterator[str]:
    """What packets.parquet and connections.parquet say of a capture, where there is one; why they can't, or not all."""
    capture = folder / CAPTURE
    if not capture.exists():
        return
    try:
        packets, connections = capflow.convert(capture)
    except (capflow.CaptureError, ToolError) as error:
        yield f"the capture was not looked into: {error}"
        return
    parquet.write(packets, folder / "packets.parquet")
    parquet.write(connections.table, folder / "connections.parquet")
    if connections.problem:
        yield f"the capture's end is missing: {connections.problem}"
