"""Tests which metrics are impossible on a path, on hand-made metrics: 10 s of a path of 100 Mbit/s
with a base RTT of 10 ms.
"""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.series import Series
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import physics, verdict
from ccmix.analysis.validity.applied import Observed
from ccmix.model import Buffer, CommandSource, Facts, Group, Measurement, RateChange, Run, UdpSource
from ccmix.model.results import (
    BottleneckMetrics,
    CompletionMetrics,
    FlowMetrics,
    GroupMetrics,
    Metrics,
    PolicerMetrics,
    RttProbeMetrics,
)
from ccmix.units import MOST_RATE_BPS
from support.model import (
    add_sources,
    empty_metrics,
    host_run,
    iperf3_traffic,
    one_sender,
    with_senders,
)

RATE_BPS, SECONDS, OMIT_S = 100e6, 10.0, 2.0
TCP_BPS, UDP_BPS = RATE_BPS * 1448 / 1514, RATE_BPS * 1472 / 1514
BUCKET_BPS = 3 * 1514 * 8 / SECONDS  # of two packets, and one in transmission
MOST_BPS = TCP_BPS + BUCKET_BPS
Changed = dict[str, Any]


@pytest.fixture
def run() -> Run:
    path = one_sender(RATE_BPS, 0.005, None, Buffer(1, "bdp"), 1500, offloads=False)
    return Run(
        "one", {}, "receiver", 1, 7, iperf3_traffic((Group("cubic"),), 1, SECONDS, 0.0, 1.0), path
    )


def flow(**some: Any) -> FlowMetrics:
    nothing: Changed = dict.fromkeys(
        (
            "stream",
            "cca_asked",
            "cca_used",
            "throughput_bps",
            "retransmits",
            "bytes_sent",
            "data_segments",
            "retransmitted_segments",
            "retransmission_rate",
            "share",
            "convergence_s",
        )
    )
    return FlowMetrics(
        **nothing | {"host": "h1", "port": 40000, "group": "cubic", "goodput_bps": 0.0} | some
    )


def group(**some: Any) -> GroupMetrics:
    known: Changed = {
        "group": "cubic",
        "host": "h1",
        "cca": "cubic",
        "streams": 1,
        "goodput_bps": 0.0,
    }
    return GroupMetrics(**known | {"throughput_bps": None, "retransmission_rate": None} | some)


def completed(**some: Any) -> CompletionMetrics:
    known: Changed = {"group": "web", "host": "h1", "cca": "cubic", "begun": 9, "completed": 9}
    return CompletionMetrics(
        **dict.fromkeys(("mean_s", "median_s", "p95_s", "p99_s")) | known | some
    )


def queue(**some: Any) -> BottleneckMetrics:
    names = ("mean_bytes", "median_bytes", "p95_bytes", "p99_bytes", "max_bytes")
    backlogs: Changed = {f"backlog_{name}": 0 for name in names}
    return BottleneckMetrics(
        **backlogs
        | {"occupancy_mean": 0.0, "drops": 0, "drop_rate": 0.0, "utilisation": 1.0}
        | some
    )


def probed(**some: Any) -> RttProbeMetrics:
    return RttProbeMetrics(
        **{"questions": 9, "unanswered": 0.0, "median_s": 0.01, "p95_s": 0.01, "p99_s": 0.01} | some
    )


def seen(run: Run, sacked: int = 0) -> Observed:
    sockets = pl.DataFrame(
        {
            "time_s": [1.0, OMIT_S],
            "end": "sender",
            "final": False,
            "state": "established",
            "host": "h1",
            "port": 40000,
            "sacked": [999, sacked],
        }
    )
    tables = RunTables(pl.DataFrame(), pl.DataFrame(), Series(sockets), 1000.0)
    return Observed(
        run, tables, Measurement(facts=Facts("7"), started_s=1000.0, ended_s=1010.0, ping_rtt_s={})
    )


