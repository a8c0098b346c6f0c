"""Tests that the verdict reports a path that is not the one configured: one thing is configured, and another
applied.
"""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import RunFolder
from ccmix.config import load
from ccmix.model import Buffer, DelayChange, Group, Loss, Queue, RateChange, Run, Sender
from ccmix.model.results import Verdict
from ccmix.plan import make_plan
from ccmix.run.conclude import conclude
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon
from support import with_groups

pytestmark = pytest.mark.lab


def verdict(configured: Run, applied: Run, outdir: Path) -> Verdict:
    """Measures `applied` and judges it as if `configured` had been measured."""
    folder = RunFolder.of(outdir, configured)
    machine = LabMachine(find_kernel(), EmulationPrograms(find_iperf3(), find_sockmon(), find_rtt()))
    measured = asyncio.run(machine.measure(applied, folder.begin()))
    return conclude(configured, folder, measured.measurement, measured.execution).verdict


def configured_run(small_ini: Path) -> Run:
    return make_plan(load(small_ini).entries, seed=1)[0]


@pytest.mark.parametrize(
    ("kind", "applied"),
    [
        ("rtt", {"senders": (Sender("h1", 0.0053),)}),
        ("loss", {"senders": (Sender("h1", 0.005, Loss("random", (0.005,))),)}),
        ("rate", {"rate_bps": 103e6}),
        pytest.param("rate", {"rate_bps": 97e6}, marks=pytest.mark.deep),
        ("rate", {"changes": (RateChange(1.0, 200e6),)}),
        ("rtt", {"changes": (DelayChange(1.0, None, 0.0),)}),  # what a full queue adds is less than what is gone
        ("buffer", {"buffer": Buffer(0.5, "bdp")}),
        ("offloads", {"offloads": True}),
    ],
)
def test_another_path_is_not_valid(kind: str, applied: dict[str, Any], small_ini: Path, tmp_path: Path) -> None:
    configured = configured_run(small_ini)
    other = dataclasses.replace(configured.topology, **applied)
    result = verdict(configured, dataclasses.replace(configured, path=other), tmp_path / "out")
    assert result.status == "limited"
    assert kind in {finding.kind for finding in result.findings}


@pytest.mark.parametrize("buffer", [Buffer(0.1, "bdp"), Buffer(5, "packet")])
def test_a_small_buffer_is_valid(buffer: Buffer, small_ini: Path, tmp_path: Path) -> None:
    """Has a queue that stands at both ends of many intervals that it did not fill."""
    configured = configured_run(small_ini)
    run = dataclasses.replace(configured, path=dataclasses.replace(configured.topology, buffer=buffer))
    assert verdict(run, run, tmp_path / "out") == Verdict("valid")


@pytest.mark.parametrize(
    "changed",
    [
        {"offloads": True, "mtu_bytes": 1500, "rate_bps": 500e6},
        pytest.param({"offloads": True, "mtu_bytes": 1500, "rate_bps": 2.5e9}, marks=pytest.mark.deep),
        {"offloads": True, "mtu_bytes": 1500, "rate_bps": 10e9},
        pytest.param({"offloads": True, "mtu_bytes": 1500, "rate_bps": 100e9}, marks=pytest.mark.deep),
        {
            "queue": Queue("fq"),
            "buffer": Buffer(5, "packet"),
            "mtu_bytes": 1500,
        },  # whose fast path holds 8 packets more
        {"senders": (Sender("h1", 0.005, rate_bps=50e6),)},  # a token bucket on the sender's device
    ],
)
def test_a_right_path_is_valid(changed: dict[str, Any], small_ini: Path, tmp_path: Path) -> None:
    configured = configured_run(small_ini)
    run = dataclasses.replace(configured, path=dataclasses.replace(configured.topology, **changed), spread=None)
    assert verdict(run, run, tmp_path / "out").findings == ()


def test_another_cca_is_not_valid(small_ini: Path, tmp_path: Path) -> None:
    configured = configured_run(small_ini)
    traffic = with_groups(configured.traffic, Group("reno"), Group("bbr"))
    result = verdict(configured, dataclasses.replace(configured, traffic=traffic), tmp_path / "out")
    assert result.status == "limited"
    assert {finding.kind for finding in result.findings} == {"cca"}


def test_the_configured_path_is_valid(small_ini: Path, tmp_path: Path) -> None:
    configured = configured_run(small_ini)
    assert verdict(configured, configured, tmp_path / "out") == Verdict("valid")


def test_dctcp_to_a_receiver_without_ecn_is_not_dctcp(small_ini: Path, tmp_path: Path) -> None:
    """Relies on the kernel, which goes on with Reno under another name, and iperf3 was given what it asked for."""
    small_ini.write_text(small_ini.read_text().replace("cca = cubic,bbr", "cca = dctcp"))
    run = configured_run(small_ini)
    findings = verdict(run, run, tmp_path / "out").findings
    assert {finding.kind for finding in findings} == {"cca"}
    assert all("dctcp-reno" in finding.detail for finding in findings)
