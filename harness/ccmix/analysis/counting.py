"""Says which conditions runs have, which runs count in tables, what limited them, and which have
not settled.
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ccmix.model import Topology, Traffic, condition_name
from ccmix.model.results import FinishedRun, GroupMetrics, Settling
from ccmix.terms import IMPORTED, LIMITS, PROBE, REMEDIES
from ccmix.units import format_count, format_rate

# The meanings of a number that is not valid, each with its sign in tables and its sentence
MEANINGS = {
    "lower bound": ("≥", "limited by {0}: {1}, a lower bound for this path"),
    "not as configured": ("≠", "not as configured ({0}): {1}, which is not a number of this path"),
    "unknown": (
        "?",
        "of unknown validity, since probes did not see all: {1}, limited by the path or not",
    ),
}
# for limits other than a host's
OTHERWISE = "a path and traffic as configured: the findings of the runs say what differs"
MARK = f" [(]({'|'.join(MEANINGS)})[)]$"  # of marked()
LEGEND = (
    "not valid: ≥ limited by a host, so that the path carries at least this; ≠ not as "
    "configured, so that this is not "
    "a number of the path; ? nothing tells what limited it"
)
MOST_REASONS = 3  # in a sentence


def studied_groups(finished: FinishedRun) -> tuple[GroupMetrics, ...]:
    """Returns the groups except those of cross traffic, which is part of the path for the test."""
    cross = finished.run.cross_groups
    return tuple(group for group in finished.metrics.groups if group.group not in cross)


def goodput_bps(finished: FinishedRun) -> float:
    """Returns the run's goodput, the sum over its studied groups."""
    return sum(float(group.goodput_bps) for group in studied_groups(finished))


def mix(finished: FinishedRun) -> str:
    """Returns the CCAs of the studied groups, each once, in their order."""
    return ",".join(dict.fromkeys(group.cca for group in studied_groups(finished)))


def condition_key(finished: FinishedRun, unknown: Collection[str] = ()) -> str:
    """Returns entry, condition, mix and streams: the same for a path and its emulated twin.

    Without the keys `unknown`, it is the same for a path and the range of its twin.
    """
    run = finished.run
    known = {key: value for key, value in run.condition.items() if key not in unknown}
    return f"{run.entry} {condition_name(known)} {mix(finished)} {run.traffic.streams or '-'}"


def traffic_asked(finished: FinishedRun) -> Traffic:
    """Returns the traffic that was asked for; for an imported run, without the interval.

    An imported run's interval is that of its samples, which no two logs have the same to the
    millisecond.
    """
    traffic = finished.run.traffic
    return (
        replace(traffic, interval_s=0.0) if traffic.interval_s and imported(finished) else traffic
    )


def smallest_ping_s(finished: FinishedRun) -> float | None:
    """Returns the smallest RTT of the pings before the traffic."""
    return min((rtt_s for rtts_s in finished.ping_rtt_s.values() for rtt_s in rtts_s), default=None)


def base_rtt_s(finished: FinishedRun) -> float | None:
    """Returns the base RTT of an emulated path (the largest of several senders), otherwise the
    smallest ping.

    For a run that was imported without pings, returns the base RTT that the import states.
    """
    path = finished.run.path
    if isinstance(path, Topology):
        return path.base_rtt_s
    ping_s = smallest_ping_s(finished)
    if ping_s is None and finished.facts.imported:
        return finished.facts.imported.base_rtt_s
    return ping_s


def imported(finished: FinishedRun) -> bool:
    """Returns whether the run was measured without ccmix, so that none of its probes could look."""
    return any(finding.kind == IMPORTED for finding in finished.verdict.findings)


def counts(finished: FinishedRun) -> bool:
    """Returns whether tables count the run.

    Valid runs count. Imported runs count too, although their validity is unknown, because their
    user wants to see them. They do not count if their own data show that they were limited.
    """
    status = finished.verdict.status
    return status == "valid" or (status == "unknown" and imported(finished))


def accepting(finished: FinishedRun, kinds: Collection[str]) -> FinishedRun:
    """Returns the run with the verdict of an entry that accepts these kinds of findings, too."""
    findings = tuple(
        replace(each, accepted=each.accepted or each.kind in kinds)
        for each in finished.verdict.findings
    )
    verdict = replace(finished.verdict, findings=findings)
    if not verdict.reasons:
        verdict = replace(verdict, status="unknown" if imported(finished) else "valid")
    return replace(finished, verdict=verdict)


@dataclass(frozen=True)
class NotValid:
    """Describes runs that are not valid and have the same meaning (a key of MEANINGS); `limits` are
    kinds of findings.
    """

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
    """Returns the runs that don't count, by their meanings. Each run comes with its goodput in
    bit/s.
    """
    by_meaning: dict[str, list[tuple[FinishedRun, float]]] = {meaning: [] for meaning in MEANINGS}
    for finished, run_bps in runs:
        if not counts(finished):
            by_meaning[meaning_of(finished)].append((finished, run_bps))
    return tuple(
        NotValid(
            meaning,
            _kinds(run for run, _ in own),
            len(own),
            statistics.fmean(run_bps for _, run_bps in own),
        )
        for meaning, own in by_meaning.items()
        if own
    )


