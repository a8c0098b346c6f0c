"""Tests a CCA that can't be set: the error names it, the side and the reason, and no other CCA is
used instead.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import allowed_and_not, run_program

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NOT_AVAILABLE = "not available (No such file or directory)"
NOT_PERMITTED = "not permitted (Operation not permitted)"


def message(cca: str, side: str, meaning: str) -> str:
    return f"unable to set congestion control algorithm '{cca}' on the {side}: {meaning}"


def not_allowed() -> tuple[str, str]:
    """Returns a CCA that this machine has but doesn't let an ordinary user set; skips the test
    without one.
    """
    allowed, forbidden = allowed_and_not()
    if forbidden is None:
        pytest.skip("every CCA of this machine is in net.ipv4.tcp_allowed_congestion_control")
    return forbidden, allowed


def unprivileged() -> tuple[str, ...]:
    return NOBODY if os.geteuid() == 0 else ()


@pytest.mark.parametrize(
    ("direction", "side"),
    [((), "client"), (("-R",), "server"), (("--bidir",), "server")],
    ids=["forward", "-R", "bidir"],
)
def test_unknown(
    pair: Callable, ccas: tuple[str, str], direction: tuple[str, ...], side: str
) -> None:
    got = pair(*direction, "-C", f"{ccas[0]},nosuch", "-P", "2")
    assert got.client.status == 1
    assert got.client.json["error"].endswith(message("nosuch", side, NOT_AVAILABLE))
    assert "streams" not in got.client.json["end"]
    if side == "server":
        assert got.server.json["error"].endswith(message("nosuch", side, NOT_AVAILABLE))


def test_unknown_in_text_is_one_line(start: Callable, ccas: tuple[str, str]) -> None:
    got = start("-R", "-C", f"nosuch,{ccas[0]}", "-P", "2", server_arguments=()).finish()
    assert got.client.errors.splitlines()[-1] == "iperf3: error - " + message(
        "nosuch", "server", NOT_AVAILABLE
    )
    assert (
        got.server.errors == "iperf3: error - " + message("nosuch", "server", NOT_AVAILABLE) + "\n"
    )


def test_unused_name_is_not_tried(pair: Callable, ccas: tuple[str, str]) -> None:
    for direction in ((), ("-R",)):
        assert pair(*direction, "-C", f"{ccas[0]},nosuch", "-P", "1").client.status == 0


def test_not_permitted_on_the_client(pair: Callable) -> None:
    cca, other = not_allowed()
    got = pair("-C", f"{other},{cca}", "-P", "2", before_client=unprivileged())
    assert got.client.status == 1
    assert got.client.json["error"].endswith(message(cca, "client", NOT_PERMITTED))


def test_not_permitted_on_the_server(pair: Callable) -> None:
    cca, other = not_allowed()
    got = pair("-R", "-C", f"{other},{cca}", "-P", "2", before_server=unprivileged())
    assert got.client.status == 1
    assert got.client.json["error"].endswith(message(cca, "server", NOT_PERMITTED))


@pytest.mark.root
def test_receiving_needs_no_permission(pair: Callable) -> None:
    """The client of a reverse test needs neither the CCA that the server sends with nor the right
    to use it.
    """
    cca, other = not_allowed()
    got = pair("-R", "-C", f"{other},{cca}", "-P", "2", before_client=unprivileged())
    assert (got.client.status, got.server.congestion()) == (0, [other, cca])


@pytest.mark.namespaces
def test_refused_on_the_stream_itself(pair: Callable, ccas: tuple[str, str]) -> None:
    """A route locks the CCA, which the server can notice only when a stream is connected."""
    a, b = ccas
    holder = subprocess.Popen(["unshare", "--net", "sleep", "20"])
    try:
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            assert holder.poll() is None
        inside = ("nsenter", "--net", f"--target={holder.pid}")
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        route = [
            "ip",
            "route",
            "replace",
            "local",
            "127.0.0.1",
            "dev",
            "lo",
            "table",
            "local",
            "congctl",
            "lock",
            b,
        ]
        subprocess.run([*inside, *route], check=True)
        for side, direction in (("client", ()), ("server", ("-R",))):
            got = pair(
                *direction, "-C", f"{a},{b}", "-P", "3", before_client=inside, before_server=inside
            )
            assert got.client.status == 1
            assert got.client.json["error"].endswith(message(a, side, NOT_PERMITTED))
    finally:
        holder.kill()
        holder.wait()


NAME = "each name must have 1 to 15 characters"
WEIGHT = "a weight must be a whole number from 1 to 1000"
RATE = "a rate must be 1K to 1000T bits/s"
DELAY = "a delay must be 0 to 86400 seconds"
GROUP = "a group is CCA[:WEIGHT][@RATE][+DELAY]"


@pytest.mark.parametrize(
    ("bad", "column", "what"),
    [
        ("cubic,,bbr", 7, NAME),
        ("cubic,", 7, NAME),
        (",cubic", 1, NAME),
        (",", 1, NAME),
        (":2", 1, NAME),
        ("cubic,sixteen_letters_", 7, NAME),
        ("cubic:0,bbr", 7, WEIGHT),
        ("cubic:1,bbr:1001", 13, WEIGHT),
        ("cubic:,bbr", 7, WEIGHT),
        ("cubic:-1", 7, WEIGHT),
        ("cubic:2x", 8, GROUP),
        ("cubic:2:2", 8, GROUP),
        ("bbr,cubic@", 11, RATE),
        ("cubic@999", 7, RATE),
        ("cubic@1e9", 7, RATE),
        ("cubic@1001T", 7, RATE),
        ("cubic@2.4Gbit", 11, GROUP),
        ("cubic@1G:2", 9, GROUP),
        ("cubic+", 7, DELAY),
        ("cubic+-1s", 7, DELAY),
        ("cubic+86400.1s", 7, DELAY),
        ("cubic+1m", 8, GROUP),
        ("cubic+1s@1G", 9, GROUP),
    ],
)
def test_malformed_list_points_at_the_place(iperf3: str, bad: str, column: int, what: str) -> None:
    got = run_program([iperf3, "-c", "127.0.0.1", "-p", "9", "-C", bad])
    assert got.returncode == 1
    place = f"column {column}, at '{bad[column - 1 :]}'"
    assert got.stderr.splitlines()[0] == (
        f"iperf3: parameter error - bad list of congestion control algorithms '{bad}': {place}: "
        f"{what}"
    )
    assert got.stderr.count("bad list") == 1


def test_an_error_is_one_line_whatever_the_list_has_in_it(iperf3: str, start: Callable) -> None:
    bad = "cubic:\n1,\x1b[31m"
    got = run_program([iperf3, "-c", "127.0.0.1", "-p", "9", "-C", bad])
    assert "'cubic:?1,?[31m': column 7, at '?1,?[31m': a weight" in got.stderr.splitlines()[0]
    got = start("-n", "1M", "-C", "no\nsuch,no", server_arguments=()).finish()
    assert message("no?such", "client", NOT_AVAILABLE) in got.client.errors


def test_more_groups_than_streams_are_possible(iperf3: str) -> None:
    bad = ",".join(["cubic"] * 129)
    got = run_program([iperf3, "-c", "127.0.0.1", "-p", "9", "-C", bad])
    assert got.returncode == 1
    assert "column 769, at 'cubic': more groups than streams are possible" in got.stderr


@pytest.mark.parametrize(
    ("direction", "side"),
    [((), "client"), (("-R",), "server"), (("--bidir",), "server")],
    ids=["forward", "-R", "bidir"],
)
@pytest.mark.parametrize("group", ["nosuch:2", "nosuch@1G", "nosuch+1s"])
def test_one_group_alone_is_strict_too(
    pair: Callable, direction: tuple[str, ...], side: str, group: str
) -> None:
    got = pair(*direction, "-C", group)
    assert got.client.status == 1
    assert got.client.json["error"].endswith(message("nosuch", side, NOT_AVAILABLE))
    assert "streams" not in got.client.json["end"]


def test_one_unknown_name_alone_is_as_before(start: Callable) -> None:
    """The client reports the error of stock iperf3, and a server that only receives reports
    none.
    """
    got = start("-n", "1M", "-C", "nosuch", server_arguments=()).finish()
    assert got.client.errors == (
        "iperf3: error - unable to set TCP_CONGESTION: "
        "Supplied congestion control algorithm not supported on this host\n"
    )
