"""Tests runs between hosts: tables from the output of a command and from the source's sockets, and
their verdict. All data are hand-made.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.raw_files import as_measured, read_tables
from ccmix.analysis.tables import RunTables
from ccmix.model import (
    Capture,
    CaptureFacts,
    CommandSource,
    Counters,
    Destination,
    Facts,
    HostPath,
    Loss,
    Measurement,
    Netem,
    NetemPlace,
    ProbeReport,
    QdiscCounters,
    Run,
    Traffic,
)
from ccmix.model.results import Verdict
from support.model import judged

BEGIN_S = 1000.0
NAMES, VALUES = "TcpExt: SyncookiesSent TCPMemoryPressures\n", "TcpExt: 0 0\n"


@pytest.fixture
def run() -> Run:
    path = HostPath("localhost", Destination("far", "10.0.3.2", "10.0.3.2"), "a label")
    return Run(
        "one",
        {},
        "far",
        1,
        7,
        Traffic((CommandSource("", "src", "transfer 10.0.3.2"),), 3.0, 0.0, 1.0),
        path,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes a run of two flows that send 1 and 3 MB a second, a third flow that ends early, and a
    control connection.

    They have connected half a second before.
    """
    (tmp_path / "generators").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "generators" / "src-cmd.out").write_text("226 Transfer complete.\n")
    connected = "".join(flow(port, cca, 0, 0) for port, cca in ((40000, "cubic"), (40002, "bbr")))
    samples = [{"time_s": BEGIN_S - 0.5, "seconds": 0.01, "output": connected}]
    for second in range(4):
        lines = [
            flow(40000, "cubic", second, 1_000_000),
            flow(40002, "bbr", second, 3_000_000),
            flow(39998, "cubic", second, 50),
        ]
        if second < 2:
            lines.append(flow(40004, "bbr", second, 2_000_000))
        samples.append({"time_s": BEGIN_S + second, "seconds": 0.01, "output": "".join(lines)})
    write(tmp_path, "sockets", samples)
    return tmp_path


def flow(port: int, cca: str, second: int, rate: int) -> str:
    acked, sent = second * rate, second * rate + rate // 10
    return (
        f"0 0 10.0.1.1:{port} 10.0.3.2:2811 {cca} rtt:10/1 bytes_sent:{sent} bytes_acked:{acked} "
        f"data_segs_out:{1 + second * 10} retrans:0/{second * 2} busy:{second * 1000}ms\n"
    )


def write(folder: Path, probe: str, samples: list[dict[str, Any]]) -> None:
    (folder / "logs" / f"{probe}.jsonl").write_text(
        "".join(json.dumps(sample) + "\n" for sample in samples)
    )


def wrote(folder: Path, client: dict[str, Any]) -> None:
    """Makes the src-cmd have printed iperf3's JSON."""
    (folder / "generators" / "src-cmd.out").write_text(json.dumps(client))


def unsampled(folder: Path) -> None:
    (folder / "logs" / "sockets.jsonl").write_text("")


def stream(fd: int, bps: float, **more: Any) -> dict[str, Any]:
    return {
        "sender": {"socket": fd, "bits_per_second": bps * 1.1, "retransmits": 5},
        "receiver": {"socket": fd, "bits_per_second": bps},
    } | more


def stock_iperf3(cca: str, streams: list[dict[str, Any]]) -> dict[str, Any]:
    sent = [{"socket": fd, "bytes": 1_000_000, "retransmits": 1} for fd in (5, 7)]
    return {
        "start": {
            "connected": [{"socket": 5, "local_port": 40000}, {"socket": 7, "local_port": 40002}],
            "connecting_to": {"host": "10.0.3.2"},
        },
        "intervals": [
            {"streams": sent, "sum": {"end": end, "omitted": False, "seconds": 1.0}}
            for end in (1.0, 2.0, 3.0)
        ],
        "end": {"streams": streams, "sender_tcp_congestion": cca},
    }


def two_streams() -> dict[str, Any]:
    return stock_iperf3("bbr", [stream(5, 9e6), stream(7, 25e6)])


