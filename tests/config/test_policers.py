"""Tests the values that `policer` in a topology sets, and the messages about wrong ones."""

from collections.abc import Callable

import pytest

from ccmix.config import Config, Problem
from ccmix.model import Policer, Topology

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]

TOPOLOGY = "[topology t]\nrate = 1gbit\ndelay = 5ms\n"
ENTRY = "[one]\ntype = iperf3\ntopology = t\n"


def policers(read: Files, text: str, entry: str = "") -> list[Policer | None]:
    [one] = read(TOPOLOGY + text + ENTRY + entry).entries
    paths = [condition.path for condition in one.conditions]
    return [path.policer for path in paths if isinstance(path, Topology)]


@pytest.mark.parametrize(
    ("text", "policer"),
    {
        "": None,
        "policer = none\n": None,
        "policer = 500mbit burst 1mb\n": Policer(5e8, 1_000_000),
        "policer = 500mbit\n": Policer(5e8, 625_000),  # 5 ms of 1 Gbit/s
        "rate = 10mbit\npolicer = 5mbit\n": Policer(
            5e6, 15_140
        ),  # ten packets, more than 6250 bytes
        "mtu = 9000\nrate = 10mbit\npolicer = 5mbit\n": Policer(5e6, 90_140),
        "offloads = on\nrate = 10mbit\npolicer = 5mbit\n": Policer(
            5e6, 140_000
        ),  # two super-packets
    }.items(),
)
def test_a_policer_has_a_burst_that_is_given_or_recommended(
    read: Files, text: str, policer: Policer | None
) -> None:
    topology = text if "rate =" in text else f"rate = 1gbit\n{text}"
    [one] = read(f"[topology t]\ndelay = 5ms\n{topology}{ENTRY}").entries
    [condition] = one.conditions
    assert isinstance(condition.path, Topology)
    assert condition.path.policer == policer


def test_a_policer_is_swept(read: Files) -> None:
    swept = policers(read, "", "sweep.policer = none, 500mbit burst 1mb, 100mbit burst 64kib\n")
    assert swept == [None, Policer(5e8, 1_000_000), Policer(1e8, 65_536)]


def test_the_default_burst_stays_when_the_link_changes(read: Files) -> None:
    [one] = read(TOPOLOGY + "policer = 500mbit\nat.2s = rate 100mbit\n" + ENTRY).entries
    [condition] = one.conditions
    assert isinstance(condition.path, Topology)
    assert [phase.policer for _, phase in condition.path.phases] == [Policer(5e8, 625_000)] * 2
