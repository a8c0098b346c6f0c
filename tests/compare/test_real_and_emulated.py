"""Compares a real path from third-party results with emulated paths: which paths match it, and
which of its settings are unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.analysis.results import Result
from ccmix.archive import Campaign, RunFolder
from ccmix.compare.cells import Cell, cells
from ccmix.compare.groups import groups_of_both
from ccmix.compare.matching import BY_DESTINATION, BY_RTT, Matched, match
from ccmix.compare.verdicts import compare
from ccmix.model import Group, HostPath, HttpSource, Iperf3Source, Loss, Run, Topology, UdpSource
from ccmix.model.results import Execution, Finding, Verdict
from ccmix.terms import IMPORTED
from support.finished_runs import campaign_plan, finished_run, group_metrics, metrics
from support.model import TOPOLOGY, add_sources, with_groups, with_senders

from .conftest import PATH, TRAFFIC, Make, finished, iterations, load, make_run

NEAR = [99e6, 100e6, 101e6]
Import = Callable[..., Path]


def to(name: str) -> HostPath:
    return replace(PATH, src="boston", dst=replace(PATH.dst, name=name, address=name, host=name))


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Makes a campaign of (run, goodput, RTT under load), of which nothing else is known."""

    def made(found: Sequence[tuple[Run, float, float]]) -> Path:
        runs = [
            replace(run, traffic=replace(run.traffic, duration_s=0.0, omit_s=0.0, interval_s=0.0))
            for run, _, _ in found
        ]
        Campaign.create(tmp_path / "imported", campaign_plan(runs, seed=0, ccmix="0.1.0"))
        for run, (_, goodput_bps, rtt_s) in zip(runs, found, strict=True):
            measured = finished(run, goodput_bps, kernel="unknown", iperf3="", sysctls={})
            imported = replace(
                measured,
                execution=Execution("imported"),
                ping_rtt_s={},
                metrics=replace(measured.metrics, rtt_median_s=rtt_s),
                verdict=Verdict("unknown", (Finding(IMPORTED, "from a table", accepted=True),)),
            )
            folder = RunFolder.of(tmp_path / "imported", run)
            folder.begin()
            folder.finish(imported)
        return tmp_path / "imported"

    return made


def three(name: str, rtt_s: float, cca: str = "cubic") -> list[tuple[Run, float, float]]:
    """Makes three; the RTT under load of the first is the smallest."""
    return [
        (run, value, rtt_s + at / 1000)
        for at, (run, value) in enumerate(iterations(NEAR, path=to(name), cca=cca))
    ]


def emulated(delay_s: float, name: str = "", **settings: Any) -> Topology:
    return with_senders(replace(TOPOLOGY, name=name), delay_s=delay_s, **settings)


def names(matched: Matched) -> list[tuple[str, str, str]]:
    def short(cell: Cell) -> str:
        return (
            cell.first.run.dst
            if isinstance(cell.first.run.path, HostPath)
            else cell.first.run.entry
        )

    return [(short(pair.a), short(pair.b), pair.rule) for pair in matched.pairs]


def test_a_real_path_is_beside_every_emulated_one_of_its_rtt(imported: Import, make: Make) -> None:
    """Loss does not matter for the match, in either order of the campaigns, and it is not compared
    with the loss of another path.
    """
    real = cells(load(imported([*three("near", 0.01), *three("far", 0.1)])).runs)
    lab = [
        *iterations(NEAR, path=emulated(0.005), entry="short lossy"),
        *iterations(NEAR, path=emulated(0.005, loss=None), entry="short clean"),
        *iterations(NEAR, path=emulated(0.0501, loss=Loss("random", (0.01,))), entry="long lossy"),
        *iterations(NEAR, path=emulated(0.02), entry="elsewhere"),
    ]
    twins = cells(load(make("lab", lab)).runs)
    assert names(match(real, twins)) == [
        ("near", "short lossy", BY_RTT),
        ("near", "short clean", BY_RTT),
        ("far", "long lossy", BY_RTT),
    ]
    assert [cell.first.run.entry for cell in match(real, twins).only_b] == ["elsewhere"]
    assert [(a, b) for b, a, _ in names(match(twins, real))] == [
        ("near", "short lossy"),
        ("near", "short clean"),
        ("far", "long lossy"),
    ]


