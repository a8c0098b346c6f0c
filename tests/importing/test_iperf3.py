"""Results of iperf3: from real tests on loopback with Debian's and the patched iperf3, and from
stand-ins for older versions.
"""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.imports import TESTS, Here, Import, Outputs, later, rows, written

Outcomes = dict[str, Outputs]
STREAMS = {"tcp": 2, "reverse": 1, "bidir": 4, "udp": 2, "bytes": 1, "mix": 3, "stream": 2}


def document(file: Path) -> dict[str, Any]:
    """Returns the document of -J; puts the pieces of --json-stream together by hand."""
    text = file.read_text()
    if '"event"' not in text:
        found: dict[str, Any] = json.loads(text)
        return found
    events = [json.loads(line) for line in text.splitlines()]
    by_name = {event["event"]: event["data"] for event in events}
    return by_name | {
        "intervals": [event["data"] for event in events if event["event"] == "interval"]
    }


def of_receivers(test: dict[str, Any]) -> list[float]:
    """Returns the rate of each stream at its receiver, from the document."""
    streams = test["end"]["streams"]
    if "udp" in streams[0]:
        return [stream["udp"]["bits_per_second"] for stream in streams]
    return [stream["receiver"]["bits_per_second"] for stream in streams]


@pytest.mark.parametrize("name", TESTS)
def test_a_client_s_json(name: str, iperf3_outputs: Outcomes, imported: Import) -> None:
    file = iperf3_outputs[name].client
    summary = imported(file).summary
    test = document(file)
    rates = [flow["goodput_bps"] for flow in summary["metrics"]["flows"]]
    assert rates == pytest.approx(of_receivers(test), rel=1e-12)
    assert len(rates) == STREAMS[name]
    asked = test["start"]["test_start"]
    traffic = summary["run"]["traffic"]
    assert traffic["omit_s"] == asked["omit"]
    assert traffic["duration_s"] == asked["duration"] or name == "bytes"
    assert summary["began_s"] == pytest.approx(test["start"]["timestamp"]["timesecs"], abs=1)
    assert summary["facts"]["iperf3"] == test["start"]["version"]
    assert summary["verdict"]["status"] == "unknown"
    assert (name == "reverse") == (summary["run"]["path"]["src"] == "127.0.0.1")


