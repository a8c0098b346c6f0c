"""What a run's generator is asked for."""

import itertools
from dataclasses import dataclass, replace

DEFAULT_CCA = "-"  # the system's default, in the group grammar


@dataclass(frozen=True)
class Group:
    """Streams of an iperf3 test that share CCA, pacing rate and start, `CCA[:WEIGHT][@RATE][+DELAY]` (iperf3-patch).

    Which CCA '-' comes to is known after the run only.
    """

    cca: str
    weight: int = 1
    pacing_bps: float | None = None  # of each stream, by its socket (SO_MAX_PACING_RATE)
    delay_s: float = 0.0  # from the start of the traffic, the omitted time included

    def __str__(self) -> str:
        """As the patched iperf3 reads it; one name alone stays one name alone."""
        weight = f":{self.weight}" if self.weight != 1 else ""
        pacing = f"@{self.pacing_bps:.0f}" if self.pacing_bps is not None else ""
        delay = f"+{self.delay_s:g}s" if self.delay_s else ""
        return f"{self.cca}{weight}{pacing}{delay}"


@dataclass(frozen=True)
class RttProbe:
    """Questions to the receiver beside the traffic: by ICMP echo, or by TCP where there is a port."""

    rate_hz: int
    tcp_port: int | None = None


@dataclass(frozen=True)
class Iperf3Flows:
    """A test of the patched iperf3; `streams` is the sum of the groups' weights."""

    groups: tuple[Group, ...]
    streams: int


@dataclass(frozen=True)
class UdpFlows:
    """UDP at a constant rate, by iperf3."""

    rate_bps: float  # of each stream
    udp_streams: int


@dataclass(frozen=True)
class HttpFlows:
    """Files fetched from a server on the sending host, each over a connection of its own."""

    requests: int
    size_bytes: int
    parallel: int  # clients, each with one request after the other
    http_cca: str

    @property
    def requests_of_clients(self) -> tuple[int, ...]:
        each, more = divmod(self.requests, self.parallel)
        return tuple(each + (number < more) for number in range(self.parallel))


@dataclass(frozen=True)
class WorkloadFlows:
    """Flows whose sizes are drawn from a distribution, and that arrive as a Poisson process.

    `distribution` is a name, or that of a file; `sizes` are its points: bytes, and the share of flows of at most that.
    """

    distribution: str
    sizes: tuple[tuple[float, float], ...]
    offered_bps: float
    workload_cca: str


@dataclass(frozen=True)
class CommandFlows:
    """A shell line of the user's; {dst} was not replaced yet."""

    line: str


@dataclass(frozen=True)
class Flows:
    """What one line of an entry, flows.NAME, asks of one host. `start_s` counts from the start of the traffic."""

    name: str
    host: str
    what: Iperf3Flows | UdpFlows | HttpFlows | WorkloadFlows | CommandFlows
    start_s: float = 0.0

    @property
    def label(self) -> str:
        """For files: unique within a run, since neither name has a dot."""
        return f"{self.name}.{self.host}" if self.name else self.host


@dataclass(frozen=True)
class Traffic:
    """What is asked for in numbers. `groups` share the `streams` of one iperf3 test by their weights, on each sender.

    Where an entry has lines of `flows`, those decide: groups is empty, and streams is 0.

    Where the user gave the command (src-cmd), that decides: groups is empty, streams is 0, and `duration_s` is what the
    command is expected to take, 0 where nothing tells.
    """

    groups: tuple[Group, ...]
    streams: int
    duration_s: float
    omit_s: float
    interval_s: float
    pacing_bps: float | None = None  # of each flow, by fq on the sending device
    rtt_probe: RttProbe | None = None
    flows: tuple[Flows, ...] = ()

    @property
    def seconds(self) -> float:
        """Of traffic; 0 where nothing tells."""
        return self.omit_s + self.duration_s

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """Those of the whole test, or of all lines."""
        of_lines = (line.what.groups for line in self.flows if isinstance(line.what, Iperf3Flows))
        return (*self.groups, *itertools.chain.from_iterable(of_lines))

    def of_line(self, line: Flows) -> "Traffic":
        """What iperf3 is asked for a line that it makes, from the line's start to the end of the measured time.

        UDP has no groups.
        """
        measured_s = max(line.start_s, self.omit_s)
        own = replace(self, flows=(), omit_s=measured_s - line.start_s, duration_s=self.seconds - measured_s)
        if isinstance(line.what, UdpFlows):
            return replace(own, groups=(), streams=line.what.udp_streams)
        assert isinstance(line.what, Iperf3Flows)
        return replace(own, groups=line.what.groups, streams=line.what.streams)

    @property
    def ccas(self) -> frozenset[str]:
        """All that the senders' kernels must have."""
        asked = {group.cca for group in self.all_groups}
        for line in self.flows:
            match line.what:
                case HttpFlows(http_cca=cca) | WorkloadFlows(workload_cca=cca):
                    asked.add(cca)
        return frozenset(asked - {DEFAULT_CCA})

    @property
    def group_names(self) -> tuple[str, ...]:
        """For tables, one a group: its CCA where no other group has it, else all of it, with a number where alike."""
        ccas = [group.cca for group in self.groups]
        specs = [str(group) for group in self.groups]
        names = []
        for at, (cca, spec) in enumerate(zip(ccas, specs, strict=True)):
            alike = f" #{specs[:at].count(spec) + 1}" if specs.count(spec) > 1 else ""
            names.append(cca if ccas.count(cca) == 1 else spec + alike)
        return tuple(names)


def streams_of_groups(groups: tuple[Group, ...], streams: int) -> list[int]:
    """How many of the streams each group gets: smooth weighted round robin, as the patched iperf3 deals them out."""
    credits, dealt = [0] * len(groups), [0] * len(groups)
    for _ in range(streams):
        credits = [credit + group.weight for credit, group in zip(credits, groups, strict=True)]
        chosen = credits.index(max(credits))
        credits[chosen] -= sum(group.weight for group in groups)
        dealt[chosen] += 1
    return dealt
