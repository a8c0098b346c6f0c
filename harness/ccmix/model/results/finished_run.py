"""A finished run: what was asked for, how it was executed, what was observed, and what follows from it."""

from dataclasses import dataclass
from typing import Literal

from ccmix.model.facts import Facts
from ccmix.model.measurement import PingRtts
from ccmix.model.results.metrics import Metrics
from ccmix.model.results.verdict import Verdict
from ccmix.model.run import Run

MachineKind = Literal["lab", "namespaces", "hosts", "imported"]


@dataclass(frozen=True)
class Execution:
    """Says where and when a run was executed."""

    machine: MachineKind  # a guest of the lab, namespaces of this machine, real hosts, or somebody else's
    real_seconds: float | None = None
    memory_bytes: int | None = None  # of the guest
    measured_s: float | None = None  # wall clock at the end, in seconds since 1970
    retries: tuple[str, ...] = ()  # the reason of each failed try
    ccmix: str | None = None  # its version; a resumed campaign may have runs of several. None: not recorded
    diagnostics: tuple[str, ...] = ()  # what a reader should know, though it does not make the run invalid
    # How the guest was confined on the host: 'landlock ABI', 'namespaces', or 'none: REASONS'; None: no guest, or older
    confinement: str | None = None
    # SHA-256 of the manifest of the installed package that made the run; None: a clone, the Debian package, or older
    package: str | None = None


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run with its results. Times are of the wall clock (in the lab the guest's), in seconds since 1970."""

    run: Run
    execution: Execution
    facts: Facts
    started_s: float | None  # None: an imported run whose source reports no times
    began_s: float | None  # when the traffic began
    ended_s: float | None
    settled_after_s: float | None = None  # measured time of a run that was ended since it had settled
    ping_rtt_s: PingRtts
    metrics: Metrics
    verdict: Verdict
