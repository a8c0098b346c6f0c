"""Tests which runs share a path, and the names of paths. Both come from the plan: these runs are
without series.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import ArchiveError
from ccmix.config import load
from ccmix.model import (
    Capture,
    Destination,
    Group,
    HostPath,
    HttpSource,
    Iperf3Source,
    Run,
    Sender,
    Topology,
    UdpSource,
)
from ccmix.plan import make_plan
from ccmix.twin.estimate import Twin
from ccmix.twin.ini import ini
from ccmix.twin.twin import twins_of_runs
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import TOPOLOGY, add_sources, iperf3_traffic, with_groups

TRAFFIC = iperf3_traffic((Group("cubic"),), 2, 10.0, 0.0, 0.5)


def run(
    path: Topology | HostPath, entry: str = "e", traffic: Any = TRAFFIC, **condition: str
) -> Run:
    dst = path.dst.name if isinstance(path, HostPath) else "receiver"
    if isinstance(path, HostPath):
        traffic = replace(
            traffic, sources=tuple(replace(source, host="src") for source in traffic.sources)
        )
    return Run(entry, condition, dst, 1, 7, traffic, path)


def twins(*runs: Run) -> list[Twin]:
    pings = {"h1": (0.01,), "h2": (0.01,)}
    found = [
        finished_run(each, metrics([group_metrics("cubic")]), ping_rtt_s=pings) for each in runs
    ]
    return twins_of_runs([(each, Path("nowhere")) for each in found])


def named(*runs: Run) -> dict[str, int]:
    """Returns the names of paths, and their numbers of runs."""
    return {twin.name: len(twin.runs) for twin in twins(*runs)}


def emulated(name: str, **settings: Any) -> Topology:
    return replace(TOPOLOGY, name=name, **settings)


def real(src: str, dst: str = "far") -> HostPath:
    return HostPath(src, Destination(dst, "192.0.2.1", dst), "iperf3")


def test_topologies_are_paths_of_their_own() -> None:
    assert named(*(run(emulated(f"p{n}", rate_bps=n * 1e7)) for n in range(1, 11))) == {
        f"p{n}": 1 for n in range(1, 11)
    }


def test_what_is_swept_of_a_path_makes_paths_and_tests_do_not() -> None:
    runs = [
        run(emulated("p", rate_bps=rate_bps), rate=rate, cca=cca)
        for rate, rate_bps in (("10mbit", 1e7), ("20mbit", 2e7))
        for cca in ("cubic", "bbr")
    ]
    assert named(*runs) == {"p rate=10mbit": 2, "p rate=20mbit": 2}
    recorded = emulated("p", capture=Capture((), 1000), kernel="mine", spread=True)
    assert named(run(emulated("p")), run(recorded, entry="other")) == {"p": 2}


def test_senders_have_paths_of_their_own() -> None:
    path = emulated("p", senders=(Sender("h1", 0.005), Sender("h2", 0.02)))
    both = add_sources(TRAFFIC, Iperf3Source("", "h2", (Group("cubic"),), 2))
    assert named(run(path, traffic=both)) == {"p from h1": 1, "p from h2": 1}
    assert named(run(real("a")), run(real("b")), run(real("b"))) == {
        "far from a": 1,
        "far from b": 2,
    }
    assert named(run(real("a")), run(real("a", "near"))) == {"far": 1, "near": 1}


def test_other_cross_traffic_is_another_path() -> None:
    traffic = [
        add_sources(TRAFFIC, UdpSource("others", "h1", rate_bps, 1)) for rate_bps in (1e6, 5e6)
    ]
    path = emulated("p")
    assert named(*(run(path, traffic=each) for each in (*traffic, traffic[0]))) == {
        "p": 2,
        "p-2": 1,
    }


def test_a_run_that_shows_nothing_of_its_path_is_left_out() -> None:
    http = replace(TRAFFIC, sources=(HttpSource("web", "h1", 9, 1000, 1, "cubic"),))
    assert named(run(emulated("p")), run(emulated("q"), traffic=http)) == {"p": 1}
    with pytest.raises(ArchiveError, match="no run has an iperf3 test"):
        twins(run(emulated("q"), traffic=http))


def test_each_path_has_a_topology_and_entries_in_the_twin_s_file() -> None:
    """The tests of each path keep their sweeps, without what is swept of the path: that is the
    topology now.
    """
    runs = [
        run(emulated(name), rate=rate, cca=cca, traffic=with_groups(TRAFFIC, Group(cca)))
        for name, rate in (("p", "1gbit"), ("q", "2gbit"))
        for cca in ("cubic", "bbr")
    ]
    entries = load(Path("twin.ini"), ini(twins(*runs))).entries
    assert [entry.name for entry in entries] == ["e-p", "e-q"]
    planned = make_plan(entries, 1)
    assert {each.topology.name for each in planned} == {"twin-p", "twin-q"}
    assert {each.condition["cca"] for each in planned} == {"cubic", "bbr"}


def test_the_twin_of_a_sender_has_its_tests() -> None:
    path = emulated("p", senders=(Sender("h1", 0.005), Sender("h2", 0.02)))
    short = Iperf3Source("short", "h1", (Group("cubic"),), 1)
    long = Iperf3Source("long", "h2", (Group("bbr"),), 1)
    entries = load(
        Path("twin.ini"), ini(twins(run(path, traffic=replace(TRAFFIC, sources=(short, long)))))
    ).entries
    tests = {entry.name: entry.conditions[0].traffic.sources for entry in entries}
    assert {name: [source.name for source in sources] for name, sources in tests.items()} == {
        "e-p-from-h1": ["short"],
        "e-p-from-h2": ["long"],
    }
