"""Chooses the runs that a page shows one by one: all, unless they are very many."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ccmix.analysis.results import Result, Results
from ccmix.charts.conditions import spread

MOST_RUNS = 2000  # of a page, which has some 15 MB then


def shown(results: Results, drawn: Collection[Path]) -> tuple[Result, ...]:
    """Returns the runs in their order; of more than MOST_RUNS, in each step an even spread of those that have room.

    The steps are the runs of which a chart shows the series (`drawn`, their folders), those that are not valid, the
    first of each condition, and all others.
    """
    if len(results.runs) <= MOST_RUNS:
        return results.runs
    chosen: set[Path] = set()
    for step in _steps(results, drawn):
        left = [result for result in step if result.folder not in chosen]
        chosen |= {result.folder for result in spread(left, MOST_RUNS - len(chosen))}
    return tuple(result for result in results.runs if result.folder in chosen)


def _steps(results: Results, drawn: Collection[Path]) -> Iterator[Sequence[Result]]:
    yield [result for result in results.runs if result.folder in drawn]
    yield [result for result in results.runs if not result.valid]
    first: dict[tuple[str, str, str], Result] = {}
    for result in results.runs:
        first.setdefault((result.run.entry, result.run.condition_name, result.run.dst), result)
    yield list(first.values())
    yield results.runs


def left_out(results: Results, count: int) -> str:
    """Returns a sentence on the runs that are not among the `count` shown ones; '' where all are."""
    every = len(results.runs)
    if count == every:
        return ""
    return (
        f"Of {every:,} runs, {count:,} are shown here: those of the charts, then those that are not valid, then the "
        "first of each condition, as far as there is room. The tables and charts are made of all runs, and each run's "
        "numbers are in run.json in its folder."
    )
