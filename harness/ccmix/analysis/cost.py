"""Estimates how much real time, processor time and memory runs will take, before they are made.

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
from ccmix.analysis.size import UDP_SHARE, written_bytes
from ccmix.generators.path_steps import (
    FILL_SHARE,
    FILLING,
    FIRST_ABOVE,
    MOST_ABOVE,
    MOST_BELOW_PACKETS,
    OFTEN_A_SECOND,
    PART_BELOW,
    REACH_SHARE,
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

# limits of the size that TCP sends at once with offloads (net/ipv4/tcp_output.c)
LEAST_SEGMENTS, MOST_JOINED_BYTES = 2, 65536
JOINED_S = 0.001  # a flow sends at once as much as its rate gives in this time
HEADERS_BYTES = 66  # of Ethernet, IP and TCP with timestamps
# constants of the mean window in packets: Mathis et al. 1997; RFC 9438, section 5.1
RENO_WINDOW, CUBIC_WINDOW = 1.22, 1.054
# of the runs that have not yet settled: eight of twelve, and two of four, in the demo
SETTLED_AT_A_LOOK = 2 / 3
TOGETHER = 0.5  # of the time for a single UDP packet, if iperf3 hands over several at once
OF_IPERF3 = 0.5  # of a sample, which is taken when iperf3 reports

OUTSIDE_LAB_S = 2.0  # beginning and end of a run that is made in real time
# the start of `ccmix run` with its report, and a run's part of it
COMMAND_S, OF_REPORT_S = 2.5, 0.007
# Of ten runs, by the blocks of the guest's memory file and the Pss of ccmix's processes: 1 to 100
# flows, 10 Mbit/s to 10 Gbit/s with 1 to 4 BDP, 0.2 to 81 MB of files
OF_GUEST_BYTES, OF_FLOW_BYTES, CACHED, JOINED_MEMORY = 42e6, 0.5e6, 1.3, 0.4
# in addition to guests; OF_TABLES times the size of the files that tables are made from
OF_COMMAND_BYTES, OF_TABLES_BYTES, OF_TABLES = 100e6, 235e6, 2.6
# A run on a machine of two processors with a run on the other (bench/lab.py --only parallel)
SLOWER_BESIDE_OTHERS = 1.07


@dataclass(frozen=True)
class Work:
    """Holds how much work of each kind a run in the lab makes.

    The processor time of a run is the sum over the fields of (amount x constant). The constants are
    in GUEST for the guest, and in TABLES for the tables that ccmix makes, in the order of the
    fields.
    """

    runs: float
    seconds: float  # of traffic
    samples: float  # how often the probes sample
    socket_samples: float  # samples of single sockets
    flows: float
    packets: float  # that cross the path one by one
    joined_packets: float  # that cross it joined to larger ones
    gigabytes: float
    datagrams: float  # of UDP, which iperf3 sends and receives one by one


# seconds of a processor
GUEST = (0.315, 0.00113, 0.00072, 3.79e-05, 0.00131, 2.47e-06, 6.08e-06, 0.0282, 5.56e-05)
TABLES = (0.0424, 0.000174, 1.97e-05, 8.79e-06, 0.00111, 0.0, 1.48e-08, 0.0, 0.0)


@dataclass(frozen=True)
class Cost:
    """Holds what all runs of a campaign together are expected to cost. The times leave out runs
    whose duration is not known.
    """

    runs: int
    virtual_s: float  # of the traffic
    real_s: float  # with as many runs at a time as cost() was told
    memory_bytes: int  # that is used at the same time
    most_memory_bytes: int  # limit of the memory of all guests that run at the same time
    unknown: int = 0  # runs whose duration is not known


def cost(runs: Sequence[Run], jobs: int, faster: float = 1.0) -> Cost:
    """Estimates the cost of a campaign. Runs on emulated paths are made in the lab, `jobs` at a
    time; runs between real hosts are made one after the other.

    faster: speed of this machine, relative to that of the machine on which the model's constants
        were measured; 2 halves the times
    """
    emulated = [run for run in runs if isinstance(run.path, Topology)]
    between_hosts = [run for run in runs if not isinstance(run.path, Topology)]
    in_lab_s = (
        makespan_s((run_seconds(run) or 0.0 for run in emulated), jobs) * slowdown(jobs) / faster
    )
    pauses_s = sum(run.host_path.pause_s for run in between_hosts[1:])
    elsewhere_s = sum(run_seconds(run) or 0.0 for run in between_hosts) + pauses_s
    used = heapq.nlargest(jobs, map(used_memory_bytes, emulated))
    largest_files = max((written_bytes(run) or 0 for run in emulated), default=0)
    # tables are made when the run's guest has ended, while the guests of other runs go on
    making_tables = OF_TABLES_BYTES + OF_TABLES * largest_files
    return Cost(
        runs=len(runs),
        virtual_s=sum(expected_traffic_s(run) or 0.0 for run in runs),
        real_s=in_lab_s + elsewhere_s + (COMMAND_S + OF_REPORT_S * len(runs)) / faster
        if runs
        else 0.0,
        memory_bytes=round(max(OF_COMMAND_BYTES + sum(used), making_tables + sum(used[1:])))
        if emulated
        else 0,
        most_memory_bytes=sum(
            heapq.nlargest(jobs, (guest_memory_bytes(run.topology) for run in emulated))
        ),
        unknown=sum(run.seconds is None for run in runs),
    )


def used_memory_bytes(run: Run) -> int:
    """Estimates how much memory the guest (virtual machine) of a run on an emulated path uses: for
    itself, for its flows, for data in flight and in queues, and for the files that it writes. The
    estimate is at most the guest's memory limit.
    """
    path = run.topology
    in_flight = (JOINED_MEMORY if path.offloads else 1.0) * (path.bdp_bytes + path.buffer_bytes)
    flow_bytes = OF_FLOW_BYTES * sum(_flows(run.traffic))
    used = OF_GUEST_BYTES + flow_bytes + in_flight + CACHED * (written_bytes(run) or 0)
    return round(min(used, guest_memory_bytes(path)))


def makespan_s(seconds: Iterable[float], jobs: int, busy: Iterable[float] = ()) -> float:
    """Returns when the last run ends, in seconds from now, if runs are made `jobs` at a time: they
    start in their order, each as soon as another has ended.

    seconds: the duration of each run
    busy: for how many more seconds runs that have already started will go on
    """
    free_at_s = heapq.nlargest(jobs, busy)
    free_at_s += [0.0] * (jobs - len(free_at_s))
    heapq.heapify(free_at_s)
    for duration_s in seconds:
        heapq.heapreplace(free_at_s, free_at_s[0] + duration_s)
    return max(free_at_s)


def slowdown(jobs: int) -> float:
    """Returns the factor by which each run takes longer if `jobs` runs are made at the same time,
    because they share the machine; 1 for a single job.
    """
    return SLOWER_BESIDE_OTHERS if jobs > 1 else 1.0


def machine_speed(finished_runs: Iterable[FinishedRun]) -> float:
    """Returns the speed of the machine that made these runs in the lab, relative to that of the
    machine on which the model's constants were measured: 2 if the runs took half of the expected
    time, and 1 without any runs.
    """
    expected_s = took_s = 0.0
    for finished in finished_runs:
        real_s = finished.execution.real_seconds
        if finished.execution.machine == "lab" and real_s and finished.run.seconds is not None:
            expected_s += guest_seconds(_with_actual_duration(finished))
            took_s += real_s
    return expected_s / took_s if took_s else 1.0


def _with_actual_duration(finished: FinishedRun) -> Run:
    """Returns the run with the actual duration of its traffic. If a run ends as soon as it has
    settled, this is shorter than the configured duration, which is only a maximum.
    """
    traffic = finished.run.traffic
    measured_s = (
        traffic.duration_s if finished.settled_after_s is None else finished.settled_after_s
    )
    return replace(finished.run, traffic=replace(traffic, duration_s=measured_s, at_most_s=None))


def run_seconds(run: Run, in_lab: bool = True) -> float | None:
    """Estimates how many seconds of real time a run takes. In the lab, this is processor time;
    otherwise the run takes as long as its traffic. Returns None if the duration of the traffic is
    not known.

    in_lab: False if a run on an emulated path is made outside the lab, in real time
    """
    if run.seconds is None:
        return None
    if in_lab and isinstance(run.path, Topology):
        return guest_seconds(run) + _seconds_of_work(TABLES, work(run))
    return OUTSIDE_LAB_S + (expected_traffic_s(run) or 0.0)


def guest_seconds(run: Run) -> float:
    """Estimates the processor time, in seconds, that the lab's guest (virtual machine) needs for a
    run on an emulated path. The tables that ccmix makes afterwards are not included.
    """
    return _seconds_of_work(GUEST, work(run))


def _seconds_of_work(constants: Sequence[float], run_work: Work) -> float:
    """Returns the processor time of a run in seconds: the sum over all kinds of work of (amount x
    constant). `constants`: GUEST or TABLES
    """
    amounts: tuple[float, ...] = astuple(run_work)
    return sum(constant * amount for constant, amount in zip(constants, amounts, strict=True))


def expected_traffic_s(run: Run) -> float | None:
    """Returns how many seconds the traffic of a run is expected to last; None if not known.

    A run may be told to end once its goodput has settled. ccmix then looks several times, at the
    times that looks_s() yields, whether it has settled. The result is the mean duration, under the
    assumption that at each look two thirds (SETTLED_AT_A_LOOK) of the runs that still go on have
    settled.
    """
    if run.traffic.at_most_s is None:
        return run.seconds
    expected_s, share_going_on = run.traffic.omit_s, 1.0
    for look_s in looks_s(run):
        expected_s += share_going_on * SETTLED_AT_A_LOOK * look_s
        share_going_on *= 1 - SETTLED_AT_A_LOOK
    return expected_s + share_going_on * run.traffic.at_most_s


def work(run: Run) -> Work:
    """Estimates the work of a run on an emulated path, such as its packets and samples. Assumes
    that the traffic fills the path, as far as the CCAs can under the configured loss.
    """
    path, traffic = run.topology, run.traffic
    seconds = expected_traffic_s(run) or 0.0
    flows = sum(_flows(traffic))
    udp_bps = sum(
        source.rate_bps * source.streams
        for source in traffic.sources
        if isinstance(source, UdpSource)
    )
    udp_byte_rate = udp_bps / 8
    tcp_byte_rate, tcp_s = max(_goodput_bps(run) / 8 - udp_byte_rate, 0.0), seconds
    datagrams, samples = seconds * udp_byte_rate / path.packet_bytes, seconds / traffic.interval_s
    if traffic.steps:
        tcp_s *= REACH_SHARE + FILL_SHARE
        udp_s, step_datagrams = _udp_of_steps(run, traffic.steps)
        datagrams += step_datagrams
        samples += OF_IPERF3 * udp_s / UDP_INTERVAL_S
    tcp_bytes = tcp_s * tcp_byte_rate
    joined = tcp_bytes / _joined_bytes(path, tcp_byte_rate / flows) if path.offloads else 0.0
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
    """Returns how many seconds the steps that measure a path (a PathSource) send UDP, and how many
    packets they send, as an estimate.

    Assumes that each step is made once. If iperf3 hands several packets to the kernel at once, a
    packet takes less processor time, so it counts only in part (TOGETHER).
    """
    path, total_s = run.topology, run.traffic.total_s
    rate_bps = path.policer.rate_bps if path.policer else path.rate_bps
    path_packet_rate = rate_bps / 8 / path.packet_bytes
    # the third step has the rate of the first; with other sources, two steps of half that time are
    # near the path's rate
    factors = (FIRST_ABOVE, MOST_ABOVE, 1.0 if len(run.traffic.sources) > 1 else FIRST_ABOVE)
    packet_rates = [
        path_packet_rate * min(factor, source.most_bps / rate_bps) for factor in factors
    ]
    durations_s: list[float] = [
        above_s(packet_rate, path.base_rtt_s, total_s) for packet_rate in packet_rates
    ]
    below_s = max(
        total_s * UDP_SHARE - sum(durations_s),
        1.0,
    )
    packet_rates.append(min(PART_BELOW * path_packet_rate, MOST_BELOW_PACKETS / below_s))
    durations_s.append(below_s)
    packets = (
        packet_rate * seconds * (TOGETHER if packet_rate >= OFTEN_A_SECOND else 1.0)
        for packet_rate, seconds in zip(packet_rates, durations_s, strict=True)
    )
    return sum(durations_s), sum(packets)


def _joined_bytes(path: Topology, flow_byte_rate: float) -> float:
    """Returns how many bytes a flow's TCP hands to the device at once with offloads (TSO): the
    bytes that the flow sends in 1 ms at this rate (bytes per second), within the limits of the
    kernel.
    """
    segment_bytes = path.mtu_bytes - HEADERS_BYTES
    return max(LEAST_SEGMENTS * segment_bytes, min(MOST_JOINED_BYTES, flow_byte_rate * JOINED_S))


def _flows(traffic: Traffic) -> Iterator[int]:
    """Yields for each traffic source how many flows it has at the same time; 1 if that is not
    known.
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
    """Estimates the goodput in bit/s of a run on an emulated path: the path's rate, or less if the
    sources offer less or random loss limits them.
    """
    return min(
        run.topology.rate_bps, sum(_offered_bps(run, source) for source in run.traffic.sources)
    )


