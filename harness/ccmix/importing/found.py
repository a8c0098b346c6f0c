"""What the readers of all kinds of sources find in them: runs, with all that is known of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ccmix.analysis.tables import RunTables
from ccmix.archive import ArchiveError
from ccmix.model import Group
from ccmix.model.traffic import DEFAULT_CCA


class SourceError(ArchiveError):
    """A source that can't be read as what it seems to be; the message names file and line, and says what to do."""


@dataclass(frozen=True)
class Told:
    """What the user tells of all runs, since their sources don't; None: nothing.

    `settings` are the columns of tables that are settings and not results.
    """

    entry: str | None = None
    src: str | None = None
    dst: str | None = None
    base_rtt_s: float | None = None
    rate_bps: float | None = None
    cca: str | None = None
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupSums:
    """What a summary says of a group as a whole; `goodput_bps` is the sender's rate where `goodput_estimated`."""

    cca: str
    streams: int
    goodput_bps: float
    throughput_bps: float | None = None
    retransmission_rate: float | None = None
    rtt_median_s: float | None = None
    goodput_estimated: bool = False


@dataclass(frozen=True)
class Found:
    """A run that a source tells of. None, 0 and empty: the source doesn't say.

    `results` are a summary's groups, or tables as those of a measured run. `missing` says in sentences what a run of
    ccmix has and this one hasn't, `estimated` names metrics that stand for others. `raw` are files for the run's
    generators/.
    """

    kind: str  # a key of kinds.KINDS
    source: str  # file, and line or number within it, as in messages
    results: tuple[GroupSums, ...] | RunTables
    groups: tuple[Group, ...] = (Group(DEFAULT_CCA),)
    streams: int = 0
    udp_bps: float | None = None  # of each stream; None: TCP
    entry: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    src: str | None = None
    dst: str | None = None
    dst_address: str | None = None
    duration_s: float = 0.0
    omit_s: float = 0.0
    interval_s: float = 0.0
    pacing_bps: float | None = None
    began_s: float | None = None
    ended_s: float | None = None
    pings_s: tuple[float, ...] = ()
    base_rtt_s: float | None = None
    rtt_median_s: float | None = None  # of the run; only with a summary
    facts: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    document: Mapping[str, Any] | None = None  # of a test of iperf3, to join it with that of its other end


@dataclass(frozen=True)
class LeftOut:
    """A result that no run can be made of, and why."""

    source: str
    why: str
