"""Collects the findings on a host, also of checks that break off."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ccmix.doctor.findings import DoctorFinding, Status
from ccmix.hosts import CommandError

T = TypeVar("T")


@dataclass
class Report:
    """Holds the findings on a host; `uid` is None if nobody could log in."""

    host: str
    uid: int | None = None
    findings: list[DoctorFinding] = field(default_factory=list)

    def check(self, what: str, judge: Callable[[], Iterable[DoctorFinding]]) -> None:
        """Adds the findings of a check; adds that it is unknown if the host doesn't answer, or its answer is not
        understood.
        """
        self.read(what, lambda: self.findings.extend(judge()))

    def read(self, what: str, ask: Callable[[], T], needed: str = "", mend: tuple[str, ...] = ()) -> T | None:
        """Returns the host's answer; without one, returns None, and the reason becomes a finding.

        `needed`: why nothing works without the answer, so that its lack is a failure; `mend` shows it (no root).
        """
        try:
            return ask()
        except CommandError as error:
            reason = error.reason
        except (ValueError, OSError) as error:
            reason = str(error)
        status = Status.FAIL if needed else Status.UNKNOWN
        self.findings.append(DoctorFinding(what, status, reason, needed, mend, root=False))
        return None


@dataclass(frozen=True)
class Seen:
    """Describes what the source measured towards a destination."""

    rtt_s: float | None
    speed_bps: float | None
    addresses: tuple[str, ...]


def failed(reports: Sequence[Report]) -> bool:
    """Returns whether anything must be mended before the entries run."""
    return any(finding.status is Status.FAIL for report in reports for finding in report.findings)
