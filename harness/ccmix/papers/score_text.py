"""Describes for people how close the lab comes to published numbers: sentences and the cells of
tables.
"""

import functools
from collections.abc import Iterator, Sequence

from ccmix.papers import text
from ccmix.papers.experiment import ALTERNATIVES, Criterion
from ccmix.papers.judging import Judgement, MeasuredSample
from ccmix.papers.scores import APART, TRIVIAL, CellPair, Likeness, Score
from ccmix.text.words import listed
from ccmix.units import format_count, format_percent

UNEXPLAINED = "not explained"
MET = {Judgement.HOLDS: "met", Judgement.FAILS: "not met", Judgement.UNTOLD: "undecided"}
LEAST_FOR_RANKS = 3  # cells
LIKENESS = ("median of the log ratio", "rank correlation", "largest ratio", f"within {APART}")


def title(score: Score) -> str:
    """Returns "utilisation of cubic in entry shallow against '100 KB, kernel 4.15'"."""
    comparison = score.comparison
    of = f" of {', '.join(comparison.ccas)}" if comparison.ccas else ""
    return (
        f"{text.NAMES[comparison.quantity]}{of} in entry {comparison.entry} against "
        f"'{comparison.series}'"
    )


def _which(score: Score) -> str:
    """Returns 'utilisation of cubic (100 KB, kernel 4.15)', or 'goodput (16 streams)' of all CCAs
    of a series.
    """
    comparison = score.comparison
    of = f" of {', '.join(comparison.ccas)}" if comparison.ccas else ""
    return f"{text.NAMES[comparison.quantity]}{of} ({comparison.series})"


def cell_table(score: Score, pairs: Sequence[CellPair]) -> list[tuple[str, ...]]:
    """Returns a table with a head: for each cell its settings, the published and the measured
    number, and the explanation of a difference. The last column is left out if it is empty.
    """
    rows: list[tuple[str, ...]] = [
        (
            cell(pair),
            text.of_quantity(score.comparison.quantity, pair.value),
            _sample(score, pair.sample) + _only(pair),
            _explained(score, pair),
        )
        for pair in pairs
    ]
    table = [("cell", "published", "lab", "explained by"), *rows]
    return table if any(row[-1] for row in rows) else [row[:-1] for row in table]


def _sample(score: Score, sample: MeasuredSample) -> str:
    return text.sample_text(sample, functools.partial(text.of_quantity, score.comparison.quantity))


def _only(pair: CellPair) -> str:
    """Returns ', delay: only 5ms of 2ms, 5ms, 10ms' for a cell that was measured in part."""
    pooled = {key: ", ".join(pair.published.at[key].split(ALTERNATIVES)) for key in pair.lacks}
    return "".join(
        f", {key}: only {', '.join(there)} of {pooled[key]}" for key, there in pair.lacks.items()
    )


def cell(pair: CellPair) -> str:
    """Returns 'cubic, rate=1gbit, ack-delay=5ms'."""
    return ", ".join(
        [pair.published.cca, *(f"{key}={of}" for key, of in pair.published.at.items())]
    )


def _explained(score: Score, pair: CellPair) -> str:
    """Returns 'fq: 84%', or 'not explained by fq: 60%'; '' for a cell that is close enough."""
    if pair not in score.far:
        return ""
    tries = ", ".join(
        f"{each.setting}: {_sample(score, each.sample)}" for each in pair.explanations or pair.tried
    )
    if pair.explanations:
        return tries
    return UNEXPLAINED + (f" by {tries}" if tries else "")


def unexplained(score: Score) -> str:
    """Returns a sentence that names the cells that are far off and not explained; '' if there are
    none.
    """
    if not score.unexplained:
        return ""
    names = "; ".join(cell(pair) for pair in score.unexplained)
    tried = listed([each.setting for each in score.comparison.tried])
    count = format_count(len(score.unexplained), "cell")
    return f"Not explained{f' by {tried}' if tried else ''}: {count}: {names}."


def score_rows(score: Score) -> list[tuple[str, ...]]:
    """Returns the rows of a table of scores: of the lab, of the trivial prediction, and of
    the ceiling.
    """
    of_all = score.ceiling_of_all if score.ceiling_of_all != score.ceiling else None
    rows = {
        "lab": score.likeness,
        f"{TRIVIAL} x rate": score.trivial,
        score.comparison.ceiling: score.ceiling,
        f"{score.comparison.ceiling}, all {of_all.cells if of_all else 0} cells": of_all,
    }
    return [(name, *_likeness(each)) for name, each in rows.items() if each]


def _likeness(of: Likeness) -> Iterator[str]:
    """Yields median of the log ratio, rank correlation, largest ratio, and utilisations
    within 0.05.
    """
    yield "–" if of.log_ratio is None else f"{of.log_ratio:.3f}"
    yield "–" if of.rank is None else f"{of.rank:.3f}"
    yield text.ratio(of.largest)
    yield "–" if of.within is None else format_percent(of.within)


def asked(score: Score) -> str:
    """Returns the criterion in words."""
    criterion = score.comparison.criterion
    if criterion is None:
        return "none, only for comparison"
    parts = []
    if criterion.least_rank is not None:
        parts.append(f"rank at least {criterion.least_rank:g}")
    if most := _most(criterion):
        kind = "unexplained cell" if score.comparison.tried else "cell"
        parts.append(f"no {kind} off by more than {most}")
    if criterion.least_within is not None:
        parts.append(f"within {APART} in {format_percent(criterion.least_within)} of the cells")
    return ", ".join(parts)


