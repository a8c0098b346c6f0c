"""Estimates how many bytes a run will write: the recordings of its probes and traffic sources.

The sizes were measured on runs in the lab:
- samples: two runs with 8 CUBIC and 8 BBR flows, one of 63 s with an interval of 500 ms, one of 4 s
  with an interval of 1 ms; compressed tables vary most, and are the smallest part
- tables of packets: 3 s with 8 flows, at 1 ms (9 bytes a row) and 10 ms (32 bytes)
- short flows: 20 s of http and of workloads at 100 Mbit/s
- flows and hosts: ten runs of 1 to 100 flows for 2 to 60 s, two of them with two hosts
- steps: four runs of 60 s
"""

from dataclasses import dataclass

from ccmix.generators.distributions import mean_bytes
from ccmix.generators.path_steps import (
    BURSTS_SHARE,
    FILL_SHARE,
    FILLING,
    IDLE_SHARE,
    REACH_SHARE,
    REACHING,
    TRAINS_SHARE,
    UDP_INTERVAL_S,
)
from ccmix.model import (
    CommandSource,
    GroupedSource,
    HttpSource,
    PathSource,
    Run,
    Topology,
    TrafficSource,
    WorkloadSource,
)
from ccmix.probes.sockmon import MOST_SLOW_HZ

SOCKET_BYTES = 440  # of a socket's sample: 404 in the stream, 21 to 70 in the table
QUEUES_BYTES = 300  # of a sample of the bottleneck's qdiscs and the sender's
SLOW_BYTES = 2400  # of a sample of counters, cores and processes
RUN_BYTES = 100_000  # run.json, logs, headers and footers of tables
HOST_BYTES = 20_000  # facts of each sender but the first
# of a flow of iperf3: the beginning and the end of its JSON, and its part of run.json
FLOW_BYTES = 7000
RTT_BYTES = 45  # of a question for the RTT
PACKETS_BYTES = 20  # of a connection's direction in an interval of packets.parquet
# of a flow, a group or a sum in an interval: in the client's JSON, and in the server's
JSON_BYTES = 740
UDP_JSON = 0.6  # of that: a stream of UDP
# of a flow of http or a workload: its last counters at both ends, and its completion
SHORT_FLOW_BYTES = 1060
# of the time of steps
UDP_SHARE = 1 - IDLE_SHARE - REACH_SHARE - TRAINS_SHARE - BURSTS_SHARE - FILL_SHARE

SHORT_FLOW_RTTS = 3  # of a short flow, in addition to its bytes: connection, request, slow start
MOST_LOAD = 0.95  # of a workload: with more, its flows pile up


@dataclass(frozen=True)
class _RecordedAmounts:
    """Holds how much is recorded about one traffic source. The numbers of sockets and records are
    means over the run.
    """

    sockets: float = 0.0  # of a sending host, in each sample
    json_records: float = 0.0  # in each interval of iperf3's JSON
    of_flows_bytes: float = 0.0  # however long the run is


def written_bytes(run: Run) -> int | None:
    """Estimates how many bytes a run will write to disk, for the plan. Returns None if its duration
    is not known.

    Leaves out the packets of a capture, and the flows of users' commands, whose number is not
    known.
    """
    if run.seconds is None:
        return None
    seconds = max(_end_s(run, source, run.seconds) for source in run.traffic.sources)
    amounts = [_recorded_amounts(run, source, seconds) for source in run.traffic.sources]
    sockets = sum(each.sockets for each in amounts)
    json_records = sum(each.json_records for each in amounts)
    hosts = len(run.path.senders) if isinstance(run.path, Topology) else 1
    # on an emulated path the receiver's sockets are sampled too
    sampled_ends = 2 if isinstance(run.path, Topology) else 1
    samples_per_s = 1 / run.traffic.interval_s
    bytes_per_s = (sockets * sampled_ends * SOCKET_BYTES + hosts * QUEUES_BYTES) * samples_per_s
    bytes_per_s += json_records * JSON_BYTES / run.traffic.goodput_interval_s
    if run.path.capture:
        bytes_per_s += sockets * 2 * PACKETS_BYTES / run.traffic.packets_interval_s
    bytes_per_s += hosts * SLOW_BYTES * min(samples_per_s, MOST_SLOW_HZ)
    if run.traffic.rtt_probe:
        bytes_per_s += run.traffic.rtt_probe.rate_hz * RTT_BYTES
    fixed_bytes = (
        RUN_BYTES + (hosts - 1) * HOST_BYTES + sum(each.of_flows_bytes for each in amounts)
    )
    return round(fixed_bytes + seconds * bytes_per_s)


