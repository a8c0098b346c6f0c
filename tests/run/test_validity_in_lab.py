"""Tests that the verdict reports a path that differs from the configured path: the applied values
differ from the configured ones.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.model import Buffer, DelayChange, Group, Loss, Queue, RateChange, Run, Sender
from ccmix.model.results import Verdict
from support.commands import SMALL, deep
from support.lab_runs import make_in_lab, planned
from support.model import with_groups

pytestmark = pytest.mark.lab


def verdict(configured: Run, applied: Run, outdir: Path) -> Verdict:
    """Measures `applied` and judges it as if `configured` had been measured."""
    return make_in_lab(configured, outdir, applied).finished.verdict


@pytest.fixture
def configured(tmp_path: Path) -> Run:
    return planned(SMALL, tmp_path)[0]


@pytest.mark.parametrize(
    ("kind", "applied"),
    [
        ("rtt", {"senders": (Sender("h1", 0.0053),)}),
        ("loss", {"senders": (Sender("h1", 0.005, Loss("random", (0.005,))),)}),
        ("rate", {"rate_bps": 103e6}),
        deep("rate", {"rate_bps": 97e6}),
        ("rate", {"changes": (RateChange(1.0, 200e6),)}),
        (
            "rtt",
            {"changes": (DelayChange(1.0, None, 0.0),)},
        ),  # what a full queue adds is less than what is gone
        ("buffer", {"buffer": Buffer(0.5, "bdp")}),
        ("offloads", {"offloads": True}),
    ],
)
def test_another_path_is_not_valid(
    kind: str, applied: dict[str, Any], configured: Run, tmp_path: Path
) -> None:
    other = replace(configured.topology, **applied)
    result = verdict(configured, replace(configured, path=other), tmp_path / "out")
    assert result.status == "limited"
    assert kind in {finding.kind for finding in result.findings}


@pytest.mark.parametrize("buffer", [Buffer(0.1, "bdp"), Buffer(5, "packet")])
def test_a_small_buffer_is_valid(buffer: Buffer, configured: Run, tmp_path: Path) -> None:
    """Has a queue that is not empty at both ends of many intervals, but did not fill them."""
    run = replace(configured, path=replace(configured.topology, buffer=buffer))
    assert verdict(run, run, tmp_path / "out") == Verdict("valid")


@pytest.mark.parametrize(
    "changed",
    [
        {"offloads": True, "mtu_bytes": 1500, "rate_bps": 500e6},
        deep({"offloads": True, "mtu_bytes": 1500, "rate_bps": 2.5e9}),
        {"offloads": True, "mtu_bytes": 1500, "rate_bps": 10e9},
        deep({"offloads": True, "mtu_bytes": 1500, "rate_bps": 100e9}),
        {
            "queue": Queue("fq"),
            "buffer": Buffer(5, "packet"),
            "mtu_bytes": 1500,
        },  # whose fast path holds 8 packets more
        {"senders": (Sender("h1", 0.005, rate_bps=50e6),)},  # a token bucket on the sender's device
    ],
)
def test_a_right_path_is_valid(changed: dict[str, Any], configured: Run, tmp_path: Path) -> None:
    run = replace(configured, path=replace(configured.topology, **changed), spread=None)
    assert verdict(run, run, tmp_path / "out").findings == ()


def test_another_cca_is_not_valid(configured: Run, tmp_path: Path) -> None:
    traffic = with_groups(configured.traffic, Group("reno"), Group("bbr"))
    result = verdict(configured, replace(configured, traffic=traffic), tmp_path / "out")
    assert result.status == "limited"
    assert {finding.kind for finding in result.findings} == {"cca"}


def test_the_configured_path_is_valid(configured: Run, tmp_path: Path) -> None:
    assert verdict(configured, configured, tmp_path / "out") == Verdict("valid")


def test_dctcp_to_a_receiver_without_ecn_is_not_dctcp(tmp_path: Path) -> None:
    """The kernel continues with Reno under another name, although iperf3 got the CCA that it
    requested.
    """
    run, _ = planned(SMALL.replace("cca = cubic,bbr", "cca = dctcp"), tmp_path)
    findings = verdict(run, run, tmp_path / "out").findings
    assert {finding.kind for finding in findings} == {"cca"}
    assert all("dctcp-reno" in finding.detail for finding in findings)
