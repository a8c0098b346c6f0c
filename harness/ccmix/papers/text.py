"""Writes experiments and what came of them for people: sentences and the cells of tables."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence

from ccmix.analysis.metric_text import shown
from ccmix.papers.experiment import ALTERNATIVES, Bound, Criterion, MeanOf, Number, Quantity, Quotient
from ccmix.papers.judging import JudgedBound, JudgedBounds, JudgedStatement, Judgement
from ccmix.papers.measured import MeasuredSample
from ccmix.papers.scores import APART, TRIVIAL, CellPair, Likeness, Score
from ccmix.units import format_percent

NAMES: dict[Quantity, str] = {
    "goodput_bps": "goodput", "variation": "coefficient of variation", "utilisation": "utilisation",
    "share": "share", "retransmits": "retransmitted segments",
    "retransmission_rate": "retransmission rate", "fairness": "Jain's index", "convergence_s": "time to converge",
    "queue_mean_bdp": "mean queue in BDP", "queue_p95_bdp": "95th percentile of the queue in BDP",
    "rtt_p95_s": "95th percentile of RTT",
}  # fmt: skip


UNEXPLAINED = "not explained"


def what(number: Number) -> str:
    """Returns what is compared: 'share of bbr at rtt=10ms'."""
    if isinstance(number, Quotient):
        return f"{what(number.over)}, over {what(number.under)}"
    if isinstance(number, MeanOf):
        return f"mean over {len(number.numbers)} cells, the first of which is {what(number.numbers[0])}"
    whose = " ".join(filter(None, [number.cca, f"on {number.host}" if number.host else ""]))
    at = ", ".join([*(f"{key}={value}" for key, value in number.at.items()), *_buffers(number.buffer_bdp)])
    return (
        NAMES[number.quantity] + (f" of {whose}" if whose else "") + f" in {number.entry}" + (f" at {at}" if at else "")
    )


def _buffers(bdp: tuple[float, float] | None) -> Iterator[str]:
    """Yields 'a buffer of 0.4 to 1 BDP', 'a buffer below 0.4 BDP', or 'a buffer from 1 BDP on'."""
    if bdp is None:
        return
    least, below = bdp
    if math.isinf(below):
        yield f"a buffer from {least:g} BDP on"
    else:
        yield f"a buffer of {least:g} to {below:g} BDP" if least else f"a buffer below {below:g} BDP"


def value(number: Number, of: float | None) -> str:
    """Returns a value with its unit; a ratio as a factor."""
    if of is None:
        return "–"
    if isinstance(number, Quotient):
        return f"{of:.3g} times"
    return shown(number.numbers[0].quantity if isinstance(number, MeanOf) else number.quantity, of)


def limits(bound: Bound) -> str:
    """Returns 'at least 50%', 'at most 20%' or '40% to 60%'."""
    low, high = (value(bound.number, limit) for limit in (bound.least, bound.most))
    if bound.least is not None and bound.most is not None:
        return f"{low} to {high}"
    return f"at most {high}" if bound.least is None else f"at least {low}"


def seen(judged: JudgedBound) -> str:
    """Returns the mean with its interval and the number of runs."""
    number = judged.bound.number
    return _sample(judged.sample, lambda of: value(number, of))


def _sample(sample: MeasuredSample, form: Callable[[float | None], str]) -> str:
    """Returns '78.3% (75% to 81.5%, 5 runs)', or '78.3% (75% to 81.5%, 2 of 5 runs not settled)'."""
    if not sample.runs:
        return "–"
    runs = f"{sample.runs} run" + ("" if sample.runs == 1 else "s")
    runs = f"{sample.not_settled} of {runs} not settled" if sample.not_settled else runs
    if sample.interval is None:
        return f"{form(sample.mean)} ({runs}: too few for an interval)"
    low, high = map(form, sample.interval)
    return f"{form(sample.mean)} ({low} to {high}, {runs})"


def outcome(judged: JudgedBounds) -> str:
    """Returns 'holds', or 'holds (1 of 3 measured)'."""
    count = len(judged.bounds)
    partly = f" ({judged.measured} of {count} measured)" if 0 < judged.measured < count else ""
    return judged.outcome.value + partly


def explained(judged: JudgedStatement) -> str:
    """Returns what was found by other settings where a statement does not hold: 'with offloads on: holds'."""
    other = [each for each in judged.explaining if each.judged.outcome is not Judgement.FAILS]
    same = [each.setting for each in judged.explaining if each.judged.outcome is Judgement.FAILS]
    parts = [f"with {each.setting}: {outcome(each.judged)}" for each in other]
    if same:
        neither = {1: "not with that either", 2: "neither"}.get(len(same), "none of them")
        parts.append(f"tried {listed(same)}: {neither}")
    return "; ".join(parts)


def cell_rows(score: Score, pairs: Sequence[CellPair]) -> Iterator[tuple[str, ...]]:
    """Yields a head, and for each cell its settings, what was published and measured, and what explains a difference.

    The last column is left out where there is nothing to explain.
    """
    explained = ("explained by",) if score.far else ()
    yield ("cell", "published", "lab", *explained)
    for pair in pairs:
        yield (
            cell(pair),
            shown(score.comparison.quantity, pair.value),
            _of_quantity(score, pair.sample) + _only(pair),
            *(_explained(score, pair) for _ in explained),
        )


def _of_quantity(score: Score, sample: MeasuredSample) -> str:
    return _sample(sample, functools.partial(shown, score.comparison.quantity))


def _only(pair: CellPair) -> str:
    """Returns ', delay: only 5ms of 2ms, 5ms, 10ms' for a cell that was measured in part."""
    pooled = {key: ", ".join(pair.published.at[key].split(ALTERNATIVES)) for key in pair.lacks}
    return "".join(f", {key}: only {', '.join(there)} of {pooled[key]}" for key, there in pair.lacks.items())


def cell(pair: CellPair) -> str:
    """Returns 'cubic, rate=1gbit, ack-delay=5ms'."""
    return ", ".join([pair.published.cca, *(f"{key}={text}" for key, text in pair.published.at.items())])


def _explained(score: Score, pair: CellPair) -> str:
    """Returns 'fq: 84%', or that nothing explains the cell; nothing for one that is near enough."""
    if pair not in score.far:
        return ""
    explanations = (f"{each.setting}: {_of_quantity(score, each.sample)}" for each in pair.explanations)
    return ", ".join(explanations) or UNEXPLAINED


def unexplained(score: Score) -> str:
    """Returns a sentence that names the cells which are far off and not explained; nothing if there are none."""
    count = len(score.unexplained)
    if not count:
        return ""
    names = "; ".join(cell(pair) for pair in score.unexplained)
    tried = listed([each.setting for each in score.comparison.tried])
    return f"Not explained{f' by {tried}' if tried else ''}: {count} cell{'' if count == 1 else 's'}: {names}."


def listed(words: Sequence[str]) -> str:
    """Returns 'a, b and c'."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


