"""Sums up what a campaign shows: one sentence, then its strongest effects, then the rest.

A place is a path with one combination of swept values, to one destination. In each place a
comparison says how a CCA's goodput relates to another's (Alone), or how large a group's share is
when it competes with others (Beside).
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ccmix.analysis.counting import settling_sentence
from ccmix.analysis.effects import SettingLine
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.path_text import HOST_DELAYS, OF_KEYS, swept_text
from ccmix.analysis.places import SharedPlace
from ccmix.analysis.sharing import CLOSE, Alone, Beside, Sharing, Single, Standing
from ccmix.model import HostPath, Topology
from ccmix.report.effects_text import beginning, enough, phrases, settings_sentences
from ccmix.text.words import be, capitalised, joined, listed
from ccmix.units import format_count, format_percent, format_rate

MOST_BULLETS = 4
WEAK = 0.0, CLOSE
MOST_PLACES = 2  # of runs that have not settled, with names
DECIDED = ("more", "less", "about")
NO_EFFECT = ("about", "no significant difference")
Comparison = Alone | Beside


@dataclass(frozen=True)
class Answer:
    """Holds the sentences of an answer."""

    first: str
    bullets: tuple[str, ...]  # the strongest effects
    more: tuple[str, ...]  # on what no bullet is about
    settings: tuple[tuple[str, str], ...]  # the name of each setting that differs, and what it does
    runs: str  # how many are left out, and why
    warnings: tuple[str, ...]  # where iterations are too few, and how many would do
    details: tuple[tuple[str, tuple[str, ...]], ...]  # (heading, sentences) of each place


def answer(
    sharing: Sharing,
    lines: Sequence[SettingLine] = (),
    ranges: Iterable[str] = (),
    paths: Iterable[str] = (),
) -> Answer:
    """Returns the sentences of the answer, from the comparisons of CCAs in all places.

    Without a comparison they are about the largest and the smallest goodput. `lines` tell what each
    swept setting changes. `ranges` are sentences on conditions with unknown keys (swept keys whose
    real value is not known). `paths` are sentences on paths that runs with `type = path` measured.
    """
    name_place = _PlaceNames(sharing)
    comparisons: list[Comparison] = [*sharing.alone, *sharing.beside]
    first, *rest = [*paths, *_effect_sentences(comparisons, name_place)] or _extremes(
        sharing.singles, name_place
    )
    rest = [*ranges, *rest]
    return Answer(
        first=first,
        bullets=tuple(rest[:MOST_BULLETS]),
        more=tuple(rest[MOST_BULLETS:]),
        settings=tuple(settings_sentences(lines)),
        runs=_runs_left_out(sharing),
        warnings=tuple(_warnings(sharing, comparisons, name_place)),
        details=tuple(_details(comparisons, name_place)),
    )


class _PlaceNames:
    """Names a place by what distinguishes it: 'with 0.1% loss at a base RTT of 88 ms'.

    The path and the destination are only named if the campaign has several.
    """

    def __init__(self, sharing: Sharing) -> None:
        """Finds out whether the campaign has several paths, and several destinations."""
        places = [single.place for single in sharing.singles]  # all that have a valid run
        self._several_ends = len({place.dst for place in places}) > 1
        self._several_paths = len({place.name for place in places}) > 1

    def __call__(self, place: SharedPlace) -> str:
        return phrases(_swept_settings(place), **self._path_or_destination(place))

    def _path_or_destination(self, place: SharedPlace) -> dict[str, str]:
        """Returns the keyword arguments `path` and `dst` for phrases(), which writes the names.

        `path` is the path's name if the campaign has several paths. `dst` is the destination if the
        campaign has several and the path is real; on an emulated path, it is not named. A name that
        is not needed is ''.
        """
        emulated = isinstance(place.path, Topology)
        return {
            "path": place.name if self._several_paths else "",
            "dst": place.dst if self._several_ends and not emulated else "",
        }


def _swept_settings(place: SharedPlace) -> list[tuple[str, str]]:
    """Returns (setting, value) for each swept key of a place, as sentences name them.

    A place is a path with one combination of swept values, to one destination. Delays of netem are
    left out on a real path that has no netem.
    """
    emulated = isinstance(place.path, Topology)
    return [
        (OF_KEYS.get(key, key) if emulated else key, swept_text(place.path, key, value))
        for key, value in place.condition
        if not (isinstance(place.path, HostPath) and key in HOST_DELAYS and not place.path.netem)
    ]


def _effect_sentences(comparisons: Sequence[Comparison], name_place: _PlaceNames) -> Iterator[str]:
    """Yields sentences on the comparisons, those with the strongest effect first.

    A subject (such as 'bbr alone against cubic') is compared in several places. The first sentence
    sums up the subject with the strongest effect over all of its places. Then each subject gets a
    sentence for its strongest effect in each direction: above and below what would be fair.
    """
    by_subject: dict[Hashable, list[Comparison]] = {}
    for each in comparisons:
        by_subject.setdefault(_subject_key(each), []).append(each)
    summarised: set[Hashable] = set()
    told_directions: set[Hashable] = set()  # (subject, whether it is above)
    for each in sorted(comparisons, key=lambda each: each.strength, reverse=True):
        subject, is_effect = (
            _subject_key(each),
            each.standing not in NO_EFFECT and each.strength > WEAK,
        )
        direction = subject, each.value > each.equal
        effect = beginning(name_place(each.place), _effect_text(each))
        # The first subject, and subjects without an effect: a summary of all places
        if not summarised or (subject not in summarised and not is_effect):
            yield f"{_subject_summary(by_subject[subject], name_place)}."
            sides = sum(other.side for other in by_subject[subject])
            if len(by_subject[subject]) in (1, abs(sides)):  # alike everywhere
                told_directions.add(direction)
        # Further subjects: the strongest effect, and the numbers of the other places
        elif subject not in summarised:
            others = [other for other in by_subject[subject] if other is not each]
            other_conditions = format_count(len(others), "other condition")
            tail = (
                f"; in {other_conditions} {_numbers_text(others)} ({_standing_counts(others)})"
                if others
                else ""
            )
            yield f"{effect}{tail}."
            told_directions.add(direction)
        if is_effect and direction not in told_directions:
            yield f"{effect}."
            told_directions.add(direction)
        summarised.add(subject)


def _subject_key(comparison: Comparison) -> Hashable:
    """Returns the subject of a comparison, without its place: its CCAs or competing groups.

    Comparisons with the same key are summed up in one sentence.
    """
    if isinstance(comparison, Alone):
        return comparison.cca, comparison.baseline
    return comparison.group, comparison.streams, comparison.others


def _subject_summary(comparisons: Sequence[Comparison], name_place: _PlaceNames) -> str:
    """Sums up the comparisons of one subject in all places.

    Example: 'bbr alone gets more than cubic alone in 9 of 14 conditions, less in 1, not tested in
    4: 0.9 to 453 times cubic's goodput'.
    """
    first = comparisons[0]
    if len(comparisons) == 1:
        return beginning(name_place(first.place), _effect_text(first))
    (main, of_main), *others = _by_standing(comparisons)
    count, values, subject = len(comparisons), _values_text(comparisons), _subject_and_verb(first)
    fair = _fair_share_text(first)
    fair = fair and f", where {fair}"
    if main not in DECIDED:
        standings = _standing_counts(comparisons)
        return f"{subject} {values} in {_of_conditions(count, count)}{fair}: {standings}"
    rest = "".join(
        f", {_standing_word(first, kind)} in {len(of_kind)}{_common_settings(of_kind, comparisons)}"
        for kind, of_kind in others
    )
    places = f"{_of_conditions(len(of_main), count)}{_common_settings(of_main, comparisons)}"
    return f"{subject} {_standing_phrase(first, main)} in {places}{rest}: {values}{fair}"


def _by_standing(comparisons: Sequence[Comparison]) -> list[tuple[Standing, list[Comparison]]]:
    """Groups comparisons by standing: what their test says, such as 'more' or 'undecided'.

    Results that are decided ('more', 'less', 'about') come first, and of these the most frequent.
    """
    kinds: dict[Standing, list[Comparison]] = {}
    for each in comparisons:
        kinds.setdefault(each.standing, []).append(each)
    return sorted(kinds.items(), key=lambda kind: (kind[0] not in DECIDED, -len(kind[1])))


def _standing_counts(comparisons: Sequence[Comparison]) -> str:
    """Counts comparisons by standing, the result of their test: 'undecided in 2, not tested in 4'.

    If all comparisons have the same standing, there is no number: 'undecided'.
    """
    kinds = _by_standing(comparisons)
    return ", ".join(
        f"{_standing_word(alike[0], kind)}{f' in {len(alike)}' * (len(kinds) > 1)}"
        for kind, alike in kinds
    )


def _standing_word(comparison: Comparison, standing: Standing) -> str:
    """Returns a test's result as a word of a list: 'more', 'about the same', 'about fair'."""
    if standing != "about":
        return standing
    return "about the same" if isinstance(comparison, Alone) else "about fair"


