"""Tests --tcp-info, and intervals of 10 ms."""

from collections.abc import Callable
from typing import Any

import pytest

from support.commands import run_program

NUMBERS = {
    "min_rtt_us",
    "delivery_rate_bps",
    "pacing_rate_bps",
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "data_segments_out",
    "retransmitted_segments",
    "lost_segments",
}
CUMULATIVE = (
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "data_segments_out",
    "retransmitted_segments",
)


def by_stream(end: Any) -> dict[int, list[dict[str, Any]]]:
    intervals: dict[int, list[dict[str, Any]]] = {}
    for interval in end.json["intervals"]:
        for stream in interval["streams"]:
            intervals.setdefault(stream["id"], []).append(stream)
    return intervals


def test_sender(start: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = start(
        "-J", "-t", "1", "-i", "0.1", "--tcp-info", "-C", f"{a}@40M,{b}@80M", "-P", "2"
    ).finish()
    assert (got.client.status, got.client.errors) == (0, "")
    rates = {1: 40_000_000, 2: 80_000_000}
    for number, records in by_stream(got.client).items():
        infos = [r["tcp_info"] for r in records]
        assert len(infos) > 2
        assert {k for i in infos for k in i} == NUMBERS | {"delivery_rate_app_limited"}
        assert isinstance(infos[-1]["delivery_rate_app_limited"], bool)
        assert infos[-1]["pacing_rate_bps"] == rates[number]
        for key in CUMULATIVE:
            values = [i[key] for i in infos]
            assert values == sorted(values)
        assert 0 < infos[-1]["min_rtt_us"] <= records[-1]["rtt"]
        assert 0 < infos[-1]["busy_us"] < 60e6
        assert infos[-1]["data_segments_out"] > 10
        assert infos[-1]["retransmitted_segments"] == sum(r["retransmits"] for r in records)
    assert not [r for records in by_stream(got.server).values() for r in records if "tcp_info" in r]


def test_what_limits_a_sender(start: Callable, ccas: tuple[str, str]) -> None:
    """A receiver's window of some KB limits the server's sending for much of its busy time, but
    hardly ever limits a paced sender.
    """
    shares = []
    for arguments in (("-w", "8K"), ("--fq-rate", "10M")):
        got = start(
            "-J", "-t", "1", "-R", *arguments, server_arguments=("-J", "--tcp-info")
        ).finish()
        last = by_stream(got.server)[1][-1]["tcp_info"]
        shares.append(last["rwnd_limited_us"] / last["busy_us"])
    assert shares[0] > 0.2
    assert shares[1] < 0.05


def test_without_it_nothing_is_added(pair: Callable) -> None:
    assert "tcp_info" not in pair().client.output


def test_text_is_told_that_it_has_no_effect(start: Callable) -> None:
    got = start("-n", "1M", "--tcp-info", server_arguments=()).finish()
    assert got.client.status == 0
    assert got.client.errors == "warning: --tcp-info has no effect without JSON output (-J)\n"


@pytest.mark.parametrize("output", ["-J", "--json-stream"])
def test_intervals_of_10_ms(start: Callable, ccas: tuple[str, str], output: str) -> None:
    arguments = ("-i", "0.01", "--server-bitrate-limit", "100G/60")
    got = start(
        output, "-t", "1", "-i", "0.01", "-b", "50M", server_arguments=("-J", *arguments)
    ).finish()
    assert (got.client.status, got.server.status) == (0, 0)
    lengths = sorted(i["sum"]["seconds"] for i in got.server.json["intervals"])
    assert 0.005 < lengths[len(lengths) // 2] < 0.05
    assert got.client.output.count('"omitted"') > 20


@pytest.mark.parametrize("arguments", [("-i", "0.05"), ("-J", "-i", "0.009")])
def test_shorter_intervals_are_an_error(iperf3: str, arguments: tuple[str, ...]) -> None:
    got = run_program([iperf3, "-s", *arguments], timeout=10)
    assert got.returncode == 1
    assert got.stderr.splitlines()[0] == (
        "iperf3: parameter error - invalid report interval (min = 0.1, or 0.01 with JSON output, "
        "max = 60 seconds)"
    )
