"""The verdict: a run made by hand is valid, and every kind of limit is told of by one thing changed in it."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import judge
from ccmix.model import Run
from ccmix.probes.stream_columns import CPU_TIMES
from ccmix.terms import LIMITS
from support import packet_train

Facts = dict[str, Any]
Change = Callable[[RunTables, Facts], RunTables]


def changed_facts(*path: str | int, value: Any) -> Change:
    def change(tables: RunTables, facts: Facts) -> RunTables:
        place: Any = facts
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return tables

    return change


def with_series(tables: RunTables, **changed: pl.DataFrame) -> RunTables:
    return replace(tables, series=replace(tables.series, **changed))  # type: ignore[arg-type]


def changed_sockets(**columns: pl.Expr) -> Change:
    return lambda tables, _: with_series(tables, sockets=tables.series.sockets.with_columns(**columns))


def changed_queues(**columns: pl.Expr) -> Change:
    return lambda tables, _: with_series(tables, queues=tables.series.queues.with_columns(**columns))


def changed_flows(**columns: pl.Expr) -> Change:
    return lambda tables, _: replace(tables, flows=tables.flows.with_columns(**columns))


def with_a_busy_core(tables: RunTables, _: Facts) -> RunTables:
    """Core 1 of two works all the time, but for 1%; it counts ticks since long before the run."""
    rows = [
        {"time_s": float(second), "host": "localhost", "core": core} | dict.fromkeys(CPU_TIMES, 0.0)
        | {"user_s": 50 + busy * second, "softirq_s": 9 + 0.19 * second, "idle_s": 99 + (0.81 - busy) * second}
        for second in range(6) for core, busy in ((0, 0.5), (1, 0.8))
    ]  # fmt: skip
    return with_series(tables, cpu=pl.DataFrame(rows))


def with_drops_of_flow_limit(tables: RunTables, facts: Facts) -> RunTables:
    rows = [
        {"time_s": float(second), "place": "sender-queue", "queue": queue, "flow_limit_drops": drops}
        for second, drops in ((0, 100), (3, 101)) for queue in (1, 2)
    ]  # fmt: skip
    root_of("sender-queue", "drops", 9)(tables, facts)
    return with_series(tables, queues=pl.concat([tables.series.queues, pl.DataFrame(rows)], how="diagonal"))


def without_sockets_of_bbr(tables: RunTables, _: Facts) -> RunTables:
    return with_series(tables, sockets=tables.sockets.filter(pl.col("port") == 40000))


PACKET_S = 1514 * 8 / 1e9  # at 1 Gbit/s


def few_samples(tables: RunTables, _: Facts) -> RunTables:
    last = pl.col("time_s") == pl.col("time_s").max().over("port")
    return with_series(tables, sockets=tables.sockets.filter(last))


def late(column: str) -> pl.Expr:
    """0.17 s in the last sample of port 40000; of the 8 s that both flows were busy, 0.16 s are 2%."""
    return pl.when((pl.col("time_s") == 5) & (pl.col("port") == 40000)).then(0.17).otherwise(pl.col(column))


def root_of(device: str, key: str, value: Any) -> Change:
    return changed_facts("after", "qdiscs", device, 1, key, value=value)


NETSTAT = "TcpExt: SyncookiesSent TCPMemoryPressures TCPX\nTcpExt: 1 6 0\n"
BBR_PORT = pl.col("port") == 40002

# what is changed, the kind of limit, and part of its sentence
FINDINGS: dict[str, tuple[Change, str, str]] = {
    "CCA by iperf3": (
        changed_flows(cca_used=pl.Series(["cubic", "cubic"])), "cca", "port 40002 was to run bbr and ran"
    ),
    "CCA by ss": (
        changed_sockets(cca=pl.when(BBR_PORT).then(pl.lit("reno")).otherwise("cca")), "cca", "port 40002 was to run bbr"
    ),
    "CCA for a while": (
        changed_sockets(cca=pl.when(BBR_PORT & (pl.col("time_s") > 4)).then(pl.lit("reno")).otherwise("cca")),
        "cca", "port 40002",
    ),
    "CCA of unseen socket": (without_sockets_of_bbr, "cca", "none that the probe saw"),
    "offloads": (
        changed_facts("offloads", value={"ccmix-h1 generic-segmentation-offload": True}),
        "offloads", "on are ccmix-h1 generic-segmentation-offload",
    ),
    "long ping": (changed_facts("ping_rtt_s", "h1", value=[0.0103, 0.0104]), "rtt", "ping sees 10.3 ms, configured"),
    "short ping": (changed_facts("ping_rtt_s", "h1", value=[0.0097, 0.0101]), "rtt", "ping sees 9.7 ms"),
    "no ping": (changed_facts("ping_rtt_s", "h1", value=[]), "rtt", "ping sees"),
    "short RTT of sockets": (changed_sockets(min_rtt_s=pl.lit(0.0097)), "rtt", "the sockets see 9.7 ms"),
    "whole RTT of sockets": (changed_sockets(min_rtt_s=pl.lit(0.008)), "rtt", "the sockets see 8 ms"),
    # 10 packets of 1514 bytes take 0.12 ms at 1 Gbit/s
    "long RTT of sockets": (changed_sockets(min_rtt_s=pl.lit(0.01033)), "rtt", "the sockets see 10.33 ms"),
    "no RTT of sockets": (changed_sockets(min_rtt_s=pl.lit(None, pl.Float64)), "rtt", "no minimum RTT"),
    "fast bottleneck": (
        changed_queues(bytes=(pl.col("bytes") * 1.011).cast(pl.Int64)), "rate", "passed 1.01 Gbit/s, configured are"
    ),
    # 197 packets take 2.386 ms; 1% and 20 us more are tolerated
    "slow train": (changed_facts("train_s", value=packet_train(1.03 * PACKET_S)), "rate", "a train passed at 971"),
    "fast train": (changed_facts("train_s", value=packet_train(0.97 * PACKET_S)), "rate", "a train passed at 1.03"),
    "too much loss": (root_of("data-delay", "drops", 1205), "loss", "netem lost 1200 of 1000200 packets (0.12%)"),
    "too little loss": (root_of("data-delay", "drops", 805), "loss", "netem lost 800 of 999800 packets (0.08%)"),
    "no packet": (
        lambda tables, facts: root_of("data-delay", "packets", 20)(tables, facts)
        and root_of("data-delay", "drops", 5)(tables, facts),
        "loss", "no packet passed netem",
    ),
    "loss on return": (root_of("ack-delay", "drops", 7), "netem-limit", "netem dropped 1 packets on the way back"),
    "large buffer": (
        changed_facts("after", "qdiscs", "bottleneck", 1, "options", "lat", value=9976 + 14), "buffer", "the kernel has"
    ),
    "small buffer": (
        changed_facts("after", "qdiscs", "bottleneck", 1, "options", "lat", value=9976 - 14), "buffer", "the kernel has"
    ),
    "long queue": (
        changed_queues(backlog_bytes=pl.col("backlog_bytes") + 3000), "buffer", "1.25 MB were queued, configured"
    ),
    "receiver's window": (
        changed_sockets(receiver_window_limited_s=late("receiver_window_limited_s")), "receiver-window", "2.12% of the"
    ),
    "sender's buffer": (
        changed_sockets(send_buffer_limited_s=late("send_buffer_limited_s")), "send-buffer", "2.12% of the busy time"
    ),
    "memory pressure": (
        changed_facts("after", "netstat", "ccmix-receiver", value=NETSTAT), "tcp-memory", "ccmix-receiver came under"
    ),
    "CCA without ECN": (
        changed_sockets(cca=pl.when(BBR_PORT).then(pl.lit("dctcp-reno")).otherwise("cca")), "cca",
        "port 40002 was to run bbr and ran",
    ),
    "flow_limit": (with_drops_of_flow_limit, "sender-queue", "5 packets, 2 of them by flow_limit"),
    "core": (with_a_busy_core, "cpu", "core 1 of localhost was idle 1% of the time"),
    "sender's queue": (root_of("sender-queue", "drops", 6), "sender-queue", "2 packets"),
    "backlog": (
        changed_facts("after", "softnet", "localhost", value="0000beef 00000002\n00001234 0000001a\n"),
        "host-backlog", "localhost dropped 16 packets",
    ),
    "missed samples": (changed_facts("probes", "queues", "missed", value=2), "probe", "queues: 2 of 8 samples missed"),
    "failed probe": (changed_facts("probes", "sockets", "failed", value="ss: gone"), "probe", "sockets: ss: gone"),
}  # fmt: skip

# what is a little off and must not be told
TOLERATED: dict[str, Change] = {
    "a little loss more": root_of("data-delay", "drops", 1105),  # 3.2 standard deviations
    "a little loss less": root_of("data-delay", "drops", 905),
    "ping": changed_facts("ping_rtt_s", "h1", value=[0.01019, 0.3]),
    "long RTT of sockets": changed_sockets(min_rtt_s=pl.lit(0.01031)),
    "RTT of sockets by TCP's time stamps": changed_sockets(min_rtt_s=pl.lit(0.009)),
    "rate": changed_queues(bytes=(pl.col("bytes") * 1.009).cast(pl.Int64)),
    "slow without a queue": lambda tables, facts: changed_queues(backlog_bytes=pl.lit(0))(
        changed_queues(bytes=(pl.col("bytes") * 0.5).cast(pl.Int64))(tables, facts), facts
    ),
    "a packet in the buffer": changed_facts("after", "qdiscs", "bottleneck", 1, "options", "lat", value=9976 + 12),
    "limited for a moment": changed_sockets(send_buffer_limited_s=late("send_buffer_limited_s") * 0.9),
    # 2 flows, 16 ms together of less than 100 ms: a jiffy or two
    "limited for a jiffy": changed_sockets(
        busy_s=pl.col("time_s") * 0.005,
        receiver_window_limited_s=pl.when(pl.col("time_s") == 5).then(0.008).otherwise(0.0),
    ),
    "limited in the omitted time": changed_sockets(send_buffer_limited_s=pl.when(pl.col("time_s") > 0).then(0.9)),
}


def test_a_run_where_all_is_as_configured_is_valid(run: Run, tables: RunTables, facts: Facts) -> None:
    assert judge(run, tables, facts).to_json() == {"status": "valid", "findings": []}


@pytest.mark.parametrize(("change", "kind", "sentence"), FINDINGS.values(), ids=FINDINGS)
def test_one_thing_changed_is_told(
    run: Run, tables: RunTables, facts: Facts, change: Change, kind: str, sentence: str
) -> None:
    verdict = judge(run, change(tables, facts), facts)
    assert verdict.status == "limited"
    [finding] = verdict.findings
    assert (finding.kind, finding.accepted) == (kind, False)
    assert finding.detail.startswith(LIMITS[kind] + ": ")
    assert sentence in finding.detail


@pytest.mark.parametrize("change", TOLERATED.values(), ids=TOLERATED)
def test_what_is_within_tolerance_is_not_told(run: Run, tables: RunTables, facts: Facts, change: Change) -> None:
    assert judge(run, change(tables, facts), facts).findings == ()


def test_every_kind_of_limit_is_tested() -> None:
    assert {kind for _, kind, _ in FINDINGS.values()} == set(LIMITS)


@pytest.mark.parametrize(("change", "kind", "sentence"), FINDINGS.values(), ids=FINDINGS)
def test_an_accepted_limit_leaves_the_run_valid_and_is_kept(
    run: Run, tables: RunTables, facts: Facts, change: Change, kind: str, sentence: str
) -> None:
    verdict = judge(replace(run, accept_limits=(kind,)), change(tables, facts), facts)
    assert verdict.status == "valid"
    assert [(finding["kind"], finding["accepted"]) for finding in verdict.to_json()["findings"]] == [(kind, True)]


def test_too_few_samples_are_unknown(run: Run, tables: RunTables, facts: Facts) -> None:
    verdict = judge(run, few_samples(tables, facts), facts)
    assert verdict.status == "unknown"
    [finding] = verdict.findings
    assert "2 of 2 flows have fewer than two samples in the measured time" in finding.detail
    assert judge(replace(run, accept_limits=("probe",)), few_samples(tables, facts), facts).status == "valid"


def test_loss_of_joined_packets_is_unknown(run: Run, tables: RunTables, facts: Facts) -> None:
    joined = replace(run, path=replace(run.topology, offloads=True))
    verdict = judge(joined, tables, facts)
    assert (verdict.status, [finding.kind for finding in verdict.findings]) == ("unknown", ["loss"])
    facts["ping_rtt_s"] = {"h1": [1.0]}
    assert judge(joined, tables, facts).status == "limited"


def test_an_accepted_limit_does_not_cover_another(run: Run, tables: RunTables, facts: Facts) -> None:
    facts = copy.deepcopy(facts)
    facts["probes"]["queues"]["missed"] = 1
    facts["ping_rtt_s"] = {"h1": [1.0]}
    verdict = judge(replace(run, accept_limits=("rtt", "loss")), tables, facts)
    assert verdict.status == "limited"
    assert [(finding.kind, finding.accepted) for finding in verdict.findings] == [("rtt", True), ("probe", False)]


def test_no_loss_configured_means_none(run: Run, tables: RunTables, facts: Facts) -> None:
    lossless = replace(run, path=replace(run.topology, loss=None))
    [finding] = judge(lossless, tables, facts).findings
    assert finding.kind == "loss"
    root_of("data-delay", "drops", 5)(tables, facts)
    assert judge(lossless, tables, facts).findings == ()


def test_a_buffer_of_a_packet_which_tc_says_in_bytes(small_buffer_run: Run, tables: RunTables, facts: Facts) -> None:
    """Where tbf's limit is less than its burst, tc prints no 'lat' (seen with iproute2 6.1)."""
    facts["train_s"] = []  # it holds none
    facts["after"]["qdiscs"]["bottleneck"][1]["options"] = {"rate": 125_000_000, "burst": 3000, "limit": 1514}
    short = changed_queues(backlog_bytes=pl.col("backlog_bytes").clip(0, 1514))(tables, facts)
    assert judge(small_buffer_run, short, facts).findings == ()
    facts["after"]["qdiscs"]["bottleneck"][1]["options"]["limit"] = 5000
    assert [finding.kind for finding in judge(small_buffer_run, short, facts).findings] == ["buffer"]
    facts["after"]["qdiscs"]["bottleneck"][1]["options"] |= {"limit": 1514, "rate": 120_000_000}
    assert [finding.kind for finding in judge(small_buffer_run, short, facts).findings] == ["rate"]


def test_a_fast_path_whose_buffer_tc_rounds_to_a_microsecond(run: Run, tables: RunTables, facts: Facts) -> None:
    """At 100 Gbit/s a microsecond is 12,500 bytes, more than a packet."""
    fast = replace(run, path=replace(run.topology, rate_bps=100e9))
    facts["train_s"] = packet_train(PACKET_S / 100)
    options = {"rate": 12_500_000_000, "burst": 0, "lat": 9999}  # of 125,000,000 bytes, 10,000 us
    facts["after"]["qdiscs"]["bottleneck"][1]["options"] = options
    table = changed_queues(bytes=pl.col("bytes") * 100)(tables, facts)
    assert judge(fast, table, facts).findings == ()
    options["lat"] = 9990
    assert [finding.kind for finding in judge(fast, table, facts).findings] == ["buffer"]
