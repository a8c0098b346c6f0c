"""Says what each setting does to goodputs and shares, and which conditions are one range."""

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
    """Returns the name of a setting at the beginning of a sentence; a key of the INI file
    stays as it is.
    """
    return HEADINGS.get(setting, setting)


def phrases(settings: Iterable[tuple[str, str]], path: str = "", dst: str = "") -> str:
    """Returns 'on kiae with 0.1% loss and a buffer of 1 BDP at a base RTT of 88 ms'; '' without
    any setting.
    """
    front = [f"to {dst}"] if dst else [f"on {path}"] if path else []
    having, at = [], []
    for setting, value in dict.fromkeys(settings):
        if setting in (BASE_RTT, "rate"):
            at.append(f"a base RTT of {value}" if setting == BASE_RTT else value)
        elif value:
            having.append(_having(setting, value))
    parts = [*front]
    if having:
        parts.append(f"with {listed(having)}")
    if at:
        parts.append(f"at {' and '.join(at)}")
    return " ".join(parts)


def _having(setting: str, value: str) -> str:
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


def beginning(where: str, rest: str = "") -> str:
    """Returns 'With 0.1% loss, bbr ...', or the rest as it is without a place."""
    if not where:
        return rest
    return joined(", ", capitalised(where), rest)


def enough(iterations: int | None) -> str:
    """Returns 'about 5', or that it would take too many."""
    return "more than 10,000" if iterations is None else f"about {iterations}"


MOST_SUBJECTS = 4  # of a setting, and
MOST_LINES = 3  # of a subject, that have a clause each; those that change most
MOST_LEVELS = 5  # of a line that are listed; of more, the first, the last, and the extremes
LEAST_SAID = 0.001  # of a goodput, or of all: smaller changes have no number


def settings_sentences(lines: Sequence[SettingLine]) -> Iterator[tuple[str, str]]:
    """Yields each setting's name, and the sentence on it."""
    several_paths = len({line.path for line in lines}) > 1
    several_streams = len({line.streams for line in lines if line.subject.kind == "goodput"}) > 1
    for setting in dict.fromkeys(line.setting for line in lines):
        own = [line for line in lines if line.setting == setting]
        clauses = list(_clauses(own, several_paths, several_streams))
        if clauses:
            yield heading(setting), f"{'; '.join(clauses)}."


def _clauses(
    lines: Sequence[SettingLine], several_paths: bool, several_streams: bool
) -> Iterator[str]:
    measured = [line for line in lines if line.subject.kind != "ratio"]
    by_subject: dict[tuple[Subject, int | None], list[SettingLine]] = {}
    for line in measured:
        streams = line.streams if several_streams and line.subject.kind == "goodput" else None
        by_subject.setdefault((line.subject, streams), []).append(line)
    sizes = {key: max(map(_size, own)) for key, own in by_subject.items()}
    largest = set(sorted(sizes, key=lambda key: -sizes[key])[:MOST_SUBJECTS])
    calm = [key for key in by_subject if all(map(_small, by_subject[key]))]
    for key, own in by_subject.items():
        if key in largest and key not in calm:
            yield _of_subject(_subject(*key), own, several_paths)
    if calm:
        large = {subject.kind for subject, _ in by_subject.keys() - set(calm)}
        yield _calm([line for key in calm for line in by_subject[key]], large)
    if left := sum(key not in largest and key not in calm for key in by_subject):
        yield f"{left} more {'is' if left == 1 else 'are'} in the table"
    for line in lines:
        if line.subject.kind == "ratio" and (turned := _turn(line)):
            where = _where(line, several_paths)
            [baseline] = line.subject.others
            numbers = " to ".join(f"{level.mean:.3g} times ({level.value})" for level in turned)
            yield (
                f"{line.subject.name} alone turns from {_side(turned[0])} to {_side(turned[1])} "
                f"than {baseline} alone{where and ' ' + where}: from {numbers} its goodput"
            )


def _subject(subject: Subject, streams: int | None) -> str:
    if subject.kind == "goodput":
        flows = "" if streams is None else f"{format_count(streams, 'flow')} of "
        return f"the goodput of {flows}{subject.name} alone"
    return f"the share of {subject.name} competing with {' and '.join(subject.others)}"


def _of_subject(subject: str, lines: Sequence[SettingLine], several_paths: bool) -> str:
    large = sorted((line for line in lines if not _small(line)), key=lambda line: -_size(line))
    small = [line for line in lines if _small(line)]
    parts = [_change(line, _where(line, several_paths)) for line in large[:MOST_LINES]]
    if (more := len(large) - MOST_LINES) > 0:
        parts.append(
            f"changes in {format_count(more, 'more case')} by more than {format_percent(CLOSE)}"
        )
    if small:
        parts.append(f"changes {_by('at most', small)} elsewhere")
    return f"{subject} {', '.join(parts[:-1])}{', and ' if len(parts) > 1 else ''}{parts[-1]}"


def _calm(lines: Sequence[SettingLine], large: Container[str]) -> str:
    """Describes subjects that hardly change; `large`: the kinds of those that do."""
    kinds = [
        f"no {'other ' * (kind in large)}{kind} changes {_by('more than', own)}"
        for kind in ("goodput", "share")
        if (own := [line for line in lines if line.subject.kind == kind])
    ]
    return " and ".join(kinds)


def _small(line: SettingLine) -> bool:
    return _size(line) <= CLOSE


