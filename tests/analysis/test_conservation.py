"""Tests conservation laws on hand-made counters: a run in which everything is conserved, and the
same run with one change.

Each second, 1000 packets of 1514 bytes pass the bottleneck of 12.112 Mbit/s, and 500 ACKs come
back.
"""

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest

from ccmix.analysis.reports import Iperf3TestReport
from ccmix.analysis.series import Series
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import physics
from ccmix.analysis.validity.applied import Observed, Problems
from ccmix.model import (
    AckBottleneck,
    Buffer,
    CommandSource,
    Facts,
    Group,
    LabKernel,
    Measurement,
    PathChange,
    Policer,
    Queue,
    RateChange,
    Run,
    SeriesNames,
)
from ccmix.model.traffic import RttProbe
from support.model import add_sources, iperf3_traffic, one_sender

RATE_BPS, PACKETS, ACKS = 1514 * 8 * 1000.0, 1000, 500
SAMPLES = range(5)
DROPPED, QUEUED = 7, 20  # a second, and in each sample but the first
ENDS = {"ccmix-h1": "sender", "ccmix-receiver": "receiver"}
Law = Callable[[Observed], Problems]


@pytest.fixture
def run() -> Run:
    path = one_sender(RATE_BPS, 0.005, None, Buffer(50, "packet"), 1500, offloads=False)
    return Run(
        "one", {}, "receiver", 1, 7, iperf3_traffic((Group("cubic"),), 1, 4.0, 0.0, 1.0), path
    )


def queue(place: str, packets: int, drops: int = 0, queued: int = 0) -> pl.DataFrame:
    """Returns samples of a root qdisc to which `packets` come each second, in addition to `drops`
    that it drops; from the second sample on, `queued` packets wait.
    """
    held = [0, *(queued,) * (len(SAMPLES) - 1)]
    passed = [second * packets - held[second] for second in SAMPLES]
    return pl.DataFrame(
        {
            "time_s": [float(second) for second in SAMPLES],
            "took_s": 1e-6,
            "place": place,
            "parent": "root",
            "bytes": [1514 * number for number in passed],
            "packets": passed,
            "drops": [second * drops for second in SAMPLES],
            "overlimits": [
                2 * number + second * drops + held[second] for second, number in enumerate(passed)
            ],
            "backlog_bytes": [1514 * number for number in held],
            "backlog_packets": held,
            "least_backlog_bytes": [0 for _ in SAMPLES],
        },
    )


def counters(of_hosts: dict[tuple[str, str], int]) -> pl.DataFrame:
    """Returns samples of these counters of hosts, which grow by these amounts per second."""
    return pl.DataFrame(
        [
            {
                "time_s": second + 2e-6,
                "took_s": 1e-6,
                "netns": netns,
                "name": name,
                "value": 90 + second * each,
            }
            for (netns, name), each in of_hosts.items()
            for second in SAMPLES
        ],
        schema_overrides={"value": pl.UInt64},
    )


SENT = PACKETS + DROPPED
HOSTS = {
    ("ccmix-h1", "Tcp.OutSegs"): SENT - 5,
    ("ccmix-h1", "Tcp.RetransSegs"): 5,
    ("ccmix-h1", "IpExt.InNoECTPkts"): ACKS,
    ("ccmix-h1", "Udp.OutDatagrams"): 0,
    ("ccmix-receiver", "Tcp.OutSegs"): ACKS,
    ("ccmix-receiver", "IpExt.InNoECTPkts"): PACKETS,
}


def tables(hosts: dict[tuple[str, str], int] = HOSTS, **of_queues: pl.DataFrame) -> RunTables:
    queues = {
        "sender-queue": queue("sender-queue", SENT),
        "data-delay": queue("data-delay", SENT),
        "ack-delay": queue("ack-delay", ACKS),
        "bottleneck": queue("bottleneck", PACKETS, DROPPED),
    } | {name.replace("_", "-"): samples for name, samples in of_queues.items()}
    series = Series(pl.DataFrame(), pl.concat(queues.values()), counters(hosts))
    test = Iperf3TestReport("TCP", 1, 4.0, 0.0, 4.0, 1.0, 0.0, 0.0, {})
    return RunTables(pl.DataFrame(), pl.DataFrame(), series, 1000.0, tests={"h1": test})


def measurement(changes: tuple[PathChange, ...] = (), *, in_lab: bool = True) -> Measurement:
    return Measurement(
        facts=Facts("7", lab_kernel=LabKernel("stock", "", "7") if in_lab else None),
        started_s=1000.0,
        ended_s=1004.0,
        ping_rtt_s={},
        series=SeriesNames(sockets=ENDS),
        changes=changes,
    )


