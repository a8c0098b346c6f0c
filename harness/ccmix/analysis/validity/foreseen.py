"""Says before a run which verdict it can only have."""

from collections.abc import Iterable, Iterator

from ccmix.model import Run
from ccmix.units import format_time

LEAST_SAMPLES = 2  # of a flow, in the measured time: see probes.unseen()


def unknown_for_sure(runs: Iterable[Run]) -> Iterator[str]:
    """Yields a sentence for each entry whose interval leaves too few samples for any verdict but unknown."""
    of_entry: dict[str, tuple[float, float]] = {}
    for run in runs:
        duration_s, interval_s = run.traffic.duration_s, run.traffic.interval_s
        if duration_s is not None and interval_s * LEAST_SAMPLES > duration_s:
            of_entry.setdefault(run.entry, (interval_s, duration_s))
    for entry, (interval_s, duration_s) in of_entry.items():
        yield (
            f"{entry}: an interval of {format_time(interval_s)} leaves fewer than two samples in "
            f"{format_time(duration_s)}, so that runs will be unknown: set interval to at most "
            f"{format_time(duration_s / LEAST_SAMPLES)}"
        )
