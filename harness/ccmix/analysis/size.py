"""Estimates how much a run will write: what its probes and iperf3 record at each interval.

The sizes are those of two runs in the lab, with 8 CUBIC and 8 BBR flows: one of 63 s with an interval of 500 ms, one of
4 s with one of 1 ms. Compressed tables vary most, and are the least part. Those of packets are of 3 s with 8 flows,
at 1 ms (9 bytes a row) and 10 ms (32 bytes).
"""

from ccmix.model import Iperf3Source, PschedulerSource, Run, Topology, UdpSource
from ccmix.probes.sockmon import MOST_SLOW_HZ

SOCKET_BYTES = 440  # of a socket's sample: 404 in the stream, 21 to 70 in the table
QUEUES_BYTES = 300  # of a sample of the bottleneck's qdiscs and the sender's
SLOW_BYTES = 2400  # of a sample of counters, cores and processes
RUN_BYTES = 100_000  # run.json, logs, what iperf3 and tables begin and end with
PACKETS_BYTES = 20  # of a connection's direction in an interval of packets.parquet
JSON_BYTES = 740  # of a flow, a group or a sum in an interval: in the client's JSON, and in the server's


def written_bytes(run: Run) -> int | None:
    """Returns the bytes that a run will write, a capture itself left out; None where its flows are not known."""
    tests = [
        source for source in run.traffic.sources if isinstance(source, Iperf3Source | UdpSource | PschedulerSource)
    ]
    if run.seconds is None or len(tests) < len(run.traffic.sources):
        return None
    flows, groups = sum(test.streams for test in tests), sum(_groups(test) for test in tests)
    ends = 2 if isinstance(run.path, Topology) else 1  # on an emulated path the receiver's sockets are sampled too
    sample = (flows + len(tests)) * ends * SOCKET_BYTES + QUEUES_BYTES  # each test has a connection for control
    record = (flows + groups + len(tests)) * JSON_BYTES
    samples_a_second = 1 / run.traffic.interval_s
    of_a_second = sample * samples_a_second + record / run.traffic.goodput_interval_s
    if run.path.capture:
        of_a_second += (flows + len(tests)) * 2 * PACKETS_BYTES / run.traffic.packets_interval_s
    return RUN_BYTES + round(run.seconds * (of_a_second + SLOW_BYTES * min(samples_a_second, MOST_SLOW_HZ)))


def captured_bytes(run: Run) -> int:
    """Returns the most that a capture of a run keeps, before it is compressed."""
    return run.path.capture.most_bytes if run.path.capture else 0


def _groups(test: Iperf3Source | UdpSource | PschedulerSource) -> int:
    return 1 if isinstance(test, UdpSource) else len(test.groups)