def has_commands(run: Run) -> bool:
    """Returns whether users' commands make a part of the traffic, so that the number of flows is
    not known.
    """
    return any(isinstance(source, CommandSource) for source in run.traffic.sources)


def captured_bytes(run: Run) -> int:
    """Returns the maximum size of a run's capture before it is compressed; 0 without a capture."""
    return run.path.capture.most_bytes if run.path.capture else 0


def _end_s(run: Run, source: TrafficSource, seconds: float) -> float:
    """Returns when a source will have finished, in seconds after the traffic begins. Only http may
    finish earlier than the run, which ends after `seconds`.
    """
    if not isinstance(source, HttpSource):
        return seconds
    return min(
        seconds, source.start_s + source.requests * _request_s(run, source) / source.parallel
    )


def _recorded_amounts(run: Run, source: TrafficSource, seconds: float) -> _RecordedAmounts:
    """Estimates how many sockets, JSON records and bytes are recorded about one source in a run
    that lasts `seconds`.
    """
    if isinstance(source, HttpSource):
        return _http_amounts(run, source, seconds)
    if isinstance(source, WorkloadSource):
        return _workload_amounts(run, source, seconds)
    if isinstance(source, CommandSource):
        return _RecordedAmounts()
    if isinstance(source, PathSource):
        tcp_records = FILL_SHARE * (FILLING + 2) + REACH_SHARE * (REACHING + 2)
        udp_records = UDP_SHARE * 2 * UDP_JSON * run.traffic.goodput_interval_s / UDP_INTERVAL_S
        return _RecordedAmounts(sockets=FILLING / 3, json_records=tcp_records + udp_records)
    streams = source.streams or 1
    groups = len(source.groups) if isinstance(source, GroupedSource) else 1
    # a test also has a control connection
    return _RecordedAmounts(
        streams + 1, json_records=streams + groups + 1, of_flows_bytes=streams * FLOW_BYTES
    )


def _http_amounts(run: Run, source: HttpSource, seconds: float) -> _RecordedAmounts:
    """Estimates how much is recorded about an http source, from its mean number of open connections
    and its number of requests.
    """
    request_s = _request_s(run, source)
    requests = min(source.requests, source.parallel * (seconds - source.start_s) / request_s)
    return _RecordedAmounts(
        requests * request_s / seconds, of_flows_bytes=requests * SHORT_FLOW_BYTES
    )


def _request_s(run: Run, source: HttpSource) -> float:
    """Returns how long an http request takes. Assumes that only the source's parallel clients use
    the bottleneck, so that each gets an equal share of the rate. The bytes of a request then take
    parallel * size / rate, in addition to the round trips of a short flow (_empty_flow_s).
    """
    return (
        _empty_flow_s(run, source) + source.parallel * source.size_bytes * 8 / run.topology.rate_bps
    )


def _workload_amounts(run: Run, source: WorkloadSource, seconds: float) -> _RecordedAmounts:
    """Estimates how much is recorded about a workload, from its mean number of open flows and the
    number of all flows. Assumes that each flow gets the rate that the workload leaves free on
    average.
    """
    rate_bps, size_bytes = run.topology.rate_bps, mean_bytes(source.sizes)
    free_bps = rate_bps * (1 - min(source.offered_bps / rate_bps, MOST_LOAD))
    flows_per_s = source.offered_bps / 8 / size_bytes
    open_flows = flows_per_s * (_empty_flow_s(run, source) + size_bytes * 8 / free_bps)
    active_share = (seconds - source.start_s) / seconds
    return _RecordedAmounts(
        open_flows * active_share,
        of_flows_bytes=flows_per_s * seconds * active_share * SHORT_FLOW_BYTES,
    )


def _empty_flow_s(run: Run, source: TrafficSource) -> float:
    """Returns how long a short flow takes on its sender's path in addition to sending its bytes:
    the round trips for the connection, the request and slow start (SHORT_FLOW_RTTS).
    """
    [sender] = (sender for sender in run.topology.senders if sender.name == source.host)
    return SHORT_FLOW_RTTS * sender.base_rtt_s