def found(law: Law, run: Run, seen: RunTables, facts: Measurement | None = None) -> list[str]:
    return [detail for _, detail in law(Observed(run, seen, facts or measurement()))]


def with_hosts(netns: str, name: str, more: int) -> dict[tuple[str, str], int]:
    """Returns the counters of the hosts, one of which grows by more per second."""
    key = f"ccmix-{netns}", name
    return HOSTS | {key: HOSTS.get(key, 0) + more}


def test_nothing_is_found_where_all_is_conserved(run: Run) -> None:
    for law in (physics.conserved_packets, physics.conserved_rate):
        assert found(law, run, tables()) == []
    waiting = tables(bottleneck=queue("bottleneck", PACKETS, DROPPED, QUEUED), hosts=HOSTS)
    arrived = waiting.series.counters.with_columns(
        value=pl.col("value")
        - pl.when(pl.col("name").str.starts_with("IpExt"), pl.col("netns") == "ccmix-receiver")
        .then(pl.when(pl.col("time_s") > 0.5).then(QUEUED).otherwise(0))
        .otherwise(0)
    )
    assert (
        found(
            physics.conserved_packets,
            run,
            replace(waiting, series=replace(waiting.series, counters=arrived)),
        )
        == []
    )
    assert found(physics.conserved_rate, run, waiting) == []


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (
            tables(with_hosts("h1", "Tcp.OutSegs", 3)),
            "12 packets fewer than expected came on the senders",
        ),
        (
            tables(with_hosts("h1", "Udp.OutDatagrams", -3)),
            "12 packets more than expected came on the senders",
        ),
        (
            tables(
                sender_queue=queue("sender-queue", SENT - 3),
                hosts=with_hosts("h1", "Tcp.OutSegs", -3),
            ),
            "12 packets more than expected came from the senders to the bottleneck's queue",
        ),
        (
            tables(bottleneck=queue("bottleneck", PACKETS, DROPPED - 3)),
            "12 packets fewer than expected came from the senders to the bottleneck's queue",
        ),
        (
            tables(with_hosts("receiver", "IpExt.InNoECTPkts", -3)),
            "12 packets fewer than expected came from the bottleneck's queue to the receivers",
        ),
        (
            tables(with_hosts("receiver", "IpExt.InCEPkts", 3)),
            "12 packets more than expected came from the bottleneck's queue to the receivers",
        ),
        (
            tables(with_hosts("h1", "IpExt.InNoECTPkts", -3)),
            "12 packets fewer than expected came from the receivers to the senders",
        ),
        (
            tables(with_hosts("receiver", "Icmp.OutMsgs", -3)),
            "12 packets more than expected came from the receivers to the senders",
        ),
    ],
)
def test_packets_that_vanish_or_appear_are_told_of_with_their_place(
    run: Run, seen: RunTables, sentence: str
) -> None:
    assert found(physics.conserved_packets, run, seen) == [sentence]


def test_packets_that_wait_in_a_hidden_queue_are_told_of(run: Run) -> None:
    """Two samples in a row lack them. A single sample may, because counters are read one after the
    other.
    """
    for waiting, sentences in (
        ((2.0, 3.0), ["9 packets fewer than expected came from the receivers to the senders"]),
        ((2.0,), []),
    ):
        seen = tables()
        late = pl.col("time_s").floor().is_in(list(waiting)) & (pl.col("netns") == "ccmix-h1")
        held = pl.when(late, pl.col("name").str.starts_with("IpExt")).then(9).otherwise(0)
        held_back = seen.series.counters.with_columns(value=pl.col("value") - held)
        assert (
            found(
                physics.conserved_packets,
                run,
                replace(seen, series=replace(seen.series, counters=held_back)),
            )
            == sentences
        )


def test_what_the_kernel_counts_twice_or_not_at_all_is_spared(run: Run) -> None:
    twice = with_hosts("h1", "Tcp.RetransSegs", 3)
    assert (
        found(
            physics.conserved_packets,
            run,
            tables(twice | {("ccmix-h1", "TcpExt.TCPSynRetrans"): 3}),
        )
        == []
    )
    assert (
        found(
            physics.conserved_packets,
            run,
            tables(twice | {("ccmix-h1", "TcpExt.TCPSynRetrans"): 2}),
        )
        != []
    )
    refused = with_hosts("h1", "Tcp.OutSegs", -3)
    assert (
        found(
            physics.conserved_packets, run, tables(refused | {("ccmix-h1", "Udp.SndbufErrors"): 3})
        )
        == []
    )
    assert (
        found(
            physics.conserved_packets, run, tables(refused | {("ccmix-h1", "Udp.SndbufErrors"): 2})
        )
        != []
    )


