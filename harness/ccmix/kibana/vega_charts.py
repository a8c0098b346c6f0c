"""Reads the Kibana charts that vega.yaml describes, and defines drawings that need Python."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from ccmix.charts import over_time
from ccmix.charts.distributions import boxes_by, distribution
from ccmix.charts.encodings import (
    LINE_WIDTH,
    POINTS,
    RATE_AXIS,
    ChartSource,
    Part,
    colour_by_cca,
    dash,
    goodput,
    name,
    quantity,
    time,
)
from ccmix.charts.heat_map import cells, gain_scale, goodput_cells
from ccmix.charts.published import KINDS, spans
from ccmix.charts.settings import shares
from ccmix.kibana.charts import (
    BY_RTT_AND_LOSS,
    CONDITIONS_TABLE,
    COUNTED,
    cumulative_shares,
    goodput_over_time,
    limit_rows,
)
from ccmix.kibana.saved_objects import VIEWS, Json, read_yaml
from ccmix.kibana.vega import (
    VegaLite,
    aggregate,
    calculate,
    count_distinct,
    known_keys,
    means_with_bands,
    metric,
    terms,
)

FONT_SIZE = 13
SIDE_COLOURS = {"real": "#000000", "emulated": "#0072B2"}


def _draw_sentence(source: ChartSource) -> Part:
    """Draws the column `sentence` as a text at the top left, without a frame."""
    return source.view(
        {
            "view": {"stroke": None},
            "mark": {"type": "text", "align": "left", "baseline": "top", "fontSize": FONT_SIZE},
            "encoding": {
                "x": {"value": 0},
                "y": {"value": 0},
                "text": {"field": "sentence", "type": "nominal"},
            },
        }
    )


def _draw_each_run(source: ChartSource) -> Part:
    """Draws a point for each group of each run: goodput over retransmission rate."""
    colour = colour_by_cca(field="key.cca")
    colour["color"]["legend"] |= {"symbolType": "circle", "symbolStrokeWidth": 0}
    return source.view(
        {
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": {
                "x": {
                    "field": "retransmission_rate.value",
                    "type": "quantitative",
                    "axis": {"format": ".1%"},
                    "title": "retransmission rate",
                },
                "y": {
                    "field": "goodput.value",
                    "type": "quantitative",
                    "axis": {"format": ".2s"},
                    "title": "goodput of the group (bit/s)",
                },
                **colour,
                "shape": name("key.mix", "mix"),
                "opacity": {
                    "condition": {"test": "datum.key.verdict === 'valid'", "value": 0.7},
                    "value": 0.2,
                },
                "tooltip": [
                    name(f"key.{each}", each)
                    for each in ("verdict", "condition", "mix", "group", "run")
                ],
            },
        }
    )


def _draw_by_day(source: ChartSource) -> Part:
    """Draws the goodput of each pair, mix and CCA over the days as a line."""
    return source.view(
        {
            "encoding": {
                "x": {
                    "field": "day",
                    "type": "temporal",
                    "title": None,
                    "axis": {"format": "%Y-%m-%d", "tickCount": 6},
                },
                "y": quantity("goodput_bps", "goodput of the CCA's flows (bit/s)", RATE_AXIS),
                "detail": [{"field": each, "type": "nominal"} for each in ("pair", "mix")],
                **colour_by_cca(),
                "tooltip": [
                    {"field": each, "type": "nominal"} for each in ("pair", "mix", "cca", "runs")
                ],
            },
            "layer": [
                {
                    "mark": {"type": "line", "strokeWidth": LINE_WIDTH},
                    "encoding": dash("line", "mix"),
                },
                {"mark": POINTS},
            ],
        }
    )


def _draw_boxes(source: ChartSource) -> Part:
    """Draws a box plot of the runs' goodput for each mix, with a box for each of its CCAs."""
    x: Part = {"field": "mix", "type": "ordinal", "title": "mix of CCAs", "axis": {"labelAngle": 0}}
    colour = colour_by_cca()["color"]
    colour["legend"] |= {"values": {"expr": "domain('xOffset')"}, "symbolType": "square"}
    return boxes_by(source, x, name("cca"), goodput(), {"color": colour})


