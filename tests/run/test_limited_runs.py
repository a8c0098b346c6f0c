"""Tests the output for an operator whose runs are all limited by a processor: numbers, their
meaning and the remedy.

The whole campaign is on one processor of this machine, as on a host that is too slow for its
network.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.cli import output
from support.commands import Ccmix, Write, rows, summaries

ALL = "2 of 2 runs were limited by the processor"


@pytest.fixture
def one_processor() -> Iterator[None]:
    """Keeps the processes of the test on one processor."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("one_processor")
def test_a_campaign_that_a_processor_limits_has_numbers(
    ccmix: Ccmix, ini: Write, tmp_path: Path
) -> None:
    # a receiver that waits for the processor may close its window: which of both shows first is
    # chance
    config = ini("""[dtn]
type = iperf3
cca = reno
duration = 2s
iterations = 2
accept-limits = probe, application, receiver-window
""")
    out = tmp_path / "out"
    done = ccmix("run", config, "-o", out)
    assert done.returncode == output.BAD
    table, below = done.stdout.split("─┘\n")
    assert re.search(r"│ +≥ [\d.]+ [GM]bit/s │", table)
    sentence, legend, remedy, accept = below.splitlines()[1:5]
    assert re.fullmatch(
        rf"dtn \S+ all: {ALL}: [\d.]+ [GM]bit/s, a lower bound for this path", sentence
    )
    assert "≥ limited by a host" in legend
    assert remedy.startswith("to remove the limit cpu: ")
    assert "accept-limits = cpu in the entry" in accept
    assert f"{ALL}: " in (out / "report.html").read_text()

    goodputs = [summary["metrics"]["goodput_bps"] for summary in summaries(out)]
    [row] = rows(out)
    assert (row["status"], row["goodput_mean_bps"]) == ("limited", None)
    assert row["not_valid"] == [
        {
            "meaning": "lower bound",
            "limits": ["cpu"],
            "runs": 2,
            "goodput_mean_bps": pytest.approx(sum(goodputs) / 2),
        }
    ]
    [line] = csv.DictReader(io.StringIO(ccmix("report", out, "--format", "csv").stdout))
    assert (line["status"], line["goodput_mean_bps"]) == ("limited", "")
    assert float(line["lower_bound_goodput_mean_bps"]) == pytest.approx(sum(goodputs) / 2)
    [file] = ccmix("report", out, "--charts", tmp_path / "charts").stdout.splitlines()
    assert "reno (lower bound)" in Path(file).read_text()

    before = {file: file.read_bytes() for file in out.rglob("run.json")}
    again = json.loads(ccmix("report", out, "--format", "json", "--accept-limits", "cpu").stdout)
    assert [(row["status"], row["invalid"], row["not_valid"]) for row in again] == [
        ("valid", 0, [])
    ]
    assert again[0]["goodput_mean_bps"] == pytest.approx(sum(goodputs) / 2)
    assert {file: file.read_bytes() for file in out.rglob("run.json")} == before
