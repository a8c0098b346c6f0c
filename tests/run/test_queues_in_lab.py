"""Tests queues in the lab: the sender's own queue discipline, a policer, and iperf3's control
connections, which may bypass the path.
"""

import polars as pl
import pytest

from ccmix.analysis.tables import PARENTS_OF_CLSACT
from support.lab_runs import LabRun, lab_runs

pytestmark = pytest.mark.lab

QUEUES = """
[DEFAULT]
type = iperf3
duration = 4s

[topology shallow]
rate = 250mbit
rtt = 100ms
buffer = 100kb

[topology slow]
rate = 100mbit
host.h1 = delay 5ms rate 20mbit sender-qdisc fq_codel limit 600 target 2ms
host.h2 = delay 5ms

[kinds]
topology = shallow
sweep.sender-qdisc = fq, pfifo, noqueue, pfifo_fast, bfifo limit 1mb

[unpaced]
topology = shallow
sweep.sender-qdisc = pfifo
cca = cubic@20M

[below-a-rate]
topology = slow

[full]
topology = full
streams = 8

[paced]
topology = paced

[topology full]
rate = 50mbit
delay = 5ms
host.h1 = rate 20mbit sender-qdisc fq_codel

[topology paced]
rate = 20mbit
delay = 5ms
sender-qdisc = fq maxrate 5mbit
"""

RATE_BPS, BURST_BYTES = 50e6, 1_000_000
POLICED = """
[DEFAULT]
type = iperf3
topology = policed
spread = off

[topology policed]
rate = 1gbit
rtt = 20ms
control = beside
policer = 50mbit burst 1mb

[twice]
flows.udp = h1 udp@100M
duration = 4s
omit = 1s
interval = 100ms
rtt-probe = icmp@20

[below]
flows.udp = h1 udp@40M
duration = 2s

[tcp]
cca = cubic
streams = 2
duration = 6s
"""

CONTROL = """
[DEFAULT]
type = iperf3
duration = 5s
spread = off

[topology bursts]
rate = 100mbit
rtt = 20ms
loss = gemodel 5% 10%
control = beside

[topology far-and-shallow]
rate = 1mbit
rtt = 8s
buffer = 20p
control = beside

[topology plain]
rate = 100mbit
rtt = 20ms
hosts = 2

[bursts]
topology = bursts
iterations = 4

[far-and-shallow]
topology = far-and-shallow
duration = 120s
sweep.spread = off, on

[plain]
topology = plain
flows.tcp = h1 cubic:2
flows.more = h1 bbr:2
flows.udp = h2 udp@5M
flows.web = h2 http requests 3 size 10kb
sweep.control = path, beside
sweep.receivers = one, each
"""

queues, policed, control = lab_runs(QUEUES), lab_runs(POLICED), lab_runs(CONTROL, all_valid=False)


@pytest.mark.parametrize(
    ("kind", "applied"),
    [
        ("fq", "fq limit 10000000 flow_limit 10000000"),
        ("pfifo", "pfifo limit 1000"),
        ("noqueue", "noqueue"),
        ("pfifo_fast", "pfifo_fast bands 3"),
        ("bfifo limit 1mb", "bfifo limit 1000000"),
    ],
)
def test_the_record_of_a_run_has_the_queue_that_tc_reports(
    queues: dict[str, LabRun], kind: str, applied: str
) -> None:
    assert queues[f"kinds {kind}"].record["facts"]["sender_qdiscs"]["h1"].startswith(applied)


def test_a_queue_below_a_rate_of_the_host_s_own(queues: dict[str, LabRun]) -> None:
    applied = queues["below-a-rate"].record["facts"]["sender_qdiscs"]
    assert applied["h1"].startswith("tbf rate 2500000 ")
    assert " with fq_codel limit 600 " in applied["h1"]
    assert applied["h2"].startswith("fq ")


def test_without_fq_cubic_sends_bursts_that_the_buffer_drops(
    queues: dict[str, LabRun],
) -> None:
    goodputs = {
        kind: queues[f"kinds {kind}"].record["metrics"]["goodput_bps"]
        for kind in ("fq", "pfifo", "noqueue")
    }
    assert goodputs["fq"] > 1.3 * goodputs["pfifo"]
    assert goodputs["noqueue"] == pytest.approx(goodputs["pfifo"], rel=0.05), "neither paces"


def test_a_rate_of_the_socket_paces_without_fq(queues: dict[str, LabRun]) -> None:
    record = queues["unpaced pfifo"].record
    assert record["facts"]["sender_qdiscs"]["h1"].startswith("pfifo ")
    assert 15e6 < record["metrics"]["goodput_bps"] < 20e6


