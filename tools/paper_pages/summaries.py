"""Sums up, for the pages on papers, how far the lab confirms a paper."""

from collections.abc import Sequence

from ccmix.papers import score_text, text
from ccmix.papers.judging import Judgement
from ccmix.papers.outcome import MEETING, VERBS, Reproduction, with_verb
from ccmix.papers.scores import Score
from ccmix.text.words import capitalised, listed
from ccmix.units import format_count

SHORTLY = {
    Judgement.FAILS: ("does not", "do not"),
    Judgement.UNDECIDED: VERBS[Judgement.UNDECIDED],
    Judgement.UNMEASURED: VERBS[Judgement.UNMEASURED],
}  # after the statements that hold


def short(made: Reproduction) -> str:
    """Sums up the result for the table of all experiments: '6 of 8 statements hold, 1 more with
    a setting that was tried; 5 of 18 comparisons met'.
    """
    holding = len(made.with_outcome(Judgement.HOLDS))
    met = len(made.scores_with(Judgement.HOLDS))
    parts = []
    if made.statements:
        explained = sum(judged.holds_if_tried for judged in made.statements)
        more = f", {explained} more with a setting that was tried" if explained else ""
        of_all = format_count(len(made.statements), "statement")
        parts.append(f"{holding} of {of_all} {'holds' if holding == 1 else 'hold'}{more}")
    if made.judged:
        explained = sum(score.met_if_tried for score in made.scores)
        more = f", {explained} more with a setting that was tried" if explained else ""
        parts.append(f"{met} of {format_count(made.judged, 'comparison')} met{more}")
    return "; ".join(parts)


def sentence(made: Reproduction) -> str:
    """Sums up the result in a sentence for the paper's page: "6 of the paper's 8 statements
    hold in the lab and 2 do not; of 4 comparisons ... 3 meet their criterion ...".
    """
    return capitalised("; ".join(filter(None, [_on_statements(made), _on_scores(made)]))) + "."


def _on_statements(made: Reproduction) -> str:
    """Returns the half sentence on the paper's statements, such as "6 of the paper's 8
    statements hold in the lab and 2 do not"; '' if there are no statements.
    """
    count = len(made.statements)
    if count == 1:
        return f"the paper's statement {VERBS[made.statements[0].outcome][0]} in the lab"
    parts = [
        with_verb(SHORTLY, outcome, len(such))
        for outcome in SHORTLY
        if (such := made.with_outcome(outcome))
    ]
    holding = len(made.with_outcome(Judgement.HOLDS))
    if holding == count:
        return f"all {count} statements of the paper hold in the lab" if count else ""
    first = (
        f"{holding} of the paper's {count} statements "
        f"{VERBS[Judgement.HOLDS][holding != 1]} in the lab"
    )
    return listed([first, *parts])


def _on_scores(made: Reproduction) -> str:
    """Returns the half sentence on the comparisons that have a criterion, such as 'of 4
    comparisons with published numbers 3 meet their criterion and 1 is undecided'; '' if there
    are none.
    """
    parts = [
        with_verb(MEETING, outcome, len(such))
        for outcome in MEETING
        if (such := made.scores_with(outcome))
    ]
    count = format_count(made.judged, "comparison")
    return f"of {count} with published numbers {listed(parts)}" if parts else ""


def sentence_on_scores(scores: Sequence[Score]) -> str:
    """Sums up the comparisons of a figure in up to four sentences: on those that meet their
    criterion, on those that do not and on undecided ones, both with the reasons, and on those
    without a criterion.
    """
    holds = [
        _short_title(score) + (f": {score_text.far(score)}" if score.far else "")
        for score in score_text.with_outcome(scores, Judgement.HOLDS)
    ]
    fails = [
        ", and ".join(
            [f"{_short_title(score)}: {score_text.why_not_met(score)}", *score_text.tries(score)]
        )
        for score in score_text.with_outcome(scores, Judgement.FAILS)
    ]
    undecided = [
        f"{_short_title(score)}: {score_text.why_undecided(score)}"
        for score in score_text.with_outcome(scores, Judgement.UNDECIDED)
    ]
    without_criterion = [
        f"{_short_title(score)}, {_largest_difference(score)}"
        for score in scores
        if not score.judged
    ]
    sentences = (
        ("The lab meets the criterion for", holds),
        (
            "It does not meet the criterion for"
            if holds
            else "The lab does not meet the criterion for",
            fails,
        ),
        ("The criterion is undecided for", undecided),
        ("Only for comparison, without a criterion:", without_criterion),
    )
    return " ".join(f"{begin} {'; '.join(names)}." for begin, names in sentences if names)


def _short_title(score: Score) -> str:
    """Names a comparison in a sentence, by quantity, CCAs and published series:
    'utilisation of cubic (100 KB, kernel 4.15)', or 'goodput (16 streams)' for all CCAs.
    """
    return f"{score_text.subject(score)} ({score.comparison.series})"


def _largest_difference(score: Score) -> str:
    """Sums up a comparison that has no criterion: '9 cells at most 1.40 times off'. In each of the
    9 cells, the larger of the lab's and the published number is at most 1.40 times the smaller. If
    the lab has measured no cell completely, the text says so.
    """
    if score.likeness is None:
        return "no cell was measured completely"
    return (
        f"{format_count(score.likeness.cells, 'cell')} at most "
        f"{text.ratio(score.likeness.largest)} times off"
    )


def hours(seconds: float) -> str:
    """Writes a duration in whole minutes: '11 min' or '2 h 42 min', and at least '1 min'."""
    whole, minutes = divmod(max(round(seconds / 60), 1), 60)
    return f"{whole} h {minutes} min" if whole else f"{minutes} min"
