"""Tests the keys by which Kibana finds the condition of a real path on its emulated twin."""

from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.config import load
from ccmix.index.context import condition_fields
from ccmix.model import Group, Run
from ccmix.model.results import FinishedRun
from ccmix.twin.estimate import Estimate, Twin
from ccmix.twin.ini import ini
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import host_run, with_groups

OTHERS = group_metrics("others", 1e6, cca="-")
PATH = {
    "rate": Estimate("rate", 50e6, 49e6, 51e6),
    "base RTT": Estimate("base RTT", 0.02, 0.0199, 0.0201),
    "buffer": Estimate("buffer", 125e3, 120e3, 130e3),
    "queue": Estimate("queue", word="fifo"),
}
NOT_TOLD = (
    "policer's burst",
    "random loss",
    "burst of losses",
    "reordering",
    "receiver's window",
    "MTU",
    "ECN",
)


def real(cca: str, streams: int) -> FinishedRun:
    """Returns a run of an entry that sweeps both, between hosts."""
    groups = tuple(Group(name) for name in cca.split(","))
    run = replace(
        host_run("localhost", "dtn"),
        entry="tests",
        condition={"cca": cca, "streams": str(streams)},
        dst="dtn",
    )
    of_groups = [group_metrics(group.cca, streams=streams // len(groups)) for group in groups]
    return finished_run(
        replace(run, traffic=with_groups(run.traffic, *groups, streams=streams)), metrics(of_groups)
    )


REAL = [real(cca, streams) for cca in ("cubic", "cubic,bbr") for streams in (2, 8)]


def twin_of(
    found: list[FinishedRun], cross: Estimate
) -> tuple[list[FinishedRun], dict[str, tuple[str, ...]]]:
    """Returns a run of each condition of the path's twin, and the file's unknown keys by entry."""
    estimates = [*PATH.values(), *(Estimate(name) for name in NOT_TOLD), cross]
    entries = load(Path("twin.ini"), ini([Twin("dtn", tuple(estimates), tuple(found))])).entries
    runs = []
    for entry in entries:
        for condition in entry.conditions:
            run = Run(
                entry.name, condition.values, "receiver", 1, 7, condition.traffic, condition.path
            )
            of_test = [group_metrics(group.cca) for group in condition.traffic.groups]
            assert [source.name for source in condition.traffic.cross_traffic] == ["others"]
            runs.append(finished_run(run, metrics([*of_test, OTHERS])))
    return runs, {entry.name: entry.unknown for entry in entries}


@pytest.mark.parametrize(
    ("cross", "times", "unknown"),
    [
        (Estimate("cross traffic", 10e6, 9e6, 11e6), 1, ()),
        (Estimate("cross traffic", 10e6, 5e6, 20e6), 3, ("flows.others",)),
    ],
    ids=["told", "open"],
)
def test_conditions_beside_cross_traffic_have_the_real_ones_keys(
    cross: Estimate, times: int, unknown: tuple[str, ...]
) -> None:
    twin, unknown_of = twin_of(REAL, cross)
    assert unknown_of == {"tests": unknown}
    keys = [condition_fields(found)["ccmix.condition.known_key"] for found in REAL]
    assert keys[0] == "tests cca=cubic,streams=2 cubic 2"
    documents = [condition_fields(found, unknown_of) for found in twin]
    assert [document["ccmix.condition.known_key"] for document in documents] == [
        key for key in keys for _ in range(times)
    ]
    if not unknown:
        assert [document["ccmix.condition.key"] for document in documents] == keys
    assert {(document["ccmix.mix"], document["ccmix.streams"]) for document in documents} == {
        (mix, streams) for mix in ("cubic", "cubic,bbr") for streams in (2, 8)
    }
