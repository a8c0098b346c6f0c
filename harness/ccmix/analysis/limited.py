"""Says what the goodput of runs that are not valid tells of their path: it is shown, marked, and apart from others."""

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ccmix.analysis.conditions import goodput_bps
from ccmix.analysis.counting import counts
from ccmix.model.results import FinishedRun
from ccmix.terms import LIMITS, PROBE, REMEDIES
from ccmix.units import format_count, format_rate

# What it means, the sign in tables, and the sentence
MEANINGS = {
    "lower bound": ("≥", "limited by {0}: {1}, a lower bound for this path"),
    "not as configured": ("≠", "not as configured ({0}): {1}, which is not a number of this path"),
    "unknown": ("?", "of unknown validity, since probes did not see all: {1}, limited by the path or not"),
}
OTHERWISE = (
    "a path and traffic as configured: the findings of the runs say what differs"  # for other limits than a host's
)
MARK = f" [(]({'|'.join(MEANINGS)})[)]$"  # of marked()
LEGEND = (
    "not valid: ≥ limited by a host, so that the path carries at least this; ≠ not as configured, so that this is not "
    "a number of the path; ? nothing tells what limited it"
)


@dataclass(frozen=True)
class NotValid:
    """Describes runs that are not valid and mean the same (a key of MEANINGS); `limits` are kinds of findings."""

    meaning: str
    limits: tuple[str, ...]
    runs: int
    goodput_mean_bps: float

    def __str__(self) -> str:
        return f"{MEANINGS[self.meaning][0]} {format_rate(self.goodput_mean_bps)}"

    @property
    def sentence(self) -> str:
        """Returns 'limited by the processor: 31.2 Gbit/s, a lower bound for this path'."""
        limits = " and ".join(LIMITS.get(kind, kind) for kind in self.limits if kind != PROBE)
        return MEANINGS[self.meaning][1].format(limits, format_rate(self.goodput_mean_bps))


def not_valid(runs: Iterable[tuple[FinishedRun, float]]) -> tuple[NotValid, ...]:
    """Returns by their meanings those of the runs that don't count. With each run is its goodput, bit/s."""
    by_meaning: dict[str, list[tuple[FinishedRun, float]]] = {meaning: [] for meaning in MEANINGS}
    for finished, run_bps in runs:
        if not counts(finished):
            by_meaning[meaning_of(finished)].append((finished, run_bps))
    return tuple(
        NotValid(meaning, _kinds(run for run, _ in own), len(own), statistics.fmean(run_bps for _, run_bps in own))
        for meaning, own in by_meaning.items()
        if own
    )


def meaning_of(finished: FinishedRun) -> str:
    """Returns a key of MEANINGS. Samples that a probe missed don't undo what it saw of a host.

    A queue or a window of a host may also be another one than configured.
    """
    seen = [finding for finding in finished.verdict.reasons if finding.kind != PROBE]
    if finished.verdict.status == "unknown" or not seen:
        return "unknown"
    of_host = (finding.kind in REMEDIES and ", configured " not in finding.detail for finding in seen)
    return "lower bound" if all(of_host) else "not as configured"


def _kinds(runs: Iterable[FinishedRun]) -> tuple[str, ...]:
    """Returns the kinds of why runs are not valid: cpu, which may cause the others, then those of the most runs."""
    counted = Counter(kind for run in runs for kind in dict.fromkeys(each.kind for each in run.verdict.reasons))
    return tuple(sorted(counted, key=lambda kind: (kind != "cpu", -counted[kind])))


def marked(name: str, finished: FinishedRun) -> str:
    """Returns the name of a group, and 'cubic (lower bound)' if the run is not valid."""
    return name if counts(finished) else f"{name} ({meaning_of(finished)})"


def sentences(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields for each condition how many of its runs are not valid, why, and what their goodput means."""
    for place, of_place in itertools.groupby(runs, lambda finished: finished.run.place):
        own = [(finished, goodput_bps(finished)) for finished in of_place]
        for each in not_valid(own):
            were = "was" if each.runs == 1 else "were"
            yield f"{place}: {each.runs} of {format_count(len(own), 'run')} {were} {each.sentence}"


def advice(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields what the signs mean, how to remove the limits, and then how the runs can count as they are."""
    kinds = _kinds(finished for finished in runs if not counts(finished))
    if kinds:
        yield LEGEND
    for kind in kinds:
        yield f"to remove the limit {kind}: {REMEDIES.get(kind, OTHERWISE)}"
    if accepted := ",".join(kind for kind in kinds if kind in LIMITS):
        yield (
            f"if the limit is what you want to measure: accept-limits = {accepted} in the entry, and for the runs that "
            f"are there: ccmix report OUTDIR --accept-limits {accepted}"
        )
