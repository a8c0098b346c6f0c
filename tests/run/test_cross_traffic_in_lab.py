"""Tests cross traffic in the lab, next to the test that cca and streams describe: it is counted
separately.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.results import load_results
from ccmix.archive import Campaign
from ccmix.charts.frames import families
from ccmix.index.summaries import run_documents
from support.commands import Ccmix, run_in_lab

pytestmark = pytest.mark.lab

PACED_BPS, OTHERS_BPS, WEB_BYTES = 5e6, 8e6, 20_000
INI = """
[topology shared]
rate = 30mbit
rtt = 20ms
buffer = 1bdp
spread = off
hosts = 3

[DEFAULT]
type = iperf3
topology = shared
interval = 250ms
omit = 2s

[paced]
streams = 2
pacing = 5mbit
duration = 8s
sweep.cca =
    cubic
    cubic, reno
flows.others = h2..h3 udp@8M
flows.web = h2 http requests 10 size 20kb +3s

[settled]
cca = cubic
streams = 2
duration = settled, at most 5m
flows.others = h2 udp@8M
flows.more = h3 udp@1M
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cross")
    run_in_lab(place, INI)
    return place / "out"


def summary(folder: Path, entry: str, condition: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (folder / entry / condition / "receiver/001/run.json").read_text()
    )
    assert found["verdict"]["status"] == "valid", found["verdict"]
    return found


@pytest.mark.parametrize(
    ("condition", "streams"),
    [("cca=cubic", {"cubic": 2}), ("cca=cubic, reno", {"cubic": 1, "reno": 1})],
)
def test_the_test_has_its_groups_and_numbers_and_others_theirs(
    folder: Path, condition: str, streams: dict[str, int]
) -> None:
    """Pacing limits each flow of the test, but not the cross traffic, which otherwise would get
    less.
    """
    metrics = summary(folder, "paced", condition)["metrics"]
    groups = {group["group"]: group for group in metrics["groups"]}
    assert {name: group["host"] for name, group in groups.items()} == dict.fromkeys(
        streams, "h1"
    ) | {
        "others@h2": "h2",
        "others@h3": "h3",
        "web": "h2",
    }
    assert {name: groups[name]["streams"] for name in streams} == streams
    for name, count in streams.items():
        assert groups[name]["goodput_bps"] == pytest.approx(count * PACED_BPS, rel=0.1)
        assert groups[name]["share"] == pytest.approx(groups[name]["fair_share"], rel=0.1)
    for name in ("others@h2", "others@h3"):
        assert groups[name]["goodput_bps"] == pytest.approx(OTHERS_BPS, rel=0.01)
        assert groups[name]["share"] is None
    bits = {name: group["goodput_bps"] * group["active_s"] for name, group in groups.items()}
    assert bits["web"] == pytest.approx(10 * WEB_BYTES * 8, rel=0.02)
    assert groups["web"]["share"] is None
    of_test = sum(groups[name]["goodput_bps"] for name in streams)
    assert metrics["goodput_bps"] == pytest.approx(of_test)
    assert metrics["utilisation"] == pytest.approx(sum(bits.values()) / 8 / 30e6, rel=0.001)


def test_both_are_measured_in_the_same_intervals(folder: Path) -> None:
    intervals = pl.read_parquet(folder / "paced/cca=cubic/receiver/001/intervals.parquet")
    for group in ("cubic", "others@h3"):
        of_flow = intervals.filter(pl.col("group") == group).partition_by("port")[0].sort("time_s")
        measured = of_flow.filter(~pl.col("omitted"))
        assert measured["time_s"].to_list() == pytest.approx(
            [2 + 0.25 * number for number in range(1, 33)], abs=0.05
        )
        assert of_flow["omitted"].sum() == of_flow.filter(pl.col("time_s") < 2.1).height > 0


def test_a_run_ends_when_all_has_settled(folder: Path) -> None:
    found = summary(folder, "settled", "all")
    assert found["settled_after_s"] in (10, 20, 40, 80, 160)
    assert found["metrics"]["settling"]["settled"] is True
    assert {trend["group"] for trend in found["metrics"]["settling"]["trends"]} == {
        "cubic",
        "others",
        "more",
    }
    others = next(group for group in found["metrics"]["groups"] if group["group"] == "others")
    assert others["goodput_bps"] == pytest.approx(OTHERS_BPS, rel=0.1)


def test_what_is_said_of_a_run_names_the_test_and_the_others(folder: Path) -> None:
    report = Ccmix(folder)("report", folder, "--format", "html", "-o", folder / "report.html")
    assert report.returncode == 0, report.stderr
    page = (folder / "report.html").read_text()
    assert "2 flows of cubic; others: h2 udp, 1 x 8.00 Mbit/s; others: h3 udp" in page


def test_documents_of_the_index_tell_cross_traffic_apart(folder: Path) -> None:
    campaign = Campaign.load(folder)
    result = next(result for result in load_results([folder]).runs if result.run.entry == "paced")
    documents = list(run_documents(campaign, result))
    groups = {found["ccmix.group.name"]: found for kind, found in documents if kind == "groups"}
    assert {found["ccmix.mix"] for found in groups.values()} == {"cubic"}
    assert {name: found["ccmix.goodput_share"] for name, found in groups.items()} == {
        "cubic": 1,
        "others@h2": None,
        "others@h3": None,
        "web": None,
    }
    flows = [found for kind, found in documents if kind == "flows"]
    assert [
        (found["network.transport"], found["ccmix.goodput_share"] is None) for found in flows
    ] == [
        ("tcp", False),
        ("tcp", False),
        ("udp", True),
        ("udp", True),
    ]


def test_cross_traffic_is_none_of_a_chart_s_mix_and_flows(folder: Path) -> None:
    runs = [result for result in load_results([folder]).runs if result.run.entry == "paced"]
    rows = [own for family in families(runs) for own in family.groups.iter_rows(named=True)]
    assert {(row["mix"], row["flows"]) for row in rows} == {("cubic", 2), ("cubic + reno", 2)}
    assert {"others@h2", "others@h3"} < {row["group"] for row in rows}
