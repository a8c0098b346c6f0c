"""What was found on a host, and how a check that breaks off is told."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ccmix.doctor.findings import Finding, Status
from ccmix.hosts import CommandError

T = TypeVar("T")


@dataclass
class Report:
    """`uid` None where nobody could log in."""

    host: str
    uid: int | None = None
    findings: list[Finding] = field(default_factory=list)

    def check(self, what: str, judge: Callable[[], Iterable[Finding]]) -> None:
        """What the check finds; that it is unknown where the host doesn't say, or says what nobody understands."""
        self.read(what, lambda: self.findings.extend(judge()))

    def read(self, what: str, ask: Callable[[], T], needed: str = "", mend: tuple[str, ...] = ()) -> T | None:
        """What the host says; where it doesn't, None, and the reason becomes a finding.

        `needed`: why nothing works without the answer, so that its lack is a failure; `mend` shows it (no root).
        """
        try:
            return ask()
        except CommandError as error:
            reason = error.reason
        except (ValueError, OSError) as error:
            reason = str(error)
        status = Status.FAIL if needed else Status.UNKNOWN
        self.findings.append(Finding(what, status, reason, needed, mend, root=False))
        return None


@dataclass(frozen=True)
class Seen:
    """What the source saw of a way."""

    rtt_s: float | None
    speed_bps: float | None
    addresses: tuple[str, ...]


def failed(reports: Sequence[Report]) -> bool:
    """Whether anything must be mended before the entries run."""
    return any(finding.status is Status.FAIL for report in reports for finding in report.findings)
