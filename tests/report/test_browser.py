"""The report in a real browser: every chart is drawn, and nothing is asked of a network."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.report.html import write_report
from ccmix.report.results import load_results

CHROMIUM = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=20000", "--dump-dom",
]  # fmt: skip


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed: apt-get install chromium")
def test_every_chart_is_drawn(make_campaign: Callable[..., Path], tmp_path: Path) -> None:
    page = write_report(load_results([make_campaign("all-cubic", "mixed")]), tmp_path / "report.html")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    shown = subprocess.run([*CHROMIUM, profile, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    drawn = re.findall(r'<div class="scroll vega-embed[^"]*" id="(chart\d+)"', shown.stdout)
    assert drawn == ["chart1", "chart2"]
    assert len(re.findall(r'<svg [^>]*class="marks"', shown.stdout)) == len(drawn)
    # a bold line for each CCA and entry, and thin ones for their iterations
    assert shown.stdout.count("mark-line") >= len(drawn) * 2 * 2
