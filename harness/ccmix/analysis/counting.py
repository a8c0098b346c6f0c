"""Decides which runs tables count."""

from collections.abc import Collection
from dataclasses import replace

from ccmix.model.results import FinishedRun
from ccmix.terms import IMPORTED


def imported(finished: FinishedRun) -> bool:
    """Returns whether somebody else measured the run, so that no probe of ccmix's could look."""
    return any(finding.kind == IMPORTED for finding in finished.verdict.findings)


def counts(finished: FinishedRun) -> bool:
    """Returns whether tables count the run.

    Valid runs count, and so do imported ones, unless their own data show that they were limited: whoever imported them
    wants to see them, though their validity is unknown.
    """
    status = finished.verdict.status
    return status == "valid" or (status == "unknown" and imported(finished))


def accepting(finished: FinishedRun, kinds: Collection[str]) -> FinishedRun:
    """Returns the run with the verdict of an entry that accepts these kinds of findings, too."""
    findings = tuple(replace(each, accepted=each.accepted or each.kind in kinds) for each in finished.verdict.findings)
    verdict = replace(finished.verdict, findings=findings)
    if not verdict.reasons:
        verdict = replace(verdict, status="unknown" if imported(finished) else "valid")
    return replace(finished, verdict=verdict)
