"""Results of pScheduler, from transcripts of real servers. tests/data/pscheduler/README.md lists
the outcome of each.
"""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import REPOSITORY
from support.imports import Import, read_json, written

DATA = REPOSITORY / "tests" / "data" / "pscheduler"


@pytest.mark.parametrize(
    ("file", "src", "dst", "rates_mbps"),
    [
        ("iperf3.json", "psa", "psb", {"reno": 478}),
        ("iperf3mix.json", "psa", "psb", {"reno": 369, "bbr": 109}),
        ("task-format-json.json", None, "10.88.0.2", {"reno": 343, "bbr": 135}),
        ("iperf3mix/forward.json", "psa", "psb", {"cubic": 239, "bbr": 232}),
        ("iperf3mix/reverse.json", "psb", "psa", {"cubic": 248, "bbr": 230}),
        ("iperf3mix/repeated-second-run.json", "psa", "psb", {"cubic": 246, "bbr": 230}),
    ],
)
def test_results_of_real_servers(
    file: str, src: str | None, dst: str, rates_mbps: dict[str, int], imported: Import
) -> None:
    outcome = imported(DATA / file)
    summary = outcome.summary
    groups = {group["cca"]: group for group in summary["metrics"]["groups"]}
    assert {cca: round(group["goodput_bps"] / 1e6) for cca, group in groups.items()} == rates_mbps
    path = summary["run"]["path"]
    assert (path["dst"]["name"], src is None or path["src"]) == (dst, src or True)
    assert all(group["retransmission_rate"] is not None for group in groups.values())
    assert all(0.006 < group["rtt_median_s"] < 0.01 for group in groups.values())
    assert (outcome.folders[0] / "intervals.parquet").exists()
    kept = read_json(outcome.folders[0] / "generators" / "pscheduler.json")
    assert kept == read_json(DATA / file)


def test_copies_of_a_result_are_one_observation(imported: Import, tmp_path: Path) -> None:
    for name in ("1.json", "2.json"):
        shutil.copy(DATA / "iperf3.json", tmp_path / name)
    outcome = imported(tmp_path / "1.json", tmp_path / "2.json", DATA / "iperf3mix.json")
    assert len(outcome.summaries) == 2
    assert "left out: 2.json:1: is a copy of 1.json:1" in outcome.stderr


@pytest.mark.parametrize(
    "file", ["iperf3mix/forward.json", "iperf3mix/reverse.json", "iperf3.json"]
)
def test_pscheduler_s_own_format_says_the_same(
    file: str, imported: Import, tmp_path: Path, outdir: Path
) -> None:
    """The diagnostics have no JSON from iperf3, as with other tools."""
    document = read_json(DATA / file)
    (whole,) = imported(DATA / file).summaries
    outdir.rename(tmp_path / "whole")
    bare = without_diags(document)
    copied = tmp_path / Path(file).name
    copied.write_text(json.dumps(bare))
    outcome = imported(copied)
    summary = outcome.summary
    assert "iperf3's own JSON is missing" in summary["verdict"]["findings"][0]["detail"]
    for of_iperf3, group in zip(
        whole["metrics"]["groups"], summary["metrics"]["groups"], strict=True
    ):
        assert (group["group"], group["streams"]) == (of_iperf3["group"], of_iperf3["streams"])
        assert group["goodput_bps"] == pytest.approx(of_iperf3["goodput_bps"], rel=0.02)
        assert group["throughput_bps"] == pytest.approx(of_iperf3["throughput_bps"], rel=0.002)
    assert summary["metrics"]["rtt_median_s"] == pytest.approx(
        whole["metrics"]["rtt_median_s"], rel=0.05
    )
    assert summary["run"]["traffic"]["duration_s"] == 5
    assert summary["began_s"] == whole["began_s"]
    intervals = pl.read_parquet(outcome.folders[0] / "intervals.parquet")
    assert intervals.height == 5 * summary["run"]["traffic"]["sources"][0]["streams"]


def without_diags(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_diags(below) for name, below in value.items() if name != "diags"}
    return [without_diags(one) for one in value] if isinstance(value, list) else value


def test_a_stream_of_messages_is_one_entry(imported: Import, tmp_path: Path) -> None:
    """Messages from an archiver that appends them to a file, a line each."""
    files = ("forward", "reverse", "repeated-second-run", "unknown-cca")
    messages = [read_json(DATA / "iperf3mix" / f"{name}.json") for name in files]
    log = tmp_path / "archive.ndjson"
    log.write_text("".join(json.dumps(message) + "\n" for message in messages))
    outcome = imported(log)
    found = [(one["run"]["dst"], one["run"]["iteration"]) for one in outcome.summaries]
    assert found == [("psb", 1), ("psa", 1), ("psb", 2)]
    assert (
        "left out: archive.ndjson:4: the run failed: participant 0 (source): iperf3: unable to set"
        in outcome.stderr
    )


def test_other_tests_are_left_out(refused: Callable[..., str], tmp_path: Path) -> None:
    message = copy.deepcopy(read_json(DATA / "iperf3mix" / "forward.json"))
    message["test"]["type"] = "rtt"
    file = written(tmp_path / "rtt.json", message)
    assert (
        "rtt.json:1: is pScheduler's result of rtt, and only those of throughput are imported"
        in refused(file)
    )


def test_a_tool_that_tells_a_sum_only(imported: Import, tmp_path: Path) -> None:
    result = {
        "succeeded": True,
        "summary": {"summary": {"throughput-bits": 9.5e9, "end": 30}, "streams": []},
    }
    file = written(tmp_path / "nuttcp.json", result)
    summary = imported(file, "--cca", "cubic", "--dst", "geneva").summary
    (group,) = summary["metrics"]["groups"]
    assert (group["cca"], group["streams"], group["goodput_bps"]) == ("cubic", 1, 9.5e9)
    assert summary["facts"]["imported"]["estimated"] == ["goodput_bps"]
    assert summary["run"]["traffic"]["duration_s"] == 30


def test_the_cca_of_the_specification_is_not_the_user_s_to_change(
    imported: Import, tmp_path: Path
) -> None:
    result = {
        "succeeded": True,
        "summary": {"summary": {"throughput-bits": 9.5e9, "end": 30}, "streams": []},
    }
    file = tmp_path / "nuttcp.json"
    test = {"type": "throughput", "spec": {"congestion": "bbr"}}
    file.write_text(json.dumps({"test": test, "run": {"result-merged": result}}))
    summary = imported(file, "--cca", "cubic").summary
    assert [group["cca"] for group in summary["metrics"]["groups"]] == ["bbr"]