_FLOWS = {"field": "flows_of", "type": "ordinal", "title": "flows of each CCA"}
_BOUNDS = {each: line for each, line in over_time.WINDOWS.items() if each in over_time.BOUNDS}
DRAWINGS: Mapping[str, Callable[[ChartSource], Part]] = {
    "share-by-flows": lambda source: shares(
        source, _FLOWS | {"axis": {"labelAngle": 0}}, colour_by_cca()
    ),
    "gain-map": lambda source: limit_rows(
        cells(
            source,
            *BY_RTT_AND_LOSS,
            "value",
            "+.0%",
            "goodput gain",
            gain_scale(("bbr", "cubic"), 1.0, log=True) | {"clamp": True},
        ),
        CONDITIONS_TABLE,
    ),
    "goodput-boxes": _draw_boxes,
    "goodput-distribution": lambda source: distribution(
        source,
        quantity("goodput_bps", "goodput of the group (bit/s)", RATE_AXIS),
        colour_by_cca() | dash("mix", "mix"),
    ),
    "goodput-table": lambda source: limit_rows(
        goodput_cells(
            source,
            name("column", axis={"orient": "bottom", "labelExpr": "split(datum.label, ',')"}),
            name("row", axis={"labelLimit": 300}),
            domainMin=0,
        ),
        CONDITIONS_TABLE,
    ),
    "sentence": _draw_sentence,
    "bbr-states": lambda source: over_time.states(source, time(), name("flow")),
    "bbr-rates": lambda source: over_time.rates(source, time()),
    "bbr-bounds": lambda source: over_time.windows(source, time(), _BOUNDS),
    "completion-times": lambda source: distribution(
        source,
        quantity("seconds", "completion time (s)", {"tickCount": 5}),
        colour_by_cca() | dash("group", "group"),
    ),
    "each-run": _draw_each_run,
    "range-of-the-twin": lambda source: spans(
        source,
        quantity(
            "low",
            "goodput of the group (bit/s), mean and its 95% interval",
            {"format": ".2s"},
            zero=False,
        ),
        dict(zip(KINDS, ("range of the twin", "its best estimate", "real"), strict=True)),
    ),
    "mesh-matrix": lambda source: limit_rows(
        goodput_cells(
            source, name("destination", "destination"), name("source", "source"), domainMin=0
        ),
        "the table Pairs below has them",
    ),
    "mesh-by-day": _draw_by_day,
}


def _read_keys(entries: Sequence[str | Json]) -> Iterator[tuple[str, Json]]:
    """Yields the keys of a chart, by name, in the form of VegaLite.keys."""
    for entry in entries:
        if isinstance(entry, str):
            yield from known_keys(entry).items()
        else:
            for key, source in entry.items():
                yield key, terms(source) if isinstance(source, str) else source


def _read_transform(steps_of_chart: Sequence[Json]) -> Iterator[Part]:
    """Yields the transforms of Vega-Lite for the steps of a chart."""
    for step in steps_of_chart:
        match step:
            case {"columns": formulas}:
                yield from calculate(**formulas)
            case {"pool": columns}:
                yield aggregate(**columns)
            case {"distinct": arguments}:
                yield count_distinct(*arguments)
            case {"shares": column}:
                yield from cumulative_shares(column)
            case {"bands": [column, by]}:
                yield from means_with_bands(column, by)
            case _:
                yield step


def _read_chart(entry: Json) -> VegaLite:
    """Returns the chart that an entry of vega.yaml describes."""
    draw = entry["draw"]
    return VegaLite(
        entry["title"],
        VIEWS[entry["view"]],
        dict(_read_keys(entry["keys"])),
        {column: metric(*words) for column, words in entry["metrics"].items()},
        DRAWINGS[draw] if isinstance(draw, str) else lambda source: source.view(draw),
        list(_read_transform(entry.get("transform", ()))),
        tuple(entry.get("match", ())),
        entry.get("needs", ""),
    )


_FILE = read_yaml("vega.yaml")