def found(run: Run, metrics: Metrics, sacked: int = 0) -> list[str]:
    return [detail for _, detail in physics.impossible(seen(run, sacked), metrics)]


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        (empty_metrics(goodput_bps=-1.0), "goodput_bps of Metrics is -1, outside of 0 to {most}"),
        (empty_metrics(bytes_sent=-1), "bytes_sent of Metrics is -1, outside of 0 to inf"),
        (
            empty_metrics(goodput_bps=float("nan")),
            "goodput_bps of Metrics is nan, outside of 0 to {most}",
        ),
        (empty_metrics(fairness=1.01), "fairness of Metrics is 1.01, outside of 0 to 1"),
        (empty_metrics(netem_loss=1.5), "netem_loss of Metrics is 1.5, outside of 0 to 1"),
        (
            empty_metrics(retransmission_rate=6e6),
            "retransmission_rate of Metrics is 6e+06, outside of 0 to 1",
        ),
        (
            empty_metrics(bottleneck=queue(drop_rate=1.2)),
            "drop_rate of BottleneckMetrics is 1.2, outside of 0 to 1",
        ),
        (
            empty_metrics(bottleneck=queue(drops=-3)),
            "drops of BottleneckMetrics is -3, outside of 0 to inf",
        ),
        (
            empty_metrics(policer=PolicerMetrics(drops=1, drop_rate=2.0)),
            "drop_rate of PolicerMetrics is 2, outside of 0 to 1",
        ),
        (
            empty_metrics(rtt_probe=probed(unanswered=-0.1)),
            "unanswered of RttProbeMetrics is -0.1, outside of 0 to 1",
        ),
        (
            empty_metrics(flows=(flow(share=1.2),)),
            "share of FlowMetrics cubic h1 40000 is 1.2, outside of 0 to 1",
        ),
        (
            empty_metrics(flows=(flow(data_segments=-9),)),
            "data_segments of FlowMetrics cubic h1 40000 is -9, outside of 0 to inf",
        ),
        (
            empty_metrics(groups=(group(share=-0.1),)),
            "share of GroupMetrics cubic h1 is -0.1, outside of 0 to 1",
        ),
        (
            empty_metrics(completions=(completed(mean_s=-1.0),)),
            "mean_s of CompletionMetrics web h1 is -1, outside of 0 to inf",
        ),
    ],
)
def test_metrics_that_are_impossible_anywhere(run: Run, metrics: Metrics, sentence: str) -> None:
    assert found(run, metrics) == [sentence.format(most=f"{MOST_BPS:.6g}")]
    between_hosts = replace(host_run("a", "b"), traffic=run.traffic)
    assert found(between_hosts, metrics) == [sentence.format(most=f"{MOST_RATE_BPS:.6g}")]


def test_what_is_possible_is_not_told_of(run: Run) -> None:
    most = 0.9999 * TCP_BPS
    metrics = empty_metrics(
        goodput_bps=most,
        utilisation=most / RATE_BPS,
        fairness=1.0,
        retransmission_rate=1.0,
        rtt_median_s=0.01,
        bottleneck=queue(drop_rate=1.0),
        rtt_probe=probed(unanswered=1.0),
        groups=(group(share=1.0, goodput_bps=most),),
        flows=(flow(share=0.0, rtt_p95_s=0.01, goodput_bps=most),),
    )
    assert found(run, metrics) == []


def test_more_goodput_than_the_path_carries(run: Run) -> None:
    for of_what, made in (("", empty_metrics), (" cubic h1", group), (" cubic h1 40000", flow)):
        for factor in (0.9999, 1.0001):
            part = made(goodput_bps=factor * MOST_BPS)
            kind = type(part).__name__
            metrics = (
                part
                if kind == "Metrics"
                else empty_metrics(**{f"{kind.removesuffix('Metrics').lower()}s": (part,)})
            )
            sentence = (
                f"goodput_bps of {kind}{of_what} is {factor * MOST_BPS:.6g}, outside of "
                f"0 to {MOST_BPS:.6g}"
            )
            assert found(run, metrics) == ([sentence] if factor > 1 else [])
    assert found(run, empty_metrics(utilisation=1.0005)) != []
    assert found(run, empty_metrics(bottleneck=queue(utilisation=1.0005))) != []


def test_a_flow_carries_as_much_as_passes_in_its_own_time(run: Run) -> None:
    bits = 2 * TCP_BPS
    assert found(run, empty_metrics(flows=(flow(goodput_bps=bits / 2, active_s=2.0),))) == []
    assert found(run, empty_metrics(flows=(flow(goodput_bps=bits / 1.9, active_s=1.9),))) != []


