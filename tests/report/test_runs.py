"""Tests the part of the report on a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ccmix.analysis.results import Result, load_results
from ccmix.model import Command, Facts, HostFacts, Run
from ccmix.report.heading import Listings, Origin, listing_of
from ccmix.report.runs import colours, sections, views
from support.finished_runs import finished_run, metrics

from .conftest import TOPOLOGY, TRAFFIC

RUN = Run("one", {}, "receiver", 1, 7, TRAFFIC, TOPOLOGY)


def test_groups_of_one_cca_have_colours_of_their_own() -> None:
    chosen = colours([("a", "bbr"), ("b", "bbr"), ("c", "cubic"), ("d", "-")])
    assert chosen["a"] == "#0072B2"
    assert chosen["c"] == "#D55E00"
    assert len(set(chosen.values())) == 4


def test_runs_with_the_same_hosts_share_a_listing() -> None:
    listings = Listings()
    first = listings.number(
        listing_of(finished_run(RUN, facts=Facts("7", commands=(Command("h1 client", "a"),))))
    )
    again = listings.number(
        listing_of(finished_run(RUN, facts=Facts("7", commands=(Command("h1 client", "b"),))))
    )
    other = listings.number(listing_of(finished_run(RUN, facts=Facts("8"))))
    assert (first, again, other) == (1, 1, 2)
    assert listings.all[0] == [("machine", "lab"), ("kernel", "7"), ("iperf3", "–")]


def test_facts_that_nothing_reported_are_not_listed() -> None:
    host = HostFacts("dtn", "6.1.0", "dtn1", 8, "cubic")
    facts = Facts(
        "6.1.0", iperf3="3.20", hosts={"src": host}, sysctls={"net.ipv4.tcp_sack": "1"}, offloads={}
    )
    assert listing_of(finished_run(RUN, facts=facts)) == [
        ("machine", "lab"),
        ("kernel", "6.1.0"),
        ("iperf3", "3.20"),
        ("sysctls net.ipv4.tcp_sack", "1"),
        ("hosts src name", "dtn"),
        ("hosts src kernel", "6.1.0"),
        ("hosts src hostname", "dtn1"),
        ("hosts src cpus", "8"),
        ("hosts src congestion_control", "cubic"),
        ("offloads", "–"),
    ]


def test_a_run_of_which_little_is_known(make_campaign: Callable[..., Path]) -> None:
    """An imported run has neither times nor commands nor flows."""
    results = load_results([make_campaign("alone")])
    known = results.runs[1].finished
    poor = replace(
        known,
        ended_s=None,
        facts=Facts(""),
        metrics=metrics(known.metrics.groups, fairness=known.metrics.fairness),
    )
    result: Result = replace(results.runs[1], finished=poor)
    [section] = sections([result])
    [view] = views(section, {}, Listings())
    known = view.finished
    assert (known.verdict.status, view.repeat, known.facts.commands, view.flows.lines) == (
        "valid",
        None,
        (),
        [],
    )
    assert "measured" not in dict(view.settings)
    [view] = views(section, {result.outdir: Origin(results.campaigns[0].origin)}, Listings())
    assert view.repeat
