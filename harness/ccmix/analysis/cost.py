"""Estimates what runs cost: real time on some processors, and memory.

`ccmix plan --cost`, the expected end that `ccmix run` shows, and the list of `ccmix reproduce` all
use this model.

A run in the lab takes processor time for its guest, mostly for the packets that cross the path, and
for the tables that ccmix makes. bench/cost.py fits the constants to runs, and says how to repeat
that. A run elsewhere takes as long as its traffic.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace

from ccmix.analysis.lengths import looks_s
from ccmix.analysis.size import written_bytes
from ccmix.generators.path_steps import (
    BURSTS_SHARE,
    FILL_SHARE,
    FILLING,
    FIRST_ABOVE,
    IDLE_SHARE,
    MOST_ABOVE,
    MOST_BELOW_PACKETS,
    OFTEN_A_SECOND,
    PART_BELOW,
    REACH_SHARE,
    TRAINS_SHARE,
    UDP_INTERVAL_S,
    above_s,
)
from ccmix.lab.host import guest_memory_bytes
from ccmix.model import (
    Group,
    GroupedSource,
    HttpSource,
    PathSource,
    Run,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.results import FinishedRun
from ccmix.terms import BBRS

LEAST_SEGMENTS, MOST_JOINED_BYTES = (
    2,
    65536,
)  # limits of the size that TCP sends at once with offloads (net/ipv4/tcp_output.c)
JOINED_S = 0.001  # a flow sends at once as much as its rate gives in this time
HEADERS_BYTES = 66  # of Ethernet, IP and TCP with timestamps
RENO_WINDOW, CUBIC_WINDOW = (
    1.22,
    1.054,
)  # constants of the mean window in packets: Mathis et al. 1997; RFC 9438, section 5.1
SETTLED_AT_A_LOOK = (
    2 / 3
)  # of the runs that have not yet settled: eight of twelve, and two of four, in the demo
TOGETHER = 0.5  # of the time for a single UDP packet, if iperf3 hands over several at once
OF_IPERF3 = 0.5  # of a sample, which is taken when iperf3 reports

OUTSIDE_LAB_S = 2.0  # beginning and end of a run that is made in real time
COMMAND_S, OF_REPORT_S = (
    2.5,
    0.007,
)  # the start of `ccmix run` with its report, and a run's part of it
# Of ten runs, by the blocks of the guest's memory file and the Pss of ccmix's processes: 1 to 100
# flows, 10 Mbit/s to 10 Gbit/s with 1 to 4 BDP, 0.2 to 81 MB of files
OF_GUEST_BYTES, OF_FLOW_BYTES, CACHED, JOINED_MEMORY = 42e6, 0.5e6, 1.3, 0.4
OF_COMMAND_BYTES, OF_TABLES_BYTES, OF_TABLES = (
    100e6,
    235e6,
    2.6,
)  # in addition to guests; OF_TABLES times the size of the files that tables are made from
# A run on a machine of two processors with a run on the other (bench/lab.py --only parallel)
SLOWER_BESIDE_OTHERS = 1.07


@dataclass(frozen=True)
class Work:
    """Holds the amounts of work of a run in the lab, in the order of the constants."""

    runs: float
    seconds: float  # of traffic
    samples: float  # how often the probes sample
    socket_samples: float  # samples of single sockets
    flows: float
    packets: float  # that cross the path one by one
    joined_packets: float  # that cross it joined to larger ones
    gigabytes: float
    datagrams: float  # of UDP, which iperf3 sends and receives one by one


GUEST = (
    0.315,
    0.00113,
    0.00072,
    3.79e-05,
    0.00131,
    2.47e-06,
    6.08e-06,
    0.0282,
    5.56e-05,
)  # seconds of a processor
TABLES = (0.0424, 0.000174, 1.97e-05, 8.79e-06, 0.00111, 0.0, 1.48e-08, 0.0, 0.0)


@dataclass(frozen=True)
class Cost:
    """Holds the cost of runs. Real time and memory are those of all runs together, with `jobs` at a
    time; `most_memory_bytes` is the limit of the guests.

    The times leave out `unknown` runs, whose duration is not known.
    """

    runs: int
    virtual_s: float
    real_s: float
    memory_bytes: int
    most_memory_bytes: int
    unknown: int = 0


def cost(runs: Sequence[Run], jobs: int, faster: float = 1.0) -> Cost:
    """Returns the cost of a campaign: of its runs on emulated paths in the lab, and of those
    between hosts, which are made one after the other. `faster` is the speed of this machine over
    that of the model's machine.
    """
    emulated = [run for run in runs if isinstance(run.path, Topology)]
    between_hosts = [run for run in runs if not isinstance(run.path, Topology)]
    in_lab_s = (
        together((run_seconds(run) or 0.0 for run in emulated), jobs) * slower_by(jobs) / faster
    )
    pauses_s = sum(run.host_path.pause_s for run in between_hosts[1:])
    elsewhere_s = sum(run_seconds(run) or 0.0 for run in between_hosts) + pauses_s
    used = heapq.nlargest(jobs, map(used_memory_bytes, emulated))
    tables = OF_TABLES_BYTES + OF_TABLES * max(
        (written_bytes(run) or 0 for run in emulated), default=0
    )
    return Cost(
        runs=len(runs),
        virtual_s=sum(expected_traffic_s(run) or 0.0 for run in runs),
        real_s=in_lab_s + elsewhere_s + (COMMAND_S + OF_REPORT_S * len(runs)) / faster
        if runs
        else 0.0,
        memory_bytes=round(max(OF_COMMAND_BYTES + sum(used), tables + sum(used[1:])))
        if emulated
        else 0,
        most_memory_bytes=sum(
            heapq.nlargest(jobs, (guest_memory_bytes(run.topology) for run in emulated))
        ),
        unknown=sum(run.seconds is None for run in runs),
    )


def used_memory_bytes(run: Run) -> int:
    """Returns the memory that the guest of a run uses, within its limit: for itself, for its flows,
    for data in flight and in queues, and for the files that it has written.
    """
    path = run.topology
    in_flight = (JOINED_MEMORY if path.offloads else 1.0) * (path.bdp_bytes + path.buffer_bytes)
    of_flows = OF_FLOW_BYTES * sum(_flows(run.traffic))
    used = OF_GUEST_BYTES + of_flows + in_flight + CACHED * (written_bytes(run) or 0)
    return round(min(used, guest_memory_bytes(path)))


def together(seconds: Iterable[float], jobs: int, busy: Iterable[float] = ()) -> float:
    """Returns how long runs take if they start in their order, each as soon as one of `jobs` places
    is free.

    `busy` are the seconds for which runs that have already started still occupy places.
    """
    free_at = heapq.nlargest(jobs, busy)
    free_at += [0.0] * (jobs - len(free_at))
    heapq.heapify(free_at)
    for each in seconds:
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)


def slower_by(jobs: int) -> float:
    """Returns the factor by which a run takes longer if other runs are made at the same time."""
    return SLOWER_BESIDE_OTHERS if jobs > 1 else 1.0


def times_as_fast(finished: Iterable[FinishedRun]) -> float:
    """Returns the speed of the machine that made these runs in the lab, over that of the model's
    machine; 1 without any runs.
    """
    expected_s = took_s = 0.0
    for each in finished:
        measured_s = each.execution.real_seconds
        if each.execution.machine == "lab" and measured_s and each.run.seconds is not None:
            expected_s += guest_seconds(_as_long_as_it_took(each))
            took_s += measured_s
    return expected_s / took_s if took_s else 1.0


def _as_long_as_it_took(finished: FinishedRun) -> Run:
    """Returns the run with its actual measured time, if it ended as soon as it had settled."""
    traffic = finished.run.traffic
    measured_s = (
        traffic.duration_s if finished.settled_after_s is None else finished.settled_after_s
    )
    return replace(finished.run, traffic=replace(traffic, duration_s=measured_s, at_most_s=None))


def run_seconds(run: Run, in_lab: bool = True) -> float | None:
    """Returns for how long a run occupies a processor, or its hosts; None if the duration of its
    traffic is not known.
    """
    if run.seconds is None:
        return None
    if in_lab and isinstance(run.path, Topology):
        return guest_seconds(run) + _times(TABLES, work(run))
    return OUTSIDE_LAB_S + (expected_traffic_s(run) or 0.0)


def guest_seconds(run: Run) -> float:
    """Returns for how long the guest of a run on an emulated path occupies a processor."""
    return _times(GUEST, work(run))


def _times(constants: Sequence[float], of_run: Work) -> float:
    amounts: tuple[float, ...] = astuple(of_run)
    return sum(constant * amount for constant, amount in zip(constants, amounts, strict=True))


def expected_traffic_s(run: Run) -> float | None:
    """Returns the time of the traffic; for a run that ends once it has settled, the expected mean
    of that time.
    """
    if run.traffic.at_most_s is None:
        return run.seconds
    expected_s, left = run.traffic.omit_s, 1.0
    for look_s in looks_s(run):
        expected_s += left * SETTLED_AT_A_LOOK * look_s
        left *= 1 - SETTLED_AT_A_LOOK
    return expected_s + left * run.traffic.at_most_s


def work(run: Run) -> Work:
    """Returns the work of a run on an emulated path. Assumes that its traffic fills the path, as
    far as the CCAs can at this loss.
    """
    path, traffic = run.topology, run.traffic
    seconds = expected_traffic_s(run) or 0.0
    flows = sum(_flows(traffic))
    measuring = next((source for source in traffic.sources if isinstance(source, PathSource)), None)
    of_udp = (
        sum(
            source.rate_bps * source.streams
            for source in traffic.sources
            if isinstance(source, UdpSource)
        )
        / 8
    )
    of_tcp, tcp_s = max(_goodput_bps(run) / 8 - of_udp, 0.0), seconds
    datagrams, samples = seconds * of_udp / path.packet_bytes, seconds / traffic.interval_s
    if measuring:
        tcp_s *= REACH_SHARE + FILL_SHARE
        udp_s, of_steps = _udp_of_steps(run, measuring)
        datagrams += of_steps
        samples += OF_IPERF3 * udp_s / UDP_INTERVAL_S
    tcp_bytes = tcp_s * of_tcp
    joined = tcp_bytes / _joined_bytes(path, of_tcp / flows) if path.offloads else 0.0
    return Work(
        runs=1.0,
        seconds=seconds,
        samples=samples,
        socket_samples=seconds / traffic.interval_s * (flows + len(traffic.sources)) * 2,
        flows=flows,
        packets=0.0 if path.offloads else tcp_bytes / path.packet_bytes,
        joined_packets=joined,
        gigabytes=(tcp_bytes + datagrams * path.packet_bytes) / 1e9,
        datagrams=datagrams,
    )


def _udp_of_steps(run: Run, source: PathSource) -> tuple[float, float]:
    """Returns for how long the steps that measure a path send UDP, and how many packets. Assumes
    that each step is made once. Packets that iperf3 hands over together count in part.
    """
    path, total_s = run.topology, run.traffic.total_s
    rate_bps = path.policer.rate_bps if path.policer else path.rate_bps
    packets_a_second = rate_bps / 8 / path.packet_bytes
    # the third step has the rate of the first; with other sources, two steps of half that time are
    # near the path's rate
    times_of = (FIRST_ABOVE, MOST_ABOVE, 1.0 if len(run.traffic.sources) > 1 else FIRST_ABOVE)
    offered = [packets_a_second * min(times, source.most_bps / rate_bps) for times in times_of]
    lasting_s: list[float] = [above_s(each, path.base_rtt_s, total_s) for each in offered]
    below_s = max(
        total_s * (1 - IDLE_SHARE - REACH_SHARE - TRAINS_SHARE - BURSTS_SHARE - FILL_SHARE)
        - sum(lasting_s),
        1.0,
    )
    offered.append(min(PART_BELOW * packets_a_second, MOST_BELOW_PACKETS / below_s))
    lasting_s.append(below_s)
    packets = (
        each * each_s * (TOGETHER if each >= OFTEN_A_SECOND else 1.0)
        for each, each_s in zip(offered, lasting_s, strict=True)
    )
    return sum(lasting_s), sum(packets)


def _joined_bytes(path: Topology, flow_bytes_a_second: float) -> float:
    """Returns how many bytes a flow's TCP sends at once."""
    segment = path.mtu_bytes - HEADERS_BYTES
    return max(LEAST_SEGMENTS * segment, min(MOST_JOINED_BYTES, flow_bytes_a_second * JOINED_S))


