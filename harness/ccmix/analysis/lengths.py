"""Tells whether a measured time is long enough for a run to settle, as far as this is known without its goodput."""

import math
from collections.abc import Iterable, Iterator

from ccmix.analysis.periods import Period, slowest
from ccmix.model import GroupedSource, Run, Topology
from ccmix.units import format_time

LEAST_INTERVALS = 20  # one for each batch of the trend test
LEAST_CHANGE = 0.1  # of the mean, from the first quarter to the last: less does not matter
DURATIONS_S = (10, 20, 30, 60, 120, 180, 300, 600, 1200, 1800, 3600)  # that are recommended; above, whole hours


def changes_by_design(run: Run) -> str | None:
    """Returns why the goodput of a run is meant to change in the measured time, which then is known; else None."""
    omit_s, total_s = run.traffic.omit_s, run.traffic.total_s
    begins_s = [source.start_s for source in run.traffic.sources]
    grouped = [source for source in run.traffic.sources if isinstance(source, GroupedSource)]
    begins_s += [source.start_s + group.delay_s for source in grouped for group in source.groups]
    if (last_s := max(begins_s)) > omit_s + run.traffic.measured_s / LEAST_INTERVALS:
        return f"traffic begins after {format_time(last_s)}, so goodput changes"
    changes_s = [change.at_s for change in run.path.changes] if isinstance(run.path, Topology) else []
    if changing := [at_s for at_s in changes_s if omit_s < at_s < total_s]:
        return f"the path changes after {format_time(min(changing))}, so goodput changes"
    return None


def too_short(run: Run, period: Period | None) -> Iterator[tuple[str, float]]:
    """Yields each reason why a measured time is too short to tell, as a clause, with the seconds that would do."""
    measured_s, interval_s = run.traffic.measured_s, run.traffic.goodput_interval_s
    intervals = round(measured_s / interval_s)
    if intervals < LEAST_INTERVALS:
        many = "1 interval" if intervals == 1 else f"{intervals} intervals"
        are = "is" if intervals == 1 else "are"
        needed = f"{LEAST_INTERVALS} are needed"
        yield f"{many} of {format_time(interval_s)} {are} too few to tell: {needed}", LEAST_INTERVALS * interval_s
    if period and measured_s < period.enough_s:
        yield (
            f"{_lasts_too_short(measured_s)} {_held(measured_s, period)}, and {period.least} are needed",
            period.enough_s,
        )


def _lasts_too_short(measured_s: float) -> str:
    text = format_time(measured_s)
    return f"{text} {'is too short to tell: it holds' if _is_one(text) else 'are too short to tell: they hold'}"


def _held(measured_s: float, period: Period) -> str:
    """Returns how many periods the time holds, as '1 BBR cycle of 10 s'."""
    count = f"{measured_s / period.seconds:.2g}"
    name = period.name.removesuffix("s") if _is_one(count) else period.name
    return f"{count} {name} of {format_time(float(f'{period.seconds:.2g}'))}"


def _is_one(text: str) -> bool:
    """Returns whether a quantity is one of its unit, so that what is said of it is in the singular."""
    return text.partition(" ")[0] == "1"


def rounded_up(seconds: float) -> float:
    """Returns the next duration that people would write."""
    hours_s = math.ceil(seconds / 3600) * 3600
    return float(next((duration for duration in DURATIONS_S if duration >= seconds), hours_s))


def warnings(runs: Iterable[Run]) -> Iterator[str]:
    """Yields a sentence for each entry with conditions that can't settle in the measured time that was asked for."""
    of_entry: dict[str, dict[str, Run]] = {}
    for run in runs:
        of_entry.setdefault(run.entry, {}).setdefault(f"{run.dst} {run.condition_name}", run)
    for entry, conditions in of_entry.items():
        known = [run for run in conditions.values() if run.traffic.duration_s is not None]
        reasons = [
            (enough_s, clause, run)
            for run in known
            if not changes_by_design(run)
            for clause, enough_s in too_short(run, slowest(run))
        ]
        if reasons:
            enough_s, clause, worst = max(reasons, key=lambda reason: reason[0])
            count = len({id(run) for _, _, run in reasons})
            of = f": {count} of {len(conditions)} conditions" if len(conditions) > 1 else ""
            such = f", such as {worst.condition_name}" if of else ""
            limit = "settled, at most " if worst.traffic.at_most_s is not None else ""
            yield f"{entry}{of} can't settle{such}: {clause}; duration = {limit}{rounded_up(enough_s):g}s would do"