def _standing_phrase(comparison: Comparison, standing: Standing) -> str:
    """Returns a test's result after a verb: 'more than cubic alone', 'about their fair share'."""
    than = "" if standing == "about" else "than "
    if isinstance(comparison, Beside):
        return f"{standing} {than}{'its' if comparison.streams == 1 else 'their'} fair share"
    return f"{standing} {than or 'as much as '}{comparison.baseline} alone"


def _common_settings(alike: Sequence[Comparison], comparisons: Sequence[Comparison]) -> str:
    """Returns ' (with qdisc fq_codel)' if exactly the places of `alike` have these settings.

    `alike` are those of all `comparisons` that have the same result, and the settings tell the
    reader where it holds. Returns '' if other places have the same settings, too.
    """
    swept = [_swept_settings(each.place) for each in alike]
    common = [each for each in swept[0] if all(each in other for other in swept)]
    matching = sum(set(common) <= set(_swept_settings(each.place)) for each in comparisons)
    is_worth_telling = alike[0].standing in DECIDED and matching == len(alike) < len(comparisons)
    return f" ({phrases(common)})" * is_worth_telling


def _subject_and_verb(comparison: Comparison) -> str:
    """Returns 'bbr alone gets' or '1 bbr flow competing with 4 cubic flows gets'."""
    if isinstance(comparison, Alone):
        return f"{comparison.cca} alone gets"
    others = listed([_flows_text(*other) for other in comparison.others])
    gets = "gets" if comparison.streams == 1 else "get"
    return f"{_flows_text(comparison.group, comparison.streams)} competing with {others} {gets}"