def test_groups_ccas_and_directions(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    files = [
        later(iperf3_outputs[name].client, tmp_path / f"{name}.json", 100 * number)
        for number, name in enumerate(("tcp", "bidir", "udp", "mix"))
    ]
    tcp, bidir, udp, mix = imported(*files).summaries
    groups = [
        [(group["group"], group["cca"], group["streams"]) for group in summary["metrics"]["groups"]]
        for summary in (tcp, bidir, udp, mix)
    ]
    assert groups == [
        [("reno", "reno", 2)],
        [("cubic", "cubic", 2), ("cubic back", "cubic", 2)],
        [("udp", "-", 2)],
        [("cubic", "cubic", 2), ("reno", "reno", 1)],
    ]
    assert [summary["run"]["condition"] for summary in (tcp, bidir, udp, mix)] == [
        {"cca": "reno", "streams": "2", "bitrate": "50mbit"},
        {"cca": "cubic", "streams": "2", "direction": "both", "bitrate": "50mbit"},
        {"cca": "udp", "streams": "2"},
        {"cca": "cubic,reno", "streams": "3", "bitrate": "50mbit"},
    ]
    assert (tcp["metrics"]["fairness"], udp["metrics"]["fairness"]) == (
        pytest.approx(1, abs=1e-3),
        None,
    )
    rtts_us = [
        stream["rtt"]
        for interval in document(files[0])["intervals"]
        for stream in interval["streams"]
        if not stream["omitted"]
    ]
    assert tcp["metrics"]["rtt_median_s"] == pytest.approx(pl.Series(rtts_us).median() / 1e6)  # type: ignore[operator]


def test_a_group_that_starts_later_counts_from_its_start(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    test = document(iperf3_outputs["mix"].client)
    [late] = [stream["socket"] for stream in test["start"]["connected"] if stream["group"] == 2]
    first, *others = test["intervals"]
    [stream] = [stream for stream in first["streams"] if stream["socket"] == late]
    stream["bytes"] = 0
    assert others
    written(tmp_path / "late.json", test)
    summary = imported(tmp_path / "late.json").summary
    cubic, reno = summary["metrics"]["groups"]
    whole_s = summary["run"]["traffic"]["duration_s"]
    assert (cubic["active_s"], reno["active_s"]) == (
        whole_s,
        pytest.approx(whole_s - first["sum"]["end"]),
    )
    [whole_bps] = [
        end["receiver"]["bits_per_second"]
        for end in test["end"]["streams"]
        if end["sender"]["socket"] == late
    ]
    assert reno["goodput_bps"] == pytest.approx(whole_bps * whole_s / reno["active_s"])


@pytest.mark.parametrize("name", ["tcp", "mix", "stream"])
def test_both_ends_of_a_test_are_one_run(
    name: str, iperf3_outputs: Outcomes, imported: Import
) -> None:
    outputs = iperf3_outputs[name]
    outcome = imported(outputs.client.parent / "client.json", outputs.server)
    (folder,) = outcome.folders
    test, other = document(outputs.client), document(outputs.server)
    intervals = pl.read_parquet(folder / "intervals.parquet")
    received = sum(
        stream["bytes"]
        for interval in other["intervals"]
        for stream in interval["streams"]
        if not interval["sum"]["omitted"]
        and interval["sum"]["end"] - interval["sum"]["start"] > 0.2
    )
    counted = (
        intervals.filter(~pl.col("omitted"))
        .select(pl.col("goodput_bps") * pl.col("seconds") / 8)
        .sum()
        .item()
    )
    assert counted == pytest.approx(received, rel=1e-3)
    assert sorted(intervals["port"].unique()) == sorted(
        one["local_port"] for one in test["start"]["connected"]
    )
    # of the first interval after the omitted time, which either end may miss, nothing may be known
    begun_s = test["start"]["test_start"]["omit"] + test["start"]["test_start"].get("interval", 0.5)
    assert intervals.filter(pl.col("time_s") > begun_s + 0.1)["retransmits"].null_count() == 0
    kept = folder / "generators"
    assert sorted(file.name for file in kept.iterdir()) == ["iperf3-server.json", "iperf3.json"]
    assert document(kept / "iperf3.json") == test
    assert outcome.summaries[0]["facts"]["imported"]["estimated"] == []


@pytest.mark.parametrize("name", TESTS)
def test_a_server_s_json_alone(name: str, iperf3_outputs: Outcomes, imported: Import) -> None:
    """The server of a test knows the bytes that it received or sent."""
    summary = imported(iperf3_outputs[name].server).summary
    test = document(iperf3_outputs[name].server)
    flows = summary["metrics"]["flows"]
    assert len(flows) == STREAMS[name]
    if name == "udp":
        sizes = [
            stream["bytes"] for interval in test["intervals"] for stream in interval["streams"]
        ]
        counted = [8 * sum(sizes) / test["intervals"][-1]["sum"]["end"]]
    else:
        ends = [
            stream["sender" if stream["sender"]["sender"] else "receiver"]
            for stream in test["end"]["streams"]
        ]
        counted = [end["bits_per_second"] for end in ends]
    assert sum(flow["goodput_bps"] for flow in flows) == pytest.approx(sum(counted), rel=1e-9)
    assert (summary["run"]["path"]["src"] == "127.0.0.1") == (name != "reverse")
    receives_all = name not in ("reverse", "bidir")
    assert {group["throughput_bps"] is None for group in summary["metrics"]["groups"]} <= {
        receives_all,
        name == "bidir",
    }
    assert (summary["metrics"]["bytes_sent"] is None) == receives_all


@pytest.mark.parametrize("name", TESTS)
def test_text_says_the_same_in_fewer_digits(
    name: str, iperf3_outputs: Outcomes, imported: Import
) -> None:
    """The text is from another test with the same options. All tests are paced, except the test
    that sends a number of bytes.
    """
    file = iperf3_outputs[name].text
    summary = imported(file).summary
    in_text = [
        float(line.split("Bytes")[1].split()[0])
        * {"M": 1e6, "G": 1e9}[line.split("bits/sec")[0][-1]]
        for line in file.read_text().splitlines()
        if line.endswith("receiver") and line.startswith("[ ") and not line.startswith("[G")
    ]
    flows = summary["metrics"]["flows"]
    assert [flow["goodput_bps"] for flow in flows] == pytest.approx(in_text, rel=1e-9)
    test = document(iperf3_outputs[name].client)
    assert [flow["cca_used"] for flow in flows] == [
        None
        if name == "udp"
        else stream["sender"].get("congestion") or test["end"]["sender_tcp_congestion"]
        for stream in test["end"]["streams"]
    ]
    if name != "bytes":
        assert [flow["goodput_bps"] for flow in flows] == pytest.approx(
            of_receivers(test), rel=0.05
        )
        asked = test["start"]["test_start"]
        traffic = summary["run"]["traffic"]
        assert (traffic["duration_s"], traffic["omit_s"]) == (asked["duration"], asked["omit"])
    assert summary["metrics"]["rtt_median_s"] is None
    assert "three digits" in summary["verdict"]["findings"][0]["detail"]


def test_intervals_of_text(iperf3_outputs: Outcomes, imported: Import) -> None:
    file = iperf3_outputs["tcp"].text
    (folder,) = imported(file).folders
    table = pl.read_parquet(folder / "intervals.parquet")
    assert table["port"].n_unique() == 2
    omitted = sum(
        line.endswith("(omitted)") and "SUM" not in line for line in file.read_text().splitlines()
    )
    assert table.group_by("omitted").len().sort("omitted").rows() == [(False, 8), (True, omitted)]
    # iperf3's timer may be late on a busy machine
    begins_s = table.filter(~pl.col("omitted"))["time_s"].to_list()[:2]
    assert begins_s == pytest.approx([1.5, 1.5], abs=0.1)
    assert table["goodput_bps"].mean() == pytest.approx(50e6, rel=0.05)


def test_many_tests_in_one_file_are_iterations(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    one = iperf3_outputs["tcp"].client.read_text()
    cookie = json.loads(one)["start"]["cookie"]
    file.write_text(
        f"log begins\n{one}{one.strip().replace(cookie, 'b')}{one.replace(cookie, 'c')}\nsome "
        "words\n"
    )
    outcome = imported(file)
    assert outcome.of_runs("iteration") == [1, 2, 3]
    lines = len(one.splitlines())
    sources = outcome.of_imports("source")
    assert sources == ["all.json:2", f"all.json:{2 + lines}", f"all.json:{1 + 2 * lines}"]


def test_many_tests_in_one_text(iperf3_outputs: Outcomes, imported: Import, tmp_path: Path) -> None:
    file = tmp_path / "all.txt"
    one = iperf3_outputs["tcp"].text.read_text()
    cookie = one.partition("Cookie: ")[2].split()[0]
    file.write_text(one + one.replace(cookie, "b") + one.replace(cookie, "c"))
    assert imported(file).of_runs("iteration") == [1, 2, 3]


def test_copies_of_a_test_are_one_observation(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    for name in ("1.json", "2.json"):
        shutil.copy(iperf3_outputs["tcp"].client, tmp_path / name)
    outcome = imported(tmp_path / "1.json", tmp_path / "2.json", iperf3_outputs["tcp"].server)
    assert outcome.of_imports("source") == ["1.json:1 and server.json:1"]
    assert "left out: 2.json:1: is a copy of 1.json:1" in outcome.stderr


def older(test: dict[str, Any], version: str) -> dict[str, Any]:
    """Makes a stand-in for the document of an older version: removes newer fields from a newer
    document.
    """
    old = copy.deepcopy(test)
    old["start"]["version"] = version
    for name in ("target_bitrate", "fq_rate", "sock_bufsize", "sndbuf_actual", "rcvbuf_actual"):
        old["start"].pop(name, None)
    for name in ("tos", "target_bitrate", "bidir", "fqrate", "interval"):
        old["start"]["test_start"].pop(name, None)
    for name in ("sender_tcp_congestion", "receiver_tcp_congestion"):
        old["end"].pop(name, None)
    records = [
        one for interval in old["intervals"] for one in (*interval["streams"], interval["sum"])
    ]
    records += [end for stream in old["end"]["streams"] for end in stream.values()]
    for record in records:
        for name in (
            "sender",
            "rttvar",
            "pmtu",
            "snd_wnd",
            "max_snd_cwnd",
            "max_snd_wnd",
            "max_rtt",
            "min_rtt",
            "mean_rtt",
        ):
            record.pop(name, None)
    return old


def test_a_stand_in_for_3_1(iperf3_outputs: Outcomes, imported: Import, tmp_path: Path) -> None:
    test = older(document(iperf3_outputs["tcp"].client), "iperf 3.1.3")
    file = written(tmp_path / "old.json", test)
    outcome = imported(file, "--cca", "htcp")
    summary = outcome.summary
    (group,) = summary["metrics"]["groups"]
    assert (group["cca"], group["streams"]) == ("htcp", 2)
    assert summary["run"]["traffic"]["interval_s"] == 0.5
    assert [flow["goodput_bps"] for flow in summary["metrics"]["flows"]] == of_receivers(test)
    assert summary["metrics"]["rtt_median_s"] is not None


def test_a_number_of_bytes_asks_for_no_duration(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    test = document(iperf3_outputs["bytes"].client)
    test["end"]["sum_sent"]["seconds"] = 2.04
    file = written(tmp_path / "bytes.json", test)
    summary = imported(file).summary
    assert summary["run"]["traffic"]["duration_s"] == 2.04


def test_a_stand_in_for_another_system(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    """iperf3 on macOS and Windows reports neither retransmissions nor RTT."""
    test = document(iperf3_outputs["tcp"].client)
    records = [
        one for interval in test["intervals"] for one in (*interval["streams"], interval["sum"])
    ]
    for record in records + [end for stream in test["end"]["streams"] for end in stream.values()]:
        for name in ("retransmits", "rtt", "rttvar", "snd_cwnd"):
            record.pop(name, None)
    test["start"]["system_info"] = "Darwin mac.local 23.1.0 Darwin Kernel Version 23.1.0"
    file = written(tmp_path / "mac.json", test)
    summary = imported(file).summary
    metrics = summary["metrics"]
    assert (metrics["retransmission_rate"], metrics["rtt_median_s"]) == (None, None)
    assert [flow["retransmits"] for flow in metrics["flows"]] == [None, None]
    assert summary["facts"]["kernel"] == "unknown"
    assert metrics["goodput_bps"] == pytest.approx(sum(of_receivers(test)))


def test_a_test_that_was_interrupted(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    test = document(iperf3_outputs["tcp"].client)
    test |= {
        "end": {},
        "error": "interrupt - the client has terminated",
        "intervals": test["intervals"][:-1],
    }
    file = written(tmp_path / "cut.json", test)
    summary = imported(file).summary
    sent = sum(
        stream["bytes"]
        for interval in test["intervals"]
        for stream in interval["streams"]
        if not interval["sum"]["omitted"]
    )
    assert summary["metrics"]["goodput_bps"] == pytest.approx(
        8 * sent / test["intervals"][-1]["sum"]["end"]
    )
    early, unseen = summary["verdict"]["findings"]
    assert (early["kind"], early["detail"], early["accepted"]) == (
        "ended-early",
        f"the test ended after {test['intervals'][-1]['sum']['end']:.3g} of 2 s",
        False,
    )
    assert summary["verdict"]["status"] == "limited"
    detail = unseen["detail"]
    assert "the test has no end: rates are those of its intervals" in detail
    assert "iperf3 said: interrupt - the client has terminated" in detail
    assert "goodput_bps" in summary["facts"]["imported"]["estimated"]


def test_a_failed_test_is_left_out_and_told(
    iperf3_outputs: Outcomes, imported: Import, tmp_path: Path
) -> None:
    failed = written(
        tmp_path / "failed.json",
        {"start": {"connected": []}, "intervals": [], "end": {}, "error": "connection refused"},
    )
    outcome = imported(iperf3_outputs["tcp"].client, failed)
    assert len(outcome.summaries) == 1
    assert "left out: failed.json:1: the test failed: connection refused" in outcome.stderr


def test_durations_that_clocks_tell_a_little_apart_are_one_condition(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    """Text without -V has the elapsed time, not the requested time."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number, seconds in enumerate(("10.00", "60.00", "10.04", "10.01")):
        ends = (
            f"[  5]   0.00-{seconds}  sec  1.10 GBytes   943 Mbits/sec  {end}\n"
            for end in ("sender", "receiver")
        )
        (folder / f"{number}.txt").write_text("".join(["Connecting to host h, port 5201\n", *ends]))
    outcome = imported(folder)
    runs = [summary["run"] for summary in outcome.summaries]
    assert [(run["condition"]["duration"], run["iteration"]) for run in runs] == [
        ("10s", 1),
        ("60s", 1),
        ("10s", 2),
        ("10s", 3),
    ]
    assert [(row["condition"]["duration"], row["runs"]) for row in rows(here, outcome.outdir)] == [
        ("10s", 3),
        ("60s", 1),
    ]
