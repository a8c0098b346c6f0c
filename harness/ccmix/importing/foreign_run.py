"""Describes what the readers of all kinds of sources return: runs, with all that is known about each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ccmix.analysis.tables import RunTables
from ccmix.archive import ArchiveError
from ccmix.importing.json_types import Object
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA


class SourceError(ArchiveError):
    """Says that a source can't be read as what it seems to be; names file and line, and what to do."""


@dataclass(frozen=True)
class GroupSums:
    """Holds a summary's values of a whole group; `goodput_bps` is the sender's rate if `goodput_estimated`."""

    cca: str
    streams: int
    goodput_bps: float
    throughput_bps: float | None = None
    retransmission_rate: float | None = None
    rtt_median_s: float | None = None
    goodput_estimated: bool = False


@dataclass(frozen=True)
class ForeignRun:
    """Describes a run that a source reports. None, 0 and empty mean that the source does not report the value.

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
    bitrate_bps: float | None = None  # of each TCP stream, to which iperf3's -b holds it
    options: Mapping[str, str] = field(default_factory=dict)  # further known settings of the test, by their names
    unclear: Mapping[str, str] = field(default_factory=dict)  # columns that may be settings or results
    ended_early: str = ""  # after how much of its time; empty: it ran to its end
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
    kernel: str | None = None  # release, of the sending host
    version: str = ""  # of iperf3
    rate_bps: float | None = None  # of the bottleneck
    of_name: Mapping[str, str] = field(default_factory=dict)  # what the source's name says, by fields of --name-pattern
    not_known: tuple[str, ...] = ()  # what can't be known of the runs of its condition together
    details: Object = field(default_factory=dict)  # what the source has besides, as its JSON or its columns
    missing: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    document: Object | None = None  # of a test of iperf3, to join it with that of its other end


@dataclass(frozen=True)
class LeftOut:
    """Names a result that can't become a run, and says why."""

    source: str
    why: str
