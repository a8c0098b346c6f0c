"""Output folders with the layout of the ESnet testing harness, and with results of a real test."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import REPOSITORY
from support.imports import RATE_MBPS, STREAMS, Import, Outputs, read_json, written

HOST = "dtn.example.org"


def job(folder: Path, **about: Any) -> Path:
    """The folder of a job with its own meta file, and that of a destination."""
    place = folder / "2021-08-09:18:50" / "iperf3_bbr_p3"
    place.mkdir(parents=True)
    told = {
        "uuid": "u",
        "name": "iperf3_bbr_p3",
        "type": "iperf3",
        "src": "127.0.0.1",
        "hostname": "tbn-1",
        "MTU": "9000",
        "src_cmd": "iperf3 -c {dst} -J -C bbr -P 3",
        "lat": None,
        "loss": None,
        "pacing": None,
        "hosts": [{"hostname": HOST, "alias": "far", "profile": None}],
        "parent": None,
    }
    written(place / "jobmeta.json", told | about)
    written(
        place / f"{HOST}-meta.json", {"hostname": HOST, "alias": "far", "rtt": 73, "iter_uuids": []}
    )
    return place


def test_a_run_with_its_sockets(logs: dict[str, Path], imported: Import, tmp_path: Path) -> None:
    place = job(tmp_path / "data")
    for iteration in (1, 2):
        shutil.copy(logs["client"], place / f"src-cmd:{HOST}:{iteration}")
    shutil.copy(logs["two"], place / f"ss:{HOST}:1")
    (place / f"ss:{HOST}:1.json").write_text('{"interval": {}}\n')
    (place / f"mpstat-sender:{HOST}:1.json").write_text("{}")
    (place / "pacing.out").write_text("")
    received_bps = read_json(logs["client"])["end"]["sum_received"]["bits_per_second"]
    outcome = imported(tmp_path / "data")
    with_ss, without = outcome.summaries
    for number, summary in enumerate((with_ss, without), 1):
        run = summary["run"]
        assert (run["entry"], run["dst"], run["iteration"]) == ("iperf3_bbr_p3", "far", number)
        assert (run["path"]["src"], run["path"]["dst"]["address"]) == ("tbn-1", HOST)
        assert run["condition"] == {
            "cca": "bbr",
            "streams": str(STREAMS),
            "bitrate": f"{RATE_MBPS}mbit",
        }
        assert summary["ping_rtt_s"] == {"src": [0.073]}
        assert dict(summary["facts"]["imported"]["details"])["job MTU"] == "9000"
        assert summary["metrics"]["goodput_bps"] == pytest.approx(received_bps, rel=0.01)
    seen = pl.read_parquet(outcome.folders[0] / "sockets.parquet")
    flows = {flow["port"] for flow in with_ss["metrics"]["flows"]}
    assert flows <= set(seen["port"])
    of_flows = seen.filter(pl.col("port").is_in(list(flows)), pl.col("time_s") >= 0)
    median = of_flows.filter(pl.col("time_s") < 2)["rtt_s"].median()
    assert with_ss["metrics"]["rtt_median_s"] == pytest.approx(median, rel=0.2)
    assert all(flow["data_segments"] > 0 for flow in with_ss["metrics"]["flows"])
    assert not (outcome.folders[1] / "sockets.parquet").exists()
    assert (outcome.folders[0] / "intervals.parquet").exists()


def test_sweeps_are_conditions(
    iperf3_outputs: dict[str, Outputs], imported: Import, tmp_path: Path
) -> None:
    """RTTs in names are twice the configured delay. The ping was made before netem added the
    delay.
    """
    place = job(tmp_path, loss="0.001%", pacing="1gbit")
    result = iperf3_outputs["tcp"].client
    for end in ("1:20.0ms", "2:20.0ms", "1:100.0ms", "1:tcp_x:7", "1:tcp_x:8:20.0ms", "10", "9"):
        shutil.copy(result, place / f"src-cmd:{HOST}:{end}")
    found = {}
    for summary in imported(place).summaries:
        condition = summary["run"]["condition"]
        assert (condition.pop("cca"), condition.pop("streams"), condition.pop("bitrate")) == (
            "reno",
            "2",
            "50mbit",
        )
        assert (condition.pop("netem-loss"), condition.pop("pacing")) == ("0.001%", "1gbit")
        assert summary["run"]["traffic"]["pacing_bps"] == 1e9
        found[tuple(condition.items()), summary["run"]["iteration"]] = (
            int(dict(summary["facts"]["imported"]["details"])["iteration"]),
            summary["facts"]["imported"]["base_rtt_s"],
            summary["ping_rtt_s"],
        )
    assert found == {
        ((("netem-lat", "10ms"),), 1): (1, pytest.approx(0.093), {}),
        ((("netem-lat", "10ms"),), 2): (2, pytest.approx(0.093), {}),
        ((("netem-lat", "50ms"),), 1): (1, pytest.approx(0.173), {}),
        ((("tcp_x", "7"),), 1): (1, 0.073, {"src": [0.073]}),
        ((("netem-lat", "10ms"), ("tcp_x", "8")), 1): (1, pytest.approx(0.093), {}),
        ((), 1): (9, 0.073, {"src": [0.073]}),
        ((), 2): (10, 0.073, {"src": [0.073]}),
    }


def test_results_of_pscheduler_and_text(
    iperf3_outputs: dict[str, Outputs], imported: Import, tmp_path: Path
) -> None:
    place = job(tmp_path)
    message = REPOSITORY / "tests" / "data" / "pscheduler" / "task-format-json.json"
    (place / f"src-cmd:{HOST}:1").write_text(
        "Submitting task...\nWaiting for result...\n" + message.read_text()
    )
    shutil.copy(iperf3_outputs["tcp"].text, place / f"src-cmd:{HOST}:2")
    (place / f"src-cmd:{HOST}:3").write_text("bash: iperf3: command not found\n")
    outcome = imported(place)
    kinds = [summary["facts"]["generator"] for summary in outcome.summaries]
    assert kinds == ["pscheduler", "iperf3"]
    assert (
        "src-cmd:dtn.example.org:3: is neither a result of iperf3 nor of pScheduler"
        in outcome.stderr
    )


def test_sockets_alone(logs: dict[str, Path], imported: Import, tmp_path: Path) -> None:
    place = job(tmp_path)
    shutil.copy(logs["two"], place / f"ss:{HOST}:pacing:100mbit:1")
    summary = imported(place).summary
    assert summary["run"]["condition"] == {
        "cca": "bbr",
        "streams": str(STREAMS),
        "pacing": "100mbit",
    }
    assert (summary["run"]["dst"], summary["facts"]["generator"]) == ("far", "ss")


def test_a_server_s_result_joins(
    iperf3_outputs: dict[str, Outputs], imported: Import, tmp_path: Path
) -> None:
    place = job(tmp_path)
    shutil.copy(iperf3_outputs["mix"].client, place / f"src-cmd:{HOST}:1")
    shutil.copy(iperf3_outputs["mix"].server, place / f"dst-cmd:{HOST}:1")
    outcome = imported(place)
    summary = outcome.summary
    assert "goodput_bps of intervals" not in summary["facts"]["imported"]["estimated"]
    assert [group["group"] for group in summary["metrics"]["groups"]] == ["cubic", "reno"]


def test_damaged_meta_files_are_named(
    iperf3_outputs: dict[str, Outputs], refused: Callable[..., str], tmp_path: Path
) -> None:
    place = job(tmp_path)
    shutil.copy(iperf3_outputs["mix"].client, place / f"src-cmd:{HOST}:1")
    (place / "jobmeta.json").write_text('{"name": ')
    assert "iperf3_bbr_p3/jobmeta.json: is not valid JSON" in refused(place)