def _most(criterion: Criterion) -> str:
    """Returns by how much a cell may be off: '2 times or 0.1'; '' if any difference is allowed."""
    factor = "" if criterion.most_factor is None else f"{criterion.most_factor:g} times"
    apart = "" if criterion.most_apart is None else f"{criterion.most_apart:g}"
    return " or ".join(filter(None, [factor, apart]))


def met(score: Score) -> str:
    """Returns 'met', 'undecided: no cell was measured completely', or a dash without a criterion.

    If the criterion is not met, the results of tried settings follow: '; with offloads on: rank
    correlation 0.96, met'.
    """
    if not score.judged:
        return "–"
    return "; ".join(
        [": ".join(filter(None, [MET[score.outcome], why_untold(score)])), *_tries(score)]
    )


def _tries(score: Score) -> Iterator[str]:
    """Yields whether the criterion is met with each setting that was tried in all cells, if it is
    not met without them.
    """
    for each in score.explanations:
        rank = each.score.likeness.rank if each.score.likeness else None
        parts = [
            why_not_met(each.score) or (f"rank correlation {rank:.3f}" if rank is not None else "")
        ]
        yield f"with {each.setting}: {', '.join(filter(None, [*parts, MET[each.score.outcome]]))}"


def why_untold(score: Score) -> str:
    """Returns why a criterion is undecided; '' if it is decided."""
    if not score.judged or score.outcome is not Judgement.UNTOLD:
        return ""
    if score.likeness is None:
        return "no cell was measured completely"
    if score.likeness.cells < LEAST_FOR_RANKS:
        have = "has" if score.likeness.cells == 1 else "have"
        return f"{format_count(score.likeness.cells, 'cell')} {have} no rank correlation"
    return "all cells of one side are equal, so there are no ranks"


def why_not_met(score: Score) -> str:
    """Returns the parts of a criterion that are not met: '3 of 9 cells are off by more than
    2 times, rank correlation 0.7'.
    """
    criterion, likeness = score.comparison.criterion, score.likeness
    if score.outcome is not Judgement.FAILS or likeness is None or criterion is None:
        return ""
    parts = [far(score)] if score.unexplained else []
    if (
        criterion.least_rank is not None
        and likeness.rank is not None
        and likeness.rank < criterion.least_rank
    ):
        parts.append(
            f"rank correlation {likeness.rank:.2f} instead of at least {criterion.least_rank:g}"
        )
    if (
        criterion.least_within is not None
        and likeness.within is not None
        and likeness.within < criterion.least_within
    ):
        parts.append(
            f"{format_percent(likeness.within)} of {likeness.cells} cells within {APART} instead "
            f"of {format_percent(criterion.least_within)}"
        )
    return ", ".join(parts)


def far(score: Score) -> str:
    """Returns how many cells are far off, by how much, and the settings that explain them; '' if
    there are none.
    """
    criterion, count = score.comparison.criterion, len(score.far)
    if criterion is None or not count:
        return ""
    verb, worst = "is" if count == 1 else "are", text.ratio(score.far[0].factor)
    off = (
        f"{count} of {len(score.pairs)} cells {verb} off by more than {_most(criterion)}, at "
        f"most {worst} times"
    )
    by = listed(
        list(dict.fromkeys(each.setting for pair in score.far for each in pair.explanations))
    )
    if by:
        return (
            f"{off}, of which {by} {'explain' if ' and ' in by else 'explains'} "
            f"{count - len(score.unexplained)}"
        )
    tried = listed([each.setting for each in score.comparison.tried])
    return f"{off}, which {tried} did not explain" if tried else off


def cells(score: Score) -> str:
    """Returns how many cells are compared, how many more were measured only in part, and how many
    more were only published.
    """
    count = len(score.pairs)
    partial = f", {len(score.partial)} more measured in part" if score.partial else ""
    more = f", {score.missing} more only published" if score.missing else ""
    return f"{format_count(count, 'cell')}{partial}{more}"


def sentence(scores: Sequence[Score]) -> str:
    """Lists the comparisons of a figure that meet their criterion, and the others with reasons."""
    holds = [
        _which(score) + (f": {far(score)}" if score.far else "")
        for score in with_outcome(scores, Judgement.HOLDS)
    ]
    fails = [
        ", and ".join([f"{_which(score)}: {why_not_met(score)}", *_tries(score)])
        for score in with_outcome(scores, Judgement.FAILS)
    ]
    untold = [
        f"{_which(score)}: {why_untold(score)}" for score in with_outcome(scores, Judgement.UNTOLD)
    ]
    shown = [f"{_which(score)}, {_apart(score)}" for score in scores if not score.judged]
    sentences = (
        ("The lab meets the criterion for", holds),
        (
            "It does not meet the criterion for"
            if holds
            else "The lab does not meet the criterion for",
            fails,
        ),
        ("The criterion is undecided for", untold),
        ("Only for comparison, without a criterion:", shown),
    )
    return " ".join(f"{begin} {'; '.join(names)}." for begin, names in sentences if names)


def _apart(score: Score) -> str:
    """Returns how far off the lab is, for a comparison without a criterion."""
    if score.likeness is None:
        return "no cell was measured completely"
    return (
        f"{format_count(score.likeness.cells, 'cell')} at most "
        f"{text.ratio(score.likeness.largest)} times off"
    )


def with_outcome(scores: Sequence[Score], outcome: Judgement) -> list[Score]:
    """Returns the judged scores that have this outcome."""
    return [score for score in scores if score.judged and score.outcome is outcome]
