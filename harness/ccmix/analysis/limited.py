"""Says what the goodput of runs that are not valid tells of their path: it is shown, marked, and apart from others."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ccmix.analysis.conditions import goodput_bps
from ccmix.analysis.counting import counts
from ccmix.model.results import Finding, FinishedRun
from ccmix.terms import LIMITS, PROBE, REMEDIES
from ccmix.units import format_count, format_rate

# What it means, the sign in tables, and the sentence
MEANINGS = {
    "lower_bound": ("≥", "limited by {}: {}, a lower bound for this path"),
    "not_as_configured": ("≠", "not as configured ({}): {}, which is not a number of this path"),
    "unknown": ("?", "of unknown validity ({}): {}, limited by the path or not"),
}
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
        limits = " and ".join(LIMITS.get(kind, kind) for kind in self.limits)
        return MEANINGS[self.meaning][1].format(limits, format_rate(self.goodput_mean_bps))


def not_valid(runs: Iterable[tuple[FinishedRun, float]]) -> tuple[NotValid, ...]:
    """Returns by their meanings those of the runs that don't count. With each run is its goodput, bit/s."""
    left_out = [(_reasons(finished), finished, run_bps) for finished, run_bps in runs if not counts(finished)]
    by_meaning = {
        meaning: [(reasons, run_bps) for reasons, finished, run_bps in left_out if _meaning(finished, reasons) == meaning]
        for meaning in MEANINGS
    }
    return tuple(
        NotValid(meaning, _kinds(reasons for reasons, _ in own), len(own), statistics.fmean(bps for _, bps in own))
        for meaning, own in by_meaning.items()
        if own
    )


def _reasons(finished: FinishedRun) -> Sequence[Finding]:
    """Returns why a run is not valid; samples that a probe missed don't undo what it saw."""
    reasons = finished.verdict.reasons
    return [finding for finding in reasons if finding.kind != PROBE] or reasons


def _meaning(finished: FinishedRun, reasons: Sequence[Finding]) -> str:
    """Returns a key of MEANINGS; a queue or a window of a host may also be another one than configured."""
    if finished.verdict.status == "unknown" or not reasons or reasons[0].kind == PROBE:
        return "unknown"
    of_host = (finding.kind in REMEDIES and ", configured " not in finding.detail for finding in reasons)
    return "lower_bound" if all(of_host) else "not_as_configured"


def _kinds(of_runs: Iterable[Sequence[Finding]]) -> tuple[str, ...]:
    """Returns the kinds of findings, those of the most runs first."""
    counted = Counter(kind for findings in of_runs for kind in dict.fromkeys(finding.kind for finding in findings))
    return tuple(kind for kind, _ in counted.most_common())


def sentences(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields for each condition how many of its runs are not valid, why, and what their goodput means."""
    by_condition: dict[str, list[FinishedRun]] = {}
    for finished in runs:
        by_condition.setdefault(finished.run.place, []).append(finished)
    for place, own in by_condition.items():
        for each in not_valid((finished, goodput_bps(finished)) for finished in own):
            were = "was" if each.runs == 1 else "were"
            yield f"{place}: {each.runs} of {format_count(len(own), 'run')} {were} {each.sentence}"


def advice(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields what the signs mean, how to remove the limits, and then how the runs can count as they are."""
    kinds = _kinds(finished.verdict.reasons for finished in runs if not counts(finished))
    if kinds:
        yield LEGEND
    for kind in kinds:
        yield f"to remove the limit {kind}: {REMEDIES.get(kind, 'what the findings of the runs name, as configured')}"
    if accepted := ", ".join(kind for kind in kinds if kind in LIMITS):
        yield (
            f"if the limit is what you want to measure: accept-limits = {accepted} in the entry, and for the runs that "
            f"are there: ccmix report OUTDIR --accept-limits {accepted.replace(' ', '')}"
        )
