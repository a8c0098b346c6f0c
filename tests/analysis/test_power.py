"""Tests sentences of a verdict about settings that a run could not verify."""

from dataclasses import replace

import pytest

from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.applied import Observed
from ccmix.analysis.validity.queue_options import UNREPORTED
from ccmix.analysis.validity.verdict import not_verified
from ccmix.model import CommandSource, Counters, Measurement, Queue, Run, Topology
from support.model import host_run, with_senders

SHORT = 500  # packets: 0.5 losses are expected of them


@pytest.fixture
def observed(run: Run, tables: RunTables, measurement: Measurement) -> Observed:
    return Observed(run, tables, measurement)


def sentences(observed: Observed, path: Topology | None = None) -> list[str]:
    run = observed.run
    return list(not_verified(replace(observed, run=replace(run, path=path or run.path))))


def test_a_run_that_shows_all_has_none(observed: Observed) -> None:
    assert sentences(observed) == []


def test_jitter(observed: Observed) -> None:
    path = with_senders(observed.run.topology, jitter_s=0.001)
    assert sentences(observed, path) == ["jitter: tc confirms it, no probe sees its effect"]


def test_reordering(observed: Observed) -> None:
    path = with_senders(observed.run.topology, reorder=0.05)
    assert sentences(observed, path) == ["reordering: tc confirms it, no probe sees its effect"]


@pytest.mark.parametrize(
    ("kind", "parameters", "unreported"),
    [
        (
            "red",
            ("limit", "100000", "avpkt", "1000", "burst", "20", "probability", "0.1"),
            ["avpkt", "burst", "probability"],
        ),
        ("choke", ("limit", "1000", "bandwidth", "1gbit"), ["bandwidth"]),
        ("sfq", ("flows", "100", "perturb", "10"), ["flows"]),
        ("fq_codel", ("target", "5ms"), []),
    ],
)
def test_options_that_tc_does_not_report(
    observed: Observed, kind: str, parameters: tuple[str, ...], unreported: list[str]
) -> None:
    expected = [f"{name} of {kind}: tc doesn't report it" for name in unreported]
    queue = Queue(kind, parameters)
    assert sentences(observed, replace(observed.run.topology, queue=queue)) == expected
    assert sentences(observed, with_senders(observed.run.topology, queue=queue)) == expected
    both = with_senders(replace(observed.run.topology, queue=queue), queue=queue)
    assert sentences(observed, both) == expected, "each is named once"


def test_every_option_that_tc_does_not_report_is_named(observed: Observed) -> None:
    for kind, names in UNREPORTED.items():
        path = replace(observed.run.topology, queue=Queue(kind, names))
        assert sentences(observed, path) == [
            f"{name} of {kind}: tc doesn't report it" for name in names
        ]


def test_a_command(observed: Observed) -> None:
    command = CommandSource("backup", "h1", "rsync x {dst}:")
    run = observed.run
    with_command = replace(
        run, traffic=replace(run.traffic, sources=(*run.traffic.sources, command))
    )
    [sentence] = sentences(replace(observed, run=with_command))
    assert sentence == "backup.h1: ccmix doesn't know what the command should do"


def test_several_senders_are_named(observed: Observed) -> None:
    """The second sender lost too few packets to judge, and has jitter."""
    [first] = observed.run.topology.senders
    path = replace(
        observed.run.topology, senders=(first, replace(first, name="h2", jitter_s=0.001))
    )
    measured = observed.measurement
    before = of_senders(measured.before, packets=0)
    measured = replace(measured, before=before, after=of_senders(measured.after, packets=SHORT))
    assert sentences(replace(observed, measurement=measured), path) == [
        "h2: loss not verifiable in this run: 0.5 losses expected",
        "h2: jitter: tc confirms it, no probe sees its effect",
    ]


def of_senders(counters: Counters, packets: int) -> Counters:
    """Returns the counters of h1, and of a sender h2 whose netem passed this number of packets and
    lost none.
    """
    leaf, root = counters.qdiscs["data-delay"]
    second = (leaf, replace(root, packets=packets, drops=0))
    return replace(counters, qdiscs={"data-delay h1": (leaf, root), "data-delay h2": second})


def test_nothing_is_said_of_the_hosts_of_others(observed: Observed) -> None:
    assert list(not_verified(replace(observed, run=host_run("a", "b")))) == []
