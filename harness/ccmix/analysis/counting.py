"""Decides which runs tables count."""

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
