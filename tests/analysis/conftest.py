"""A run of two flows with hand-made data of its probes: everything is as configured, so the run is
valid.

1 Gbit/s and 10 ms of base RTT are a BDP of 1,250,000 bytes. In each second of the test, 125,000,000
bytes pass the bottleneck, in 82,563 packets of 1514 bytes.
"""

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.iperf3_tables import FLOW_COLUMNS, INTERVAL_COLUMNS
from ccmix.analysis.reports import Iperf3TestReport
from ccmix.analysis.series import Series
from ccmix.analysis.tables import RunTables, with_counters
from ccmix.model import (
    Buffer,
    Counters,
    DeviceState,
    Facts,
    Group,
    Measurement,
    PathState,
    ProbeReport,
    QdiscCounters,
    Run,
    SeriesNames,
)
from support.model import TOPOLOGY, iperf3_traffic, packet_train

PORTS = {40000: "cubic", 40002: "bbr"}
NETSTAT = (
    "TcpExt: SyncookiesSent TCPMemoryPressures TCPX\nTcpExt: 1 5 0\nIpExt: InNoRoutes\nIpExt: 0\n"
)
SOFTNET = "0000beef 00000002 00000000\n00001234 0000000a 00000000\n"


@pytest.fixture
def run() -> Run:
    return Run(
        entry="one",
        condition={"delay": "5ms"},
        dst="receiver",
        iteration=1,
        seed=7,
        path=TOPOLOGY,
        traffic=iperf3_traffic(
            (Group("cubic"), Group("bbr")), streams=2, duration_s=4.0, omit_s=1.0, interval_s=1.0
        ),
    )


def flows() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "host": ["h1", "h1"],
            "port": [40000, 40002],
            "stream": [0, 1],
            "group": ["cubic", "bbr"],
            "cca_asked": ["cubic", "bbr"],
            "cca_used": ["cubic", "bbr"],
            "goodput_bps": [200e6, 600e6],
            "throughput_bps": [210e6, 630e6],
            "retransmits": [9, 99],
            "bytes_sent": [1_000_000, 2_000_000],
            "begin_s": [0.0, 0.0],
            "end_s": [None, None],
            "reverse": [False, False],
            "udp": [False, False],
        },
        schema=FLOW_COLUMNS,
    )


def sockets() -> pl.DataFrame:
    """Returns a sample of both ends each second, from 0 to 5 s.

    In each second, a sender sends 1000 segments, and retransmits 10 or 100 of them. The receivers
    get 200 or 600 Mbit/s, which is 25 or 75 MB; 26.25 or 78.75 MB are sent for the first time,
    which is 210 or 630 Mbit/s.
    """
    rows: list[dict[str, Any]] = []
    for second in range(6):
        for port, cca in PORTS.items():
            megabytes = (25, 26.25) if cca == "cubic" else (75, 78.75)
            received, sent = (int(size * 1e6) * second for size in megabytes)
            retransmits = (10 if cca == "cubic" else 100) * second
            of_both = {
                "time_s": float(second),
                "final": False,
                "state": "established",
                "host": "h1",
                "port": port,
                "group": cca,
                "cookie": port,
                "ecn": False,
            }
            rows += (
                of_both
                | {
                    "end": "sender",
                    "cca": cca,
                    "rtt_s": 0.010 + 0.001 * second + (0.5 if second == 0 else 0),
                    "min_rtt_s": 0.0101,
                    "segs_in": 500 * second,
                    "data_segs_out": 1000 * second + 7,
                    "retransmits": retransmits + 3,
                    "bytes_acked": received,
                    "bytes_sent": sent + 1448 * retransmits,
                    "bytes_retransmitted": 1448 * retransmits,
                    "busy_s": float(second),
                    "receiver_window_limited_s": 0.0,
                    "send_buffer_limited_s": 0.0,
                    "unsent_bytes": 0,
                    "max_pacing_rate_bps": None,
                },
                of_both | {"end": "receiver", "cca": "cubic", "bytes_received": received},
            )
    return pl.DataFrame(rows, schema_overrides={"max_pacing_rate_bps": pl.Float64})


def queues() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "time_s": [float(second) for second in range(6)],
            "took_s": [1e-6] * 6,
            "place": ["bottleneck"] * 6,
            "parent": ["root"] * 6,
            "bytes": [125_000_000 * second for second in range(6)],
            "packets": [82_563 * second for second in range(6)],
            "drops": [0] * 6,
            "overlimits": [0] * 6,
            "backlog_bytes": [0, 1_000_000, 1_200_000, 1_249_000, 1_000_000, 0],
            "backlog_packets": [0, 660, 790, 820, 660, 0],
            "least_backlog_bytes": [0] * 6,
        }
    )


