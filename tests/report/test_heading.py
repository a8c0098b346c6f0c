"""Tests the text above the table and at the top of the page, and the order of the table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ccmix.analysis.results import Result, Results, load_results
from ccmix.archive import Campaign, RunFolder
from ccmix.charts.frames import families
from ccmix.config import load
from ccmix.model import Buffer, Destination, Group, HostPath, Queue, Run, Topology
from ccmix.model.results import CampaignPlan
from ccmix.report.heading import missing, paths, title
from ccmix.report.results_text import lines, render
from support.finished_runs import campaign_plan, finished_run, group_metrics, metrics
from support.model import TOPOLOGY, iperf3_traffic, with_senders

TRAFFIC = iperf3_traffic((Group("cubic"),), 2, 10.0, 0.0, 1.0)
FAR = with_senders(TOPOLOGY, delay_s=0.044)


def run(
    entry: str, path: Topology | HostPath = TOPOLOGY, iteration: int = 1, **condition: str
) -> Run:
    return Run(entry, condition, "receiver", iteration, 7, TRAFFIC, path)


def results(*runs: Run, planned: int | None = None, rtts_s: Sequence[float] = ()) -> Results:
    pings = {"b": tuple(rtts_s)} if rtts_s else {}
    every = (
        Result(finished_run(each, metrics([group_metrics("cubic")]), ping_rtt_s=pings), Path())
        for each in runs
    )
    return Results(tuple(every), planned or len(runs))


def test_a_title_of_entries_and_what_they_sweep() -> None:
    assert title(results(run("one"))) == "one"
    swept = [
        run(entry, delay=delay, loss="0%") for entry in ("one", "two") for delay in ("5ms", "44ms")
    ]
    assert title(results(*swept)) == "one and two by delay"
    assert (
        title(results(*(run(f"e{at}", delay=f"{at}ms") for at in range(5))))
        == "e0, e1 and 3 more entries"
    )


def test_rate_and_rtt_of_each_path() -> None:
    queues = replace(FAR, buffer=Buffer(100, "packet"), queue=Queue("fq_codel"))
    assert paths(results(run("one", FAR), run("one"), run("one", queues))) == [
        "1.00 Gbit/s, base RTT 10 ms or 88 ms, loss 0.1%, buffer 1 BDP or 100 packets, qdisc "
        "bfifo or fq_codel"
    ]
    named = [run("one", replace(TOPOLOGY, name="near")), run("two", replace(FAR, name="far"))]
    assert [line[:34] for line in paths(results(*named))] == [
        "near: 1.00 Gbit/s, base RTT 10 ms,",
        "far: 1.00 Gbit/s, base RTT 88 ms, ",
    ]
    many = [run("one", with_senders(TOPOLOGY, delay_s=delay_s / 1000)) for delay_s in (8, 2, 1, 4)]
    assert ", base RTT 2 ms to 16 ms (4 values), " in paths(results(*many))[0]


def test_a_path_between_hosts() -> None:
    path = HostPath("a", Destination("b", "192.0.2.1", None), "iperf3")
    assert paths(results(run("one", path), rtts_s=(0.0123, 0.02))) == ["a to b, base RTT 12.3 ms"]
    assert paths(results(run("one", path))) == ["a to b, RTT not known"]


def test_many_paths_are_counted() -> None:
    to = [HostPath("a", Destination(f"b{at}", "192.0.2.1", None), "iperf3") for at in range(11)]
    assert paths(results(*(run("one", path) for path in to)))[-1] == "... and 1 more path"


def test_a_table_that_is_not_whole_says_so() -> None:
    whole = results(run("one"))
    one_left = results(run("one"), planned=2)
    more = results(run("one"), planned=9)
    assert [missing(each) for each in (whole, one_left, more)] == [
        "",
        "1 run is missing: failed, or not run yet.",
        "8 runs are missing: failed, or not run yet.",
    ]
    assert "\n1 of 9 planned runs. 8 runs are missing: failed, or not run yet.\n┏" in render(more)
    assert "planned" not in render(whole)


def campaign(outdir: Path, runs: Sequence[Run], **plan: object) -> Results:
    """Makes a campaign whose first run is not finished."""
    made = replace(campaign_plan(runs), **plan)  # type: ignore[arg-type]
    Campaign.create(outdir, made)
    for each in runs[1:]:
        folder = RunFolder.of(outdir, each)
        folder.begin()
        folder.finish(finished_run(each, metrics([group_metrics("cubic")])))
    return load_results([outdir])


def test_the_order_is_that_of_the_file_whatever_was_run_or_is_missing(tmp_path: Path) -> None:
    in_order = [
        run("one", path, iteration, delay=delay)
        for iteration in (1, 2)
        for delay, path in (("44ms", FAR), ("5ms", TOPOLOGY))
    ]
    assert [line[1] for line in lines(campaign(tmp_path / "in-order", in_order))] == ["44ms", "5ms"]
    shuffled = [in_order[at] for at in (1, 0, 3, 2)]
    found = campaign(tmp_path / "shuffled", shuffled, file_order=(1, 0, 3, 2))
    assert [line[1] for line in lines(found)] == ["44ms", "5ms"]
    [family] = families(found.runs)
    assert family.groups["condition"].unique(maintain_order=True).to_list() == [
        "delay=44ms",
        "delay=5ms",
    ]


def test_the_title_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "test.ini"
    path = "topology = t\n[topology t]\nrate = 1gbit\ndelay = 5ms\n"
    file.write_text(
        f"[DEFAULT]\ntype = iperf3\ntitle = Who wins?\n[one]\n{path}[two]\ntitle =\ntopology = t\n"
    )
    assert [entry.title for entry in load(file).entries] == ["Who wins?", ""]
    assert (
        title(campaign(tmp_path / "out", [run("one"), run("two")], title="Who wins?"))
        == "Who wins?"
    )
    assert (
        CampaignPlan(campaign_plan([]).origin, "", ()).title == ""
    )  # of archives before there were titles
