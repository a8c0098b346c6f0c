"""Says in a sentence for each setting what it does to goodputs and shares, and where a comparison turns."""

from collections.abc import Container, Iterator, Sequence
from itertools import pairwise

from ccmix.analysis.effects import CLOSE, Level, SettingLine, Subject
from ccmix.report.place_text import heading, phrases
from ccmix.units import format_count, format_percent, format_rate

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


def _clauses(lines: Sequence[SettingLine], several_paths: bool, several_streams: bool) -> Iterator[str]:
    measured = [line for line in lines if line.subject.kind != "ratio"]
    by_subject: dict[tuple[Subject, int | None], list[SettingLine]] = {}
    for line in measured:
        streams = line.streams if several_streams and line.subject.kind == "goodput" else None
        by_subject.setdefault((line.subject, streams), []).append(line)
    sizes = {key: max(map(_size, own)) for key, own in by_subject.items()}
    shown = set(sorted(sizes, key=lambda key: -sizes[key])[:MOST_SUBJECTS])
    calm = [key for key in by_subject if all(map(_small, by_subject[key]))]
    for key, own in by_subject.items():
        if key in shown and key not in calm:
            yield _of_subject(_subject(*key), own, several_paths)
    if calm:
        large = {subject.kind for subject, _ in by_subject.keys() - set(calm)}
        yield _calm([line for key in calm for line in by_subject[key]], large)
    if left := sum(key not in shown and key not in calm for key in by_subject):
        yield f"{left} more {'is' if left == 1 else 'are'} in the table"
    for line in lines:
        if line.subject.kind == "ratio" and (turned := _turn(line)):
            where = _where(line, several_paths)
            [baseline] = line.subject.others
            numbers = " to ".join(f"{level.mean:.3g} times ({level.value})" for level in turned)
            yield (
                f"{line.subject.name} alone turns from {_side(turned[0])} to {_side(turned[1])} than {baseline} alone"
                f"{where and ' ' + where}: from {numbers} its goodput"
            )


def _subject(subject: Subject, streams: int | None) -> str:
    if subject.kind == "goodput":
        flows = "" if streams is None else f"{format_count(streams, 'flow')} of "
        return f"the goodput of {flows}{subject.name} alone"
    return f"the share of {subject.name} beside {' and '.join(subject.others)}"


def _of_subject(subject: str, lines: Sequence[SettingLine], several_paths: bool) -> str:
    large = sorted((line for line in lines if not _small(line)), key=lambda line: -_size(line))
    small = [line for line in lines if _small(line)]
    parts = [_change(line, _where(line, several_paths)) for line in large[:MOST_LINES]]
    if (more := len(large) - MOST_LINES) > 0:
        parts.append(f"changes in {format_count(more, 'more case')} by more than {format_percent(CLOSE)}")
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
    """Returns the largest change: of a goodput relative to the first level, of a share in parts of all goodput."""
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
    """Returns 'falls from 993 Mbit/s (0%) to 267 Mbit/s (0.1%) at a base RTT of 88 ms', with where it turns."""
    levels, numbers = line.levels, f"{_numbers(line)}{where and ' ' + where}"
    if all(level.p_adjusted is None for level in levels[1:]):
        return f"is {numbers} (not tested)"
    if not any(level.seen for level in levels):
        tested = "" if all(level.p_adjusted is not None for level in levels[1:]) else " where it was tested"
        return f"shows no significant change{tested}: {numbers}"
    steps = [after.mean - before.mean for before, after in pairwise(levels)]
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
        return f"{'from ' * tested}{_number(line, levels[0])} {'to' if tested else 'and'} {_number(line, levels[1])}"
    if len(levels) <= MOST_LEVELS:
        return ", ".join(_number(line, level) for level in levels)
    least, most = min(levels, key=lambda level: level.mean), max(levels, key=lambda level: level.mean)
    ends = f"from {_number(line, levels[0])} to {_number(line, levels[-1])}"
    inside = [level for level in (least, most) if level not in (levels[0], levels[-1])]
    names = {id(least): "at least", id(most): "at most"}
    return ends + "".join(f", {names[id(level)]} {_number(line, level)}" for level in inside)


def _number(line: SettingLine, level: Level) -> str:
    fair = line.subject.fair_share
    doubt = _doubt(level) if level is not line.levels[0] and any(each.seen for each in line.levels) else ""
    if line.subject.kind != "share" or fair is None:
        return f"{format_rate(level.mean)} ({level.value}{doubt})"
    close = ", about fair" if abs(level.mean - fair) < CLOSE * fair else ""
    return f"{format_percent(level.mean)} ({level.value}{close}{doubt})"


def _doubt(level: Level) -> str:
    """Returns what is to be said of a level that may be no other than the first, beside one that is."""
    return "" if level.seen else ", not tested" if level.p_adjusted is None else ", not significant"


def _turn(line: SettingLine) -> tuple[Level, Level] | None:
    """Returns the last level before the first change of sign, and the one after it; None where none changes."""
    sided = [level for level in line.levels if level.side]
    return next(((before, after) for before, after in pairwise(sided) if before.side != after.side), None)


def _side(level: Level) -> str:
    return "more" if level.side > 0 else "less"


def _where(line: SettingLine, several_paths: bool) -> str:
    return phrases(line.held, line.path if several_paths else "")
