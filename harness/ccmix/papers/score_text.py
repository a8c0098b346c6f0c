"""Writes sentences and tables on how close the lab comes to the published numbers of a paper."""

import functools
from collections.abc import Iterator, Sequence

from ccmix.papers import text
from ccmix.papers.experiment import ALTERNATIVES, Criterion
from ccmix.papers.judging import Judgement
from ccmix.papers.measuring import MeasuredSample
from ccmix.papers.scores import APART, TRIVIAL, CellPair, Likeness, Score
from ccmix.text.words import listed
from ccmix.units import format_count, format_percent

UNEXPLAINED = "not explained"
MET = {Judgement.HOLDS: "met", Judgement.FAILS: "not met", Judgement.UNDECIDED: "undecided"}
LEAST_FOR_RANKS = 3  # cells
LIKENESS = ("median of the log ratio", "rank correlation", "largest ratio", f"within {APART}")


def title(score: Score) -> str:
    """Names a comparison by quantity, CCAs, entry of the lab's runs and published series, such as
    "utilisation of cubic in entry shallow against '100 KB, kernel 4.15'".
    """
    comparison = score.comparison
    return f"{subject(score)} in entry {comparison.entry} against '{comparison.series}'"


def subject(score: Score) -> str:
    """Names the compared numbers by quantity and CCAs: 'utilisation of cubic', or 'goodput' for all
    CCAs.
    """
    ccas = score.comparison.ccas
    return text.NAMES[score.comparison.quantity] + (f" of {', '.join(ccas)}" if ccas else "")


def cell_table(score: Score, pairs: Sequence[CellPair]) -> list[tuple[str, ...]]:
    """Returns the rows of a table of cells, the head first. A cell is one CCA at one combination of
    settings. Its row has the settings, the published number, the measured number, and the other
    settings that explain a difference. The last column is left out if it is empty in all rows.
    """
    rows: list[tuple[str, ...]] = [
        (
            cell(pair),
            text.of_quantity(score.comparison.quantity, pair.value),
            _sample(score, pair.sample) + _measured_part(pair),
            _explained(score, pair),
        )
        for pair in pairs
    ]
    table = [("cell", "published", "lab", "explained by"), *rows]
    return table if any(row[-1] for row in rows) else [row[:-1] for row in table]


def _sample(score: Score, sample: MeasuredSample) -> str:
    """Writes the mean of a sample with its interval, in the unit of the compared quantity."""
    return text.sample_text(sample, functools.partial(text.of_quantity, score.comparison.quantity))


def _measured_part(pair: CellPair) -> str:
    """Returns the text that says which part of a cell was measured: ', delay: only 5ms of 2ms, 5ms,
    10ms', if its published number is a mean over these three values of the key `delay`. '' for a
    cell that was measured completely.
    """
    pooled = {key: ", ".join(pair.published.at[key].split(ALTERNATIVES)) for key in pair.lacks}
    return "".join(
        f", {key}: only {', '.join(measured)} of {pooled[key]}"
        for key, measured in pair.lacks.items()
    )


def cell(pair: CellPair) -> str:
    """Names a cell by its CCA and settings: 'cubic, rate=1gbit, ack-delay=5ms'."""
    settings = (f"{key}={value}" for key, value in pair.published.at.items())
    return ", ".join([pair.published.cca, *settings])


def _explained(score: Score, pair: CellPair) -> str:
    """Returns the text that explains why the lab's number in a cell is too far from the published
    one; '' if it is not too far. Runs with another setting may have come closer.

    'fq: 84%' if the runs with the setting 'fq' measured 84%, which is close enough; 'not explained
    by fq: 60%' if no tried setting came close enough.
    """
    if pair not in score.far:
        return ""
    tries = ", ".join(
        f"{each.setting}: {_sample(score, each.sample)}" for each in pair.explanations or pair.tried
    )
    if pair.explanations:
        return tries
    return UNEXPLAINED + (f" by {tries}" if tries else "")


def unexplained(score: Score) -> str:
    """Returns a sentence that names the cells (a CCA at a combination of settings) whose number is
    too far from the published one, and for which no other setting came close enough; '' if there
    are none.
    """
    if not score.unexplained:
        return ""
    names = "; ".join(cell(pair) for pair in score.unexplained)
    tried = listed([each.setting for each in score.comparison.tried])
    count = format_count(len(score.unexplained), "cell")
    return f"Not explained{f' by {tried}' if tried else ''}: {count}: {names}."


def score_rows(score: Score) -> list[tuple[str, ...]]:
    """Returns the rows of a table that says how similar three sources of numbers are to the
    published ones: the lab; the trivial prediction that every cell has 95% of the rate; and another
    published series (the ceiling), because the lab cannot be expected to come closer than that.

    The first column is the source's name, and the others are those of LIKENESS.
    """
    all_cells = score.ceiling_of_all if score.ceiling_of_all != score.ceiling else None
    rows = {
        "lab": score.likeness,
        f"{TRIVIAL} x rate": score.trivial,
        score.comparison.ceiling: score.ceiling,
        f"{score.comparison.ceiling}, all {all_cells.cells if all_cells else 0} cells": all_cells,
    }
    return [(name, *_likeness_columns(likeness)) for name, likeness in rows.items() if likeness]