def test_flows_of_any_command_are_its_sockets_that_carried_data(run: Run, folder: Path) -> None:
    flows = read_tables(run, folder, measurement()).flows.sort("port")
    assert flows["port"].to_list() == [40000, 40002, 40004]
    assert flows["group"].to_list() == ["cubic", "bbr", "bbr"]
    assert flows["retransmits"].to_list() == [6, 6, 2]
    # from the first data of any of them: nothing was sent before the sample at 1000 s
    assert flows.select("begin_s", "end_s").rows() == [(0.0, 3.0)] * 3
    assert flows["cca_asked"].to_list() == [None] * 3


def test_intervals_of_any_command(run: Run, folder: Path) -> None:
    intervals = (
        read_tables(run, folder, measurement())
        .intervals.filter(pl.col("port") == 40002)
        .sort("time_s")
    )
    assert intervals["time_s"].to_list() == [1.0, 2.0, 3.0]
    assert intervals["goodput_bps"].to_list() == [24e6] * 3
    assert intervals["retransmits"].to_list() == [2, 2, 2]
    assert intervals["group"].to_list() == ["bbr"] * 3


def test_metrics_of_any_command(run: Run, folder: Path) -> None:
    metrics = run_metrics(
        run, read_tables(run, folder, measurement()), measurement().ping_rtt_s, measurement()
    )
    cubic, bbr = metrics.groups
    assert (cubic.group, cubic.cca, cubic.goodput_bps) == ("cubic", "cubic", 8e6)
    assert (bbr.streams, bbr.goodput_bps) == (2, pytest.approx(24e6 + 16e6 / 3))
    assert (metrics.goodput_bps, metrics.utilisation) == (pytest.approx(32e6 + 16e6 / 3), None)
    assert cubic.retransmission_rate == pytest.approx(6 / 30)
    assert metrics.bytes_sent == 3_100_000 + 9_300_000 + 2_200_000


def test_a_command_without_any_connection(run: Run, folder: Path) -> None:
    write(folder, "sockets", [{"time_s": BEGIN_S, "seconds": 0.01, "output": ""}])
    tables = read_tables(run, folder, measurement())
    assert (tables.flows.height, tables.intervals.height) == (0, 0)
    assert run_metrics(run, tables, {}).goodput_bps == 0
    verdict = judged(run, tables, measurement())
    assert verdict.status == "unknown"
    assert (
        "no connection to 10.0.3.2 carried data in view of localhost" in verdict.findings[0].detail
    )


def test_sockets_are_believed_rather_than_stock_iperf3(run: Run, folder: Path) -> None:
    """iperf3 reports 9 and 25 Mbit/s; 1 and 3 MB a second were acknowledged."""
    wrote(folder, two_streams())
    tables = read_tables(run, folder, measurement())
    assert tables.flows["group"].to_list() == ["bbr", "bbr"]
    assert sorted(tables.sockets["port"].unique()) == [40000, 40002]
    assert (
        tables.intervals.sort("port", "time_s")["goodput_bps"].to_list() == [8e6] * 3 + [24e6] * 3
    )
    metrics = run_metrics(run, tables, measurement().ping_rtt_s, measurement())
    assert [(flow.goodput_bps, flow.counted_by) for flow in metrics.flows] == [
        (8e6, "sender"),
        (24e6, "sender"),
    ]


def test_iperf3_s_own_word_is_taken_where_no_socket_was_sampled(run: Run, folder: Path) -> None:
    wrote(folder, two_streams())
    unsampled(folder)
    tables = read_tables(run, folder, measurement())
    assert (
        tables.intervals["goodput_bps"].to_list() == [8e6] * 2
    )  # of 1 MB, 7.6 blocks, in each of 3 that are joined
    metrics = run_metrics(run, tables, measurement().ping_rtt_s, measurement())
    assert [(flow.goodput_bps, flow.counted_by) for flow in metrics.flows] == [
        (9e6, "generator"),
        (25e6, "generator"),
    ]