# By column of the table: its title, the value of a row, and its format
_NUMBERS = {
    "goodput": ("goodput (bit/s)", "datum.goodput.value", "format(datum.{}, '.4s')"),
    "retransmitted": (
        "retransmitted (%)",
        "datum.retransmitted.value",
        "format(100 * datum.{}, '.3~f')",
    ),
    "rtt": ("RTT (ms)", "datum.rtt.value", "format(1000 * datum.{}, '.4~r')"),
    "runs": ("runs", "datum.runs.value", "format(datum.{}, 'd')"),
}


def _table_of_both_sides() -> VegaLite:
    """Returns a chart that is a table of numbers, with a row for each condition and group that were
    measured on both paths, and a column for each metric and path.

    It is a Vega text chart because tables of Lens can't leave out the conditions that only one path
    has.
    """
    # By column of the table: a metric on one of the paths, its title, and how Vega computes it
    columns = {f"{side}_{number}": (side, number) for number in _NUMBERS for side in SIDE_COLOURS}
    titles = {
        column: f"{_NUMBERS[number][0]}, {side}" for column, (side, number) in columns.items()
    }
    row_values = {
        f"{column}_of": f"datum.side === '{side}' ? {_NUMBERS[number][1]} : null"
        for column, (side, number) in columns.items()
    }
    aggregates = {
        column: ("mean" if number != "runs" else "sum", f"{column}_of")
        for column, (_, number) in columns.items()
    }
    texts = {
        column: f"isValid(datum.{column}) ? {_NUMBERS[number][2].format(column)} : '-'"
        for column, (_, number) in columns.items()
    }
    both = _FILE["sides"]
    return VegaLite(
        "Numbers, of conditions on both",
        VIEWS["groups"],
        dict(_read_keys(both["keys"])),
        {column: metric(*words) for column, words in both["metrics"].items()}
        | {"runs": metric("cardinality", "ccmix.run.id")},
        lambda source: source.view(
            {
                "mark": {"type": "text", "fontSize": 12},
                "encoding": {
                    "y": name("row", axis={"labelLimit": 420}),
                    "x": name(
                        "column",
                        sort=list(titles.values()),
                        axis={
                            "orient": "top",
                            "labelAngle": 0,
                            "labelExpr": "split(datum.label, ', ')",
                            "labelPadding": 16,
                            "ticks": False,
                            "domain": False,
                        },
                    ),
                    "text": {"field": "written", "type": "nominal"},
                    "color": {
                        "field": "side",
                        "type": "nominal",
                        "legend": None,
                        "scale": {
                            "domain": list(SIDE_COLOURS),
                            "range": list(SIDE_COLOURS.values()),
                        },
                    },
                },
            }
        ),
        [
            *_read_transform([both["side_and_row"]]),
            *calculate(**row_values),
            aggregate(["row"], **aggregates, sides=("distinct", "side")),
            both["on_both"],
            *calculate(**texts),
            {"fold": list(titles), "as": ["number", "written"]},
            *calculate(
                column=f"{json.dumps(titles)}[datum.number]",
                side="split(datum.number, '_')[0]",
            ),
        ],
        COUNTED,
    )


CHARTS = {key: _read_chart(entry) for key, entry in _FILE["charts"].items()} | {
    "goodput-over-time": goodput_over_time("Goodput and retransmissions of each group"),
    "goodput-of-two-runs": goodput_over_time(
        "Goodput and retransmissions of each group",
        {"entry": "ccmix.entry", "condition": "ccmix.condition.name"},
        {
            "strokeDash": name(
                "which",
                "run",
                legend={"labelLimit": 300},
                scale={"range": [[1, 0], [6, 4], [2, 3]]},
            )
        },
        calculate(
            which="datum.key.entry + ', ' + datum.key.condition + ', ' + datum.key.run",
        ),
        ["which"],
    ),
    "both-over-time": goodput_over_time(
        "Goodput over time, of conditions on both: choose one above",
        {"condition": "ccmix.condition.key", "kind": "ccmix.path.kind"},
        {
            "strokeDash": name(
                "side", "path", scale={"domain": list(SIDE_COLOURS), "range": [[1, 0], [6, 4]]}
            ),
        },
        [
            *calculate(side=_FILE["sides"]["side"], condition="datum.key.condition"),
            count_distinct("sides", "side", "condition"),
            _FILE["sides"]["on_both"],
        ],
        ["side"],
    ),
    "numbers-of-both": _table_of_both_sides(),
}