def _likeness_columns(likeness: Likeness) -> Iterator[str]:
    """Yields the texts of four columns that say how similar numbers are to the published ones: the
    median of |ln(ratio)|, the rank correlation, the largest ratio, and the share of cells whose
    utilisations differ by at most 0.05. A number that is not known is a dash.
    """
    yield "–" if likeness.log_ratio is None else f"{likeness.log_ratio:.3f}"
    yield "–" if likeness.rank is None else f"{likeness.rank:.3f}"
    yield text.ratio(likeness.largest)
    yield "–" if likeness.within is None else format_percent(likeness.within)


def asked(score: Score) -> str:
    """Describes the criterion of a comparison, which says how close the lab must come to the
    published numbers: 'rank at least 0.8, no cell off by more than 2 times'.
    """
    criterion = score.comparison.criterion
    if criterion is None:
        return "none, only for comparison"
    parts = []
    if criterion.least_rank is not None:
        parts.append(f"rank at least {criterion.least_rank:g}")
    if most := _allowed_difference(criterion):
        kind = "unexplained cell" if score.comparison.tried else "cell"
        parts.append(f"no {kind} off by more than {most}")
    if criterion.least_within is not None:
        parts.append(f"within {APART} in {format_percent(criterion.least_within)} of the cells")
    return ", ".join(parts)


def _allowed_difference(criterion: Criterion) -> str:
    """Returns by how much the lab's number in a cell may differ from the published one: '2 times or
    0.1' if the criterion limits the factor and the difference; '' if it limits neither.
    """
    factor = "" if criterion.most_factor is None else f"{criterion.most_factor:g} times"
    apart = "" if criterion.most_apart is None else f"{criterion.most_apart:g}"
    return " or ".join(filter(None, [factor, apart]))


def met(score: Score) -> str:
    """Says whether the lab comes as close to the published numbers as the comparison's criterion
    demands: 'met', 'not met', or 'undecided: no cell was measured completely'; a dash if there is
    no criterion.

    If the criterion is not met, the results of runs with other settings follow: '; with offloads
    on: rank correlation 0.96, met'.
    """
    if not score.judged:
        return "–"
    return "; ".join(
        [": ".join(filter(None, [MET[score.outcome], why_undecided(score)])), *tries(score)]
    )


def tries(score: Score) -> Iterator[str]:
    """Yields a text for each other setting that was measured in all cells of the comparison, such
    as 'with offloads on: rank correlation 0.96, met'. Yields nothing unless the criterion is not
    met without them.
    """
    for each in score.explanations:
        rank = each.score.likeness.rank if each.score.likeness else None
        parts = [
            why_not_met(each.score) or (f"rank correlation {rank:.3f}" if rank is not None else "")
        ]
        yield f"with {each.setting}: {', '.join(filter(None, [*parts, MET[each.score.outcome]]))}"


def why_undecided(score: Score) -> str:
    """Returns the reason why it is undecided whether the comparison's criterion is met, such as '2
    cells have no rank correlation'; '' if it is decided, or if there is no criterion.
    """
    if not score.judged or score.outcome is not Judgement.UNDECIDED:
        return ""
    if score.likeness is None:
        return "no cell was measured completely"
    if score.likeness.cells < LEAST_FOR_RANKS:
        have = "has" if score.likeness.cells == 1 else "have"
        return f"{format_count(score.likeness.cells, 'cell')} {have} no rank correlation"
    return "all cells of one side are equal, so there are no ranks"


def why_not_met(score: Score) -> str:
    """Returns the parts of the comparison's criterion that the lab does not meet, such as '3 of 9
    cells are off by more than 2 times, at most 3.10 times, rank correlation 0.70 instead of at
    least 0.8'; '' if the criterion is met or undecided.
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
    """Returns a text on the cells whose number differs from the published one by more than the
    criterion allows: how many they are, the largest factor, and how many of them another setting
    explains. '3 of 9 cells are off by more than 2 times, at most 3.10 times, of which fq explains
    2'. '' if there are no such cells.
    """
    criterion, count = score.comparison.criterion, len(score.far)
    if criterion is None or not count:
        return ""
    verb, worst = "is" if count == 1 else "are", text.ratio(score.far[0].factor)
    off = (
        f"{count} of {len(score.pairs)} cells {verb} off by more than "
        f"{_allowed_difference(criterion)}, at most {worst} times"
    )
    settings = listed(
        list(dict.fromkeys(each.setting for pair in score.far for each in pair.explanations))
    )
    if settings:
        return (
            f"{off}, of which {settings} {'explain' if ' and ' in settings else 'explains'} "
            f"{count - len(score.unexplained)}"
        )
    tried = listed([each.setting for each in score.comparison.tried])
    return f"{off}, which {tried} did not explain" if tried else off


def cells(score: Score) -> str:
    """Counts the cells (a CCA at a combination of settings) of a comparison: '9 cells, 1 more
    measured in part, 3 more only published'. Only the 9 cells that were measured completely are
    compared.
    """
    count = len(score.pairs)
    partial = f", {len(score.partial)} more measured in part" if score.partial else ""
    more = f", {score.missing} more only published" if score.missing else ""
    return f"{format_count(count, 'cell')}{partial}{more}"


def with_outcome(scores: Sequence[Score], outcome: Judgement) -> list[Score]:
    """Returns the scores of comparisons that have a criterion, and whose outcome is this one."""
    return [score for score in scores if score.judged and score.outcome is outcome]
