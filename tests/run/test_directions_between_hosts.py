"""Tests the measurement of tests with options of stock iperf3 between hosts: the other direction,
both directions, and UDP.
"""

from pathlib import Path
from typing import Any

import pytest

from ccmix.tools import find_iperf3
from support.commands import RunIni, summaries

PORT, RATE_BPS = 5231, 30e6


def measured(options: str, run_ini: RunIni, tmp_path: Path) -> dict[str, Any]:
    iperf3 = find_iperf3()
    command = f"{iperf3} -c {{dst}} -p {PORT} -t 2 -b {RATE_BPS:.0f} {options}"
    run_ini(f"[test]\ntype = directions\nsrc-cmd = {command}\ndst-cmd = {iperf3} -s -p {PORT}\n")
    [summary] = summaries(tmp_path / "out")
    assert summary["verdict"]["status"] == "valid"
    return dict(summary["metrics"])


def test_a_reverse_test_has_the_numbers_of_its_sender(run_ini: RunIni, tmp_path: Path) -> None:
    """The far end sends: its socket has the segments and RTTs, and our socket has the received
    bytes.
    """
    metrics = measured("-J -R", run_ini, tmp_path)
    [flow] = metrics["flows"]
    assert flow["counted_by"] == "receiver"
    assert flow["goodput_bps"] == pytest.approx(RATE_BPS, rel=0.1)
    assert flow["data_segments"] > 2 * RATE_BPS / 8 / 65536
    assert flow["retransmission_rate"] is not None
    assert flow["rtt_median_s"] > 0


def test_both_directions_are_groups_of_their_own(run_ini: RunIni, tmp_path: Path) -> None:
    metrics = measured("-J --bidir", run_ini, tmp_path)
    there, back = metrics["groups"]
    assert back["group"] == f"{there['group']} back"
    assert {flow["counted_by"] for flow in metrics["flows"]} == {"receiver"}
    assert all(group["rtt_median_s"] > 0 for group in (there, back))
    assert metrics["goodput_bps"] == pytest.approx(2 * RATE_BPS, rel=0.1)


def test_udp_is_what_arrived_and_is_not_fair(run_ini: RunIni, tmp_path: Path) -> None:
    metrics = measured("-J -u", run_ini, tmp_path)
    [group] = metrics["groups"]
    assert (group["group"], group["fair_share"], metrics["fairness"]) == ("udp", None, None)
    assert group["goodput_bps"] == pytest.approx(RATE_BPS, rel=0.1)


def test_the_omitted_time_of_a_command_is_left_out(run_ini: RunIni, tmp_path: Path) -> None:
    metrics = measured("-J -O 1 -P 2", run_ini, tmp_path)
    assert [(flow["begin_s"], flow["active_s"]) for flow in metrics["flows"]] == [
        (1.0, 2.0),
        (1.0, 2.0),
    ]
    assert metrics["goodput_bps"] == pytest.approx(2 * RATE_BPS, rel=0.1)


def test_a_command_without_json_is_known_by_its_sockets(run_ini: RunIni, tmp_path: Path) -> None:
    """Its flows send from the start of the traffic to their end."""
    metrics = measured("-P 2", run_ini, tmp_path)
    assert [(flow["begin_s"], flow["counted_by"]) for flow in metrics["flows"]] == [
        (0.0, "receiver")
    ] * 2
    assert all(1.8 < flow["active_s"] < 3 for flow in metrics["flows"])
    assert metrics["goodput_bps"] == pytest.approx(2 * RATE_BPS, rel=0.15)