def test_a_connection_of_others_from_the_same_port_is_not_iperf3_s(run: Run, folder: Path) -> None:
    client = two_streams()
    for connected in client["start"]["connected"]:
        connected["remote_port"] = 2811
    wrote(folder, client)
    alone = read_tables(run, folder, measurement()).sockets
    samples = [
        json.loads(line) for line in (folder / "logs" / "sockets.jsonl").read_text().splitlines()
    ]
    for second, sample in enumerate(samples):
        sample["output"] += flow(40000, "reno", second, 7_000_000).replace(":2811", ":443")
    write(folder, "sockets", samples)
    assert read_tables(run, folder, measurement()).sockets.equals(alone)


def test_the_patched_iperf3_in_a_command_tells_the_cca_of_each_stream(
    run: Run, folder: Path
) -> None:
    streams = [stream(5, 9e6, group=1), stream(7, 25e6, group=2)]
    for one, cca in zip(streams, ("cubic", "bbr"), strict=True):
        one["sender"]["congestion"] = cca
    wrote(folder, stock_iperf3("cubic,bbr", streams))
    assert read_tables(run, folder, measurement()).flows["group"].to_list() == ["cubic", "bbr"]


def test_the_server_s_intervals_are_goodput_where_no_socket_was_sampled(
    run: Run, folder: Path
) -> None:
    server = stock_iperf3("bbr", [])
    server["start"] = {
        "connected": [{"socket": 8, "remote_port": 40000}, {"socket": 9, "remote_port": 40002}],
        "accepted_connection": {},
    }
    for interval in server["intervals"]:
        interval["streams"] = [{"socket": 8, "bytes": 125_000}, {"socket": 9, "bytes": 250_000}]
    client = stock_iperf3("bbr", [stream(5, 1e6), stream(7, 2e6)]) | {"server_output_json": server}
    wrote(folder, client)
    unsampled(folder)
    intervals = read_tables(run, folder, measurement()).intervals.sort("port", "time_s")
    assert intervals["goodput_bps"].to_list() == [
        1e6,
        2e6,
    ]  # fewer than ten blocks in each of 3, which are joined
    assert intervals["retransmits"].to_list() == [3, 3]


def test_udp_that_was_lost_is_no_goodput(run: Run, folder: Path) -> None:
    udp = {
        "udp": {
            "socket": 5,
            "bits_per_second": 5e6,
            "packets": 100,
            "lost_packets": 90,
            "sender": True,
        }
    }
    wrote(folder, stock_iperf3("cubic", [udp]))
    assert read_tables(run, folder, measurement()).flows["goodput_bps"].to_list() == [
        pytest.approx(5e5)
    ]


def test_both_directions_at_once_are_groups_of_their_own(run: Run, folder: Path) -> None:
    streams = [stream(5, 9e6), stream(7, 25e6)]
    streams[0]["sender"]["sender"], streams[1]["sender"]["sender"] = True, False
    wrote(folder, stock_iperf3("bbr", streams))
    assert read_tables(run, folder, measurement()).flows["group"].to_list() == ["bbr", "bbr back"]


def test_connections_that_were_there_before_are_not_the_run_s(run: Run, folder: Path) -> None:
    there_before = replace(measurement(), ports_before=(40002,))
    assert read_tables(run, folder, there_before).flows["port"].to_list() == [40000, 40004]


def test_the_omitted_time_and_interval_of_a_command_are_iperf3_s(run: Run, folder: Path) -> None:
    client = two_streams()
    client["start"]["test_start"] = {"omit": 2, "interval": 0.2}
    wrote(folder, client)
    measured = as_measured(run, folder, None)
    assert (measured.traffic.omit_s, measured.traffic.interval_s) == (2.0, 0.2)
    intervals = read_tables(measured, folder, measurement()).intervals.filter(
        pl.col("port") == 40000
    )
    assert intervals["time_s"].to_list() == pytest.approx([number * 0.2 for number in range(1, 26)])
    assert intervals["omitted"].to_list() == [True] * 10 + [False] * 15
    unsampled(folder)
    assert read_tables(measured, folder, measurement()).intervals["time_s"].to_list()[:2] == [
        5.0,
        5.0,
    ]  # joined


