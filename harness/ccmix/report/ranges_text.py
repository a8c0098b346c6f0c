"""Says which conditions of a campaign are one range, since they differ only in what is not known of their path."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ccmix.analysis.conditions import studied_groups
from ccmix.analysis.ranges import MetricRange, UnknownValues, range_of, split
from ccmix.analysis.results import Results
from ccmix.model import condition_name
from ccmix.units import format_count, format_rate

MOST_NAMED = 3  # groups and conditions of an entry in a sentence
_Goodputs = dict[tuple[str, str, str], dict[UnknownValues, list[float]]]  # by known condition, destination and group


def range_sentences(results: Results) -> Iterator[str]:
    """Yields a sentence for each entry with unknown keys: which conditions are one range, and its goodput."""
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
        yield _sentence(entry, unknown, {key: span for key, own in goodputs.items() if (span := range_of(own))})


def _sentence(entry: str, unknown: Sequence[str], spans: Mapping[tuple[str, str, str], MetricRange]) -> str:
    """Returns 'twin: buffer is not known, so conditions that differ in it alone are one range: the goodput of cubic is
    somewhere from 343 Mbit/s to 919 Mbit/s (3 conditions)'.
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
        f"{entry}: {' and '.join(unknown)} {are} not known, so conditions that differ in {them} alone are one range: "
        f"{of_goodput}."
    )


def _ends(span: MetricRange) -> str:
    """Returns '343 Mbit/s to 919 Mbit/s (3 conditions)'."""
    conditions = format_count(len(span.members), "condition")
    return f"{format_rate(max(span.low, 0.0))} to {format_rate(span.high)} ({conditions})"