@pytest.fixture
def tables(run: Run) -> RunTables:
    test = Iperf3TestReport("TCP", 2, 4.0, 1.0, 4.0, 1.0, 0.0, 1000.0, {40000: 1, 40002: 2})
    series = Series(sockets=sockets(), queues=queues())
    every = RunTables(
        flows(), pl.DataFrame(schema=INTERVAL_COLUMNS), series, began_s=1000.0, tests={"h1": test}
    )
    return with_counters(run.traffic, every, series.sockets, run.traffic.total_s)


# As tc reports them in the lab
OF_TBF = {
    "rate": 125_000_000,
    "burst": 3000,
    "lat": 9976,
}  # 9976 us x 125 MB/s + 3000 B = 1,250,000 B
OF_FQ = {
    "limit": 10_000_000,
    "flow_limit": 10_000_000,
    "buckets": 1024,
    "orphan_mask": 1023,
    "quantum": 3028,
    "initial_quantum": 15140,
    "low_rate_threshold": 68750,
    "refill_delay": 40000,
    "timer_slack": 10000,
    "horizon": 10_000_000,
    "horizon_drop": None,
}
OF_ACKS = {
    "limit": 10_000_000,
    "delay": {"delay": 0.005, "jitter": 0, "correlation": 0},
    "ecn": False,
    "gap": 0,
}
OF_DATA = OF_ACKS | {"loss-random": {"loss": 0.001, "correlation": 0}}


def qdiscs(
    kind: str, packets: int, drops: int, reported: dict[str, Any] | None = None, **options: int
) -> tuple[QdiscCounters, ...]:
    """Returns a leaf that must not be read, and the root, with the options that tc reports
    for it.
    """
    counted: dict[str, Any] = {"device": "d", "bytes": 0, "backlog_bytes": 0, "backlog_packets": 0}
    leaf = QdiscCounters(kind="child", handle="2:", parent="9:1", packets=1, drops=99, **counted)
    return leaf, QdiscCounters(
        kind=kind,
        handle="1:",
        parent=None,
        packets=packets,
        drops=drops,
        **counted,
        **options,
        options=json.dumps(reported or {}),
    )


@pytest.fixture
def measurement() -> Measurement:
    # netem lost 1000 of 1,000,000 packets: just the 0.1% that is configured. Counters do not start
    # at 0.
    before = Counters(
        qdiscs={
            "sender-queue": qdiscs("fq", 10, 4, OF_FQ),
            "data-delay": qdiscs("netem", 20, 5, OF_DATA),
            "ack-delay": qdiscs("netem", 30, 6, OF_ACKS),
            "bottleneck": qdiscs("tbf", 40, 7, OF_TBF),
        },
        netstat={"ccmix-h1": NETSTAT, "ccmix-receiver": NETSTAT},
        softnet={"localhost": SOFTNET},
    )
    after = replace(
        before,
        qdiscs={
            "sender-queue": qdiscs("fq", 1_000_010, 4, OF_FQ),
            "data-delay": qdiscs("netem", 999_020, 1005, OF_DATA),
            "ack-delay": qdiscs("netem", 500_030, 6, OF_ACKS),
            "bottleneck": qdiscs("tbf", 998_040, 5007, OF_TBF),
        },
    )
    state = PathState(
        {
            "ccmix-h1/eth0": DeviceState(1500, ("10.0.1.1",), ()),
            "ccmix-delay/east": DeviceState(1500, ("10.0.2.1",), ()),
            "ccmix-receiver/eth0": DeviceState(1500, ("10.0.3.2",), ()),
        },
        {end: {"net.ipv4.tcp_ecn": "2"} for end in ("ccmix-h1", "ccmix-receiver")},
    )
    offloads = {
        "ccmix-h1 generic-segmentation-offload": False,
        "ccmix-delay generic-receive-offload": False,
    }
    return Measurement(
        facts=Facts(
            "7",
            offloads=offloads,
            probes={"sockets": ProbeReport(6, 0), "queues": ProbeReport(6, 0)},
        ),
        started_s=1000.0,
        began_s=1000.0,
        ended_s=1005.0,
        ping_rtt_s={"h1": (0.0102, 0.0101, 0.0103)},
        train_s=tuple(packet_train(1514 * 8 / 1e9)),
        before=before,
        after=after,
        state_before=state,
        state_after=state,
        series=SeriesNames(senders={"10.0.1.1": "h1"}),
    )


@pytest.fixture
def small_buffer_run(run: Run) -> Run:
    return replace(run, path=replace(run.topology, buffer=Buffer(1, "packet")))