def test_a_processor_without_idle_time_limits_a_run(run: Run, folder: Path) -> None:
    samples = [
        {
            "time_s": BEGIN_S + second,
            "seconds": 0.01,
            "output": f"cpu3 {99 * second} 0 0 {second} 0 0 0 0\n",
        }
        for second in range(3)
    ]
    write(folder, "processors-dst", samples)
    [finding] = verdict(run, folder, measurement()).findings
    assert (finding.kind, "core 3 of dst was idle 1% of the time" in finding.detail) == (
        "cpu",
        True,
    )


def test_a_sender_s_netem_loses_on_purpose(run: Run, folder: Path) -> None:
    assert (
        verdict(run, folder, changed_after(qdiscs={"sender-queue": qdisc("netem", 99, 50)})).status
        == "valid"
    )


def test_processors_are_those_that_were_asked_for(run: Run, folder: Path) -> None:
    samples = [
        {
            "time_s": BEGIN_S + second,
            "seconds": 0.01,
            "output": f"cpu  9 9\ncpu0 {10 * second} 0 0 {90 * second} 0 0 0 0 0 0\n"
            f"cpu1 {50 * second} 0 0 0 0 0 {50 * second} 0\n",
        }
        for second in range(3)
    ]
    write(folder, "processors-src", samples)
    write(folder, "processors-dst", samples)
    cores = read_tables(
        replace(run, path=replace(run.host_path, mpstat_cores="1")), folder, measurement()
    ).series.cpu
    seconds = ("user_s", "softirq_s", "idle_s")
    assert cores.sort("host", "time_s").select("host", "core", *seconds).rows() == [
        (host, 1, 0.5 * second, 0.5 * second, 0.0) for host in ("dst", "src") for second in range(3)
    ]
    every = read_tables(run, folder, measurement()).series.cpu
    assert sorted(every["core"].unique()) == [0, 1]
    assert every.filter((pl.col("core") == 0) & (pl.col("host") == "src"))["user_s"].to_list() == [
        0.0,
        0.1,
        0.2,
    ]


def qdisc(kind: str, packets: int, drops: int, options: str = "{}") -> tuple[QdiscCounters, ...]:
    return (QdiscCounters("eth0", kind, "1:", None, 0, packets, drops, 0, 0, options=options),)


def measurement(delay_s: float = 0.04, loss: float = 0.001) -> Measurement:
    """Returns the data of a netem with this delay and loss, which delayed by 40 ms and lost
    0.1%.
    """
    delay = {"delay": delay_s, "jitter": 0, "correlation": 0}
    netem = json.dumps(
        {"limit": 10_000_000, "delay": delay, "loss-random": {"loss": loss, "correlation": 0}}
    )
    acks = json.dumps({"limit": 10_000_000, "delay": delay})
    before = Counters(
        qdiscs={"sender-queue": qdisc("fq", 10, 1), "data-delay": qdisc("netem", 20, 5, netem)},
        netstat={"localhost": NAMES + VALUES},
        softnet={"localhost": "0000beef 00000000\n"},
    )
    before = replace(before, qdiscs=before.qdiscs | {"ack-delay": qdisc("netem", 30, 6, acks)})
    qdiscs = {
        "sender-queue": qdisc("fq", 99, 1),
        "data-delay": qdisc("netem", 999_020, 1005, netem),
        "ack-delay": qdisc("netem", 40, 6, acks),
    }
    return Measurement(
        facts=Facts("6.1.0", offloads={}, probes={"sockets": ProbeReport(4, 0)}),
        started_s=BEGIN_S - 0.2,
        ended_s=BEGIN_S + 4,
        ping_before_s=(0.0102, 0.0101),
        ping_rtt_s={"src": (0.0901, 0.0902)},
        before=before,
        after=replace(before, qdiscs=qdiscs),
        ports_before=(41000,),
    )


def changed_after(**changed: dict[str, Any]) -> Measurement:
    """Returns the measurement with other counters after the traffic, of the given keys."""
    seen = measurement()
    after = {name: getattr(seen.after, name) | value for name, value in changed.items()}
    return replace(seen, after=replace(seen.after, **after))