def _flows_text(group: str, streams: int) -> str:
    """Returns '1 bbr flow' or '4 cubic flows'."""
    return format_count(streams, f"{group} flow")


def _fair_share_text(comparison: Comparison) -> str:
    """Returns '20% would be fair' for competing groups; '' for CCAs that ran alone."""
    if isinstance(comparison, Alone):
        return ""
    return f"{format_percent(comparison.equal)} would be fair"


def _values_text(comparisons: Sequence[Comparison]) -> str:
    """Returns '36% to 92% of the goodput', '0.98 to 3.57 times cubic's goodput'."""
    first = comparisons[0]
    whole = f"{first.baseline}'s" if isinstance(first, Alone) else "of the"
    return f"{_numbers_text(comparisons)} {whole} goodput"


def _numbers_text(comparisons: Sequence[Comparison]) -> str:
    """Returns '36% to 92%', '0.98 to 3.57 times'."""
    values = [comparison.value for comparison in comparisons]
    ends = (_number_text(comparisons[0], value) for value in (min(values), max(values)))
    times = " times" * isinstance(comparisons[0], Alone)
    return f"{' to '.join(dict.fromkeys(ends))}{times}"


def _number_text(comparison: Comparison, value: float) -> str:
    """Returns a share as '36%' if groups compete, otherwise a factor as '3.57'; 1 is '1.00'."""
    if isinstance(comparison, Beside):
        return format_percent(value)
    text = f"{value:.3g}"
    return "1.00" if text == "1" else text


def _effect_text(comparison: Comparison, with_p: bool = False) -> str:
    """Describes a comparison in one place, with its numbers.

    Example: 'bbr alone gets 3 times cubic's goodput (9 Mbit/s against 3 Mbit/s; 95% CI ...)'.
    `with_p` adds the p-value and the number of iterations.
    """
    known = _fair_share_text(comparison)
    if isinstance(comparison, Alone):
        known = (
            f"{format_rate(comparison.mean_bps)} against "
            f"{format_rate(comparison.result.baseline_mean)}"
        )
    interval = comparison.interval and " to ".join(
        _number_text(comparison, end) for end in comparison.interval
    )
    details = joined(
        "; ", known, f"95% CI {interval}" if interval else "", _test_text(comparison, with_p)
    )
    return f"{_subject_and_verb(comparison)} {_values_text([comparison])} ({details})"


def _test_text(comparison: Comparison, with_p: bool) -> str:
    """Returns a clause on the test, such as 'not tested: 2 iterations'.

    If `with_p` is given, the clause of a tested comparison includes the p-value. Without it, the
    clause is '' if the standing (the test's result) is decided: 'more', 'less' or 'about'.
    """
    p_adjusted, standing = comparison.p_adjusted, comparison.standing
    iterations = format_count(comparison.result.blocks, "iteration")
    if p_adjusted is None:
        return f"not tested: {iterations}{', all alike' * comparison.result.alike}"
    p_text = "p < 0.001" if p_adjusted < 0.001 else f"p = {p_adjusted:.2g}"
    p = f"{p_text}, " * with_p
    if standing not in DECIDED:
        return (
            f"{p}{standing} with {iterations}: {enough(comparison.iterations_needed)} would decide"
        )
    return f"{p}{iterations}" * with_p