SCORES = ("", "median of the log ratio", "rank correlation", "largest ratio", f"within {APART}")


def score_rows(score: Score) -> Iterator[tuple[str, ...]]:
    """Yields the rows of a table of scores: of the lab, of the trivial prediction, and of the ceiling."""
    if score.likeness:
        yield ("lab", *_likeness(score.likeness))
    if score.trivial:
        yield (f"{TRIVIAL} x rate", *_likeness(score.trivial))
    ceiling = score.comparison.ceiling
    if score.ceiling:
        yield (ceiling, *_likeness(score.ceiling))
    if score.ceiling_of_all and score.ceiling_of_all != score.ceiling:
        yield (f"{ceiling}, all {score.ceiling_of_all.cells} cells", *_likeness(score.ceiling_of_all))


def _likeness(of: Likeness) -> Iterator[str]:
    """Yields median of the log ratio, rank correlation, largest ratio, and utilisations within 0.05."""
    yield "–" if of.log_ratio is None else f"{of.log_ratio:.3f}"
    yield "–" if of.rank is None else f"{of.rank:.3f}"
    yield f"{of.largest:.2f}" if math.isfinite(of.largest) else "∞"
    yield "–" if of.within is None else format_percent(of.within)


def title(score: Score) -> str:
    """Returns 'goodput of cubic in shallow beside 100 KB, kernel 4.15'."""
    comparison = score.comparison
    whose = f" of {', '.join(comparison.ccas)}" if comparison.ccas else ""
    return f"{NAMES[comparison.quantity]}{whose} in {comparison.entry} beside {comparison.series}"


def asked(score: Score) -> str:
    """Returns the criterion in words."""
    criterion = score.comparison.criterion
    if criterion is None:
        return "nothing, it is for comparison"
    parts = [
        "" if criterion.least_rank is None else f"rank at least {criterion.least_rank:g}",
        _asked_of_cells(criterion, bool(score.comparison.tried)),
        ""
        if criterion.least_within is None
        else f"within 0.05 in {format_percent(criterion.least_within)} of the cells",
    ]
    return ", ".join(filter(None, parts))


def _asked_of_cells(criterion: Criterion, is_explained: bool) -> str:
    limits = [
        "" if criterion.most_factor is None else f"{criterion.most_factor:g} times",
        "" if criterion.most_apart is None else f"{criterion.most_apart:g}",
    ]
    most = " or ".join(filter(None, limits))
    unless = " that nothing tried explains" if is_explained else ""
    return f"no cell off by more than {most}{unless}" if most else ""


def met(score: Score) -> str:
    """Returns 'rank at least 0.95: met'."""
    if not score.judged:
        return asked(score)
    words = {Judgement.HOLDS: "met", Judgement.FAILS: "not met"}
    return f"{asked(score)}: {words.get(score.outcome, score.outcome.value)}"


def cells(score: Score) -> str:
    """Returns how many cells are compared, how many more were measured in part, and how many more were published."""
    count = len(score.pairs)
    partial = f", {len(score.partial)} more in part" if score.partial else ""
    more = f", {score.missing} more published" if score.missing else ""
    return f"{count} cell{'' if count == 1 else 's'}{partial}{more}"
