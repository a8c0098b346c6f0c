"""Paths, traffic and runs made by hand, and what is computed of them."""

from dataclasses import replace
from typing import Any

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import judge
from ccmix.model import (
    Buffer,
    Destination,
    Group,
    HostPath,
    Iperf3Source,
    Loss,
    Measurement,
    Netem,
    NetemPlace,
    Run,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
)
from ccmix.model.results import Metrics, Verdict


def one_sender(
    rate_bps: float,
    delay_s: float,
    loss: Loss | None,
    buffer: Buffer,
    mtu_bytes: int,
    offloads: bool,
    **more: Any,
) -> Topology:
    """Returns the emulated path of a sender h1."""
    senders = (Sender("h1", delay_s, loss),)
    return Topology(rate_bps, senders, buffer, mtu_bytes, offloads, **more)


def with_senders(topology: Topology, **settings: Any) -> Topology:
    """Returns the path with settings of each sender changed."""
    return replace(
        topology, senders=tuple(replace(sender, **settings) for sender in topology.senders)
    )


def iperf3_traffic(
    groups: tuple[Group, ...],
    streams: int,
    duration_s: float,
    omit_s: float,
    interval_s: float,
    *,
    pacing_bps: float | None = None,
    host: str = "h1",
) -> Traffic:
    """Returns the traffic of one test of ccmix's own iperf3."""
    return Traffic(
        (Iperf3Source("", host, groups, streams),), duration_s, omit_s, interval_s, pacing_bps
    )


def with_groups(traffic: Traffic, *groups: Group, streams: int | None = None) -> Traffic:
    """Returns the traffic of one test with other groups, and another number of streams if given."""
    test = traffic.test
    assert isinstance(test, Iperf3Source)
    changed = replace(test, groups=groups, streams=test.streams if streams is None else streams)
    return replace(traffic, sources=(changed,))


def add_sources(traffic: Traffic, *sources: TrafficSource) -> Traffic:
    """Returns the traffic with more sources, such as cross traffic for a test."""
    return replace(traffic, sources=(*traffic.sources, *sources))


# An emulated path of one sender, with a little loss
TOPOLOGY = one_sender(
    rate_bps=1e9,
    delay_s=0.005,
    loss=Loss("random", (0.001,)),
    buffer=Buffer(1.0, "bdp"),
    mtu_bytes=1500,
    offloads=False,
)


def empty_metrics(**some: Any) -> Metrics:
    """Returns the metrics of a run of which nothing is known but what is given."""
    nothing = (
        "utilisation",
        "bytes_sent",
        "fairness",
        "fairness_of_groups",
        "retransmission_rate",
        "convergence_s",
    )
    return Metrics(**{"goodput_bps": 0.0, **dict.fromkeys((*nothing, "netem_loss")), **some})


def judged(run: Run, tables: RunTables, measurement: Measurement) -> Verdict:
    """Returns the verdict on what was seen, apart from the metrics that follow from it."""
    return judge(run, tables, measurement, empty_metrics())


def metrics_of(run: Run, tables: RunTables, measurement: Measurement) -> Metrics:
    return run_metrics(run, tables, measurement.ping_rtt_s, measurement)


def host_run(
    src: str,
    dst: str,
    address: str = "127.0.0.1",
    *,
    pacing_bps: float | None = None,
    netem: str = "",
    **path: object,
) -> Run:
    """A run of two BBR flows between hosts; `netem`: a device of src with 10 ms of
    delay and loss.
    """
    emulation: dict[str, Any] = {}
    if netem:
        emulation = {
            "netem": Netem(0.01, Loss("random", (0.01,))),
            "netem_at": NetemPlace(src, netem, None),
        }
    traffic = iperf3_traffic((Group("bbr"),), 2, 10.0, 0.0, 0.5, pacing_bps=pacing_bps, host="src")
    return Run(
        "one",
        {},
        "b",
        1,
        7,
        traffic,
        HostPath(src, Destination("b", address, dst), "iperf3", **emulation, **path),  # type: ignore[arg-type]
    )


def packet_train(packet_s: float) -> list[float]:
    """When the replies to 200 packets come: two pass the bottleneck at once, the others one
    packet's time apart.
    """
    return [1000.0, 1000.0, *(1000.0 + packet_s * number for number in range(1, 199))]
