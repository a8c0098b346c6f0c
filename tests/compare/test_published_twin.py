"""Tests what the page on published real paths says of the twins that ccmix makes of the table."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccmix.analysis.metric_text import shown
from ccmix.archive import Campaign
from ccmix.units import format_percent
from published_archives import TWIN_FILE, unpacked
from support import CCMIX, REPOSITORY, Ccmix

from .test_published import PAGE, without_comments

pytestmark = pytest.mark.slow

SECTION = PAGE[PAGE.index("## The twin of the table") : PAGE.index("## What explains the differences")]
SAMPLE = REPOSITORY / "configs" / "tierney-2021-twin.ini"
CCAS = {"cubic": "CUBIC", "bbr2": "BBRv2"}


def commands() -> str:
    """Returns the section's commands but those of the lab, which write into the folder $results."""
    lines = [line.strip() for line in SECTION.splitlines() if line.startswith("    ")]
    kept = [line for line in lines if not line.startswith(("ccmix run", "ccmix compare"))]
    return "\n".join(kept).replace("results/", '"$results"/').replace("ccmix ", f"{CCMIX} ")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the judging half of the table, and with the twins of the other half."""
    folder = tmp_path_factory.mktemp("results")
    done = subprocess.run(
        ["bash", "-euc", commands()], cwd=REPOSITORY, env={"results": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def compared(made: Path) -> dict[str, Any]:
    done = Ccmix(made)("compare", made / "judge", TWIN_FILE, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_commands_make_the_sample(made: Path) -> None:
    assert (made / "twin.ini").read_text() == SAMPLE.read_text()


def test_no_test_of_the_table_is_in_both_halves(made: Path) -> None:
    head, *twin = (made / "twin.csv").read_text().splitlines()
    other_head, *judge = (made / "judge.csv").read_text().splitlines()
    table = (REPOSITORY / "archive" / "tierney-2021-bost-40g.csv").read_text().splitlines()
    hosts = {line.split(",")[0] for line in judge}
    of_hosts = [line for line in table[1:] if line.split(",")[0] in hosts]
    assert head == other_head == table[0]
    assert sorted([*twin, *judge]) == sorted(of_hosts)
    assert (len(hosts), len(twin), len(judge)) == (3, 36, 54)


def test_the_archive_has_the_runs_of_the_sample() -> None:
    campaign = Campaign.load(unpacked(TWIN_FILE))
    assert without_comments(campaign.ini) == without_comments(SAMPLE.read_text())
    assert (len(list(campaign.finished())), campaign.origin.seed, campaign.origin.lab) == (len(campaign.runs), 1, True)
    assert {*campaign.plan.unknown.values()} == {("loss", "buffer")}


def table_lines(compared: dict[str, Any]) -> Iterator[str]:
    """Yields a line of the page's table for each host, number of flows and group."""
    for one in compared["ranges"]:
        metrics = {(each["group"], each["metric"]): each for each in one["metrics"]}
        groups = [group for group, metric in metrics if metric == "goodput_bps" and group != "all"]
        flows = int(one["a"]["condition"]["streams"])
        for group in groups:
            goodput, lost = (metrics[group, metric] for metric in ("goodput_bps", "retransmission_rate"))
            others = [f" beside {flows // 2} {CCAS[other]}" for other in groups if other != group]
            cells = [
                one["a"]["dst"],
                f"{flows // len(groups)} {CCAS[group]}{''.join(others)}",
                shown("goodput_bps", goodput["a"]["mean"]),
                _range("goodput_bps", goodput),
                _verdict(goodput),
                shown("retransmission_rate", lost["a"]["mean"]),
                _range("retransmission_rate", lost),
            ]
            yield f"| {' | '.join(cells)} |"


def _range(metric: str, of_metric: dict[str, Any]) -> str:
    return f"{shown(metric, max(of_metric['b']['low'], 0.0))} to {shown(metric, of_metric['b']['high'])}"


def _verdict(of_metric: dict[str, Any]) -> str:
    by = of_metric["outside_by"]
    where = f"{format_percent(abs(by))} {'above' if by > 0 else 'below'}" if by else ""
    words = {"in the range": "in", "outside": f"outside: {where}", "can't tell": f"can't tell: {where or 'in it'}"}
    return words[of_metric["verdict"]]


def test_the_page_has_every_range(compared: dict[str, Any]) -> None:
    assert len(compared["ranges"]) == 15
    for line in table_lines(compared):
        assert line in SECTION


def test_the_page_counts_the_verdicts(compared: dict[str, Any], made: Path, ccmix: Ccmix) -> None:
    said = ccmix("compare", made / "judge", TWIN_FILE, "--format", "markdown").stdout
    summary, *_ = [line for line in said.splitlines() if "beside a range of B" in line]
    prose = " ".join(SECTION.split("\n"))
    assert summary in prose
    advice = [line for line in said.splitlines() if line.startswith(("The real result", "Measure the", "In "))]
    assert advice
    for sentence in advice:
        assert sentence in prose
