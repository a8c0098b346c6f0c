"""Tests BBRv2 and BBRv3 in the lab from INI files: sweeps of CCAs, mixes, and those of Tierney's figure 15."""

import json
from pathlib import Path
from typing import Any

import pytest

from support import REPOSITORY, Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(1200)]

INI = """
[topology link]
rate = 50mbit
delay = 10ms

[DEFAULT]
type = iperf3
topology = link
duration = 4s
omit = 1s

[alone]
sweep.cca = cubic, bbr, bbr2, bbr3

[mixed]
streams = 2
sweep.cca =
    bbr2:1,cubic:1
    bbr3:1,cubic:1
    bbr2,bbr3
"""


def runs_of(outdir: Path) -> dict[str, dict[str, Any]]:
    """Returns the runs by the folder of their condition."""
    files = sorted(outdir.glob("*/*/receiver/001/run.json"))
    return {str(file.relative_to(outdir).parents[2]): json.loads(file.read_text()) for file in files}


def test_ccas_can_be_swept_and_mixed(ccmix: Ccmix, tmp_path: Path) -> None:
    config, outdir = tmp_path / "versions.ini", tmp_path / "out"
    config.write_text(INI)
    done = ccmix("run", config, "--lab", "-o", outdir, timeout=1000)
    assert done.returncode == 0, done.stderr
    runs = runs_of(outdir)
    ran = {name: [group["cca"] for group in run["metrics"]["groups"]] for name, run in runs.items()}
    assert ran == {
        "alone/cca=cubic": ["cubic"],
        "alone/cca=bbr": ["bbr"],
        "alone/cca=bbr2": ["bbr2"],
        "alone/cca=bbr3": ["bbr3"],
        "mixed/cca=bbr2:1,cubic:1": ["bbr2", "cubic"],
        "mixed/cca=bbr3:1,cubic:1": ["bbr3", "cubic"],
        "mixed/cca=bbr2,bbr3": ["bbr2", "bbr3"],
    }
    for name, run in runs.items():
        assert run["verdict"]["status"] == "valid", name
        assert run["metrics"]["utilisation"] > 0.7, name


def test_the_sweeps_of_figure_15(ccmix: Ccmix, tmp_path: Path) -> None:
    """The file itself without the sweeps that repeat it at a tenth, at a hundredth of its rate and for seconds."""
    text = (REPOSITORY / "configs" / "papers" / "tierney-fig15.ini").read_text()
    text, tenth, _ = text.partition("[topology tenth]")
    assert tenth
    for before, after in (
        ("rate = 10gbit", "rate = 100mbit"),
        ("buffer = 64mb", "buffer = 5bdp"),
        ("duration = 5m", "duration = 2s"),
        ("iterations = 10", "iterations = 1"),
    ):
        assert before in text
        text = text.replace(before, after)
    config, outdir = tmp_path / "fig15.ini", tmp_path / "out"
    config.write_text(text)
    done = ccmix("run", config, "--lab", "-o", outdir, timeout=1000)
    assert done.returncode == 0, done.stderr
    runs = runs_of(outdir)
    assert len(runs) == 5 + 6 + 5 + 4 + 4
    read = {}
    for name, run in runs.items():
        facts = json.loads((outdir / name / "receiver/001/facts.json").read_text())
        [(parameter, value)] = facts["state_after"]["parameters"].items()
        assert parameter == f"tcp_bbr2/parameters/{run['run']['path']['module_parameter']['path'].rpartition('/')[2]}"
        assert [group["cca"] for group in run["metrics"]["groups"]] == ["bbr2", "cubic"]
        read[name] = value
    assert read["min_rtt_win_sec/min_rtt_win_sec=20"] == "20"
    assert read["loss_thresh/loss_thresh=1"] == "1"
    assert read["pacing_gain_up/pacing_gain=512"] == "512,192,256,256"
    assert read["pacing_gain_down/pacing_gain=128"] == "320,128,256,256"
