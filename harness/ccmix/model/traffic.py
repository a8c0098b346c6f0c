"""Describes the traffic of a run: its sources (iperf3, HTTP, ...), and its times."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ccmix.model.group_grammar import DEFAULT_CCA, Group

PACKETS_MOST_INTERVAL_S = 0.1
IPERF3_LEAST_INTERVAL_S = 0.01  # of the patched iperf3; only the probes can use shorter ones
BETWEEN_HOSTS = (
    "src"  # the sending host of a source between hosts; on an emulated path senders have names
)


@dataclass(frozen=True)
class PschedulerTask:
    """Describes the task for pScheduler that makes a run's traffic; hosts have the names that
    pScheduler knows.
    """

    lead: str  # 'HOST[:PORT]', to which the task is posted
    source: str | None  # None: the lead
    observed: bool  # whether ccmix has a shell on the source, HostPath.src
    tool: str | None  # None: pScheduler's choice
    slip_s: float  # how much later than requested the run may start
    wait_s: float  # maximum time until the run begins
    priority: int | None = None
    repeat_s: float | None = None  # the task's runs are the iterations; None: a task for each
    most_runs: int = 1  # of a repeated task
    tls_ca: str | None = (
        None  # PEM file of trusted certificates; None: those that this machine trusts
    )
    spec: tuple[tuple[str, str], ...] = ()  # further fields of the test, with values in JSON


@dataclass(frozen=True)
class RttProbe:
    """Describes the probe that measures RTTs under load. It sends questions to the receiver,
    `rate_hz` per second: ICMP echo requests, or SYNs to `tcp_port` if that is not None.
    """

    rate_hz: int
    tcp_port: int | None = None

    def __str__(self) -> str:
        """Returns the probe as written in an INI file: 'icmp@10' (10 a second), 'tcp:22@10'."""
        return f"{'icmp' if self.tcp_port is None else f'tcp:{self.tcp_port}'}@{self.rate_hz}"


@dataclass(frozen=True)
class _Source:
    """Holds the fields of all traffic sources. The source sends on `host`, from `start_s` after the
    start of the traffic until the end of the traffic.

    A source that is configured by the key flows.NAME has this `name`. A source that the entry's
    other keys describe has the name ''.
    """

    name: str
    host: str
    start_s: float = field(default=0.0, kw_only=True)

    @property
    def label(self) -> str:
        """A name for the source's files: 'HOST', or 'NAME.HOST' if the source has a name. It is
        unique in a run, because neither NAME nor HOST has a dot.
        """
        return f"{self.name}.{self.host}" if self.name else self.host


@dataclass(frozen=True)
class Iperf3Source(_Source):
    """Describes a test of ccmix's own iperf3. Its streams are distributed to the groups according
    to the groups' weights.
    """

    groups: tuple[Group, ...]
    streams: int
    kind: Literal["iperf3"] = "iperf3"


@dataclass(frozen=True)
class UdpSource(_Source):
    """Describes UDP at a constant rate, by iperf3."""

    rate_bps: float  # of each stream
    streams: int
    kind: Literal["udp"] = "udp"


@dataclass(frozen=True)
class HttpSource(_Source):
    """Describes clients that fetch files from a server on the sending host. Each file is fetched
    over a connection of its own.
    """

    requests: int
    size_bytes: int
    parallel: int  # clients, each with one request after the other
    cca: str
    kind: Literal["http"] = "http"

    @property
    def requests_of_clients(self) -> tuple[int, ...]:
        """How many requests each of the parallel clients makes. If they can't be divided equally,
        the first clients make one more than the others.
        """
        requests_each, one_more = divmod(self.requests, self.parallel)
        return tuple(requests_each + (number < one_more) for number in range(self.parallel))


@dataclass(frozen=True)
class WorkloadSource(_Source):
    """Describes flows that arrive at random times (a Poisson process), with sizes drawn from a
    distribution.

    `distribution` is its name, or the name of a file. `sizes` are its points: a number of bytes,
    and the share of flows that have at most this number.
    """

    distribution: str
    sizes: tuple[tuple[float, float], ...]
    offered_bps: float
    cca: str
    kind: Literal["workload"] = "workload"


@dataclass(frozen=True)
class CommandSource(_Source):
    """Describes a shell line of the user. It is a line of the key flows.NAME, as written, or the
    key src-cmd, with {dst} replaced.

    If a src-cmd is `kept`, it runs on from run to run.
    """

    line: str
    kept: bool = False
    kind: Literal["command"] = "command"


@dataclass(frozen=True)
class PathSource(_Source):
    """Describes the steps (tests that send in different ways, one after the other) that measure a
    path. They never send faster than `most_bps`.
    """

    most_bps: float
    kind: Literal["path"] = "path"


@dataclass(frozen=True)
class PschedulerSource(_Source):
    """Describes a throughput test that pScheduler carries out. Its streams are distributed to the
    groups.
    """

    groups: tuple[Group, ...]
    streams: int
    task: PschedulerTask
    kind: Literal["pscheduler"] = "pscheduler"


@dataclass(frozen=True)
class ImportedSource(_Source):
    """Describes TCP flows of an imported run, which ccmix did not make, as far as their result
    reports them.
    """

    groups: tuple[Group, ...]
    streams: int | None  # None: not reported
    kind: Literal["imported"] = "imported"


TrafficSource = (
    Iperf3Source
    | UdpSource
    | HttpSource
    | WorkloadSource
    | CommandSource
    | PathSource
    | PschedulerSource
    | ImportedSource
)
GroupedSource = Iperf3Source | PschedulerSource | ImportedSource
"""A source that gives its streams to groups."""


@dataclass(frozen=True)
class Traffic:
    """Describes the traffic of a run: its sources, in the order of the INI file, and its times.

    The entry's own keys (cca, streams, src-cmd) describe one source without a name for each sender.
    In an entry with keys flows.NAME, these describe the sources instead. If both describe traffic,
    the first source is the test, without a name, and all other sources are cross traffic.
    """

    sources: tuple[TrafficSource, ...]
    duration_s: (
        float | None
    )  # measured time; None: a command, or an import, doesn't say how long it takes
    omit_s: float  # time before the measured time, which metrics leave out
    interval_s: float
    pacing_bps: float | None = None  # of each flow, by fq on the sending device
    rtt_probe: RttProbe | None = None
    at_most_s: float | None = None
    """The limit of a run that ends once it has settled; duration_s is the same until the run has
    been measured.
    """

    @property
    def seconds(self) -> float | None:
        """The length of the traffic, including the omitted time; None if it is not known."""
        return None if self.duration_s is None else self.omit_s + self.duration_s

    @property
    def goodput_interval_s(self) -> float:
        """The interval for which goodput is computed, in seconds. It may be longer than the
        interval of the probes, because iperf3 can't report as often.
        """
        return max(self.interval_s, IPERF3_LEAST_INTERVAL_S)

    @property
    def packets_interval_s(self) -> float:
        """The interval of the rows of packets.parquet, in seconds: at most 0.1 s, because a longer
        one would lose detail of the capture.
        """
        return min(self.interval_s, PACKETS_MOST_INTERVAL_S)

    @property
    def measured_s(self) -> float:
        """The measured time in seconds. Calling it for traffic whose duration is not known is a
        bug.
        """
        assert self.duration_s is not None
        return self.duration_s

    @property
    def total_s(self) -> float:
        """The omitted and the measured time in seconds. Calling it for traffic of unknown duration
        is a bug.
        """
        return self.omit_s + self.measured_s

    @property
    def named_sources(self) -> tuple[TrafficSource, ...]:
        """The sources that keys flows.NAME describe."""
        return tuple(source for source in self.sources if source.name)

    @property
    def test(self) -> GroupedSource | None:
        """The source that the entry's own keys (cca, streams) describe: the traffic that the run
        studies. If there are several senders, it is the source on the first one. None without these
        keys.
        """
        first = self.sources[0]
        return first if isinstance(first, GroupedSource) and not first.name else None

    @property
    def cross_traffic(self) -> tuple[TrafficSource, ...]:
        """The sources that compete with the test, like other people's traffic on a real path.
        Without a test there is no cross traffic.
        """
        return self.named_sources if self.test else ()

    def paces(self, host: str) -> bool:
        """Returns whether fq on the device of a sender (emulated path) limits each flow to
        `pacing_bps`. If there is cross traffic, only the flows on the first source's host are
        limited.
        """
        return self.pacing_bps is not None and (
            not self.cross_traffic or host == self.sources[0].host
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of streams of the test (each with a CCA); none without a test."""
        return self.test.groups if self.test else ()

    @property
    def streams(self) -> int | None:
        """The number of streams of the test on each sender; None without a test, or if it is not
        reported.
        """
        return self.test.streams if self.test else None

    @property
    def command(self) -> CommandSource | None:
        """The user's own command (src-cmd) that makes the traffic; None if something else does."""
        first = self.sources[0]
        return first if isinstance(first, CommandSource) and not first.name else None

    @property
    def by_iperf3(self) -> bool:
        """Whether ccmix's own iperf3 makes the traffic that the entry's own keys describe: a test,
        or steps that measure the path.
        """
        return isinstance(self.test, Iperf3Source) or self.steps is not None

    @property
    def steps(self) -> PathSource | None:
        """The source whose steps measure the path; None if the run does not measure its path."""
        return next((source for source in self.sources if isinstance(source, PathSource)), None)

    @property
    def task(self) -> PschedulerTask | None:
        """The task for pScheduler; None if something else makes the traffic."""
        return self.test.task if isinstance(self.test, PschedulerSource) else None

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The groups of all sources."""
        grouped = (source.groups for source in self.sources if isinstance(source, GroupedSource))
        return tuple(itertools.chain.from_iterable(grouped))

    @property
    def starts_s(self) -> list[float]:
        """The times at which sources and their groups are to start, in seconds after the traffic
        begins. A group's delay counts from the start of its source.
        """
        grouped = [source for source in self.sources if isinstance(source, GroupedSource)]
        return [
            *(source.start_s for source in self.sources),
            *(source.start_s + group.delay_s for source in grouped for group in source.groups),
        ]

    @property
    def at_the_limit(self) -> "Traffic":
        """The traffic as requested. If a run is to end once it has settled, this has the maximum
        duration, although the traffic was shorter.
        """
        return self if self.at_most_s is None else replace(self, duration_s=self.at_most_s)

    def of_source(self, source: Iperf3Source | UdpSource) -> "Traffic":
        """Returns the traffic from the point of view of one source's iperf3: only this source,
        which starts at time 0, with the omitted and the measured time that remain after its start.
        """
        measured_from_s = max(source.start_s, self.omit_s)
        only_source = replace(source, name="", start_s=0.0)
        return replace(
            self,
            sources=(only_source,),
            omit_s=measured_from_s - source.start_s,
            duration_s=self.total_s - measured_from_s,
        )

    @property
    def ccas(self) -> frozenset[str]:
        """All CCAs that the senders' kernels must have. '-' is left out: it stands for the system's
        default, which each kernel has.
        """
        names = {group.cca for group in self.all_groups}
        names |= {
            source.cca for source in self.sources if isinstance(source, HttpSource | WorkloadSource)
        }
        return frozenset(names - {DEFAULT_CCA})

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the test's groups in tables; () without a test."""
        return group_names(self.groups)


def group_names(groups: Sequence[Group]) -> tuple[str, ...]:
    """Returns a name for each group in tables. It is the group's CCA if no other group has it
    ('bbr'), otherwise the whole group as written ('bbr:2'). Equal groups are numbered ('bbr:2 #1').
    """
    ccas = [group.cca for group in groups]
    texts = [str(group) for group in groups]
    names = []
    for index, (cca, text) in enumerate(zip(ccas, texts, strict=True)):
        number = f" #{texts[:index].count(text) + 1}" if texts.count(text) > 1 else ""
        names.append(cca if ccas.count(cca) == 1 else text + number)
    return tuple(names)
