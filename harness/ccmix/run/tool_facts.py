"""Holds what a run's traffic tool reports about itself."""

from dataclasses import dataclass

from ccmix.model import Command, PschedulerFacts


@dataclass(frozen=True)
class ToolFacts:
    """Describes the tool that made the traffic of a run between hosts."""

    generator: str  # 'iperf3', 'pscheduler', or the kind of result that the user's command printed
    version: str  # '' if unknown
    commands: tuple[Command, ...]
    pscheduler: PschedulerFacts | None = None
    settled_after_s: float | None = None  # measured time of a run that was ended since it had settled
