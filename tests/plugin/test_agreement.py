"""Tests the conclusion of both ends from their participant-data."""

from typing import Any

import pytest

from iperf3mix import agreement, spec
from support.plugin_runner import throughput

OF_TWO = ["reno", "bbr"]


def ability(**changes: object) -> dict[str, Any]:
    data: dict[str, Any] = {
        "schema": 1,
        "tool-version": "1.0",
        "host": "ps1",
        "iperf3-version": "3.20+ccmix1",
        "features": ["groups", "weights", "rates", "delays"],
        "congestion": {"available": [*OF_TWO, "htcp"], "allowed": OF_TWO, "default": ["reno"]},
        "net-admin": False,
    }
    return data | {name.replace("_", "-"): value for name, value in changes.items()}


def both(source: dict[str, Any] | None = None, dest: dict[str, Any] | None = None) -> list[Any]:
    server = {"host": "ps2", "port": 5201, "_token": "secret"}
    return [ability() | (source or {}), ability() | server | (dest or {})]


def verdict(test: dict[str, Any], data: object) -> str:
    try:
        agreement.agree(spec.read(test), data)
    except agreement.Disagreement as reason:
        return str(reason)
    return ""


MIX = throughput(source="ps1", dest="two.example", congestion="reno:2,bbr:1@1G+100ms", parallel=3)
REVERSE = throughput(
    source="ps1", dest="two.example", congestion="reno:2,bbr:1", parallel=3, reverse=True
)
HTCP = throughput(source="ps1", dest="two.example", congestion="reno,htcp,nosuch,-", parallel=4)


@pytest.mark.parametrize(
    ("test", "data", "reason"),
    [
        (MIX, both(), ""),
        (REVERSE, both(), ""),
        # Only the sending end matters
        (MIX, both(dest={"congestion": {"available": [], "allowed": []}, "features": []}), ""),
        (
            REVERSE,
            both(source={"congestion": {"available": [], "allowed": []}, "features": []}),
            "",
        ),
        (
            MIX,
            both({"congestion": {"available": OF_TWO, "allowed": ["reno"]}}),
            "CCA bbr is not allowed on ps1 (source), where "
            "net.ipv4.tcp_allowed_congestion_control is reno",
        ),
        (
            REVERSE,
            both(dest={"congestion": {"available": ["reno"], "allowed": ["reno"]}}),
            "CCA bbr is not available on two.example (dest; its own name is ps2), which has reno",
        ),
        (
            HTCP,
            both(),
            "CCA htcp is not allowed on ps1 (source), where "
            "net.ipv4.tcp_allowed_congestion_control is "
            "reno bbr; CCA nosuch is not available on ps1 (source), which has reno bbr htcp",
        ),
        (HTCP, both({"net-admin": True}), ""),
        (
            MIX,
            both({"features": ["groups", "weights"]}),
            "the iperf3 of ps1 (source) does not support delays, rates",
        ),
        (
            MIX,
            both({"schema": 2, "tool-version": "9.9"}),
            "ps1 (participant 0) has a newer iperf3mix (9.9, participant-data of schema 2): "
            "update the other end, "
            "which knows schema 1",
        ),
        (
            MIX,
            both(dest={"schema": "1"}),
            "sent participant-data of another tool, or of schema '1'",
        ),
        (MIX, both({"schema": True}), "of another tool"),
        (MIX, both({"congestion": OF_TWO}), "sent no list of its CCAs"),
        (
            MIX,
            both({"congestion": {"available": "reno", "allowed": OF_TWO}}),
            "is not a list of names",
        ),
        (MIX, both(dest={"port": "5201"}), "sent the port '5201'"),
        (MIX, both(dest={"port": 0}), "sent no port or no token of its server"),
        (MIX, both(dest={"_token": ""}), "sent no token"),
        (MIX, both(dest={"host": 7}), "sent no host"),
        (
            MIX,
            both({"error": "/nowhere/iperf3 is not there"}),
            "ps1 (source): /nowhere/iperf3 is not there",
        ),
        (MIX, [ability()], "did not give the data of 2 participants"),
        (MIX, [ability(), None], "two.example (participant 1) sent no participant-data"),
        (MIX, None, "did not give the data of 2 participants"),
        (throughput(single_ended=True), [ability()], ""),
        (throughput(single_ended=True), both(), "did not give the data of 1 participant"),
        (throughput(single_ended=True, reverse=True, congestion="reno,nosuch"), [ability()], ""),
        (
            throughput(parallel=None),
            both(),
            "group 2 (bbr:1) gets none of the 1 streams: ask for more with parallel, such as 2",
        ),
        (throughput(congestion="reno:3,bbr:1"), both(), "such as 4"),
        (
            throughput(congestion="reno,bbr+1s"),
            both(),
            "group 2 (bbr+1s) would not send: the test ends after 1 s",
        ),
        (throughput(congestion="reno,bbr+1s", omit="PT1S"), both(), ""),
    ],
)
def test_verdicts(test: dict[str, Any], data: object, reason: str) -> None:
    got = verdict(test, data)
    assert reason in got
    assert bool(got) == bool(reason), got
