"""The tutorial on your own CCA: its commands build and measure its C file, from an empty folder."""

import json
from pathlib import Path

import pytest

from support.tutorial_page import OWN_CCA_DRAWN, OWN_CCA_PAGE, run_tutorial, wording

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(3000)]


def test_the_page_leads_from_a_c_file_to_a_fairness_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCMIX_LAB_KERNELS", str(tmp_path / "named"))
    steps = {step.command: step for step in run_tutorial(tmp_path, OWN_CCA_PAGE)}
    assert [command.split()[0] for command in steps] == ['"$CCMIX"/lab/build', *["ccmix"] * 4]

    kernels = steps["ccmix lab kernels\n"].printed
    mine = kernels.partition("\nmine\n")[2]
    assert " mine " in next(line for line in mine.splitlines() if "CCAs" in line)
    assert "added    CCA mine" in mine
    available = steps[
        "ccmix lab exec --kernel mine -- cat /proc/sys/net/ipv4/tcp_available_congestion_control\n"
    ]
    assert set(available.shown.split()) == set(available.printed.split())

    run = steps["ccmix run mine.ini --lab\n"]
    assert "14 runs valid, 0 not valid, 0 failed" in run.printed
    assert wording(run.printed) == wording(run.shown)
    fairness = {}
    for percent in (50, 95):
        files = tmp_path.glob(
            f"results/mine/beside-cubic/keep_percent={percent}/receiver/*/run.json"
        )
        runs = [json.loads(file.read_text()) for file in files]
        assert {run["facts"]["lab_kernel"]["name"] for run in runs} == {"mine"}
        fairness[percent] = sum(run["metrics"]["fairness"] for run in runs) / len(runs)
    assert fairness[50] > 0.9 > fairness[95]
    chart = (tmp_path / OWN_CCA_DRAWN).read_text()
    assert "Jain's index" in chart
