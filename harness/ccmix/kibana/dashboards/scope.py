"""Says in words how much a dashboard shows: whether a list has all runs, and what charts pool."""

from collections.abc import Mapping

from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource
from ccmix.kibana.dashboards import common
from ccmix.kibana.data_views import GROUPS, RUNS, DataView
from ccmix.kibana.vega import VegaLite, members, metric, terms

FONT_SIZE = 13


def how_many_runs() -> VegaLite:
    """Says how many runs pass the filters, and what to do where the list below is too short for them."""
    most = common.MOST_RUNS
    more = f"'The list below has the newest {most} of ' + datum.runs + ' runs: filter for the others'"
    return _sentence(
        "How many runs",
        RUNS,
        {"runs": "ccmix.run.id"},
        f"datum.runs > {most} ? {more} : 'The list below has all ' + datum.runs + ' runs, the newest first'",
    )


def which_runs() -> VegaLite:
    """Says whether two runs are chosen."""
    passes = "(datum.runs === 1 ? ' passes' : ' pass')"
    many = f"{_counted('runs', 'run')} + {passes} + ' the filters: choose two in the last one'"
    return _sentence(
        "What is compared",
        RUNS,
        {"runs": "ccmix.run.id"},
        f"datum.runs === 2 ? 'Two runs: a solid and a dashed line' : {many}",
    )


def what_is_pooled() -> VegaLite:
    """Says of how many conditions bars and boxes pool the runs, and what to do about that."""
    counts = {"campaigns": "ccmix.campaign.id", "conditions": "ccmix.condition.key"}
    shown = f"{_counted('conditions', 'condition')} + ' of ' + {_counted('campaigns', 'campaign')} + ': '"
    return _sentence(
        "What is pooled",
        GROUPS,
        counts,
        f"datum.conditions + datum.campaigns > 2 ? {shown} + "
        "'bars, boxes and distributions pool them, lines and heat maps do not. Filter by campaign, entry, mix, RTT, "
        "loss and buffer' : 'One condition of one campaign'",
    )


def _counted(name: str, what: str) -> str:
    """Returns an expression for '1 run' or '2 runs'."""
    return f"datum.{name} + (datum.{name} === 1 ? ' {what}' : ' {what}s')"


def _sentence(title: str, view: DataView, counts: Mapping[str, str], formula: str) -> VegaLite:
    """Writes one line of text. `counts`: names of numbers, by the fields whose different values they count."""
    return VegaLite(
        title,
        view,
        {"kind": terms("event.dataset")},
        {name: metric("cardinality", field) for name, field in counts.items()},
        _text,
        members(**{name: f"datum.{name}.value" for name in counts}, sentence=formula),
    )


def _text(source: ChartSource) -> Part:
    return source.view(
        {
            "view": {"stroke": None},
            "mark": {"type": "text", "align": "left", "baseline": "top", "fontSize": FONT_SIZE},
            "encoding": {"x": {"value": 0}, "y": {"value": 0}, "text": {"field": "sentence", "type": "nominal"}},
        }
    )
