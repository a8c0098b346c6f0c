"""Finds the groups that conditions of two campaigns have in common, and the values of their metrics."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from ccmix.analysis.results import Result
from ccmix.analysis.statistics import value_of
from ccmix.compare.matching import Cell

VERDICT_METRIC = "goodput_bps"  # decides whether a condition is the same
WHOLE = "all"  # the run, beside its groups


class GroupTest(Protocol):
    """Is the test of a metric of a group, or of the whole run."""

    @property
    def group(self) -> str: ...
    @property
    def metric(self) -> str: ...


_T = TypeVar("_T", bound=GroupTest)


def goodputs_of(tested: Iterable[_T]) -> list[_T]:
    """Returns the tests of the groups' goodput, or of the run's if there is no group in both campaigns."""
    every = [test for test in tested if test.metric == VERDICT_METRIC]
    return [test for test in every if test.group != WHOLE] or every


def families(tested: Sequence[GroupTest]) -> Iterable[list[int]]:
    """Returns the places of the tests whose p-values are adjusted together (Holm): those of each metric, the tests of
    groups apart from those of whole runs.
    """
    places: dict[tuple[str, bool], list[int]] = {}
    for place, test in enumerate(tested):
        places.setdefault((test.metric, test.group == WHOLE), []).append(place)
    return places.values()


def groups_of_both(a: Result, b: Result) -> Iterator[tuple[str, str]]:
    """Yields pairs of groups: those of one name, and others if each is the only one of its CCA."""
    of_a, of_b = ({group.group: group.cca for group in result.finished.metrics.groups} for result in (a, b))
    ccas_a, ccas_b = (
        [cca for name, cca in own.items() if name not in of_a.keys() & of_b.keys()] for own in (of_a, of_b)
    )
    for name, cca in of_a.items():
        if name in of_b:
            yield name, name
        elif ccas_a.count(cca) == ccas_b.count(cca) == 1:
            yield name, next(other for other, of_other in of_b.items() if of_other == cca and other not in of_a)


def values(cell: Cell, group: str, metric: str) -> list[float]:
    """Returns the metric of the valid runs that have it."""
    found = []
    for result in cell.valid:
        metrics = result.finished.metrics
        own = metrics if group == WHOLE else next((own for own in metrics.groups if own.group == group), None)
        if own is not None and (value := value_of(own, metric)) is not None:
            found.append(value)
    return found