def verdict(run: Run, folder: Path, seen: Measurement, **changed: Any) -> Verdict:
    tables: RunTables = replace(read_tables(run, folder, seen), **changed)
    return judged(run, tables, seen)


def test_a_run_with_nothing_wrong_is_valid(run: Run, folder: Path) -> None:
    assert verdict(run, folder, measurement()).status == "valid"


NETEM = Netem(delay_s=0.04, loss=Loss("random", (0.001,)))
PLACE = NetemPlace("netem1", "eth2", "eth3")


def with_netem(run: Run, netem: Netem) -> Run:
    return replace(run, path=replace(run.host_path, netem=netem, netem_at=PLACE))


def test_netem_that_does_what_it_should(run: Run, folder: Path) -> None:
    run = with_netem(run, NETEM)
    assert verdict(run, folder, measurement()).status == "valid"


@pytest.mark.parametrize(
    ("netem", "offloads", "kind", "sentence"),
    [
        (
            replace(NETEM, delay_s=0.02),
            {},
            "rtt",
            "netem adds 80 ms to ping's RTT, configured: 40 ms",
        ),
        (
            replace(NETEM, loss=Loss("random", (0.002,))),
            {},
            "loss",
            "netem lost 1000 of 1000000 packets (0.1%)",
        ),
        (
            NETEM,
            {"netem1 eth2 generic-receive-offload": True},
            "offloads",
            "offloads are on (netem1 eth2 generic",
        ),
    ],
)
def test_netem_that_does_not(
    run: Run, folder: Path, netem: Netem, offloads: dict[str, bool], kind: str, sentence: str
) -> None:
    run = with_netem(run, netem)
    assert netem.loss
    seen = measurement(netem.delay_s, netem.loss.mean)
    seen = replace(seen, facts=replace(seen.facts, offloads=offloads))
    [finding] = verdict(run, folder, seen).findings
    assert (finding.kind, sentence in finding.detail) == (kind, True), finding


@pytest.mark.parametrize(
    ("netem", "kind", "sentence"),
    [
        (replace(NETEM, loss=None), "loss", "tc loses random 0.1% of data, configured: nothing"),
        (
            replace(NETEM, loss=Loss("gemodel", (0.001,))),
            "loss",
            "configured: gemodel 0.1% 99.9% 100% 0%",
        ),
        (
            replace(NETEM, limit_packets=1000),
            "buffer",
            "netem holds 10000000 packets of data, configured: 1000",
        ),
        (
            replace(NETEM, rate_bps=1e9),
            "rate",
            "netem has 0.00 bit/s for data, configured: 1.00 Gbit/s",
        ),
    ],
)
def test_netem_that_tc_reports_otherwise(
    run: Run, folder: Path, netem: Netem, kind: str, sentence: str
) -> None:
    run = with_netem(run, netem)
    findings = verdict(run, folder, measurement()).findings
    assert any(finding.kind == kind and sentence in finding.detail for finding in findings), (
        findings
    )


@pytest.mark.parametrize("applied_s", [0.04, 0.02])
def test_a_profile_is_read_back_like_netem(applied_s: float, run: Run, folder: Path) -> None:
    path = replace(run.host_path, profile=NETEM, profile_device="eth1")
    seen, profile = measurement(), {"profile": measurement(applied_s).before.qdiscs["data-delay"]}
    counters = [
        replace(counted, qdiscs=counted.qdiscs | profile) for counted in (seen.before, seen.after)
    ]
    seen = replace(seen, before=counters[0], after=counters[1])
    findings = verdict(replace(run, path=path), folder, seen).findings
    details = [finding.detail for finding in findings]
    lie = (
        "a path whose RTT is not the one configured: tc delays data by the profile by 20 ms, "
        "configured: 40 ms"
    )
    assert details == ([] if applied_s == 0.04 else [lie])