def test_a_chosen_queue_may_drop(queues: dict[str, LabRun]) -> None:
    assert queues["full"].record["metrics"]["retransmission_rate"] > 0, (
        "the bottleneck drops nothing: h1 is slower"
    )


def test_a_chosen_queue_may_pace(queues: dict[str, LabRun]) -> None:
    assert 4e6 < queues["paced"].record["metrics"]["goodput_bps"] < 5e6


def test_twice_the_rate_loses_half_and_waits_nowhere(policed: dict[str, LabRun]) -> None:
    metrics, queues = policed["twice"].record["metrics"], policed["twice"].table("queues")
    wire_bps = (
        100e6 * (1448 + 42) / 1448
    )  # iperf3 counts its payload: Ethernet, IP and UDP have 42 bytes
    assert metrics["policer"]["drop_rate"] == pytest.approx(1 - RATE_BPS / wire_bps, abs=0.005)
    assert (metrics["netem_loss"], metrics["bottleneck"]["drops"]) == (0, 0)
    assert queues.filter(pl.col("place") == "bottleneck")["backlog_bytes"].max() <= 2 * 1514
    assert metrics["rtt_probe"]["p99_s"] == pytest.approx(0.020, abs=0.2e-3)


def test_the_burst_passes_at_once_after_a_pause(policed: dict[str, LabRun]) -> None:
    """Since the start of the traffic, the burst has passed, plus the bytes that the rate allows."""
    facts, queues = policed["twice"].facts, policed["twice"].table("queues")
    ends = queues.filter(pl.col("place") == "bottleneck", pl.col("time_s").is_between(2, 4)).sort(
        "time_s"
    )
    passed = ends.filter(pl.col("parent") == "root")["bytes"]
    reached = ends.filter(pl.col("parent").is_in(PARENTS_OF_CLSACT))
    root, clsact = (
        next(qdisc for qdisc in facts["before"]["qdiscs"]["bottleneck"] if qdisc["kind"] == kind)
        for kind in ("tbf", "clsact")
    )
    times_s, offered = reached["time_s"], reached["bytes"]
    offered_bytes_per_s = (offered[-1] - offered[0]) / (times_s[-1] - times_s[0])
    sent_s = (offered[-1] - clsact["bytes"]) / offered_bytes_per_s
    burst_bytes = passed[-1] - root["bytes"] - RATE_BPS / 8 * sent_s
    assert burst_bytes == pytest.approx(BURST_BYTES, rel=0.02)
    assert (passed[-1] - passed[0]) * 8 / (times_s[-1] - times_s[0]) == pytest.approx(
        RATE_BPS, rel=0.005
    )


def test_what_is_below_the_rate_passes(policed: dict[str, LabRun]) -> None:
    assert policed["below"].record["metrics"]["policer"] == {"drops": 0, "drop_rate": 0}


def test_the_kernel_s_counts_of_dropped_packets_agree(policed: dict[str, LabRun]) -> None:
    """The counts of clsact equal those of the action, which tc shows next to the policer."""
    facts = policed["tcp"].facts
    clsact = next(
        qdisc for qdisc in facts["after"]["qdiscs"]["bottleneck"] if qdisc["kind"] == "clsact"
    )
    assert clsact["drops"] > 0
    assert f"(dropped {clsact['drops']}, " in facts["state_after"]["filters"]["bottleneck"]


@pytest.mark.deep
@pytest.mark.parametrize("spread", ["off", "on"])
def test_a_test_whose_control_connection_would_fail_over_the_path(
    control: dict[str, LabRun], spread: str
) -> None:
    run = control[f"far-and-shallow {spread}"].record
    assert run["verdict"]["status"] == "valid"
    assert run["metrics"]["goodput_bps"] > 2e5


def passed(made: LabRun) -> dict[str, int]:
    """Returns how many packets passed each device."""
    before = made.facts["before"]["qdiscs"]
    return {
        what: after[0]["packets"] - before[what][0]["packets"]
        for what, after in made.facts["after"]["qdiscs"].items()
    }


@pytest.mark.deep
@pytest.mark.parametrize("receivers", ["one", "each"])
def test_only_the_control_connections_leave_the_path(
    control: dict[str, LabRun], receivers: str
) -> None:
    over, beside = control[f"plain path {receivers}"], control[f"plain beside {receivers}"]
    assert {made.finished.verdict.status for made in (over, beside)} == {"valid"}
    assert not any(what.startswith("control") for what in passed(over))
    for host, tests in (("h1", 2), ("h2", 1)):
        for what in ("control-data", "control-ack"):
            assert 10 * tests <= passed(beside)[f"{what} {host}"] <= 40 * tests
    assert beside.finished.metrics.goodput_bps == pytest.approx(
        over.finished.metrics.goodput_bps, rel=0.05
    )
