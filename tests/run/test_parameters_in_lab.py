"""Tests param-sweep on emulated paths: a parameter below /sys/module is set for a run, has an
effect, and is judged.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import Ccmix

pytestmark = pytest.mark.lab

PATH = """
[topology link]
rate = 50mbit
delay = 5ms

[DEFAULT]
type = iperf3
topology = link
"""
# A share of 1024 that CUBIC keeps of its window at a loss
BETA = """
[beta]
cca = cubic
duration = 8s
param-sweep = tcp_cubic/parameters/beta, sys-module-list,100,1000
"""


def run_of(outdir: Path, folder: str) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((outdir / folder / "receiver/001/run.json").read_text())
    return run


def read_back(outdir: Path, folder: str) -> list[dict[str, str]]:
    facts = json.loads((outdir / folder / "receiver/001/facts.json").read_text())
    return [facts[state]["parameters"] for state in ("state_before", "state_after")]


def test_each_run_has_its_value(ccmix: Ccmix, tmp_path: Path) -> None:
    config, outdir = tmp_path / "beta.ini", tmp_path / "out"
    config.write_text(PATH + BETA)
    planned = ccmix("plan", config)
    assert "  parameter    of all hosts: tcp_cubic/parameters/beta = 100\n" in planned.stdout
    assert "  beta beta=1000 #1  8 s\n" in planned.stdout
    ccmix("run", config, "--lab", "-o", outdir, status=0)
    rtts_s = {}
    for value in ("100", "1000"):
        run = run_of(outdir, f"beta/beta={value}")
        assert run["verdict"]["status"] == "valid"
        assert run["run"]["path"]["module_parameter"] == {
            "path": "tcp_cubic/parameters/beta",
            "value": value,
            "element": None,
        }
        assert read_back(outdir, f"beta/beta={value}") == [{"tcp_cubic/parameters/beta": value}] * 2
        rtts_s[value] = run["metrics"]["rtt_median_s"]
    # a flow that gives up little of its window keeps the buffer full
    assert rtts_s["1000"] > 1.05 * rtts_s["100"]
    assert "beta 1000" in (outdir / "report.html").read_text()


def test_a_parameter_that_the_kernel_has_not(ccmix: Ccmix, tmp_path: Path) -> None:
    config = tmp_path / "none.ini"
    config.write_text(PATH + BETA.replace("parameters/beta", "parameters/gamma"))
    done = ccmix("run", config, "--lab", "-o", tmp_path / "out", status=1)
    assert "/sys/module/tcp_cubic/parameters/gamma: No such file or directory" in done.stderr


def test_a_value_that_the_kernel_refuses(ccmix: Ccmix, tmp_path: Path) -> None:
    config = tmp_path / "wrong.ini"
    config.write_text(
        PATH + BETA.replace("beta, sys-module-list,100,1000", "bic_scale, sys-module-list,7")
    )
    done = ccmix("run", config, "--lab", "-o", tmp_path / "out", status=1)  # it is read-only
    assert "bic_scale" in done.stderr