def test_a_device_other_than_the_configured_one(run: Run, folder: Path) -> None:
    seen = measurement()
    seen = replace(seen, facts=replace(seen.facts, device="eth0"))
    for nic, details in (
        ("eth0", []),
        (
            "eth1",
            [
                "a path that is not the one configured: ccmix watched and paced eth0, configured: "
                "eth1"
            ],
        ),
    ):
        path = replace(run.host_path, nic=nic)
        assert [
            finding.detail for finding in verdict(replace(run, path=path), folder, seen).findings
        ] == details


def test_a_capture_that_was_not_made_or_not_asked_for(run: Run, folder: Path) -> None:
    seen, capture = measurement(), Capture(("-i", "any"), 10**9)
    captured = replace(
        seen, facts=replace(seen.facts, capture=CaptureFacts({"captured": 1}, True, 100))
    )
    asked = replace(run, path=replace(run.host_path, capture=capture))
    details = [
        [finding.detail for finding in verdict(run, folder, seen).findings]
        for run, seen in ((run, seen), (asked, captured), (asked, seen), (run, captured))
    ]
    was = "a probe that lost samples: tcpdump was"
    assert details == [[], [], [f"{was} off, configured: on"], [f"{was} on, configured: off"]]


def test_pacing_that_tc_reports_otherwise(run: Run, folder: Path) -> None:
    paced = replace(run, traffic=replace(run.traffic, pacing_bps=20e6))
    fq = qdisc("fq", 99, 1, '{"maxrate": 2500000}')
    assert verdict(paced, folder, changed_after(qdiscs={"sender-queue": fq})).status == "valid"
    [finding] = verdict(paced, folder, measurement()).findings
    assert (finding.kind, "held flows to no rate, configured: 20.0 Mbit/s" in finding.detail) == (
        "traffic",
        True,
    )


def test_a_destination_that_does_not_answer_pings_has_no_finding(run: Run, folder: Path) -> None:
    run = with_netem(run, NETEM)
    silent = replace(measurement(), ping_before_s=(), ping_rtt_s={})
    assert verdict(run, folder, silent).status == "valid"


def test_drops_of_the_source_s_queue_and_of_its_softnet(run: Run, folder: Path) -> None:
    seen = changed_after(
        qdiscs={"sender-queue": qdisc("fq", 99, 4)}, softnet={"localhost": "0000beef 00000002\n"}
    )
    details = [finding.detail for finding in verdict(run, folder, seen).findings]
    assert [detail.rpartition(": ")[2] for detail in details] == [
        "it dropped 3 packets",
        "localhost dropped 2 packets",
    ]


def test_drops_of_a_shaper_that_the_source_has_are_the_path_s(run: Run, folder: Path) -> None:
    seen = measurement()
    before = replace(seen.before, qdiscs=seen.before.qdiscs | {"sender-queue": qdisc("tbf", 10, 1)})
    after = replace(seen.after, qdiscs=seen.after.qdiscs | {"sender-queue": qdisc("tbf", 99, 4)})
    assert verdict(run, folder, replace(seen, before=before, after=after)).status == "valid"


def test_a_cca_that_iperf3_and_ss_see_differently(run: Run, folder: Path) -> None:
    wrote(folder, two_streams())
    [finding] = verdict(run, folder, measurement()).findings
    assert (finding.kind, "port 40000 ran bbr, cubic" in finding.detail) == ("cca", True), finding


def test_the_default_cca_is_whatever_it_is_but_only_one(run: Run, folder: Path) -> None:
    flows = read_tables(run, folder, measurement()).flows.with_columns(cca_asked=pl.lit("-"))
    assert verdict(run, folder, measurement(), flows=flows).status == "valid"


def test_a_test_of_the_other_direction_sends_nothing_from_here(run: Run, folder: Path) -> None:
    text = re.sub(
        r"(data_segs_out|bytes_sent):\d+", r"\1:0", (folder / "logs" / "sockets.jsonl").read_text()
    )
    (folder / "logs" / "sockets.jsonl").write_text(text)
    wrote(folder, stock_iperf3("dctcp", [stream(5, 9e6), stream(7, 2e6)]))
    tables = read_tables(run, folder, measurement())
    assert tables.sockets["time_s"].min() == pytest.approx(-0.3)  # the command started at 999.8 s
    assert judged(run, tables, measurement()).status == "valid"