def meaning_of(finished: FinishedRun) -> str:
    """Returns a key of MEANINGS. A probe that missed samples still counts for what it did see.

    A limit of a host counts as not configured if its finding says that a queue or a window differs
    from the configured one.
    """
    seen = [finding for finding in finished.verdict.reasons if finding.kind != PROBE]
    if finished.verdict.status == "unknown" or not seen:
        return "unknown"
    of_host = (
        finding.kind in REMEDIES and ", configured " not in finding.detail for finding in seen
    )
    return "lower bound" if all(of_host) else "not as configured"


def _kinds(runs: Iterable[FinishedRun]) -> tuple[str, ...]:
    """Returns the kinds of findings that make runs invalid: first cpu, which may cause the others,
    then those that most runs have.
    """
    counted = Counter(
        kind for run in runs for kind in dict.fromkeys(each.kind for each in run.verdict.reasons)
    )
    return tuple(sorted(counted, key=lambda kind: (kind != "cpu", -counted[kind])))


def marked(name: str, finished: FinishedRun) -> str:
    """Returns the name of a group, or 'cubic (lower bound)' if the run is not valid."""
    return name if counts(finished) else f"{name} ({meaning_of(finished)})"


def sentences(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields, for each condition and each reason why runs of it are not valid, how many they are
    and what their goodput means. Runs of a condition must follow each other.
    """
    for place, of_place in itertools.groupby(runs, lambda finished: finished.run.place):
        own = [(finished, goodput_bps(finished)) for finished in of_place]
        for each in not_valid(own):
            were = "was" if each.runs == 1 else "were"
            yield f"{place}: {each.runs} of {format_count(len(own), 'run')} {were} {each.sentence}"


def advice(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields the meaning of the signs, how to remove the limits, and how to let the runs count as
    they are.
    """
    kinds = _kinds(finished for finished in runs if not counts(finished))
    if kinds:
        yield LEGEND
    for kind in kinds:
        yield f"to remove the limit {kind}: {REMEDIES.get(kind, OTHERWISE)}"
    if accepted := ",".join(kind for kind in kinds if kind in LIMITS):
        yield (
            f"if the limit is what you want to measure: accept-limits = {accepted} in the entry, "
            f"and for existing runs: ccmix report OUTDIR --accept-limits {accepted}"
        )


def not_settled(finished: FinishedRun) -> bool:
    """Returns whether a run was judged, and has not settled."""
    settling = finished.metrics.settling
    return settling is not None and settling.settled is False


def settling_sentence(settling: Settling) -> str:
    """Returns "not settled: bbr's goodput still rises (x1.6 from the first to the last quarter);
    duration = 120s would do", or '' if the run has settled or this can't be judged.
    """
    return f"not settled: {_reasons(settling)}" if settling.settled is False else ""


def settling_summary(runs: Sequence[FinishedRun]) -> str:
    """Returns how many of the runs have not settled, and the reasons of the run that needs the
    longest duration.

    Returns '' if all have settled, or if this can't be judged.
    """
    unsettled = [
        (finished, finished.metrics.settling) for finished in runs if not_settled(finished)
    ]
    if not unsettled:
        return ""
    finished, worst = max(unsettled, key=lambda each: _needed_s(each[1]))
    assert worst
    have = (
        f"{len(unsettled)} of {len(runs)} runs {'has' if len(unsettled) == 1 else 'have'}"
        if runs[1:]
        else "the run has"
    )
    such = f", such as {finished.run.name}" if unsettled[1:] else f", {finished.run.name}"
    return f"{have} not settled{such}: {_reasons(worst)}"


def longest_settling(runs: Iterable[FinishedRun]) -> Settling | None:
    """Returns the judgement of the unsettled run that needs the longest duration; None if all have
    settled.
    """
    settlings = (finished.metrics.settling for finished in runs if not_settled(finished))
    return max(settlings, key=_needed_s, default=None)


def _needed_s(settling: Settling | None) -> tuple[float, float]:
    """Returns the key that sorts runs by the duration, and then the omitted time, that they
    need.
    """
    return (settling.enough_s or 0.0, settling.enough_omit_s or 0.0) if settling else (0.0, 0.0)


def _reasons(settling: Settling) -> str:
    """Returns why a run has not settled, and the duration that would do."""
    reasons = "; ".join(settling.reasons[:MOST_REASONS])
    more = (
        f"; and {len(settling.reasons) - MOST_REASONS} more"
        if len(settling.reasons) > MOST_REASONS
        else ""
    )
    return f"{reasons}{more}; {would_do(settling)}"


def would_do(settling: Settling) -> str:
    """Returns 'omit = 180s, duration = 300s would do' for a run that has not settled; after a step,
    no such time is known.
    """
    if settling.enough_s is None:
        return "find out what changed"
    omit = f"omit = {settling.enough_omit_s:g}s, " if settling.enough_omit_s is not None else ""
    return f"{omit}duration = {settling.enough_s:g}s would do"


def notes(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields a sentence for each condition with unsettled runs: how many, and the reasons of the
    run that needs the longest duration.
    """
    of_condition: dict[str, list[FinishedRun]] = {}
    for finished in runs:
        of_condition.setdefault(finished.run.place, []).append(finished)
    for name, same in of_condition.items():
        if worst := longest_settling(same):
            of = f"{sum(map(not_settled, same))} of {len(same)} runs " if len(same) > 1 else ""
            yield f"{name}: {of}{settling_sentence(worst)}"
