"""Writes for people how near the lab comes to published numbers: sentences and the cells of tables."""

import functools
from collections.abc import Iterator, Sequence

from ccmix.papers import text
from ccmix.papers.experiment import ALTERNATIVES, Criterion
from ccmix.papers.judging import Judgement
from ccmix.papers.measured import MeasuredSample
from ccmix.papers.scores import APART, TRIVIAL, CellPair, Likeness, Score
from ccmix.units import format_percent

UNEXPLAINED = "not explained"
MET = {Judgement.HOLDS: "met", Judgement.FAILS: "not met", Judgement.UNTOLD: "cannot be told"}
LEAST_FOR_RANKS = 3  # cells
LIKENESS = ("median of the log ratio", "rank correlation", "largest ratio", f"within {APART}")


def title(score: Score) -> str:
    """Returns 'utilisation of cubic in entry shallow beside 100 KB, kernel 4.15'."""
    comparison = score.comparison
    of = f" of {', '.join(comparison.ccas)}" if comparison.ccas else ""
    return f"{text.NAMES[comparison.quantity]}{of} in entry {comparison.entry} beside {comparison.series}"


def _which(score: Score) -> str:
    """Returns 'utilisation of cubic (100 KB, kernel 4.15)', or 'goodput (16 streams)' of all CCAs of a series."""
    comparison = score.comparison
    of = f" of {', '.join(comparison.ccas)}" if comparison.ccas else ""
    return f"{text.NAMES[comparison.quantity]}{of} ({comparison.series})"


def cell_rows(score: Score, pairs: Sequence[CellPair]) -> Iterator[tuple[str, ...]]:
    """Yields for each cell its settings, what was published and measured, and what explains a difference."""
    for pair in pairs:
        yield (
            cell(pair),
            text.of_quantity(score.comparison.quantity, pair.value),
            _sample(score, pair.sample) + _only(pair),
            _explained(score, pair),
        )


CELLS = ("cell", "published", "lab", "explained by")


