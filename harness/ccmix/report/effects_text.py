"""Says in sentences how each swept setting, such as the RTT, changes goodputs and shares.

Also says which conditions differ only in unknown keys, and so are one range of results.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ccmix.analysis.counting import studied_groups
from ccmix.analysis.effects import Level, SettingLine, Subject
from ccmix.analysis.path_text import BASE_RTT, HOST_DELAYS, STREAMS
from ccmix.analysis.ranges import MetricRange, UnknownValues, range_of, split
from ccmix.analysis.results import Results
from ccmix.analysis.sharing import CLOSE
from ccmix.analysis.statistics import shown
from ccmix.model import condition_name
from ccmix.text.words import capitalised, joined, listed
from ccmix.units import format_count, format_percent, format_rate

HEADINGS = {
    BASE_RTT: "Base RTT",
    "qdisc": "Queue discipline",
    "rate": "Rate",
    "loss": "Loss",
    "buffer": "Buffer",
    STREAMS: "Streams",
    "jitter": "Jitter",
    "reorder": "Reordering",
    "sender-qdisc": "Sender's queue",
    "mtu": "MTU",
    "ecn": "ECN",
    "offloads": "Offloads",
}


def heading(setting: str) -> str:
    """Returns a setting's name for the beginning of a sentence, such as 'Base RTT'.

    Keys of the INI file without such a name stay as they are.
    """
    return HEADINGS.get(setting, setting)


def phrases(settings: Iterable[tuple[str, str]], path: str = "", dst: str = "") -> str:
    """Describes the settings of a place in a phrase.

    Example: 'on kiae with 0.1% loss and a buffer of 1 BDP at a base RTT of 88 ms'. `settings` are
    (name, value); it is '' without any setting.
    """
    front = [f"to {dst}"] if dst else [f"on {path}"] if path else []
    having, at = [], []
    for setting, value in dict.fromkeys(settings):
        if setting in (BASE_RTT, "rate"):
            at.append(f"a base RTT of {value}" if setting == BASE_RTT else value)
        elif value:
            having.append(_setting_phrase(setting, value))
    parts = [*front]
    if having:
        parts.append(f"with {listed(having)}")
    if at:
        parts.append(f"at {' and '.join(at)}")
    return " ".join(parts)


def _setting_phrase(setting: str, value: str) -> str:
    """Returns a setting as it follows 'with': '2 streams', '0.1% loss', 'a buffer of 1 BDP'."""
    if setting == STREAMS:
        return f"{value} stream{'' if value == '1' else 's'}"
    if setting in HOST_DELAYS:
        return f"{value} of netem each way"
    return {
        "loss": f"{value} loss",
        "buffer": f"a buffer of {value}",
        "jitter": f"{value} of jitter",
        "reorder": f"{value} reordering",
    }.get(setting, f"{setting} {value}")


def beginning(place: str, rest: str = "") -> str:
    """Returns 'With 0.1% loss, bbr ...': the place, then the rest; without a place, the rest."""
    if not place:
        return rest
    return joined(", ", capitalised(place), rest)


def enough(iterations: int | None) -> str:
    """Returns how many iterations would be enough: 'about 5'; None means more than 10,000."""
    return "more than 10,000" if iterations is None else f"about {iterations}"


MOST_SUBJECTS = 4  # of a setting, and
MOST_LINES = 3  # of a subject, that have a clause each; those that change most
MOST_LEVELS = 5  # of a line that are listed; of more, the first, the last, and the extremes
LEAST_SAID = 0.001  # of a goodput, or of all: smaller changes have no number


def settings_sentences(lines: Sequence[SettingLine]) -> Iterator[tuple[str, str]]:
    """Yields (name of the setting, sentence on what it changes) for each swept setting.

    A SettingLine has the means of a goodput or share, one for each value of the setting, while all
    other settings are held.
    """
    several_paths = len({line.path for line in lines}) > 1
    several_streams = len({line.streams for line in lines if line.subject.kind == "goodput"}) > 1
    for setting in dict.fromkeys(line.setting for line in lines):
        of_setting = [line for line in lines if line.setting == setting]
        clauses = list(_clauses(of_setting, several_paths, several_streams))
        if clauses:
            yield heading(setting), f"{'; '.join(clauses)}."


def _clauses(
    lines: Sequence[SettingLine], several_paths: bool, several_streams: bool
) -> Iterator[str]:
    """Yields the clauses of the sentence on one setting.

    The subjects (a CCA's goodput, or its share next to others) that change most get a clause each,
    those that hardly change share one. The last clauses tell at which value one CCA overtakes
    another.
    """
    measured = [line for line in lines if line.subject.kind != "ratio"]
    by_subject: dict[tuple[Subject, int | None], list[SettingLine]] = {}
    for line in measured:
        streams = line.streams if several_streams and line.subject.kind == "goodput" else None
        by_subject.setdefault((line.subject, streams), []).append(line)
    sizes = {
        key: max(map(_largest_change, subject_lines)) for key, subject_lines in by_subject.items()
    }
    largest = set(sorted(sizes, key=lambda key: -sizes[key])[:MOST_SUBJECTS])
    unchanged = [key for key in by_subject if all(map(_is_small, by_subject[key]))]
    for key, subject_lines in by_subject.items():
        if key in largest and key not in unchanged:
            yield _subject_clause(_subject_name(*key), subject_lines, several_paths)
    if unchanged:
        changed_kinds = {subject.kind for subject, _ in by_subject.keys() - set(unchanged)}
        yield _unchanged_clause(
            [line for key in unchanged for line in by_subject[key]], changed_kinds
        )
    if left := sum(key not in largest and key not in unchanged for key in by_subject):
        yield f"{left} more {'is' if left == 1 else 'are'} in the table"
    for line in lines:
        if line.subject.kind == "ratio" and (turned := _turning_point(line)):
            held_settings = _held_settings(line, several_paths)
            [baseline] = line.subject.others
            before, after = map(_more_or_less, turned)
            numbers = " to ".join(f"{level.mean:.3g} times ({level.value})" for level in turned)
            yield (
                f"{line.subject.name} alone turns from {before} to {after} than {baseline} alone"
                f"{held_settings and ' ' + held_settings}: from {numbers} its goodput"
            )


def _subject_name(subject: Subject, streams: int | None) -> str:
    """Returns 'the goodput of 4 flows of bbr alone' or 'the share of bbr competing with cubic'.

    If `streams` is None, the number of flows is not named.
    """
    if subject.kind == "goodput":
        flows = "" if streams is None else f"{format_count(streams, 'flow')} of "
        return f"the goodput of {flows}{subject.name} alone"
    return f"the share of {subject.name} competing with {' and '.join(subject.others)}"


def _subject_clause(subject: str, lines: Sequence[SettingLine], several_paths: bool) -> str:
    """Returns the clause on one subject: its largest changes, and a remark on the small ones.

    Each line is one combination of the other settings.
    """
    large = sorted(
        (line for line in lines if not _is_small(line)), key=lambda line: -_largest_change(line)
    )
    small = [line for line in lines if _is_small(line)]
    parts = [
        _change_clause(line, _held_settings(line, several_paths)) for line in large[:MOST_LINES]
    ]
    if (more := len(large) - MOST_LINES) > 0:
        parts.append(
            f"changes in {format_count(more, 'more case')} by more than {format_percent(CLOSE)}"
        )
    if small:
        parts.append(f"changes {_by_amount('at most', small)} elsewhere")
    return f"{subject} {', '.join(parts[:-1])}{', and ' if len(parts) > 1 else ''}{parts[-1]}"


def _unchanged_clause(lines: Sequence[SettingLine], large: Container[str]) -> str:
    """Says how little the subjects of `lines` change: 'no other goodput changes by more than 1.7%'.

    `large` has the kinds ('goodput', 'share') of the subjects that change much; 'other' tells the
    subjects of these kinds from them.
    """
    kinds = [
        f"no {'other ' * (kind in large)}{kind} changes {_by_amount('more than', own)}"
        for kind in ("goodput", "share")
        if (own := [line for line in lines if line.subject.kind == kind])
    ]
    return " and ".join(kinds)


def _is_small(line: SettingLine) -> bool:
    """Returns whether a line's largest change is too small (at most 5%) for a clause of its own."""
    return _largest_change(line) <= CLOSE


def _largest_change(line: SettingLine) -> float:
    """Returns the largest change from the first level (the first value of the setting).

    A change of goodput is a fraction: from 100 to 80 Mbit/s, it is 0.2. A change of a share is the
    difference: from 50% to 40% of all goodput, it is 0.1.
    """
    first = line.levels[0].mean
    largest = max(abs(level.mean - first) for level in line.levels)
    if line.subject.kind == "share":
        return largest
    return largest / first if first else float(largest > 0)


def _by_amount(limit_words: str, lines: Sequence[SettingLine]) -> str:
    """Returns the largest change of the lines in words.

    Examples with 'at most' as `limit_words`: 'by at most 1.7%' for goodputs, and 'by at most 1.7
    percentage points' for shares.
    """
    most = max(LEAST_SAID, *map(_largest_change, lines))
    if lines[0].subject.kind == "share":
        return f"by {limit_words} {most * 100:.2g} percentage points"
    return f"by {limit_words} {format_percent(float(f'{most:.2g}'))}"


def _change_clause(line: SettingLine, held_settings: str) -> str:
    """Describes how a goodput or share changes with the setting, as far as that is significant.

    Example: 'falls from 993 Mbit/s (0%) to 267 Mbit/s (0.1%) at a base RTT of 88 ms'.
    `held_settings` is the phrase on the settings that stay the same.
    """
    levels, numbers = line.levels, f"{_level_texts(line)}{held_settings and ' ' + held_settings}"
    if all(level.p_adjusted is None for level in levels[1:]):
        return f"is {numbers} (not tested)"
    if not any(level.seen or level.undecided for level in levels):
        all_tested = all(level.p_adjusted is not None for level in levels[1:])
        tested = "" if all_tested else " in the tested cases"
        return f"shows no significant change{tested}: {numbers}"
    steps = [after.mean - before.mean for before, after in pairwise(levels)]
    if not any(level.seen for level in levels):
        return f"may change: {numbers}"
    verb = "rises" if min(steps) >= 0 else "falls" if max(steps) <= 0 else "changes"
    listed = ":" * (2 < len(levels) <= MOST_LEVELS)
    return f"{verb}{listed} {numbers}{_turning_clause(line)}"


def _turning_clause(line: SettingLine) -> str:
    """Says between which values a share passes what would be fair; '' if it stays on one side."""
    turned = _turning_point(line)
    if not turned:
        return ""
    between = f" between {turned[0].value} and {turned[1].value}" if len(line.levels) > 2 else ""
    before, after = map(_more_or_less, turned)
    return f", and so turns from {before} to {after} than fair{between}"


def _level_texts(line: SettingLine) -> str:
    """Lists the means of a line: all if there are few, otherwise both ends and the extremes."""
    levels = line.levels
    if len(levels) == 2:
        tested = levels[1].p_adjusted is not None
        return (
            f"{'from ' * tested}{_level_text(line, levels[0])} {'to' if tested else 'and'} "
            f"{_level_text(line, levels[1])}"
        )
    if len(levels) <= MOST_LEVELS:
        return ", ".join(_level_text(line, level) for level in levels)
    least = min(levels, key=lambda level: level.mean)
    most = max(levels, key=lambda level: level.mean)
    ends = f"from {_level_text(line, levels[0])} to {_level_text(line, levels[-1])}"
    inside = [level for level in (least, most) if level not in (levels[0], levels[-1])]
    names = {id(least): "at least", id(most): "at most"}
    return ends + "".join(f", {names[id(level)]} {_level_text(line, level)}" for level in inside)


def _level_text(line: SettingLine, level: Level) -> str:
    """Returns a mean with the setting's value and doubts: '267 Mbit/s (0.1%, not significant)'."""
    fair = line.subject.fair_share
    doubt = (
        _doubt(line, level)
        if level is not line.levels[0] and any(each.seen or each.undecided for each in line.levels)
        else ""
    )
    if line.subject.kind != "share" or fair is None:
        return f"{format_rate(level.mean)} ({level.value}{doubt})"
    close = ", about fair" if abs(level.mean - fair) < CLOSE * fair else ""
    return f"{format_percent(level.mean)} ({level.value}{close}{doubt})"


def _doubt(line: SettingLine, level: Level) -> str:
    """Says why a level may not differ from the first one; '' if the difference is significant."""
    if level.seen or level.p_adjusted is None:
        return "" if level.seen else ", not tested"
    if not level.undecided or not level.change:
        return ", not significant"
    ends = level.change.interval or ()
    if line.subject.kind == "share":
        interval = f"{' to '.join(f'{end * 100:.3g}' for end in ends)} percentage points"
    else:
        interval = " to ".join(shown("goodput_bps", end) for end in ends)
    return (
        f", undecided with {format_count(level.change.blocks, 'iteration')}: 95% CI of the change "
        f"{interval}, {enough(level.iterations_needed)} would decide"
    )


def _turning_point(line: SettingLine) -> tuple[Level, Level] | None:
    """Returns the two levels between which the line first turns from 'more' to 'less', or back.

    The result at a level may be significantly more or less than the fair share or than another
    CCA's goodput. Levels that are neither are skipped. None if all others are on one side.
    """
    sided = [level for level in line.levels if level.side]
    return next(
        ((before, after) for before, after in pairwise(sided) if before.side != after.side), None
    )


def _more_or_less(level: Level) -> str:
    """Returns 'more' or 'less': how a level is related to the fair share or the other CCA."""
    return "more" if level.side > 0 else "less"


def _held_settings(line: SettingLine, several_paths: bool) -> str:
    """Returns a phrase on the settings that stay the same along the line, and on the path."""
    return phrases(line.held, line.path if several_paths else "")


MOST_NAMED = 3  # groups and conditions of an entry in a sentence
_Goodputs = dict[
    tuple[str, str, str], dict[UnknownValues, list[float]]
]  # by known condition, destination and group


def range_sentences(results: Results) -> Iterator[str]:
    """Yields a sentence for each entry with unknown keys: the range that its goodput lies in.

    Unknown keys are swept keys whose real value is not known; the INI file names them. Conditions
    that differ only in unknown keys are one range.
    """
    entries: dict[tuple[Path, str], tuple[tuple[str, ...], _Goodputs]] = {}
    for result in results.runs:
        run = result.run
        known, values = split(run.condition, unknown := results.unknown_of(result))
        if not values:
            continue
        _, goodputs = entries.setdefault((result.outdir, run.entry), (unknown, {}))
        for group in studied_groups(result.finished):
            key = condition_name(known), run.dst, group.group
            measured = goodputs.setdefault(key, {}).setdefault(values, [])
            if result.valid:
                measured.append(group.goodput_bps)
    for (_, entry), (unknown, goodputs) in entries.items():
        ranges = {key: range_of(measured) for key, measured in goodputs.items()}
        yield _range_sentence(entry, unknown, {key: span for key, span in ranges.items() if span})


def _range_sentence(
    entry: str, unknown: Sequence[str], spans: Mapping[tuple[str, str, str], MetricRange]
) -> str:
    """Returns the sentence on one entry, from the range of each condition, destination and group.

    Example: 'twin: buffer is not known, so conditions that differ only in it are one range: the
    goodput of cubic is somewhere from 343 Mbit/s to 919 Mbit/s (3 conditions)'.
    """
    several_places = len({(known, dst) for known, dst, _ in spans}) > 1
    parts = [
        f"the goodput of {group}{f' at {known}' if several_places else ''} is somewhere from "
        f"{_ends(span)}"
        for (known, _, group), span in spans.items()
    ]
    left = len(parts) - MOST_NAMED
    more = [f"{left} more range{' is' if left == 1 else 's are'} in the table"] if left > 0 else []
    are, them = ("is", "it") if len(unknown) == 1 else ("are", "these")
    of_goodput = "; ".join([*parts[:MOST_NAMED], *more]) or "no run of them is valid"
    return (
        f"{entry}: {' and '.join(unknown)} {are} not known, so conditions that differ only in "
        f"{them} are one range: {of_goodput}."
    )


def _ends(span: MetricRange) -> str:
    """Returns the ends of a range: '343 Mbit/s to 919 Mbit/s (3 conditions)'."""
    conditions = format_count(len(span.members), "condition")
    return f"{format_rate(max(span.low, 0.0))} to {format_rate(span.high)} ({conditions})"