def test_a_topology_named_after_a_destination_stands_for_it(imported: Import, make: Make) -> None:
    """This holds for any RTT: for two alike paths, and for an RTT that another run contradicts."""
    real = cells(
        load(imported([*three("dtn.example.org", 0.1), *three("ps.dtn.example.org", 0.1005)])).runs
    )
    lab = [
        *iterations(NEAR, path=emulated(0.05, name="twin-ps.dtn.example.org"), entry="tests"),
        *iterations(NEAR, path=emulated(0.2), entry="tests-dtn.example.org"),
        *iterations(NEAR, path=emulated(0.05, name="other"), entry="other"),
    ]
    matched = match(real, cells(load(make("lab", lab)).runs))
    assert names(matched) == [
        ("dtn.example.org", "tests-dtn.example.org", BY_DESTINATION),
        ("ps.dtn.example.org", "tests", BY_DESTINATION),
    ]
    assert [cell.first.run.entry for cell in matched.only_b] == ["other"]


def test_one_run_does_not_decide_on_the_rtt(imported: Import, make: Make) -> None:
    """A single run had half of the RTT of all other runs."""
    odd = (make_run(path=to("far"), iteration=9), 1e8, 0.05)
    real = cells(load(imported([odd, *three("far", 0.1)])).runs)
    assert real[0].path.rtt_s == 0.1
    lab = [
        (run, value)
        for delay_s in (0.025, 0.05)
        for run, value in iterations(NEAR, path=emulated(delay_s), entry=f"{delay_s}")
    ]
    [pair] = match(real, cells(load(make("lab", lab)).runs)).pairs
    assert (pair.b.first.run.entry, pair.rule) == ("0.05", BY_RTT)


def test_between_two_real_paths_of_an_rtt_nobody_guesses(imported: Import, make: Make) -> None:
    real = cells(load(imported([*three("one", 0.1), *three("other", 0.101)])).runs)
    twins = cells(load(make("lab", iterations(NEAR, path=emulated(0.05), entry="lab"))).runs)
    matched = match(real, twins)
    assert (matched.pairs, len(matched.only_a), len(matched.only_b)) == ((), 2, 1)


def test_other_ccas_and_numbers_of_streams_are_other_conditions(
    imported: Import, make: Make
) -> None:
    """BBRv2 is not BBRv1, even if everything else is alike."""
    real = cells(load(imported(three("far", 0.1, cca="cubic,bbr2"))).runs)
    more = with_groups(TRAFFIC, Group("cubic"), streams=16)
    lab = iterations(NEAR, path=emulated(0.05), cca="cubic,bbr")
    lab += [(replace(make_run(path=emulated(0.05), entry="more"), traffic=more), 1e8)]
    assert match(real, cells(load(make("lab", lab)).runs)).pairs == ()


def test_cross_traffic_of_the_twin_is_no_flow_of_the_test(make: Make) -> None:
    """A twin emulates the cross traffic of the real path; the test has another name there."""
    real = cells(load(make("real", iterations(NEAR, path=PATH))).runs)
    path = emulated(0.006)
    flows = Iperf3Source("test", "h1", (Group("cubic"),), 4)
    cross = UdpSource("others", "h2", 0.0, 1e6, 1)
    twin = []
    for run, value in iterations(NEAR, path=path, entry="twin"):
        beside = replace(run, traffic=replace(run.traffic, sources=(flows, cross)))
        groups = [
            group_metrics("test", value, cca="cubic", streams=4),
            group_metrics("others", 1e6, cca="-"),
        ]
        twin.append(finished_run(beside, metrics(groups)))
    lab = [Result(finished, Path()) for finished in twin]
    [pair] = match(real, cells(lab)).pairs
    assert pair.rule == BY_RTT
    assert list(groups_of_both(pair.a.first, pair.b.first)) == [("cubic", "test")]