def _flows(traffic: Traffic) -> Iterator[int]:
    """Yields for each source how many flows it has at the same time; 1 if the source does not say
    that.
    """
    for source in traffic.sources:
        if isinstance(source, HttpSource):
            yield source.parallel
        elif isinstance(source, PathSource):
            yield FILLING
        elif isinstance(source, GroupedSource | UdpSource):
            yield source.streams or 1
        else:
            yield 1


def _goodput_bps(run: Run) -> float:
    """Returns the goodput of a run on an emulated path: the path's rate, or less if its sources
    offer less or loss limits them.
    """
    return min(
        run.topology.rate_bps, sum(_offered_bps(run, source) for source in run.traffic.sources)
    )


def _offered_bps(run: Run, source: TrafficSource) -> float:
    """Returns the rate at which a source sends if nobody competes with it: the path's rate if
    nothing limits the source.
    """
    if isinstance(source, UdpSource):
        return source.rate_bps * source.streams
    if isinstance(source, WorkloadSource):
        return source.offered_bps
    if isinstance(source, GroupedSource) and source.streams:
        [sender] = [sender for sender in run.topology.senders if sender.name == source.host]
        each = source.streams / sum(group.weight for group in source.groups)
        return sum(each * group.weight * _flow_bps(run, group, sender) for group in source.groups)
    return run.topology.rate_bps


def _flow_bps(run: Run, group: Group, sender: Sender) -> float:
    """Returns the rate of one flow, limited by its pacing, and by its CCA under random loss."""
    path = run.topology
    limits = [
        path.rate_bps,
        *filter(None, (sender.rate_bps, group.pacing_bps, run.traffic.pacing_bps)),
    ]
    if sender.loss and group.cca not in BBRS and sender.base_rtt_s:
        loss, rtt_s = sender.loss.mean, sender.base_rtt_s
        reno, cubic = RENO_WINDOW / loss**0.5, CUBIC_WINDOW * (rtt_s / loss) ** 0.75
        packets = max(reno, cubic) if group.cca == "cubic" else reno
        limits.append(packets * path.packet_bytes * 8 / rtt_s)
    return min(limits)
