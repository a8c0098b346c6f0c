"""A task of pScheduler."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PschedulerTask:
    """Describes how pScheduler is asked for a run's traffic; hosts are named as pScheduler knows them."""

    lead: str  # 'HOST[:PORT]', to which the task is posted
    source: str | None  # None: the lead
    observed: bool  # whether ccmix has a shell on the source, HostPath.src
    tool: str | None  # None: pScheduler's choice
    slip_s: float  # by how much the start may be later than asked for
    wait_s: float  # most time until the run begins
    priority: int | None = None
    repeat_s: float | None = None  # the task's runs are the iterations; None: a task for each
    most_runs: int = 1  # of a repeated task
    tls_ca: str | None = None  # PEM file of what is trusted; None: what this machine trusts
    spec: tuple[tuple[str, str], ...] = ()  # further fields of the test, with values in JSON