def _size(line: SettingLine) -> float:
    """Returns the largest change: of a goodput relative to the first level, of a share in parts of
    all goodput.
    """
    first = line.levels[0].mean
    largest = max(abs(level.mean - first) for level in line.levels)
    if line.subject.kind == "share":
        return largest
    return largest / first if first else float(largest > 0)


def _by(what: str, lines: Sequence[SettingLine]) -> str:
    """Returns 'by at most 1.7%'."""
    most = max(LEAST_SAID, *map(_size, lines))
    if lines[0].subject.kind == "share":
        return f"by {what} {most * 100:.2g} percentage points"
    return f"by {what} {format_percent(float(f'{most:.2g}'))}"


def _change(line: SettingLine, where: str) -> str:
    """Returns 'falls from 993 Mbit/s (0%) to 267 Mbit/s (0.1%) at a base RTT of 88 ms', with
    where it turns.
    """
    levels, numbers = line.levels, f"{_numbers(line)}{where and ' ' + where}"
    if all(level.p_adjusted is None for level in levels[1:]):
        return f"is {numbers} (not tested)"
    if not any(level.seen or level.undecided for level in levels):
        tested = (
            ""
            if all(level.p_adjusted is not None for level in levels[1:])
            else " where it was tested"
        )
        return f"shows no significant change{tested}: {numbers}"
    steps = [after.mean - before.mean for before, after in pairwise(levels)]
    if not any(level.seen for level in levels):
        return f"may change: {numbers}"
    verb = "rises" if min(steps) >= 0 else "falls" if max(steps) <= 0 else "changes"
    listed = ":" * (2 < len(levels) <= MOST_LEVELS)
    return f"{verb}{listed} {numbers}{_turn_to(line)}"


def _turn_to(line: SettingLine) -> str:
    turned = _turn(line)
    if not turned:
        return ""
    between = f" between {turned[0].value} and {turned[1].value}" if len(line.levels) > 2 else ""
    return f", and so turns from {_side(turned[0])} to {_side(turned[1])} than fair{between}"


def _numbers(line: SettingLine) -> str:
    levels = line.levels
    if len(levels) == 2:
        tested = levels[1].p_adjusted is not None
        return (
            f"{'from ' * tested}{_number(line, levels[0])} {'to' if tested else 'and'} "
            f"{_number(line, levels[1])}"
        )
    if len(levels) <= MOST_LEVELS:
        return ", ".join(_number(line, level) for level in levels)
    least = min(levels, key=lambda level: level.mean)
    most = max(levels, key=lambda level: level.mean)
    ends = f"from {_number(line, levels[0])} to {_number(line, levels[-1])}"
    inside = [level for level in (least, most) if level not in (levels[0], levels[-1])]
    names = {id(least): "at least", id(most): "at most"}
    return ends + "".join(f", {names[id(level)]} {_number(line, level)}" for level in inside)


def _number(line: SettingLine, level: Level) -> str:
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
    """Says of a level that it may not differ from the first one; '' if it does."""
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


def _turn(line: SettingLine) -> tuple[Level, Level] | None:
    """Returns the last level before the first change of sign, and the one after it; None where
    none changes.
    """
    sided = [level for level in line.levels if level.side]
    return next(
        ((before, after) for before, after in pairwise(sided) if before.side != after.side), None
    )


def _side(level: Level) -> str:
    return "more" if level.side > 0 else "less"


def _where(line: SettingLine, several_paths: bool) -> str:
    return phrases(line.held, line.path if several_paths else "")


MOST_NAMED = 3  # groups and conditions of an entry in a sentence
_Goodputs = dict[
    tuple[str, str, str], dict[UnknownValues, list[float]]
]  # by known condition, destination and group


def range_sentences(results: Results) -> Iterator[str]:
    """Yields a sentence for each entry with unknown keys: which conditions are one range, and
    its goodput.
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
            own = goodputs.setdefault(key, {}).setdefault(values, [])
            if result.valid:
                own.append(group.goodput_bps)
    for (_, entry), (unknown, goodputs) in entries.items():
        yield _sentence(
            entry, unknown, {key: span for key, own in goodputs.items() if (span := range_of(own))}
        )


def _sentence(
    entry: str, unknown: Sequence[str], spans: Mapping[tuple[str, str, str], MetricRange]
) -> str:
    """Returns 'twin: buffer is not known, so conditions that differ in it alone are one range: the
    goodput of cubic is somewhere from 343 Mbit/s to 919 Mbit/s (3 conditions)'.
    """
    several = len({(known, dst) for known, dst, _ in spans}) > 1
    parts = [
        f"the goodput of {group}{f' at {known}' if several else ''} is somewhere from {_ends(span)}"
        for (known, _, group), span in spans.items()
    ]
    left = len(parts) - MOST_NAMED
    more = [f"{left} more range{' is' if left == 1 else 's are'} in the table"] if left > 0 else []
    are, them = ("is", "it") if len(unknown) == 1 else ("are", "these")
    of_goodput = "; ".join([*parts[:MOST_NAMED], *more]) or "no run of them is valid"
    return (
        f"{entry}: {' and '.join(unknown)} {are} not known, so conditions that differ in {them} "
        f"alone are one range: {of_goodput}."
    )


def _ends(span: MetricRange) -> str:
    """Returns '343 Mbit/s to 919 Mbit/s (3 conditions)'."""
    conditions = format_count(len(span.members), "condition")
    return f"{format_rate(max(span.low, 0.0))} to {format_rate(span.high)} ({conditions})"