def test_a_twin_s_cross_traffic_leaves_the_condition_and_its_groups_as_they_are(make: Make) -> None:
    """Other sources than the test don't add CCAs to the mix, and the test's groups have the names
    of the real groups.
    """
    runs = iterations(NEAR, path=PATH, cca="cubic,bbr", entry="tests")
    real = cells(load(make("real", runs)).runs)
    cross = UdpSource("others", "h2", 1e6, 1), HttpSource("web", "h2", 9, 1000, 1, "reno")
    lab = []
    for run, value in runs:
        beside = replace(
            run, path=emulated(0.006), dst="receiver", traffic=add_sources(run.traffic, *cross)
        )
        groups = [group_metrics(cca, value / 2, streams=4) for cca in ("cubic", "bbr")]
        others = [
            group_metrics("others", 1e6, cca="-"),
            group_metrics("web", 1e3, cca="reno", streams=9),
        ]
        lab.append(Result(finished_run(beside, metrics([*groups, *others])), Path()))
    [cell] = cells(lab)
    assert (
        (cell.key, cell.streams)
        == (real[0].key, real[0].streams)
        == ("tests all cubic,bbr 8", {"cubic": 4, "bbr": 4})
    )
    [pair] = match(real, [cell]).pairs
    assert pair.rule == "same entry, condition, CCAs and streams"
    assert list(groups_of_both(pair.a.first, pair.b.first)) == [("cubic", "cubic"), ("bbr", "bbr")]


def test_pacing_counts_where_both_tell_it(imported: Import, make: Make) -> None:
    """An import doesn't; a real path that ccmix measured does."""
    paced = [
        (replace(run, traffic=replace(run.traffic, pacing_bps=1e9)), value)
        for run, value in iterations(NEAR, path=emulated(0.006), entry="paced")
    ]
    twins = cells(load(make("lab", paced)).runs)
    assert len(match(cells(load(imported(three("far", 0.012))).runs), twins).pairs) == 1
    otherwise = [
        (replace(run, traffic=replace(run.traffic, pacing_bps=2e9)), value)
        for run, value in iterations(NEAR, path=to("far"))
    ]
    assert match(cells(load(make("otherwise", otherwise)).runs), twins).pairs == ()


def test_what_an_import_does_not_tell_is_listed_first(imported: Import, make: Make) -> None:
    real = load(imported(three("far", 0.1)))
    lab = load(
        make(
            "lab",
            iterations(NEAR, path=emulated(0.05)),
            sysctls={"net.ipv4.tcp_sack": "1", "x": "2"},
        )
    )
    found = compare(real, lab).differences
    unknown = [one.what for one in found if one.unknown]
    assert [one.what for one in found][: len(unknown)] == unknown
    assert unknown[:3] == ["kernel release", "iperf3", "sysctl"]
    assert {"rate", "buffer", "loss", "receiver-window", "duration", "pacing"} <= {*unknown}
    told = {one.what: (one.a, one.b) for one in found}
    assert told["sysctl"] == (("unknown",), ("net.ipv4.tcp_sack 1, x 2",))
    assert told["path"] == (("real",), ("emulated",))
    assert not told.keys() & {"alias", "iterations", "type"}
    assert told["loss"] == (("unknown",), ("0.1%",))
    assert "port" not in told


def test_the_rtt_of_an_import_is_an_upper_bound(imported: Import, make: Make) -> None:
    [one] = compare(
        load(imported(three("far", 0.1))), load(make("lab", iterations(NEAR, path=emulated(0.05))))
    ).conditions
    said = one.to_json()
    assert said["matched_by"] == "same entry, condition, CCAs and streams"
    assert [(said[side]["base_rtt_s"], said[side]["base_rtt_at_most_s"]) for side in "ab"] == [
        (None, 0.1),
        (0.1, 0.1),
    ]
    assert one.verdict == "same"