def test_udp_has_shorter_headers(run: Run) -> None:
    udp = replace(run, traffic=add_sources(run.traffic, UdpSource("x", "h1", 1e6, 1)))
    assert found(udp, empty_metrics(goodput_bps=0.9999 * UDP_BPS)) == []
    assert found(udp, empty_metrics(goodput_bps=1.001 * UDP_BPS)) != []


def test_a_command_may_receive_as_well(run: Run) -> None:
    command = replace(run, traffic=add_sources(run.traffic, CommandSource("x", "h1", "curl")))
    assert found(command, empty_metrics(goodput_bps=2 * RATE_BPS)) == []


def test_what_had_come_before_the_measured_time_may_count_in_it(run: Run) -> None:
    """That is 2 BDP for a full buffer and a round trip, and the data that had been acknowledged out
    of order just before.
    """
    omitting = replace(run, traffic=replace(run.traffic, omit_s=OMIT_S))
    bits = SECONDS * MOST_BPS + 2 * RATE_BPS * 0.01
    assert found(omitting, empty_metrics(goodput_bps=0.9999 * bits / SECONDS)) == []
    assert found(omitting, empty_metrics(goodput_bps=1.0001 * bits / SECONDS)) != []
    more = bits + 100 * 1448 * 8
    assert found(omitting, empty_metrics(goodput_bps=0.9999 * more / SECONDS), sacked=100) == []
    assert found(omitting, empty_metrics(goodput_bps=1.0001 * more / SECONDS), sacked=100) != []


def test_the_largest_of_the_rates_carries_a_flow_and_all_of_them_the_run(run: Run) -> None:
    """Utilisation is goodput over the mean of the rates."""
    halves = replace(run, path=replace(run.topology, changes=(RateChange(5.0, RATE_BPS / 2),)))
    assert found(halves, empty_metrics(goodput_bps=0.9999 * TCP_BPS, utilisation=0.9999)) == []
    assert found(halves, empty_metrics(goodput_bps=0.9999 * TCP_BPS, utilisation=1.001)) != []


@pytest.mark.parametrize(
    ("least_s", "sender"),
    [
        (0.01, {}),
        (0.01 + 0.000004, {"drawn_delay_s": 0.000004}),
        (0.006, {"jitter_s": 0.002}),
        (0.005, {"reorder": 0.01}),
        (0.007, {"ack_delay_s": 0.002}),
    ],
)
def test_no_rtt_is_below_the_propagation_delay(run: Run, least_s: float, sender: Changed) -> None:
    path = replace(run, path=with_senders(run.topology, **sender))
    for made in (
        lambda rtt_s: empty_metrics(rtt_median_s=rtt_s),
        lambda rtt_s: empty_metrics(flows=(flow(rtt_p99_s=rtt_s),)),
        lambda rtt_s: empty_metrics(groups=(group(rtt_p95_s=rtt_s),)),
        lambda rtt_s: empty_metrics(rtt_probe=probed(median_s=rtt_s, p95_s=0.02, p99_s=0.02)),
    ):
        assert found(path, made(least_s)) == []
        [sentence] = found(path, made(least_s - 2e-6))
        assert f"is {least_s - 2e-6:.6g}, outside of {least_s - 1e-6:.6g}" in sentence


def test_the_rtt_of_what_is_sent_again_is_rounded_down(run: Run) -> None:
    assert found(run, empty_metrics(rtt_median_s=0.0091, retransmission_rate=0.1)) == []
    assert found(run, empty_metrics(rtt_median_s=0.0089, retransmission_rate=0.1)) != []
    assert found(run, empty_metrics(rtt_median_s=0.0091, retransmission_rate=0.0)) != []


def test_a_run_with_an_impossible_metric_is_not_valid(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves out everything else that a verdict looks at."""
    monkeypatch.setattr(verdict, "CHECKS_OF_EMULATED_PATHS", ())
    monkeypatch.setattr(verdict, "unseen", lambda observed: iter(()))
    monkeypatch.setattr(verdict, "not_verified", lambda observed: iter(()))
    observed = seen(run)
    for metrics, status in (
        (empty_metrics(fairness=2.0), "limited"),
        (empty_metrics(fairness=1.0), "valid"),
    ):
        assert verdict.judge(run, observed.tables, observed.measurement, metrics).status == status
    metrics, accepting = empty_metrics(fairness=2.0), replace(run, accept_limits=("physics",))
    assert (
        verdict.judge(accepting, observed.tables, observed.measurement, metrics).status == "valid"
    )
