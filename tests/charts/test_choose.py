"""Tests which charts fit which sweeps, and that their numbers are those of the runs."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.results import Result, Results
from ccmix.charts.choose import choose
from ccmix.charts.distributions import steps
from ccmix.charts.draw import svg
from ccmix.charts.encodings import SCHEMA, Chart
from ccmix.charts.over_time import phase
from ccmix.charts.series import MOST_ESTIMATES, bandwidth_estimates
from ccmix.charts.settings import spread
from ccmix.model import CommandSource, Destination, Group, HostPath, Topology, Traffic
from ccmix.model.results import CompletionMetrics, Finding

Make = Callable[..., Results]
CUBIC, BBR, MIXED = (Group("cubic"),), (Group("bbr"),), (Group("cubic"), Group("bbr"))
BUFFERS = [{"buffer": f"{amount}bdp"} for amount in (0.1, 1, 10)]
GRID = [
    {"delay": f"{delay}ms", "loss": f"{loss}%"} for delay, loss in product((5, 44, 100), (0, 0.1))
]  # delay has the most values


def of_kind(results: Results, kind: str) -> list[Chart]:
    return [chart for chart in choose(results).charts if chart.kind == kind]


def kinds(results: Results) -> list[str]:
    return list(dict.fromkeys(chart.kind for chart in choose(results).charts))


def values(panel: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = panel["data"]["values"]
    return found


@pytest.mark.parametrize(
    ("entries", "conditions", "iterations", "expected"),
    [
        ({"mixed": MIXED}, BUFFERS, 3, ["setting", "table", "time-series"]),
        ({"cubic": CUBIC, "bbr": BBR}, GRID, 3, ["heat-map", "table", "time-series"]),
        ({"mixed": MIXED}, [{}], 4, ["time-series"]),
        ({"mixed": MIXED}, BUFFERS, 5, ["setting", "box", "table", "time-series"]),
    ],
    ids=["one swept number", "two", "none", "many iterations"],
)
def test_kinds_that_fit_come_in_the_reports_order(
    make: Make, entries: Any, conditions: Any, iterations: int, expected: list[str]
) -> None:
    assert kinds(make(entries, conditions, iterations)) == expected


def test_entries_with_a_value_each_have_no_lines(make: Make) -> None:
    one = make({"one": CUBIC}, BUFFERS[:1], folder="1").runs
    other = make({"other": CUBIC}, BUFFERS[1:2], folder="2").runs
    assert of_kind(Results((*one, *other), 6), "setting") == []


def test_many_iterations_have_boxes(make: Make) -> None:
    [chart] = of_kind(make({"mixed": MIXED}, [{}], iterations=5), "box")
    assert chart.title == "Goodput in 5 iterations"
    assert "cubic: median 130 Mbit/s (110 Mbit/s to 150 Mbit/s)" in chart.alt_text


def test_names_are_files_names_and_differ(make: Make) -> None:
    odd = "a/b <c>: ?" + "ü" * 300
    results = make({odd: MIXED, "A": CUBIC, "a": CUBIC}, [{"buffer": "1bdp"}, {"buffer": "2bdp"}])
    names = [chart.name for chart in choose(results).charts]
    assert len({name.casefold() for name in names}) == len(names)
    assert all("/" not in name and len(name.encode()) < 250 for name in names)


def test_numbers_that_tell_names_apart_make_no_other_name(make: Make) -> None:
    """Two topologies each have a table of entry 'a'; a third table is of an entry with the file
    name that the first would have.
    """
    parts = []
    for number, entry in enumerate(("a", "a", "a (1)")):
        for result in make({entry: MIXED}, BUFFERS, folder=str(number)).runs:
            path = replace(result.run.topology, name=f"path{number}")
            parts.append(
                replace(
                    result, finished=replace(result.finished, run=replace(result.run, path=path))
                )
            )
    names = [chart.name for chart in choose(Results(tuple(parts), len(parts)), ["table"]).charts]
    assert len(names) == len(set(names)) == 3


def test_what_is_too_large_is_said(make: Make) -> None:
    many = [{"buffer": f"{amount}bdp"} for amount in range(1, 26)]
    chosen = choose(make({"mixed": MIXED}, many, iterations=5), ["box", "table"])
    assert chosen.charts == ()
    assert chosen.left_out == (
        "Not drawn: “Goodput in 5 iterations” of mixed, which would have 25 places for boxes: "
        "more than 24 can't be read.",
        "Not drawn: “Goodput by entry and condition” of mixed, which would have 25 columns: "
        "more than 16 can't be read.",
    )


def test_panels_that_are_too_many_are_said(make: Make) -> None:
    entries = {f"entry{number:02d}": MIXED for number in range(13)}
    swept, mapped = (
        choose(make(entries, points, 1, folder=folder), ["setting", "heat-map"])
        for points, folder in ((BUFFERS, "one"), (GRID, "two"))
    )
    assert swept.charts == ()
    assert "which would have 13 panels: more than 12 can't be read" in swept.left_out[0]
    assert [chart.title.split(" ")[0] for chart in mapped.charts] == []
    assert [sentence.split(" by ")[0] for sentence in mapped.left_out] == [
        "Not drawn: “Goodput gain of bbr over cubic",
        "Not drawn: “Utilisation",
        "Not drawn: “Retransmission rate",
    ]


def test_charts_without_any_valid_run_are_of_goodput_marked_and_lighter(make: Make) -> None:
    results = make({"mixed": MIXED}, BUFFERS, iterations=5, invalid=range(15))
    charts = choose(results).charts
    assert [chart.kind for chart in charts] == ["setting", "box", "table"] + ["time-series"] * 3
    goodput, _ = (
        plot for panel in charts[0].spec["concat"] for plot in panel["vconcat"]
    )  # and no fairness
    assert ["opacity" in layer["encoding"] for layer in goodput["layer"]] == [False, True, True]
    for chart in charts:
        assert "(unknown)" in chart.alt_text
        if chart.kind != "table":
            assert {
                part["opacity"]["condition"]["value"]
                for part in encodings(chart.spec)
                if "opacity" in part
            } == {0.4}
        svg(chart.spec)


def encodings(spec: Any) -> Iterator[dict[str, Any]]:
    """Yields the channels of every view of a specification."""
    if isinstance(spec, dict):
        if "encoding" in spec:
            yield spec["encoding"]
        spec = list(spec.values())
    if isinstance(spec, list):
        for part in spec:
            yield from encodings(part)


def test_conditions_without_a_valid_run_are_apart_from_others(make: Make) -> None:
    """Runs 0 and 6 to 8 are not valid: one of three with the smallest buffer, and all with
    the largest.
    """
    results = make({"one": CUBIC}, BUFFERS, goodput=lambda *_: 3e8, invalid=(0, 6, 7, 8))
    results = replace(results, runs=tuple(by_processor(result) for result in results.runs))
    [chart] = of_kind(results, "setting")
    goodput, *_ = (plot for panel in chart.spec["concat"] for plot in panel["vconcat"])
    assert {(row["group"], row["setting"]) for row in values(goodput)} == {
        ("cubic", 0.1),
        ("cubic", 1.0),
        ("cubic (lower bound)", 0.1),
        ("cubic (lower bound)", 10.0),
    }
    assert kinds(results) == ["setting", "table", "time-series"]


def by_processor(result: Result) -> Result:
    finding = Finding("cpu", "the processor: core 0 was idle 0% of the time", accepted=False)
    findings = () if result.valid else (finding,)
    verdict = replace(result.finished.verdict, findings=findings)
    return replace(result, finished=replace(result.finished, verdict=verdict))


def test_all_valid_runs_have_no_marks(make: Make) -> None:
    for chart in choose(make({"mixed": MIXED}, BUFFERS, iterations=5)).charts:
        assert not any("opacity" in part for part in encodings(chart.spec))


def test_the_description_is_title_settings_and_text(make: Make) -> None:
    for chart in choose(make({"mixed": MIXED}, BUFFERS)).charts:
        assert chart.spec["description"] == f"{chart.title}. {chart.settings}. {chart.alt_text}"
        assert "Linux 7.2.12-ccmix" in chart.settings


def test_only_settings_in_common_are_written_on_a_chart_of_all_conditions(make: Make) -> None:
    [chart] = of_kind(make({"mixed": MIXED}, BUFFERS), "setting")
    assert "base RTT 10 ms" in chart.settings
    assert "buffer" not in chart.settings


def gained(cca: str, iteration: int, path: Topology) -> float:
    return 1e8 * (2 if cca == "bbr" and path.senders[0].loss else 1) + iteration


def test_gain_of_one_cca_over_the_other(make: Make) -> None:
    gain, *_ = of_kind(make({"cubic": CUBIC, "bbr": BBR}, GRID, goodput=gained), "heat-map")
    assert gain.title.startswith(
        "Goodput gain of bbr over cubic by delay in each direction (ms) and loss (%)"
    )
    [panel] = gain.spec["concat"]
    cells = {(row["x"], row["y"]): row["value"] for row in values(panel)}
    assert cells == pytest.approx(
        {(x, y): 1.0 if y == "0.1" else 0.0 for x in ("5", "44", "100") for y in ("0", "0.1")},
        abs=1e-6,
    )
    assert "each alone: from 0% at" in gain.alt_text
    assert "to 100% at" in gain.alt_text


def test_gain_of_flows_beside_each_other_is_that_of_a_flow(make: Make) -> None:
    results = make({"mixed": (Group("cubic", 1), Group("bbr", 4))}, GRID, goodput=gained)
    gain, *_ = of_kind(results, "heat-map")
    [panel] = gain.spec["concat"]
    assert panel["title"] == "mixed, per flow"
    assert {round(row["value"], 3) for row in values(panel)} == {-0.75, -0.5}


def test_utilisation_and_retransmissions_over_two_settings(make: Make) -> None:
    _, utilisation, lost = of_kind(
        make({"cubic": CUBIC, "bbr": BBR}, GRID, goodput=gained), "heat-map"
    )
    assert [panel["title"] for panel in utilisation.spec["concat"]] == ["cubic", "bbr"]
    cubic, bbr = (
        {(row["x"], row["y"]): row["value"] for row in values(panel)}
        for panel in utilisation.spec["concat"]
    )
    assert cubic["5", "0.1"] == pytest.approx(0.1)
    assert bbr["5", "0.1"] == pytest.approx(0.2)
    assert {row["value"] for panel in lost.spec["concat"] for row in values(panel)} == {0.002}


def test_a_third_setting_has_panels_of_its_own(make: Make) -> None:
    three = [point | {"buffer": buffer} for point in GRID for buffer in ("1bdp", "2bdp")]
    gain, *_ = of_kind(make({"cubic": CUBIC, "bbr": BBR}, three, iterations=1), "heat-map")
    assert [panel["title"] for panel in gain.spec["concat"]] == [
        "each alone buffer=1bdp",
        "each alone buffer=2bdp",
    ]


@pytest.mark.parametrize(("steps_of", "kind"), [("linear", "linear"), ("log", "log")])
def test_steps_of_colours_can_be_chosen(make: Make, steps_of: Any, kind: str) -> None:
    charts = choose(make({"cubic": CUBIC, "bbr": BBR}, GRID), ["heat-map"], steps=steps_of).charts
    scales = [
        chart.spec["concat"][0]["layer"][-2]["encoding"]["color"]["scale"] for chart in charts
    ]
    assert [scale["type"] for scale in scales] == [
        "symlog" if kind == "log" else "linear",
        "linear",
        kind,
    ]


def test_share_against_fair_share(make: Make) -> None:
    parts: list[Result] = []
    for cubic in (3, 2, 1):
        groups = (Group("cubic", cubic), Group("bbr", 4 - cubic))
        parts += make(
            {f"mix{cubic}": groups}, [{"cca": f"cubic:{cubic},bbr:{4 - cubic}"}], folder=f"{cubic}"
        ).runs
    entry = [
        replace(result, finished=replace(result.finished, run=replace(result.run, entry="mix")))
        for result in parts
    ]
    [chart] = of_kind(Results(tuple(entry), len(entry)), "share")
    [panel] = chart.spec["concat"]
    assert panel["layer"][1]["encoding"]["x"]["scale"]["domain"] == ["3 : 1", "2 : 2", "1 : 3"]
    fair = {(row["flows_of"], row["cca"]): row["fair_share"] for row in values(panel)}
    assert (fair["3 : 1", "cubic"], fair["3 : 1", "bbr"], fair["1 : 3", "bbr"]) == (
        0.75,
        0.25,
        0.75,
    )
    measured = {(row["flows_of"], row["cca"]): row["mean"] for row in values(panel)}
    shares = [(2e8 + 1e7 * number) / (3e8 + 2e7 * number) for number in (1, 2, 3)]
    assert measured["3 : 1", "bbr"] == pytest.approx(sum(shares) / 3, rel=1e-3)
    assert "mix, 3 : 1: 64.7%, fair 25%" in chart.alt_text


def test_a_cca_called_as_a_mix_is_one(make: Make) -> None:
    """An imported table may have such a name."""
    results = make(
        {"a": (Group("cubic + bbr", 4),)}, [{"loss": loss} for loss in ("0.1%", "0.2%", "0.3%")]
    )
    assert "share" not in kinds(results)


def test_against_a_setting_with_the_interval_of_the_mean(make: Make) -> None:
    [chart] = of_kind(make({"mixed": MIXED}, BUFFERS), "setting")
    fairness, goodput, _ = chart.spec["concat"][0]["vconcat"]
    assert {row["setting"] for row in values(fairness)} == {0.1, 1.0, 10.0}
    row = next(row for row in values(goodput) if row["cca"] == "cubic" and row["setting"] == 1.0)
    low, high = confidence_interval([1.1e8, 1.2e8, 1.3e8]) or (0, 0)
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((1.2e8, low, high), rel=1e-3)


def test_the_band_of_two_iterations_is_their_range() -> None:
    frame = pl.DataFrame({"by": ["a", "a"], "metric": [1.0, 3.0]})
    assert spread(frame, "metric", ["by"]).rows() == [("a", 2.0, 1.0, 3.0)]


def test_entries_of_one_cca_each_are_drawn_together_and_mixes_apart(make: Make) -> None:
    [chart] = of_kind(make({"c": CUBIC, "b": BBR, "m": MIXED}, BUFFERS), "setting")
    assert [panel["title"] for panel in chart.spec["concat"]] == ["each alone: c, b", "m"]


def test_entries_of_the_same_cca_are_drawn_apart(make: Make) -> None:
    [chart] = of_kind(make({"one": CUBIC, "other": CUBIC}, BUFFERS), "setting")
    assert [panel["title"] for panel in chart.spec["concat"]] == ["one", "other"]


def test_the_table_has_the_mean_of_each_group_and_condition(make: Make) -> None:
    [chart] = of_kind(make({"alone": CUBIC, "mixed": MIXED}, BUFFERS), "table")
    rows = {(row["row"], row["column"]): row["goodput_bps"] for row in values(chart.spec)}
    assert {row for row, _ in rows} == {"alone", "mixed: cubic", "mixed: bbr"}
    assert rows["mixed: bbr", "buffer=1bdp"] == pytest.approx(2.2e8)


def write_sockets(results: Results, rows: Sequence[Mapping[str, Any]]) -> None:
    for result in results.runs:
        pl.DataFrame(rows).write_parquet(result.folder / "sockets.parquet")


def sample(time_s: float, **values_of: Any) -> dict[str, Any]:
    return {
        "time_s": time_s,
        "host": "h1",
        "port": 1,
        "end": "sender",
        "final": False,
        "state": "established",
        "group": "bbr",
        "cca": "bbr",
        "rtt_s": 0.02,
        "bbr_bandwidth_bps": 1e7,
        "bbr_min_rtt_s": 0.01,
        "bbr_pacing_gain": 1.0,
        "bbr_cwnd_gain": 2.0,
        "cwnd_packets": 10,
        "delivery_rate_bps": 1e7,
        "unacked": 9,
        "sacked": 2,
        "lost": 1,
        "retransmitted_unacked": 1,
        **values_of,
    }


def test_charts_of_a_damaged_series_are_left_out_and_the_others_drawn(make: Make) -> None:
    results = make({"bbr": BBR}, BUFFERS, iterations=1)
    damaged = results.runs[0].folder / "sockets.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    chosen = choose(results)
    assert "setting" in {chart.kind for chart in chosen.charts}
    assert any(
        "a series can't be read" in sentence and str(damaged) in sentence
        for sentence in chosen.left_out
    )


def test_rtts_of_the_measured_time_and_of_senders_alone_are_distributed(make: Make) -> None:
    results = make({"bbr": BBR}, [{}], iterations=1)  # a second is omitted, two are measured
    strange = [
        sample(0.5, rtt_s=9.0),
        sample(1.5, rtt_s=8.0, end="receiver"),
        sample(3.0, rtt_s=7.0, final=True),
    ]
    write_sockets(results, [*strange, sample(1.0, rtt_s=0.03), sample(2.0, rtt_s=0.01)])
    [chart] = of_kind(results, "distribution")
    [panel] = chart.spec["concat"]
    assert [(row["time"], row["share"]) for row in values(panel)] == [
        (10.0, 0.0),
        (10.0, 0.5),
        (30.0, 1.0),
    ]
    assert "median 20 ms" in chart.alt_text


def with_completions(results: Results) -> Results:
    completed = CompletionMetrics(
        group="bbr",
        host="h1",
        cca="bbr",
        begun=3,
        completed=2,
        mean_s=1.5,
        median_s=1.5,
        p95_s=2.0,
        p99_s=2.0,
    )
    return replace(
        results,
        runs=tuple(
            replace(
                result,
                finished=replace(
                    result.finished,
                    metrics=replace(result.finished.metrics, completions=(completed,)),
                ),
            )
            for result in results.runs
        ),
    )


def test_completions_come_before_rtts(make: Make) -> None:
    results = make({"bbr": BBR}, [{}], iterations=2)
    write_sockets(results, [sample(1.0)])
    results = with_completions(results)
    for result in results.runs:
        times = pl.DataFrame({"group": ["bbr"] * 3, "seconds": [1.0, 2.0, None]})
        times.write_parquet(result.folder / "completions.parquet")
    [chart] = of_kind(results, "distribution")
    assert chart.title == "Distribution of the completion times of short flows"
    assert [row["share"] for row in values(chart.spec["concat"][0])] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_time_of_nothing_lies_at_the_edge_of_a_logarithmic_axis(make: Make) -> None:
    results = make({"bbr": BBR}, [{}], iterations=1)
    seconds = [0.0, *(0.001 * 1.1**number for number in range(200))]
    results = with_completions(results)
    pl.DataFrame({"group": "bbr", "seconds": seconds}).write_parquet(
        results.runs[0].folder / "completions.parquet"
    )
    [panel] = of_kind(results, "distribution")[0].spec["concat"]
    assert panel["encoding"]["x"]["scale"]["type"] == "log"
    assert panel["encoding"]["x"]["scale"]["domain"][0] == pytest.approx(0.001)
    assert min(row["time"] for row in values(panel)) == pytest.approx(0.001)


def test_conditions_without_a_panel_of_the_distribution_are_said(make: Make) -> None:
    results = make(
        {"bbr": BBR}, [{"buffer": f"{amount}bdp"} for amount in range(1, 9)], iterations=1
    )
    write_sockets(results, [sample(1.0)])
    assert choose(results, ["distribution"]).left_out == (
        "“Distribution of the smoothed RTTs of all flows” of bbr shows only 6 of 8 conditions, "
        "evenly spread, because more panels would be too small to read.",
    )


def test_many_values_have_some_points_of_the_same_distribution() -> None:
    times = pl.DataFrame(
        {"series": "a", "cca": "bbr", "time": [float(number) for number in range(1, 10_001)]}
    )
    points = steps(times)
    assert points.height < 120
    for row in points[1:].iter_rows(named=True):
        assert row["share"] == pytest.approx(row["time"] / 10_000, abs=1e-3)


def test_the_state_of_a_bbr_flow(make: Make) -> None:
    results = make({"bbr": BBR}, BUFFERS[:2], iterations=1)
    high, drain = 2.886719, 0.34375
    gains = [
        (0.0, 0.0),
        (high, high),
        (drain, high),
        (1.25, 2.0),
        (0.75, 2.0),
        (1.0, 2.0),
        (1.0, 1.0),
    ]
    samples = [
        sample(0.1 * number, bbr_pacing_gain=pacing, bbr_cwnd_gain=window)
        for number, (pacing, window) in enumerate(gains)
    ]
    assert pl.DataFrame(samples).select(phase=phase(samples[0]))["phase"].to_list() == [
        None,
        "startup",
        "drain",
        "probe_bw, up",
        "probe_bw, down",
        "probe_bw, cruise",
        "probe_rtt",
    ]
    write_sockets(results, samples)
    chosen = choose(results, ["bbr-state"])
    [chart] = chosen.charts
    assert chart.condition == "buffer=1bdp"
    assert chosen.left_out[0].startswith("Of 2 conditions, 1 has")
    strip, *_, windows = chart.spec["vconcat"]
    assert [row["bbr_state"] for row in values(strip)][:3] == ["startup", "drain", "probe_bw, up"]
    assert {row["in_flight_packets"] for row in values(windows)} == {7}  # 9 - 2 - 1 + 1
    assert len(choose(results, ["bbr-state"], most=None).charts) == 2


def later(
    cca: str, port: int, time_s: float, phase_: str | None, **values_of: Any
) -> dict[str, Any]:
    return sample(
        time_s,
        group=cca,
        cca=cca,
        port=port,
        bbr_phase=phase_,
        bbr_cycle=1,
        bbr_bw_lo_bps=None,
        bbr_inflight_hi_packets=None,
        bbr_inflight_lo_packets=None,
        **values_of,
    )


def test_the_states_of_each_version_of_bbr(make: Make) -> None:
    """A mix has a chart for each version, of its first flow with states."""
    results = make(
        {"mixed": tuple(map(Group, ("bbr", "bbr2", "bbr3", "cubic")))}, [{}], iterations=1
    )
    phases = [
        "startup",
        "drain",
        "probe_bw_refill",
        "probe_bw_up",
        "probe_bw_down",
        "probe_bw_cruise",
        "probe_rtt",
    ]
    samples = [
        later("bbr2", 2, 0.1 * number, phase_)
        for number, phase_ in enumerate([None, *phases, "of the future"])
    ]
    samples += [later("bbr3", 4, time_s, "probe_bw_up") for time_s in (0.0, 1.0)]
    samples += [later("bbr3", 3, time_s, None) for time_s in (0.0, 1.0)]
    samples += [later("bbr", 1, time_s, None) for time_s in (0.0, 1.0)]
    samples += [later("cubic", 0, time_s, None) for time_s in (0.0, 1.0)]
    write_sockets(results, samples)
    charts = choose(results, ["bbr-state"]).charts
    assert [chart.title for chart in charts] == [
        f"One {version} flow over time: mixed, all" for version in ("BBR", "BBRv2", "BBRv3")
    ]
    strips = [values(chart.spec["vconcat"][0]) for chart in charts]
    assert [row["bbr_state"] for row in strips[1]] == [
        phase_.replace("probe_bw_", "probe_bw, ") for phase_ in phases
    ]
    assert [[row["bbr_state"] for row in strip] for strip in (strips[0], strips[2])] == [
        ["probe_bw, cruise"],
        ["probe_bw, up"],
    ]


def test_bounds_that_were_set_are_drawn(make: Make) -> None:
    results = make({"later": (Group("bbr3"),)}, [{}], iterations=1)
    samples = [later("bbr3", 1, 0.1 * number, "probe_bw_up") for number in range(9)]
    samples[0]["bbr_inflight_hi_packets"] = 60
    samples[1]["bbr_bw_lo_bps"] = 8e6
    write_sockets(results, samples)
    [chart] = choose(results, ["bbr-state"]).charts
    _, rates, _, windows = chart.spec["vconcat"]
    assert [row["bbr_bw_lo_bps"] for row in values(rates)][:4] == [
        None,
        8e6,
        8e6,
        None,
    ]  # until the next sample
    assert [row["bbr_inflight_hi_packets"] for row in values(windows)][:3] == [60, 60, None]
    assert "bw_lo" in rates["encoding"]["color"]["scale"]["domain"]
    assert windows["encoding"]["color"]["scale"]["domain"] == ["cwnd", "in flight", "inflight_hi"]


def test_no_line_of_a_bound_leads_over_the_time_in_which_it_was_not_set(make: Make) -> None:
    """Its line is drawn from 0 to 0.1 s and from 0.5 to 0.6 s."""
    results = make({"later": (Group("bbr3"),)}, [{}], iterations=1)
    samples = [later("bbr3", 1, 0.1 * number, "probe_bw_up") for number in range(8)]
    for number in (0, 5):
        samples[number] |= {"bbr_bw_lo_bps": 8e6}
    write_sockets(results, samples)
    [chart] = choose(results, ["bbr-state"]).charts
    drawn = svg({"$schema": SCHEMA} | chart.spec["vconcat"][1])
    [path] = re.findall(r'<path[^>]* d="([^"]*)"[^>]* stroke="#CC79A7" stroke-width="1.3"', drawn)
    assert len(re.findall("M", path)) == 2


def test_boxes_of_later_versions_of_bbr(make: Make) -> None:
    results = make({"later": (Group("bbr2"),)}, BUFFERS, iterations=1)
    write_sockets(results, [later("bbr2", 1, 1.5, "drain", bbr_bandwidth_bps=7e6)])
    [chart] = of_kind(results, "box")
    assert {(row["cca"], row["bandwidth_bps"]) for row in values(chart.spec["concat"][0])} == {
        ("bbr2", 7e6)
    }


def test_boxes_of_what_bbr_estimates(make: Make) -> None:
    results = make({"bbr": BBR}, BUFFERS, iterations=2)
    write_sockets(
        results, [sample(0.1 * number, bbr_bandwidth_bps=1e6 * number) for number in range(31)]
    )
    [chart] = of_kind(results, "box")
    [panel] = chart.spec["concat"]
    rows = values(panel)
    assert panel["encoding"]["x"]["scale"]["domain"] == ["0.1", "1", "10"]
    assert [row["bandwidth_bps"] for row in rows if row["x"] == "1"] == [
        1e6 * number for number in range(10, 31)
    ]
    assert "bbr, 0.1, bbr: 20.0 Mbit/s" in chart.alt_text


def test_many_estimates_have_the_same_quartiles(make: Make) -> None:
    results = make({"bbr": BBR}, BUFFERS, iterations=1)
    write_sockets(
        results,
        [sample(1 + number / 10_000, bbr_bandwidth_bps=float(number)) for number in range(10_000)],
    )
    found = bandwidth_estimates(results.runs[0])
    assert found is not None
    assert found.height == MOST_ESTIMATES
    for share in (0.25, 0.5, 0.75):
        assert found["bandwidth_bps"].quantile(share) == pytest.approx(10_000 * share, abs=60)


def test_sockets_that_ss_saw_have_no_bbr_state(make: Make) -> None:
    results = make({"bbr": BBR}, [{}], iterations=1)
    bare = {name: value for name, value in sample(1.0).items() if not name.startswith("bbr_")}
    write_sockets(results, [bare])
    assert of_kind(results, "bbr-state") == []
    assert len(of_kind(results, "distribution")) == 1


def of_a_command(results: Results, omit_s: float) -> Results:
    """Makes the runs those of a src-cmd of unknown length, whose iperf3 omits so many seconds."""
    traffic = Traffic((CommandSource("", "src", "transfer 10.0.3.2"),), None, 0.0, 1.0)
    path = HostPath("localhost", Destination("far", "10.0.3.2", "10.0.3.2"), "a label")
    made = []
    for result in results.runs:
        run = replace(result.run, path=path, traffic=traffic)
        made.append(replace(result, finished=replace(result.finished, run=run)))
        output = {
            "start": {"connected": [], "test_start": {"omit": omit_s, "interval": 1}},
            "intervals": [],
            "end": {"streams": []},
        }
        (result.folder / "generators").mkdir()
        (result.folder / "generators" / "src-cmd.out").write_text(json.dumps(output))
    return replace(results, runs=tuple(made))


def test_a_command_of_unknown_length_has_rtts_after_the_time_that_it_omitted(make: Make) -> None:
    results = make({"bbr": BBR}, [{}], iterations=1)
    write_sockets(
        results, [sample(0.5, rtt_s=9.0), sample(1.5, rtt_s=0.03), sample(600.0, rtt_s=0.01)]
    )
    [chart] = of_kind(of_a_command(results, omit_s=1), "distribution")
    assert "median 20 ms" in chart.alt_text


def test_a_command_of_unknown_length_has_bbr_s_estimates_after_the_time_that_it_omitted(
    make: Make,
) -> None:
    results = of_a_command(make({"bbr": BBR}, [{}], iterations=1), omit_s=1)
    rates = {0.5: 1e6, 1.5: 2e6, 600.0: 3e6}
    write_sockets(
        results, [sample(time_s, bbr_bandwidth_bps=rate) for time_s, rate in rates.items()]
    )
    estimates = bandwidth_estimates(results.runs[0])
    assert estimates is not None
    assert estimates["bandwidth_bps"].to_list() == [2e6, 3e6]


def test_the_time_that_a_command_omitted_is_grey_over_time(make: Make) -> None:
    [chart] = choose(
        of_a_command(make({"bbr": BBR}, [{}], iterations=1), omit_s=2), ["time-series"]
    ).charts
    assert {row["omit_s"] for row in values(chart.spec["concat"][0])} == {2.0}


def test_a_command_whose_raw_files_are_not_kept_omits_what_was_planned(make: Make) -> None:
    results = of_a_command(make({"bbr": BBR}, [{}], iterations=1), omit_s=2)
    shutil.rmtree(results.runs[0].folder / "generators")
    [chart] = choose(results, ["time-series"]).charts
    assert {row["omit_s"] for row in values(chart.spec["concat"][0])} == {0.0}


def test_the_demos_charts(demo: Results) -> None:
    chosen = choose(demo)
    assert [chart.kind for chart in chosen.charts] == [
        "distribution",
        "table",
        *["time-series"] * 4,
        "bbr-state",
    ]
    table = chosen.charts[1]
    assert "mixed: bbr: delay=5ms,loss=0% 947 Mbit/s" in table.alt_text
