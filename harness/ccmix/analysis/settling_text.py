"""Says that a run has not settled, why, and what would do."""

from collections.abc import Iterable, Iterator, Sequence

from ccmix.model.results import FinishedRun, Settling

MOST_REASONS = 3  # in a sentence


def not_settled(finished: FinishedRun) -> bool:
    """Returns whether a run was judged, and has not settled."""
    settling = finished.metrics.settling
    return settling is not None and settling.settled is False


def sentence(settling: Settling) -> str:
    """Returns "not settled: bbr's goodput still rises (x1.6 from the first to the last quarter); duration = 120s would
    do", or nothing where the run has settled or this can't be judged.
    """
    return f"not settled: {_reasons(settling)}" if settling.settled is False else ""


def summary(runs: Sequence[FinishedRun]) -> str:
    """Returns how many of the runs have not settled, and the reasons of that run which needs the longest duration.

    Returns nothing if all have settled, or if this can't be judged.
    """
    unsettled = [(finished, finished.metrics.settling) for finished in runs if not_settled(finished)]
    if not unsettled:
        return ""
    finished, worst = max(unsettled, key=lambda each: _needed_s(each[1]))
    assert worst
    have = (
        f"{len(unsettled)} of {len(runs)} runs {'has' if len(unsettled) == 1 else 'have'}"
        if runs[1:]
        else "the run has"
    )
    such = f", such as {finished.run.name}" if unsettled[1:] else f", {finished.run.name}"
    return f"{have} not settled{such}: {_reasons(worst)}"


def longest(runs: Iterable[FinishedRun]) -> Settling | None:
    """Returns the judgement of that unsettled run which needs the longest duration; None if all have settled."""
    settlings = (finished.metrics.settling for finished in runs if not_settled(finished))
    return max(settlings, key=_needed_s, default=None)


def _needed_s(settling: Settling | None) -> tuple[float, float]:
    """Returns what sorts runs by the time that would do."""
    return (settling.enough_s or 0.0, settling.enough_omit_s or 0.0) if settling else (0.0, 0.0)


def _reasons(settling: Settling) -> str:
    """Returns why a run has not settled, and what would do."""
    reasons = "; ".join(settling.reasons[:MOST_REASONS])
    more = f"; and {len(settling.reasons) - MOST_REASONS} more" if len(settling.reasons) > MOST_REASONS else ""
    return f"{reasons}{more}; {would_do(settling)}"


def would_do(settling: Settling) -> str:
    """Returns 'omit = 180s, duration = 300s would do' of a run that has not settled; no time is known after a step."""
    if settling.enough_s is None:
        return "find out what changed"
    omit = f"omit = {settling.enough_omit_s:g}s, " if settling.enough_omit_s is not None else ""
    return f"{omit}duration = {settling.enough_s:g}s would do"


def notes(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields a sentence for each condition with unsettled runs: how many, and the reasons of that run which needs the
    longest duration.
    """
    of_condition: dict[str, list[FinishedRun]] = {}
    for finished in runs:
        of_condition.setdefault(finished.run.place, []).append(finished)
    for name, same in of_condition.items():
        if worst := longest(same):
            of = f"{sum(map(not_settled, same))} of {len(same)} runs " if len(same) > 1 else ""
            yield f"{name}: {of}{sentence(worst)}"