def test_drops_of_joined_packets_may_be_many_segments(run: Run) -> None:
    """Each of 7 drops a second is at most 46 segments: on the senders always, on the path only with
    offloads.
    """
    joined = replace(run, path=replace(run.topology, offloads=True))
    seen = tables(
        bottleneck=queue("bottleneck", PACKETS - 100, DROPPED),
        hosts=with_hosts("receiver", "IpExt.InNoECTPkts", -100),
    )
    assert found(physics.conserved_packets, run, seen) == [
        "400 packets fewer than expected came from the senders to the bottleneck's queue"
    ]
    assert found(physics.conserved_packets, joined, seen) == []
    own = tables(
        sender_queue=queue("sender-queue", SENT, 1), hosts=with_hosts("h1", "Tcp.OutSegs", 46)
    )
    assert found(physics.conserved_packets, run, own) == []
    own = tables(
        sender_queue=queue("sender-queue", SENT, 1), hosts=with_hosts("h1", "Tcp.OutSegs", 47)
    )
    assert found(physics.conserved_packets, run, own) == [
        "4 packets fewer than expected came on the senders"
    ]


def test_a_policer_holds_packets_where_it_is_configured(run: Run) -> None:
    policed = replace(run, path=replace(run.topology, policer=Policer(1e6, 10_000)))
    drops = queue("bottleneck", SENT, 30).with_columns(parent=pl.lit("ingress"))
    seen = tables(
        bottleneck=pl.concat([queue("bottleneck", PACKETS - 30, DROPPED), drops]),
        hosts=with_hosts("receiver", "IpExt.InNoECTPkts", -30),
    )
    assert found(physics.conserved_packets, policed, seen) == []
    assert found(physics.conserved_packets, run, seen) == [
        "120 packets fewer than expected came from the senders to the bottleneck's queue"
    ]


def test_in_real_time_only_the_last_sample_counts_and_by_more_than_a_burst(run: Run) -> None:
    real = measurement(in_lab=False)
    assert (
        found(
            physics.conserved_packets, run, tables(with_hosts("h1", "IpExt.InNoECTPkts", -11)), real
        )
        == []
    )
    [sentence] = found(
        physics.conserved_packets, run, tables(with_hosts("h1", "IpExt.InNoECTPkts", -13)), real
    )
    assert sentence == "52 packets fewer than expected came from the receivers to the senders"


def test_without_a_probe_s_counters_nothing_is_said(run: Run) -> None:
    seen = tables(with_hosts("h1", "Tcp.OutSegs", 3))
    without = replace(seen, series=replace(seen.series, counters=pl.DataFrame()))
    assert found(physics.conserved_packets, run, without) == []


def test_segments_and_datagrams_of_no_source_are_told_of(run: Run) -> None:
    seen = replace(tables(), strangers=9)
    assert found(physics.conserved_packets, run, seen) == [
        "9 segments and 0 datagrams were sent for no source"
    ]
    commands = replace(run, traffic=add_sources(run.traffic, CommandSource("x", "h1", "curl")))
    assert found(physics.conserved_packets, commands, seen) == []
    probing = replace(run, traffic=replace(run.traffic, rtt_probe=RttProbe(1, 80)))
    assert found(physics.conserved_packets, probing, seen) == [], "whose connections these may be"
    by_udp = with_hosts("h1", "Tcp.OutSegs", -3) | {("ccmix-h1", "Udp.OutDatagrams"): 3}
    datagrams = tables(by_udp)
    assert found(physics.conserved_packets, run, datagrams) == [
        "0 segments and 12 datagrams were sent for no source"
    ]
    for known, sentences in (
        (11, ["0 segments and 1 datagrams were sent for no source"]),
        (12, []),
        (13, []),
    ):
        tests = {"h1": replace(datagrams.tests["h1"], datagrams=known)}
        assert found(physics.conserved_packets, run, replace(datagrams, tests=tests)) == sentences


def changed(samples: pl.DataFrame, factor: float, seconds: tuple[int, ...]) -> pl.DataFrame:
    """Returns the samples of a queue that passes another rate in the seconds that end at these
    times.
    """
    more = [round((factor - 1) * PACKETS) if second in seconds else 0 for second in SAMPLES]
    passed = pl.Series(more).cum_sum()
    return samples.with_columns(
        packets=pl.col("packets").cast(pl.Int64) + passed,
        bytes=pl.col("bytes") + 1514 * passed,
        overlimits=pl.col("overlimits") + 2 * passed,
    )


