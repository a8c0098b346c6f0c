"""Tests --stream-delays: how much later than its group each stream starts."""

from collections.abc import Callable
from typing import Any

import pytest


def delays(end: Any) -> list[float | None]:
    return [connected.get("stream_delay") for connected in end.json["start"]["connected"]]


def sent_until(end: Any, seconds: float) -> list[int]:
    """Returns the bytes that each stream had sent by the last interval that was over by then."""
    intervals = [i["streams"] for i in end.json["intervals"] if i["sum"]["end"] < seconds]
    return [sum(streams[at]["bytes"] for streams in intervals) for at in range(len(intervals[0]))]


def test_each_stream_waits_its_own_delay_and_json_says_so(
    start: Callable, ccas: tuple[str, str]
) -> None:
    options = ("-J", "-i", "0.1", "-t", "1", "-b", "20M", "-P", "3", "-C", ",".join(ccas))
    got = start(*options, "--stream-delays", "0,600ms,0.000001").finish()
    assert (got.client.status, got.server.status, got.client.errors) == (0, 0, "")
    assert delays(got.client) == [0, 0.6, 0.000001]
    assert delays(got.server) == [None] * 3
    first, second, third = sent_until(got.client, 0.6)
    assert second == 0
    assert min(first, third) > 0
    assert all(stream["sender"]["bytes"] > 0 for stream in got.client.json["end"]["streams"])


def test_the_delay_adds_to_that_of_the_group(start: Callable, ccas: tuple[str, str]) -> None:
    spec = f"{ccas[0]}+0.4s,{ccas[1]}"
    got = start(
        "-J", "-i", "0.1", "-t", "1", "-P", "3", "-C", spec, "--stream-delays", "0.3,0.3"
    ).finish()
    both, own, of_group = (
        sent_until(got.client, seconds)[at] for at, seconds in enumerate((0.7, 0.3, 0.4))
    )
    assert (both, own, of_group) == (0, 0, 0)
    assert sent_until(got.client, 0.7)[2] > 0, (
        "the third stream is of the first group, and has no delay of its own"
    )
    assert sent_until(got.client, 2.0)[0] > 0


def test_without_the_option_json_is_as_before(pair: Callable) -> None:
    assert delays(pair("-P", "2").client) == [None, None]


def test_streams_beyond_the_list_do_not_wait(pair: Callable) -> None:
    assert delays(pair("-P", "3", "--stream-delays", "0.01").client) == [0.01, 0, 0]


def test_both_directions_delay_only_what_the_client_sends(pair: Callable) -> None:
    got = pair("--bidir", "-P", "2", "--stream-delays", "0.01,0.02")
    assert [delay for delay in delays(got.client) if delay is not None] == [0.01, 0.02]


@pytest.mark.parametrize(
    ("spec", "column", "reason"),
    [
        ("", 1, "a delay must be 0 to 86400 seconds"),
        ("1,", 3, "a delay must be 0 to 86400 seconds"),
        ("1,-2", 3, "a delay must be 0 to 86400 seconds"),
        ("86401", 1, "a delay must be 0 to 86400 seconds"),
        ("1us", 2, "a delay is a number of seconds, or of ms where it says so"),
        (",".join("0" * 129), 257, "more delays than streams are possible"),
    ],
)
def test_a_malformed_list(start: Callable, spec: str, column: int, reason: str) -> None:
    running = start("-J", "--stream-delays", spec)
    _, errors = running.client.communicate()
    running.server.kill()
    assert running.client.returncode == 1
    assert "bad list of stream delays" in errors
    assert f"column {column}, " in errors
    assert reason in errors


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (("--stream-delays", "0.01,0.01"), "more delays than there are streams"),
        (("-R", "--stream-delays", "0.01"), "no effect: the client sends no TCP streams"),
        (
            ("-u", "-b", "1G", "--stream-delays", "0.01"),
            "no effect: the client sends no TCP streams",
        ),
    ],
)
def test_what_has_no_effect_is_a_warning(
    pair: Callable, options: tuple[str, ...], warning: str
) -> None:
    assert warning in pair(*options).client.errors
