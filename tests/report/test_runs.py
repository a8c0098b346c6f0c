"""What the report shows of a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ccmix.report.facts import Listings, flattened, of_setup
from ccmix.report.repeat import Origin
from ccmix.report.results import Result, Results, load_results
from ccmix.report.runs import colours, commands, sections, views


def test_commands_of_every_kind() -> None:
    emulated = {"web.h2": {"clients": [["curl", "--out", "a b"], ["curl", "c"]], "server": ["http", "1"]}, "h1": None}
    assert list(commands(emulated)) == [
        ("web.h2 clients", "curl --out 'a b'"), ("web.h2 clients", "curl c"), ("web.h2 server", "http 1"),
    ]  # fmt: skip
    assert list(commands(["iperf3 -c x | tee y", None])) == [("command", "iperf3 -c x | tee y")]
    assert list(commands(None)) == []


def test_groups_of_one_cca_have_colours_of_their_own() -> None:
    groups = [{"group": name, "cca": cca} for name, cca in (("a", "bbr"), ("b", "bbr"), ("c", "cubic"), ("d", "-"))]
    chosen = colours(groups)
    assert chosen["a"] == "#0072B2"
    assert chosen["c"] == "#D55E00"
    assert len(set(chosen.values())) == 4


def test_runs_with_the_same_hosts_share_a_listing() -> None:
    summary = {"where": {"machine": "lab"}, "facts": {"kernel": "7", "commands": ["a"]}}
    listings = Listings()
    first = listings.number(of_setup(summary))
    again = listings.number(of_setup(summary | {"facts": {"kernel": "7", "commands": ["b"]}}))
    other = listings.number(of_setup(summary | {"facts": {"kernel": "8"}}))
    assert (first, again, other) == (1, 1, 2)
    assert listings.all[0] == [("machine", "lab"), ("kernel", "7")]


def test_nested_facts_as_lines() -> None:
    facts = {
        "sysctls": {"net.tcp_rmem": "4096\t131072"},
        "cpus": [1, 2],
        "nics": [{"name": "eth0", "up": True}],
        "no": {},
    }
    assert flattened(facts) == [
        ("sysctls net.tcp_rmem", "4096 131072"), ("cpus", "1, 2"), ("nics 1 name", "eth0"), ("nics 1 up", "yes"),
        ("no", "–"),
    ]  # fmt: skip


def test_a_run_of_which_little_is_known(make_campaign: Callable[..., Path]) -> None:
    """As an import makes it: neither times nor commands nor flows."""
    results = load_results([make_campaign("alone")])
    poor = results.runs[1].summary | {"ended_s": None, "facts": {"kernel": "", "iperf3": ""}}
    poor["metrics"] = {key: value for key, value in poor["metrics"].items() if key in ("groups", "fairness")}
    result: Result = replace(results.runs[1], summary=poor)
    [section] = sections(Results((result,), 1))
    [view] = views(section, {}, Listings())
    assert (view.status, view.repeat, view.commands, view.flows.lines) == ("valid", None, (), [])
    assert "measured" not in dict(view.settings)
    [view] = views(section, {result.outdir: Origin(results.campaigns[0].about)}, Listings())
    assert view.repeat