@pytest.mark.parametrize(
    ("factor", "shown"),
    [(0.997, "12.1"), (0.97, "11.7"), (0.1, "1.21"), (1.005, "12.2"), (2, "24.2")],
)
def test_another_rate_for_a_while_is_told_of(run: Run, factor: float, shown: str) -> None:
    busy = queue("bottleneck", PACKETS, DROPPED, QUEUED)
    [sentence] = found(
        physics.conserved_rate, run, tables(bottleneck=changed(busy, factor, (2, 3)))
    )
    assert sentence == f"bottleneck passed {shown} Mbit/s, configured: 12.1 Mbit/s"
    assert (
        found(physics.conserved_rate, run, tables(bottleneck=changed(busy, 1 - 1e-3, (2, 3)))) == []
    ), "a packet"


def test_a_queue_that_may_have_been_empty_may_pass_less(run: Run) -> None:
    """An attempt to pass packets that found the queue empty does not count as an overlimit."""
    slower = changed(queue("bottleneck", PACKETS, DROPPED, QUEUED), 0.5, (2, 3))
    empty_once = slower.with_columns(pl.col("overlimits") - pl.col("time_s").cast(pl.Int64))
    assert found(physics.conserved_rate, run, tables(bottleneck=slower)) != []
    assert found(physics.conserved_rate, run, tables(bottleneck=empty_once)) == []
    empty_at_samples = slower.with_columns(backlog_packets=pl.lit(0, pl.Int64))
    assert found(physics.conserved_rate, run, tables(bottleneck=empty_at_samples)) == []


def test_a_rate_is_compared_with_the_one_of_its_time(run: Run) -> None:
    """The rate halves after 2 s. Between two samples in which both rates held, either is
    allowed.
    """
    halves = replace(run, path=replace(run.topology, changes=(RateChange(2.0, RATE_BPS / 2),)))
    made = measurement(changes=(PathChange(2.0, 1002.01, {}),))
    busy = queue("bottleneck", PACKETS, DROPPED, QUEUED)
    as_configured = tables(bottleneck=changed(busy, 0.5, (3, 4)))
    assert found(physics.conserved_rate, halves, as_configured, made) == []
    [sentence] = found(
        physics.conserved_rate, halves, tables(bottleneck=changed(busy, 0.5, (2, 3, 4))), made
    )
    assert sentence.startswith("bottleneck passed 6.06 Mbit/s, configured: 12.1 Mbit/s")
    [sentence] = found(
        physics.conserved_rate, halves, tables(bottleneck=changed(busy, 0.5, (3,))), made
    )
    assert sentence.startswith("bottleneck passed 12.1 Mbit/s, configured: 6.06 Mbit/s")


def test_the_bucket_may_pass_at_once_also_that_of_acks(run: Run) -> None:
    with_acks = replace(
        run,
        path=replace(run.topology, ack_bottleneck=AckBottleneck(RATE_BPS, Buffer(50, "packet"))),
    )
    bucket = run.topology.bucket_bytes(RATE_BPS) // 1514
    for place in ("bottleneck", "ack-bottleneck"):
        own = queue(place, PACKETS)
        for more, sentences in (
            (bucket + 1, []),
            (bucket + 2, [f"{place} passed 12.2 Mbit/s, configured: 12.1 Mbit/s"]),
        ):
            passed = tables(**{place.replace("-", "_"): changed(own, 1 + more / PACKETS, (2,))})
            assert found(physics.conserved_rate, with_acks, passed) == sentences


def test_a_backlog_that_was_watched_tells_that_a_queue_was_busy(run: Run) -> None:
    """With 2000 looks a second, 1514 bytes pass in the time of two looks. fq with a maxrate holds
    packets back.
    """
    slower = changed(queue("bottleneck", PACKETS, DROPPED, QUEUED), 0.9, (2, 3)).with_columns(
        overlimits=pl.lit(0, pl.Int64)
    )
    paced = replace(run, path=replace(run.topology, queue=Queue("fq", ("maxrate", "9mbit"))))
    for least_bytes, shown in ((1513, 0), (1514, 1)):
        watched = tables(
            bottleneck=slower.with_columns(least_backlog_bytes=pl.lit(least_bytes, pl.Int64))
        )
        assert len(found(physics.conserved_rate, run, watched)) == shown
        assert found(physics.conserved_rate, paced, watched) == []


def test_with_offloads_the_packet_that_waits_for_tokens_may_be_a_large_one(run: Run) -> None:
    joined = replace(run, path=replace(run.topology, offloads=True))
    watched = queue("bottleneck", PACKETS, DROPPED, QUEUED).with_columns(
        least_backlog_bytes=pl.lit(9999, pl.Int64)
    )
    for lacking, shown in ((46, 0), (47, 1)):
        slower = changed(watched, 1 - lacking / PACKETS, (2,))
        assert len(found(physics.conserved_rate, joined, tables(bottleneck=slower))) == shown
