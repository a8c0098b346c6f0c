"""Tests JSON without a list of groups: with a single name, without -C, with other protocols."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# One line per key of the client's and of the server's JSON, from an unpatched 3.20 with the
# arguments of the test.
STOCK_KEYS = Path(__file__).with_name("stock-3.20-keys.txt")
ADDED = (
    {f"{side} start.test_start.start_time number" for side in ("client", "server")}
    | {
        f"{side} {record}.congestion string"
        for side in ("client", "server")
        for record in ("start.connected[]", "end.streams[].sender")
    }
    | {
        f"{side} {record}.{key}"
        for side in ("client", "server")
        for record, added in {
            "start.connected[]": ("id number", "group number"),
            "intervals[].streams[]": ("id number", "group number", "congestion string"),
            "end.streams[]": ("id number", "group number", "congestion string"),
        }.items()
        for key in (
            *added,
            *(() if "connected" in record else ("local_port number", "remote_port number")),
        )
    }
)


def keys(value: Any, path: str = "") -> set[str]:
    """Returns every key below a JSON value, with the type of its value."""
    if isinstance(value, dict):
        paths = set()
        for key, below in value.items():
            paths |= keys(below, f"{path}.{key}" if path else key)
        return paths
    if isinstance(value, list):
        return set().union(*(keys(below, f"{path}[]") for below in value))
    kind = {bool: "boolean", str: "string"}.get(type(value), "number")
    return {f"{path} {kind}"}


def of_both_sides(got: Any) -> set[str]:
    return {f"client {k}" for k in keys(got.client.json)} | {
        f"server {k}" for k in keys(got.server.json)
    }


def test_one_name_alone_has_the_keys_of_stock_and_ours(
    iperf3: str, pair: Callable, ccas: tuple[str, str]
) -> None:
    version = subprocess.run(
        [iperf3, "--version"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()[1]
    if not re.match(r"3\.20\b", version):
        pytest.skip(f"{STOCK_KEYS.name} is for 3.20; this is {version}")
    got = pair("-C", ccas[0], "-P", "2")
    assert (got.client.status, got.server.status) == (0, 0)
    assert of_both_sides(got) == set(STOCK_KEYS.read_text().splitlines()) | ADDED


def test_one_name_alone_has_the_values_of_stock(pair: Callable, ccas: tuple[str, str]) -> None:
    name, _ = ccas
    end = pair("-C", name, "-P", "2").client.json["end"]
    # stock sets the receiving sockets too
    assert (end["sender_tcp_congestion"], end["receiver_tcp_congestion"]) == (name, name)


def test_without_c_the_default_is_reported(pair: Callable, ccas: tuple[str, str]) -> None:
    _, default = ccas
    got = pair("-P", "2")
    assert got.client.congestion() == [default, default]
    assert [s["sender"]["congestion"] for s in got.server.json["end"]["streams"]] == [
        default,
        default,
    ]


def test_text_of_one_name_alone_is_as_before(start: Callable, ccas: tuple[str, str]) -> None:
    got = start("-i", "0.1", "-n", "1M", "-C", ccas[0], server_arguments=()).finish()
    assert got.client.status == 0
    assert "congestion" not in got.client.output + got.server.output


def test_udp_has_no_congestion_control(pair: Callable, ccas: tuple[str, str]) -> None:
    a, b = ccas
    got = pair("-u", "-b", "100M", "-R", "-C", f"{a},{b}", "-P", "2")
    assert got.client.status == 0
    assert not [k for k in of_both_sides(got) if "congestion" in k]


def test_version_says_that_it_is_patched(iperf3: str, pair: Callable) -> None:
    got = pair()
    assert re.fullmatch(r"iperf \S+\+ccmix1", got.client.json["start"]["version"])
    assert re.fullmatch(r"iperf \S+\+ccmix1", got.server.json["start"]["version"])
