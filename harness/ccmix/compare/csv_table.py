"""Writes a comparison as CSV: a line for each condition, group and metric, and for each unknown key."""

from collections.abc import Iterator

from ccmix.analysis.statistics import Spread
from ccmix.compare import range_text
from ccmix.compare.groups import VERDICT_METRIC, WHOLE
from ccmix.compare.ranges import ComparedRange
from ccmix.compare.verdicts import Compared, ComparedCondition
from ccmix.csv_cell import Cell, csv_text

COLUMNS = (
    "what", "a", "b", "unknown", "group", "metric", "a_runs", "b_runs", "a_mean", "a_low", "a_high", "b_mean",
    "b_low", "b_high", "ratio", "ratio_low", "ratio_high", "outside_by", "verdict",
)  # fmt: skip


def csv_table(compared: Compared) -> str:
    """Returns numbers in the units of their metrics; of a range, b_mean is that of the best estimate.

    Of an unknown key, b_low and b_high are the two means between which it moves the goodput most.
    """
    lines = [*_ranges(compared), *_unknown(compared), *_conditions(compared), *_not_valid(compared)]
    return csv_text([COLUMNS, *([line.get(column) for column in COLUMNS] for line in lines)])


def _ranges(compared: Compared) -> Iterator[dict[str, Cell]]:
    for each in compared.ranges:
        for tested in each.tested:
            span, point = tested.b, tested.b.point
            yield {
                "what": "range", "a": each.a.name, "b": each.b.name, "unknown": " ".join(each.b.unknown),
                "group": tested.group, "metric": tested.metric, **_of_side("a", tested.a), "b_runs": span.runs,
                "b_mean": point.sample.mean if point else None, "b_low": span.low, "b_high": span.high,
                "outside_by": tested.outside_by, "verdict": tested.verdict,
            }  # fmt: skip


def _unknown(compared: Compared) -> Iterator[dict[str, Cell]]:
    for each, group, effect in range_text.effects(compared.ranges):
        yield {
            "what": "unknown", "a": each.a.name, "b": each.b.name, "unknown": effect.key, "group": group,
            "metric": VERDICT_METRIC, "b_low": effect.low.sample.mean, "b_high": effect.high.sample.mean,
            "ratio": effect.ratio,
        }  # fmt: skip


def _conditions(compared: Compared) -> Iterator[dict[str, Cell]]:
    for condition in compared.conditions:
        for tested in condition.tested:
            if tested.a is None and tested.b is None:
                continue
            ratio_low, ratio_high = (tested.found.interval if tested.found else None) or (None, None)
            yield {
                "what": "condition", "a": condition.a.name, "b": condition.b.name, "group": tested.group,
                "metric": tested.metric, **_of_side("a", tested.a), **_of_side("b", tested.b),
                "ratio": tested.found.ratio if tested.found else None, "ratio_low": ratio_low, "ratio_high": ratio_high,
                "verdict": tested.verdict,
            }  # fmt: skip


def _not_valid(compared: Compared) -> Iterator[dict[str, Cell]]:
    pairs: tuple[ComparedRange | ComparedCondition, ...] = (*compared.ranges, *compared.conditions)
    for pair in pairs:
        for side in ("a", "b"):
            for each in getattr(pair, side).not_valid:
                yield {
                    "what": "not valid", "a": pair.a.name, "b": pair.b.name, "group": WHOLE, "metric": VERDICT_METRIC,
                    f"{side}_runs": each.runs, f"{side}_mean": each.goodput_mean_bps, "verdict": each.meaning,
                }  # fmt: skip


def _of_side(side: str, spread: Spread | None) -> dict[str, Cell]:
    if spread is None:
        return {}
    low, high = spread.ci95 or (None, None)
    return {
        f"{side}_runs": spread.runs, f"{side}_mean": spread.mean, f"{side}_low": low, f"{side}_high": high,
    }  # fmt: skip