def _extremes(singles: Sequence[Single], name_place: _PlaceNames) -> Iterator[str]:
    """Yields sentences for a campaign without any comparison: on the range of its goodputs, and on
    the entries with the largest and the smallest goodput.
    """
    if not singles:
        yield "No run is valid: what their goodput means is below."
        return
    ranked = sorted(singles, key=lambda single: single.goodput_bps.mean)
    ends = dict.fromkeys((ranked[-1], ranked[0]))
    if len(ends) > 1:
        rates = " to ".join(format_rate(end.goodput_bps.mean) for end in reversed(ends))
        yield f"Goodput is {rates} in {format_count(len(ranked), 'condition')}."
    for end in ends:
        yield f"{_goodput_text(end, name_place)}."


def _goodput_text(single: Single, name_place: _PlaceNames) -> str:
    """Returns 'bulk (cubic) gets 9 Mbit/s (95% CI ...) at a base RTT of 88 ms'."""
    mean, interval = single.goodput_bps.mean, single.goodput_bps.ci95
    ends = f" (95% CI {' to '.join(map(format_rate, interval))})" if interval else ""
    gets = f"{single.entry} ({', '.join(single.names)}) gets {format_rate(mean)}{ends}"
    return joined(" ", gets, name_place(single.place))


def _runs_left_out(sharing: Sharing) -> str:
    """Says how many runs are left out of all means, and because of which findings.

    A finding is a reason why a run is not valid, such as a busy CPU.
    """
    imported = (
        f" {be(sharing.imported, 'run', past=True)} imported: ccmix did not check whether their "
        "hosts limited them." * (sharing.imported > 0)
    )
    if not sharing.left_out:
        return imported.strip() or (
            "The only run is valid." if sharing.runs == 1 else f"All {sharing.runs} runs are valid."
        )
    why = ", ".join(f"{count} by {kind}" for kind, count in sharing.left_out)
    out = sharing.runs - sharing.valid
    verb = "is" if out == 1 else "are"
    return (
        f"{out} of {sharing.runs} runs {verb} left out of all means because of findings: "
        f"{why}.{imported}"
    )


def _warnings(
    sharing: Sharing, comparisons: Sequence[Comparison], name_place: _PlaceNames
) -> Iterator[str]:
    """Yields warnings: runs that have not settled, and comparisons with too few iterations."""
    if sharing.not_settled:
        yield _not_settled(sharing, name_place)
    of_all = f"of {format_count(len(comparisons), 'comparison')}"
    if untested := sum(each.standing == "not tested" for each in comparisons):
        yield (
            f"Not tested: {untested} {of_all}. A test needs at least {LEAST_FOR_INTERVAL} valid "
            "iterations that are not all alike."
        )
    if undecided := [each for each in comparisons if each.standing == "undecided"]:
        needed = [each.iterations_needed for each in undecided]
        most = None if None in needed else max(filter(None, needed))
        iterations = format_count(min(each.result.blocks for each in undecided), "iteration")
        yield (
            f"Undecided: {len(undecided)} {of_all}. {iterations} would be enough for a single "
            f"comparison, but not for {sharing.compared} (Holm's correction). "
            f"{capitalised(enough(most))} would decide all."
        )


def _not_settled(sharing: Sharing, name_place: _PlaceNames) -> str:
    """Warns that runs ended before their goodput was steady, and says how long they should be."""
    count = len(sharing.not_settled)
    worst = max(sharing.not_settled, key=lambda settling: settling.enough_s or 0.0)
    runs, have = "run" if sharing.valid == 1 else "runs", "has" if count == 1 else "have"
    places = list(dict.fromkeys(filter(None, map(name_place, sharing.unsettled_places))))
    at = f", {' and '.join(places)}," if 0 < len(places) <= MOST_PLACES else ""
    return (
        f"{count} of {sharing.valid} valid {runs}{at} {have} not settled: longer ones may have "
        f"other goodputs and shares. {'It is' if count == 1 else 'One is'} "
        f"{settling_sentence(worst)}."
    )


def _details(
    comparisons: Sequence[Comparison], name_place: _PlaceNames
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields (heading, sentences) for each place: all of its comparisons with their p-values.

    A place is a path with one combination of swept values, to one destination.
    """
    by_place: dict[str, list[str]] = {}
    for each in comparisons:
        by_place.setdefault(name_place(each.place), []).append(
            f"{_effect_text(each, with_p=True)}."
        )
    for place, sentences in by_place.items():
        yield beginning(place) or "All runs", tuple(sentences)


def _of_conditions(count: int, total: int) -> str:
    """Returns 'both conditions', 'all 14 conditions' or '9 of 14 conditions'."""
    if count == total:
        return "both conditions" if total == 2 else f"all {total} conditions"
    return f"{count} of {total} conditions"
