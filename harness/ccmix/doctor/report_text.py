"""Writes the doctor's findings as a table for people and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from ccmix.doctor.findings import DoctorFinding, Status, plain, to_run
from ccmix.doctor.report import Report

INDENT = " " * 9


def to_json(reports: Sequence[Report]) -> str:
    """Returns a list of hosts, each with its checks."""
    return json.dumps(
        [
            {"host": report.host, "checks": [_record(report, finding) for finding in report.findings]}
            for report in reports
        ],
        indent=1,
    )


def render(reports: Iterable[Report]) -> str:
    """Returns a block for each host: a line for a check, below it why it matters and what mends it."""
    blocks = []
    for report in reports:
        if not report.findings:
            continue
        width = max(len(finding.check) for finding in report.findings)
        lines = [report.host]
        for finding in report.findings:
            lines.append(f"  {finding.status.value:<8}{plain(finding.check):<{width}}  {plain(finding.seen)}".rstrip())
            if finding.status is not Status.OK:
                lines += [f"{INDENT}{plain(finding.why)}"] if finding.why else []
                lines += [f"{INDENT}$ {command}" for command in _mend(report, finding)]
                lines += [f"{INDENT}or: {command}" for command in _instead(report, finding)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def summary(reports: Iterable[Report]) -> str:
    """Returns the counts of each status, as in '2 fail, 1 warn, 20 ok'."""
    counts = Counter(finding.status for report in reports for finding in report.findings)
    order = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)
    return ", ".join(f"{counts[status]} {status.value}" for status in order if counts[status]) or "nothing to check"


def _record(report: Report, finding: DoctorFinding) -> dict[str, str | list[str]]:
    return {
        "check": plain(finding.check),
        "status": finding.status.value,
        "seen": plain(finding.seen),
        "why": plain(finding.why),
        "mend": _mend(report, finding),
        "instead": _instead(report, finding),
    }


def _mend(report: Report, finding: DoctorFinding) -> list[str]:
    return to_run(finding.mend, report.host, report.uid, finding.root)


def _instead(report: Report, finding: DoctorFinding) -> list[str]:
    return to_run(finding.instead, report.host, report.uid, finding.root)
