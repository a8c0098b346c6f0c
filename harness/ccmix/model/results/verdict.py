"""The verdict on a run: whether the path and the CCA limited it, and not the hosts or the harness."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["valid", "limited", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One reason why a run is not valid."""

    kind: str  # a key of terms.LIMITS
    detail: str
    accepted: bool  # by the entry's accept-limits, which leaves the run valid


@dataclass(frozen=True)
class Verdict:
    """The status is 'limited' if something else than path and CCA limited the run, 'unknown' if no probe could look."""

    status: Status
    findings: tuple[Finding, ...] = ()
    not_verified: tuple[str, ...] = ()  # sentences: what was configured and no observation of this run could show

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Returns the findings that the entry does not accept."""
        return tuple(finding for finding in self.findings if not finding.accepted)
