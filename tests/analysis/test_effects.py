"""Tests the reported effect of each setting, on runs with chosen numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ccmix.analysis.effects import SettingLine, effects
from ccmix.analysis.sharing import sharing
from ccmix.model import Buffer, Destination, Group, HostPath, Queue, Run, Topology, UdpSource
from ccmix.model.results import FinishedRun
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import TOPOLOGY, add_sources, iperf3_traffic, with_groups, with_senders

TRAFFIC = iperf3_traffic((Group("cubic"),), 2, 10.0, 0.0, 1.0)
NOISE = (0.99, 1.0, 1.01)  # of three iterations


def finished(
    entry: str,
    goodputs: dict[str, float],
    iteration: int,
    path: Topology | HostPath,
    **condition: str,
) -> tuple[str, FinishedRun]:
    total = sum(goodputs.values())
    groups = [
        group_metrics(cca, goodput, share=goodput / total, fair_share=1 / len(goodputs))
        for cca, goodput in goodputs.items()
    ]
    run = Run(
        entry,
        condition,
        "receiver",
        iteration,
        7,
        with_groups(TRAFFIC, *map(Group, goodputs)),
        path,
    )
    return "one", finished_run(run, metrics(groups))


def lines(runs: Iterable[tuple[str, FinishedRun]]) -> tuple[SettingLine, ...]:
    every = list(runs)
    return effects(sharing(every), every)


def in_queues(goodputs: Sequence[tuple[str, str, float]]) -> list[tuple[str, FinishedRun]]:
    """Makes runs in which BBR competes with CUBIC, for each buffer and queue discipline; BBR gets
    the given part of 100 bits/s.
    """
    return [
        finished(
            "mixed",
            {"cubic": 100 - bbr * noise, "bbr": bbr * noise},
            at,
            replace(TOPOLOGY, buffer=Buffer(float(bdp), "bdp"), queue=Queue(kind)),
            buffer=f"{bdp}bdp",
            qdisc=kind,
        )
        for bdp, kind, bbr in goodputs
        for at, noise in enumerate(NOISE, 1)
    ]


def test_cross_traffic_beside_the_test_changes_nothing_of_it() -> None:
    runs = in_queues([("1", "bfifo", 90), ("8", "bfifo", 30)])
    others = group_metrics("others", 7.0, cca="-")
    beside = [
        (
            campaign,
            replace(
                alone,
                run=replace(
                    alone.run,
                    traffic=add_sources(alone.run.traffic, UdpSource("others", "h2", 1e6, 1)),
                ),
                metrics=replace(alone.metrics, groups=(*alone.metrics.groups, others)),
            ),
        )
        for campaign, alone in runs
    ]
    assert lines(beside) == lines(runs) != ()


def test_two_settings_have_two_lines_each() -> None:
    found = lines(
        in_queues(
            [("1", "bfifo", 90), ("1", "fq_codel", 51), ("8", "bfifo", 30), ("8", "fq_codel", 51)]
        )
    )
    assert [(line.setting, line.held) for line in found] == [
        ("buffer", (("qdisc", "bfifo"),)),
        ("buffer", (("qdisc", "fq_codel"),)),
        ("qdisc", (("buffer", "1 BDP"),)),
        ("qdisc", (("buffer", "8 BDP"),)),
    ]
    of_bfifo, of_fq_codel, *_ = found
    assert [(level.value, round(level.mean, 2), level.side) for level in of_bfifo.levels] == [
        ("1 BDP", 0.9, 1),
        ("8 BDP", 0.3, -1),
    ]
    assert [level.side for level in of_fq_codel.levels] == [0, 0]  # 51% is close to fair
    assert [level.seen for level in of_bfifo.levels] == [False, True]
    assert not any(level.seen for level in of_fq_codel.levels)


def test_entries_that_differ_in_one_setting_make_a_line() -> None:
    """One entry has the loss of its topology, the other sweeps it."""
    lossless = with_senders(TOPOLOGY, loss=None)
    runs = [
        finished("as-measured", {"cubic": 30 * noise}, at, TOPOLOGY)
        for at, noise in enumerate(NOISE, 1)
    ]
    runs += [
        finished("no-loss", {"cubic": 700 * noise}, at, lossless, loss="0%")
        for at, noise in enumerate(NOISE, 1)
    ]
    [line] = lines(runs)
    assert (line.subject.name, line.setting, line.held, line.streams) == ("cubic", "loss", (), 2)
    assert [level.value for level in line.levels] == ["0.1%", "0%"]
    assert line.levels[1].seen


def test_what_differs_in_two_settings_is_no_line() -> None:
    other = replace(with_senders(TOPOLOGY, loss=None), rate_bps=2e9)
    assert (
        lines([finished("a", {"cubic": 1.0}, 1, TOPOLOGY), finished("b", {"cubic": 2.0}, 1, other)])
        == ()
    )


def test_other_traffic_is_no_line() -> None:
    campaign, run = finished("b", {"cubic": 2.0}, 1, with_senders(TOPOLOGY, loss=None))
    longer = replace(run, run=replace(run.run, traffic=replace(run.run.traffic, duration_s=99.0)))
    assert lines([finished("a", {"cubic": 1.0}, 1, TOPOLOGY), (campaign, longer)]) == ()


def test_between_hosts_the_swept_values_are_as_written() -> None:
    path = HostPath("here", Destination("there", "192.0.2.1", None), "iperf3")
    runs = [
        finished("wan", {"bbr": bps * noise}, at, path, pacing=pacing)
        for pacing, bps in (("1gbit", 9e8), ("2gbit", 9.1e8))
        for at, noise in enumerate(NOISE, 1)
    ]
    [line] = lines(runs)
    assert (line.setting, [level.value for level in line.levels]) == ("pacing", ["1gbit", "2gbit"])


def test_a_ratio_turns_where_one_cca_overtakes_the_other() -> None:
    lossless = with_senders(TOPOLOGY, loss=None)
    runs = [
        finished(f"all-{cca}", {cca: bps * noise}, at, path, loss=loss)
        for cca, path, loss, bps in (
            ("cubic", lossless, "0%", 900),
            ("cubic", TOPOLOGY, "0.1%", 300),
            ("bbr", lossless, "0%", 600),
            ("bbr", TOPOLOGY, "0.1%", 600),
        )
        for at, noise in enumerate(NOISE, 1)
    ]
    [ratio] = [line for line in lines(runs) if line.subject.kind == "ratio"]
    assert (ratio.subject.name, ratio.subject.others) == ("bbr", ("cubic",))
    assert [level.side for level in ratio.levels] == [-1, 1]


def test_one_iteration_is_not_tested() -> None:
    lossless = with_senders(TOPOLOGY, loss=None)
    [line] = lines(
        [finished("a", {"cubic": 1.0}, 1, TOPOLOGY), finished("b", {"cubic": 9.0}, 1, lossless)]
    )
    assert [level.p_adjusted for level in line.levels] == [None, None]
