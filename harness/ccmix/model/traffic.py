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
    """Describes the questions to the receiver that measure RTTs under load: by ICMP echo, or by TCP
    if there is a port.
    """

    rate_hz: int
    tcp_port: int | None = None

    def __str__(self) -> str:
        """Returns the probe as written in an INI file: 'icmp@10' (10 a second), 'tcp:22@10'."""
        return f"{'icmp' if self.tcp_port is None else f'tcp:{self.tcp_port}'}@{self.rate_hz}"


@dataclass(frozen=True)
class _Source:
    """Holds the fields of all traffic sources.

    `name` comes from the key flows.NAME; it is '' for a source that the entry's other keys
    describe. The source sends on `host`, from `start_s` after the start of the traffic until the
    end of the traffic.
    """

    name: str
    host: str
    start_s: float = field(default=0.0, kw_only=True)

    @property
    def label(self) -> str:
        """A name for the source's files, unique within a run: 'HOST' or 'NAME.HOST'. Neither has a
        dot.
        """
        return f"{self.name}.{self.host}" if self.name else self.host


@dataclass(frozen=True)
class Iperf3Source(_Source):
    """Describes a test of ccmix's own iperf3. Its streams are given to the groups in turn,
    according to their weights.
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
    """Describes files that clients fetch from a server on the sending host, each over its own
    connection.
    """

    requests: int
    size_bytes: int
    parallel: int  # clients, each with one request after the other
    cca: str
    kind: Literal["http"] = "http"

    @property
    def requests_of_clients(self) -> tuple[int, ...]:
        """How many requests each parallel client makes: as equal as possible, the first ones one
        more.
        """
        requests_each, one_more = divmod(self.requests, self.parallel)
        return tuple(requests_each + (number < one_more) for number in range(self.parallel))


@dataclass(frozen=True)
class WorkloadSource(_Source):
    """Describes flows whose sizes are drawn from a distribution, and that arrive as a Poisson
    process.

    `distribution` is the name of a distribution or of a file; `sizes` are its points: a number of
    bytes, and the share of flows that have at most this number.
    """

    distribution: str
    sizes: tuple[tuple[float, float], ...]
    offered_bps: float
    cca: str
    kind: Literal["workload"] = "workload"


@dataclass(frozen=True)
class CommandSource(_Source):
    """Describes a shell line of the user: a line of flows.NAME, with {dst} as written, or src-cmd,
    with {dst} replaced.

    A `kept` src-cmd continues from run to run.
    """

    line: str
    kept: bool = False
    kind: Literal["command"] = "command"


@dataclass(frozen=True)
class PathSource(_Source):
    """Describes the steps that measure a path, one after the other; they never send faster than
    `most_bps`.
    """

    most_bps: float
    kind: Literal["path"] = "path"


@dataclass(frozen=True)
class PschedulerSource(_Source):
    """Describes a throughput test that pScheduler carries out; it gives the streams to the
    groups.
    """

    groups: tuple[Group, ...]
    streams: int
    task: PschedulerTask
    kind: Literal["pscheduler"] = "pscheduler"


@dataclass(frozen=True)
class ImportedSource(_Source):
    """Describes TCP flows that ccmix did not make, as far as their result reports them."""

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
    omit_s: float  # before that, left out
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
        """The interval for which goodput is computed, in seconds: iperf3 can't report as often as
        probes sample.
        """
        return max(self.interval_s, IPERF3_LEAST_INTERVAL_S)

    @property
    def packets_interval_s(self) -> float:
        """The interval of packets.parquet, at most 0.1 s: a longer one would lose detail of the
        capture.
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
        """The source that the entry's own keys (cca, streams) describe, on the first of its
        senders: the studied traffic. None without these keys.
        """
        first = self.sources[0]
        return first if isinstance(first, GroupedSource) and not first.name else None

    @property
    def cross_traffic(self) -> tuple[TrafficSource, ...]:
        """The sources that compete with the test, like other people's traffic on a real path; none
        without a test.
        """
        return self.named_sources if self.test else ()

    def paces(self, host: str) -> bool:
        """Returns whether fq limits each flow of a sender (emulated path) to `pacing_bps`. Of cross
        traffic, only that on the host of the test is limited.
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
        """Whether ccmix's own iperf3 makes the traffic that the entry's own keys describe."""
        return isinstance(self.test, Iperf3Source) or self.steps is not None

    @property
    def steps(self) -> PathSource | None:
        """The steps that measure the path, in a run that measures its path; otherwise None."""
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
    def at_the_limit(self) -> "Traffic":
        """The traffic as it was requested: with the maximum duration, although a run that settles
        ends earlier.
        """
        return self if self.at_most_s is None else replace(self, duration_s=self.at_most_s)

    def of_source(self, source: Iperf3Source | UdpSource) -> "Traffic":
        """Returns the traffic as one source's iperf3 sees it: only this source, with times that
        count from its own start to the end of the run.
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
        """All CCAs that the senders' kernels must have, without the system's default."""
        names = {group.cca for group in self.all_groups}
        names |= {
            source.cca for source in self.sources if isinstance(source, HttpSource | WorkloadSource)
        }
        return frozenset(names - {DEFAULT_CCA})

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the one test's groups in tables."""
        return group_names(self.groups)


def group_names(groups: Sequence[Group]) -> tuple[str, ...]:
    """Returns a name for each group in tables: its CCA if no other group has it ('bbr'), otherwise
    the whole group ('bbr:2'), with a number if several are equal ('bbr:2 #1').
    """
    ccas = [group.cca for group in groups]
    texts = [str(group) for group in groups]
    names = []
    for index, (cca, text) in enumerate(zip(ccas, texts, strict=True)):
        number = f" #{texts[:index].count(text) + 1}" if texts.count(text) > 1 else ""
        names.append(cca if ccas.count(cca) == 1 else text + number)
    return tuple(names)