def _offered_bps(run: Run, source: TrafficSource) -> float:
    """Estimates the rate in bit/s at which a source sends if no other source competes with it: the
    path's rate if nothing else limits the source.
    """
    if isinstance(source, UdpSource):
        return source.rate_bps * source.streams
    if isinstance(source, WorkloadSource):
        return source.offered_bps
    if isinstance(source, GroupedSource) and source.streams:
        [sender] = [sender for sender in run.topology.senders if sender.name == source.host]
        flows_per_weight = source.streams / sum(group.weight for group in source.groups)
        return sum(
            flows_per_weight * group.weight * _flow_bps(run, group, sender)
            for group in source.groups
        )
    return run.topology.rate_bps


def _flow_bps(run: Run, group: Group, sender: Sender) -> float:
    """Estimates the rate in bit/s of one flow: the path's rate, or less if pacing, the sender's own
    shaper, or a CCA that reacts to random loss limits it.
    """
    path = run.topology
    limits = [
        path.rate_bps,
        *filter(None, (sender.rate_bps, group.pacing_bps, run.traffic.pacing_bps)),
    ]
    if sender.loss and group.cca not in BBRS and sender.base_rtt_s:
        loss, rtt_s = sender.loss.mean, sender.base_rtt_s
        reno_window, cubic_window = RENO_WINDOW / loss**0.5, CUBIC_WINDOW * (rtt_s / loss) ** 0.75
        window = max(reno_window, cubic_window) if group.cca == "cubic" else reno_window
        limits.append(window * path.packet_bytes * 8 / rtt_s)
    return min(limits)