def without_empty(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Returns a head and rows without a last column that is empty."""
    return [row[:-1] for row in rows] if not any(row[-1] for row in rows[1:]) else list(rows)


def _sample(score: Score, sample: MeasuredSample) -> str:
    return text.sample_text(sample, functools.partial(text.of_quantity, score.comparison.quantity))


def _only(pair: CellPair) -> str:
    """Returns ', delay: only 5ms of 2ms, 5ms, 10ms' for a cell that was measured in part."""
    pooled = {key: ", ".join(pair.published.at[key].split(ALTERNATIVES)) for key in pair.lacks}
    return "".join(f", {key}: only {', '.join(there)} of {pooled[key]}" for key, there in pair.lacks.items())


def cell(pair: CellPair) -> str:
    """Returns 'cubic, rate=1gbit, ack-delay=5ms'."""
    return ", ".join([pair.published.cca, *(f"{key}={of}" for key, of in pair.published.at.items())])


def _explained(score: Score, pair: CellPair) -> str:
    """Returns 'fq: 84%', or 'not explained by fq: 60%'; nothing for a cell that is near enough."""
    if pair not in score.far:
        return ""
    tries = ", ".join(f"{each.setting}: {_sample(score, each.sample)}" for each in pair.explanations or pair.tried)
    if pair.explanations:
        return tries
    return UNEXPLAINED + (f" by {tries}" if tries else "")


def unexplained(score: Score) -> str:
    """Returns a sentence that names the cells which are far off and not explained; nothing if there are none."""
    if not score.unexplained:
        return ""
    names = "; ".join(cell(pair) for pair in score.unexplained)
    tried = text.listed([each.setting for each in score.comparison.tried])
    count = text.counted(len(score.unexplained), "cell", "cells")
    return f"Not explained{f' by {tried}' if tried else ''}: {count}: {names}."


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
    yield text.ratio(of.largest)
    yield "–" if of.within is None else format_percent(of.within)


def asked(score: Score) -> str:
    """Returns the criterion in words."""
    criterion = score.comparison.criterion
    if criterion is None:
        return "nothing, it is for comparison"
    parts = []
    if criterion.least_rank is not None:
        parts.append(f"rank at least {criterion.least_rank:g}")
    if most := _most(criterion):
        unless = " that nothing tried explains" if score.comparison.tried else ""
        parts.append(f"no cell off by more than {most}{unless}")
    if criterion.least_within is not None:
        parts.append(f"within {APART} in {format_percent(criterion.least_within)} of the cells")
    return ", ".join(parts)


def _most(criterion: Criterion) -> str:
    """Returns by how much a cell may be off: '2 times or 0.1'; nothing where any difference is allowed."""
    factor = "" if criterion.most_factor is None else f"{criterion.most_factor:g} times"
    apart = "" if criterion.most_apart is None else f"{criterion.most_apart:g}"
    return " or ".join(filter(None, [factor, apart]))


def met(score: Score) -> str:
    """Returns 'met', 'cannot be told: no cell was measured whole', or a dash where nothing was asked.

    What is not met goes on with what was tried: '; with offloads on: rank correlation 0.96, met'.
    """
    if not score.judged:
        return "–"
    return "; ".join([": ".join(filter(None, [MET[score.outcome], why_untold(score)])), *_tries(score)])


def _tries(score: Score) -> Iterator[str]:
    """Yields what the criterion is with each setting that was tried in all cells, if it is not met without."""
    for each in score.explanations:
        rank = each.score.likeness.rank if each.score.likeness else None
        parts = [why_not_met(each.score) or (f"rank correlation {rank:.3f}" if rank is not None else "")]
        yield f"with {each.setting}: {', '.join(filter(None, [*parts, MET[each.score.outcome]]))}"


def why_untold(score: Score) -> str:
    """Returns why it cannot be told whether a criterion is met; nothing where it can."""
    if not score.judged or score.outcome is not Judgement.UNTOLD:
        return ""
    if score.likeness is None:
        return "no cell was measured whole"
    if score.likeness.cells < LEAST_FOR_RANKS:
        return f"{text.counted(score.likeness.cells, 'cell has', 'cells have')} no rank correlation"
    return "all cells of one side are alike, so there are no ranks"


def why_not_met(score: Score) -> str:
    """Returns what of a criterion is not met: '3 of 9 cells are off by more than 2 times, rank correlation 0.7'."""
    criterion, likeness = score.comparison.criterion, score.likeness
    if score.outcome is not Judgement.FAILS or likeness is None or criterion is None:
        return ""
    parts = [far(score)] if score.unexplained else []
    if criterion.least_rank is not None and likeness.rank is not None and likeness.rank < criterion.least_rank:
        parts.append(f"rank correlation {likeness.rank:.2f} instead of at least {criterion.least_rank:g}")
    if criterion.least_within is not None and likeness.within is not None and likeness.within < criterion.least_within:
        parts.append(
            f"{format_percent(likeness.within)} of {likeness.cells} cells within {APART} instead of "
            f"{format_percent(criterion.least_within)}"
        )
    return ", ".join(parts)


def far(score: Score) -> str:
    """Returns how many cells are far off, by how much, and what explains them; nothing if there are none."""
    criterion, count = score.comparison.criterion, len(score.far)
    if criterion is None or not count:
        return ""
    verb, worst = "is" if count == 1 else "are", text.ratio(score.far[0].factor)
    off = f"{count} of {len(score.pairs)} cells {verb} off by more than {_most(criterion)}, at most {worst} times"
    by = text.listed(list(dict.fromkeys(each.setting for pair in score.far for each in pair.explanations)))
    if by:
        return f"{off}, of which {by} {'explain' if ' and ' in by else 'explains'} {count - len(score.unexplained)}"
    tried = text.listed([each.setting for each in score.comparison.tried])
    return f"{off}, which {tried} did not explain" if tried else off


def cells(score: Score) -> str:
    """Returns how many cells are compared, how many more were measured in part, and how many more were published."""
    count = len(score.pairs)
    partial = f", {len(score.partial)} more in part" if score.partial else ""
    more = f", {score.missing} more published" if score.missing else ""
    return f"{text.counted(count, 'cell', 'cells')}{partial}{more}"


def sentence(scores: Sequence[Score]) -> str:
    """Returns what of a figure is as near to the published numbers as was asked, what is not, and why."""
    holds = [
        _which(score) + (f": {far(score)}" if score.far else "") for score in with_outcome(scores, Judgement.HOLDS)
    ]
    fails = [
        ", and ".join([f"{_which(score)}: {why_not_met(score)}", *_tries(score)])
        for score in with_outcome(scores, Judgement.FAILS)
    ]
    untold = [f"{_which(score)}: {why_untold(score)}" for score in with_outcome(scores, Judgement.UNTOLD)]
    shown = [f"{_which(score)}, {_apart(score)}" for score in scores if not score.judged]
    sentences = (
        ("The lab is as near to the published numbers as was asked for", holds),
        ("It is not as near to them for" if holds else "The lab is not as near to the published numbers for", fails),
        ("It cannot be told for", untold),
        ("For comparison, and not judged:", shown),
    )
    return " ".join(f"{begin} {'; '.join(names)}." for begin, names in sentences if names)


def _apart(score: Score) -> str:
    """Returns how far off the lab is where nothing is judged."""
    if score.likeness is None:
        return "no cell was measured whole"
    return (
        f"{text.counted(score.likeness.cells, 'cell', 'cells')} at most {text.ratio(score.likeness.largest)} times off"
    )


def with_outcome(scores: Sequence[Score], outcome: Judgement) -> list[Score]:
    """Returns those of the judged scores that have an outcome."""
    return [score for score in scores if score.judged and score.outcome is outcome]
