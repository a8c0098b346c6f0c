"""Tests BBRv2 and BBRv3 in the lab from INI files: sweeps of CCAs, mixes, and those of Tierney's
figure 15.
"""

from pathlib import Path

import pytest

from support.commands import REPOSITORY
from support.lab_runs import LabRun, make_all

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


def ccas(made: LabRun) -> list[str]:
    return [group.cca for group in made.finished.metrics.groups]


def test_ccas_can_be_swept_and_mixed(tmp_path: Path) -> None:
    runs = make_all(INI, tmp_path)
    assert {name: ccas(made) for name, made in runs.items()} == {
        "alone cubic": ["cubic"],
        "alone bbr": ["bbr"],
        "alone bbr2": ["bbr2"],
        "alone bbr3": ["bbr3"],
        "mixed bbr2:1,cubic:1": ["bbr2", "cubic"],
        "mixed bbr3:1,cubic:1": ["bbr3", "cubic"],
        "mixed bbr2,bbr3": ["bbr2", "bbr3"],
    }
    for name, made in runs.items():
        assert made.finished.verdict.status == "valid", name
        assert made.finished.metrics.utilisation > 0.7, name


def test_the_sweeps_of_figure_15(tmp_path: Path) -> None:
    """The file itself without the sweeps that repeat it at a tenth, at a hundredth of its rate and
    for seconds.
    """
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
    runs = make_all(text, tmp_path)
    assert len(runs) == 5 + 6 + 5 + 4 + 4
    read = {}
    for name, made in runs.items():
        [(parameter, value)] = made.facts["state_after"]["parameters"].items()
        asked = made.record["run"]["path"]["module_parameter"]["path"].rpartition("/")[2]
        assert parameter == f"tcp_bbr2/parameters/{asked}"
        assert ccas(made) == ["bbr2", "cubic"]
        read[name] = value
    assert read["min_rtt_win_sec 20"] == "20"
    assert read["loss_thresh 1"] == "1"
    assert read["pacing_gain_up 512"] == "512,192,256,256"
    assert read["pacing_gain_down 128"] == "320,128,256,256"
