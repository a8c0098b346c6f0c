"""Tests what the page on published real paths says of the twins that ccmix makes of the table."""

import csv
import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccmix.analysis.statistics import shown
from ccmix.archive import Campaign
from ccmix.units import format_percent
from support.commands import CCMIX, REPOSITORY, Ccmix
from support.published_archives import TWIN_FILE, unpacked

from .test_published import PAGE, without_comments

pytestmark = pytest.mark.slow

SECTION = PAGE[
    PAGE.index("## The twin of the table") : PAGE.index("## Explanations of the differences")
]
SAMPLE = REPOSITORY / "configs" / "tierney-2021-twin.ini"


def commands() -> str:
    """Returns the section's commands but those of the lab, which write into the folder $results."""
    lines = [line.strip() for line in SECTION.splitlines() if line.startswith("    ")]
    kept = [line for line in lines if not line.startswith(("ccmix run", "ccmix compare"))]
    return "\n".join(kept).replace("results/", '"$results"/').replace("ccmix ", f"{CCMIX} ")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the judging half of the table, and with the twins of the
    other half.
    """
    folder = tmp_path_factory.mktemp("results")
    done = subprocess.run(
        ["bash", "-euc", commands()],
        cwd=REPOSITORY,
        env={"results": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def compared(made: Path) -> dict[str, Any]:
    done = Ccmix(made)("compare", made / "judge", TWIN_FILE, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_commands_make_the_sample(made: Path) -> None:
    assert without_comments((made / "twin.ini").read_text()) == without_comments(SAMPLE.read_text())


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
    assert (len(list(campaign.finished())), campaign.origin.seed, campaign.origin.lab) == (
        len(campaign.runs),
        1,
        True,
    )
    assert {*campaign.plan.unknown.values()} == {
        ("loss", "buffer"),
        ("loss", "buffer", "receiver-window"),
    }
    with zipfile.ZipFile(TWIN_FILE) as packed:
        texts = [packed.read(name).decode() for name in packed.namelist() if name.endswith(".json")]
    assert not any(place in text for text in texts for place in ("/tmp/", "/home/", "/root/"))


def table_lines(compared: dict[str, Any]) -> Iterator[str]:
    """Yields a line of the page's table for each host and number of flows."""
    for one in compared["ranges"]:
        goodput, lost = (
            next(
                each
                for each in one["metrics"]
                if (each["group"], each["metric"]) == ("cubic", metric)
            )
            for metric in ("goodput_bps", "retransmission_rate")
        )
        without, with_loss = (
            [
                each["mean"]
                for each in goodput["b"]["conditions"]
                if (each["unknown"]["loss"] == "0%") == none
            ]
            for none in (True, False)
        )
        cells = [
            one["a"]["dst"],
            one["a"]["condition"]["streams"],
            shown("goodput_bps", goodput["a"]["mean"]),
            *(
                f"{shown('goodput_bps', min(means))} to {shown('goodput_bps', max(means))}"
                for means in (without, with_loss)
            ),
            f"{shown('goodput_bps', max(goodput['b']['low'], 0.0))} to "
            f"{shown('goodput_bps', goodput['b']['high'])}",
            _verdict(goodput),
            shown("retransmission_rate", lost["a"]["mean"]),
        ]
        yield f"| {' | '.join(cells)} |"


def _verdict(of_metric: dict[str, Any]) -> str:
    by = of_metric["outside_by"]
    where = f"{format_percent(abs(by))} {'above' if by > 0 else 'below'}" if by else ""
    words = {
        "in the range": "in",
        "outside": f"outside: {where}",
        "can't tell": f"can't tell: {where or 'in it'}",
    }
    return words[of_metric["verdict"]]


def test_the_page_has_every_range(compared: dict[str, Any]) -> None:
    assert len(compared["ranges"]) == 6
    for line in table_lines(compared):
        assert line in SECTION


def test_the_page_says_how_near_16_flows_are_without_random_loss(compared: dict[str, Any]) -> None:
    ratios = [
        each["mean"] / goodput["a"]["mean"]
        for one in compared["ranges"]
        for goodput in one["metrics"][:1]
        for each in goodput["b"]["conditions"]
        if one["a"]["condition"]["streams"] == "16" and each["unknown"]["loss"] == "0%"
    ]
    assert len(ratios) == 15
    said = (
        f"{format_percent(1 - min(ratios))} below to {format_percent(max(ratios) - 1)} above "
        "the real mean"
    )
    assert said in " ".join(SECTION.split())


def test_a_window_explains_the_single_flow_to_pic(compared: dict[str, Any]) -> None:
    [goodput] = [
        one["metrics"][0] for one in compared["ranges"] if one["a"]["entry"] == "psl01.pic.es-1"
    ]
    without_loss = [
        each["mean"] for each in goodput["b"]["conditions"] if each["unknown"]["loss"] == "0%"
    ]
    assert min(without_loss) < goodput["a"]["mean"] < max(without_loss)
    assert goodput["verdict"] == "in the range"


def test_the_page_has_what_single_flows_have_on_their_way() -> None:
    """To psl01.pic.es it is the same with both CCAs."""
    with (REPOSITORY / "archive" / "tierney-2021-bost-40g.csv").open() as file:
        products = [
            float(line["throughput_Gbps"]) * float(line["rtt_ms"]) / 8
            for line in csv.DictReader(file)
            if (line["host"], line["streams"]) == ("psl01.pic.es", "1")
        ]
    assert len(products) == 10
    assert f"{min(products):.1f} to {max(products):.1f} MB" in " ".join(SECTION.split())


def test_the_page_counts_the_verdicts(compared: dict[str, Any], made: Path, ccmix: Ccmix) -> None:
    said = ccmix("compare", made / "judge", TWIN_FILE, "--format", "markdown").stdout
    summary, *_ = [line for line in said.splitlines() if "compared with a range of B" in line]
    prose = " ".join(SECTION.split())
    assert summary in prose
    advice = [
        line
        for line in said.splitlines()
        if line.startswith(("The real result", "Measure the", "In "))
    ]
    assert advice
    for sentence in advice:
        assert sentence in prose
