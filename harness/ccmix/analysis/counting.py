"""Decides which runs count in tables of results, and says why others do not or have not settled."""

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
    """Returns the groups of flows that the run studies: all but cross traffic, which counts as a
    part of the path.
    """
    cross = finished.run.cross_groups
    return tuple(group for group in finished.metrics.groups if group.group not in cross)


def goodput_bps(finished: FinishedRun) -> float:
    """Returns the sum of the goodputs of the studied groups in bit/s; cross traffic is left out."""
    return sum(float(group.goodput_bps) for group in studied_groups(finished))


def mix(finished: FinishedRun) -> str:
    """Returns the CCAs of the studied groups, each once: 'cubic,bbr'. Cross traffic is left out."""
    return ",".join(dict.fromkeys(group.cca for group in studied_groups(finished)))


def condition_key(finished: FinishedRun, unknown: Collection[str] = ()) -> str:
    """Returns a text that identifies what was measured: the entry, the condition (the swept
    values), the CCAs and the number of streams. A run of a real path and a run of its emulated twin
    can be compared if their texts are equal.

    unknown: the twin's swept keys for properties of the path that were not measured. They are left
        out, because the runs of the real path don't have them.
    """
    run = finished.run
    known = {key: value for key, value in run.condition.items() if key not in unknown}
    return f"{run.entry} {condition_name(known)} {mix(finished)} {run.traffic.streams or '-'}"


def requested_traffic(finished: FinishedRun) -> Traffic:
    """Returns the run's traffic as configured. Runs may be compared only if this is equal.

    The interval of an imported run is set to 0, because it comes from the times of its samples,
    which differ by milliseconds from log to log.
    """
    traffic = finished.run.traffic
    return (
        replace(traffic, interval_s=0.0) if traffic.interval_s and imported(finished) else traffic
    )


def smallest_ping_s(finished: FinishedRun) -> float | None:
    """Returns the smallest RTT of the pings before the traffic; None if there were no pings."""
    return min((rtt_s for rtts_s in finished.ping_rtt_s.values() for rtt_s in rtts_s), default=None)


def base_rtt_s(finished: FinishedRun) -> float | None:
    """Returns the path's RTT with empty queues; None if it is not known.

    On an emulated path, it is the configured RTT (the largest if there are several senders). On a
    real path, it is the smallest ping before the traffic; for an imported run without pings, the
    base RTT that the import states.
    """
    path = finished.run.path
    if isinstance(path, Topology):
        return path.base_rtt_s
    ping_s = smallest_ping_s(finished)
    if ping_s is None and finished.facts.imported:
        return finished.facts.imported.base_rtt_s
    return ping_s


def imported(finished: FinishedRun) -> bool:
    """Returns whether the run was measured by other programs than ccmix and then imported, so that
    ccmix's probes did not check its validity.
    """
    return any(finding.kind == IMPORTED for finding in finished.verdict.findings)


def counts(finished: FinishedRun) -> bool:
    """Returns whether the run counts in tables and charts of results.

    Valid runs count. Imported runs count too, although their validity is unknown, because their
    user wants to see them; but not if their data show that a host limited them.
    """
    status = finished.verdict.status
    return status == "valid" or (status == "unknown" and imported(finished))


def accept_findings(finished: FinishedRun, kinds: Collection[str]) -> FinishedRun:
    """Returns the run with the verdict that it would have if its entry accepted these kinds of
    findings (--accept-limits).

    A finding says what may have made the run invalid, such as kind 'cpu': a busy processor. If all
    findings are accepted, the run becomes valid; the status of an imported run becomes 'unknown'.
    """
    findings = tuple(
        replace(finding, accepted=finding.accepted or finding.kind in kinds)
        for finding in finished.verdict.findings
    )
    verdict = replace(finished.verdict, findings=findings)
    if not verdict.reasons:
        verdict = replace(verdict, status="unknown" if imported(finished) else "valid")
    return replace(finished, verdict=verdict)


@dataclass(frozen=True)
class NotValid:
    """Summarises runs that are not valid and whose goodput has the same meaning, such as a lower
    bound of what the path can carry.
    """

    meaning: str  # a key of MEANINGS
    limits: tuple[str, ...]  # kinds of findings, such as 'cpu'
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
    """Summarises the runs that do not count in results. Their goodputs differ in what they say
    about the path: for example, the goodput is a 'lower bound' if a host limited the run. MEANINGS
    lists these meanings; there is one summary for each meaning that a run has.

    runs: each run with its goodput in bit/s; runs that count are ignored
    """
    by_meaning: dict[str, list[tuple[FinishedRun, float]]] = {meaning: [] for meaning in MEANINGS}
    for finished, run_bps in runs:
        if not counts(finished):
            by_meaning[meaning_of(finished)].append((finished, run_bps))
    return tuple(
        NotValid(
            meaning,
            _limiting_kinds(run for run, _ in same_meaning),
            len(same_meaning),
            statistics.fmean(run_bps for _, run_bps in same_meaning),
        )
        for meaning, same_meaning in by_meaning.items()
        if same_meaning
    )


def meaning_of(finished: FinishedRun) -> str:
    """Returns the meaning of the goodput of a run that is not valid: a key of MEANINGS.

    It is 'lower bound' if only hosts limited the run. It is 'not as configured' if anything else
    limited it, or if a queue or a window of a host differed from the configuration. It is 'unknown'
    if the only finding is that a probe missed samples.
    """
    limits = [finding for finding in finished.verdict.reasons if finding.kind != PROBE]
    if finished.verdict.status == "unknown" or not limits:
        return "unknown"
    caused_by_host = (
        finding.kind in REMEDIES and ", configured" not in finding.detail for finding in limits
    )
    return "lower bound" if all(caused_by_host) else "not as configured"


def _limiting_kinds(runs: Iterable[FinishedRun]) -> tuple[str, ...]:
    """Returns the kinds of findings that make these runs invalid, such as 'rate'. 'cpu' is first,
    because a busy processor may cause the other findings. The others follow, the most frequent
    first. A kind counts once per run, even if the run has several findings of this kind.
    """
    kinds_of_runs = (dict.fromkeys(finding.kind for finding in run.verdict.reasons) for run in runs)
    run_counts = Counter(itertools.chain.from_iterable(kinds_of_runs))
    return tuple(sorted(run_counts, key=lambda kind: (kind != "cpu", -run_counts[kind])))


def marked(name: str, finished: FinishedRun) -> str:
    """Returns the name of a group for charts. If its run is not valid, the meaning of its goodput
    is added: 'cubic (lower bound)'.
    """
    return name if counts(finished) else f"{name} ({meaning_of(finished)})"


def limit_sentences(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields sentences about runs that are not valid: one for each condition (entry and swept
    values) and each meaning of their goodput, such as 'grid rate=100gbit: 2 of 3 runs were limited
    by the processor: 31.2 Gbit/s, a lower bound for this path'.

    Runs of the same condition must follow each other.
    """
    for place, iterations in itertools.groupby(runs, lambda finished: finished.run.place):
        goodputs = [(finished, goodput_bps(finished)) for finished in iterations]
        for invalid in not_valid(goodputs):
            were = "was" if invalid.runs == 1 else "were"
            total = format_count(len(goodputs), "run")
            yield f"{place}: {invalid.runs} of {total} {were} {invalid.sentence}"


def limit_advice(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields advice on the runs that are not valid: what the signs in tables mean, how to remove
    each limit, and how to let the runs count in spite of it. Yields nothing if all are valid.
    """
    kinds = _limiting_kinds(finished for finished in runs if not counts(finished))
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
    """Returns whether the goodput of a run was still changing at its end. Returns False, too, if
    this could not be judged.
    """
    settling = finished.metrics.settling
    return settling is not None and settling.settled is False


def settling_sentence(settling: Settling) -> str:
    """Returns "not settled: bbr's goodput still rises (x1.6 from the first to the last quarter);
    duration = 120s would do", or '' if the run has settled or this can't be judged.
    """
    return f"not settled: {_reasons(settling)}" if settling.settled is False else ""


def settling_summary(runs: Sequence[FinishedRun]) -> str:
    """Returns how many of the runs have not settled (their goodput was still changing), with the
    reasons of the run that needs the longest duration.

    Returns '' if all have settled, or if this can't be judged.
    """
    unsettled = [
        (finished, finished.metrics.settling) for finished in runs if not_settled(finished)
    ]
    if not unsettled:
        return ""
    finished, worst = max(unsettled, key=lambda pair: _needed_s(pair[1]))
    assert worst
    runs_have = (
        f"{len(unsettled)} of {len(runs)} runs {'has' if len(unsettled) == 1 else 'have'}"
        if runs[1:]
        else "the run has"
    )
    example = f", such as {finished.run.name}" if unsettled[1:] else f", {finished.run.name}"
    return f"{runs_have} not settled{example}: {_reasons(worst)}"


def longest_settling(runs: Iterable[FinishedRun]) -> Settling | None:
    """Returns the judgement (with the reasons) of the run that has not settled and needs the
    longest duration to settle; None if all runs have settled.
    """
    settlings = (finished.metrics.settling for finished in runs if not_settled(finished))
    return max(settlings, key=_needed_s, default=None)


def _needed_s(settling: Settling | None) -> tuple[float, float]:
    """Returns a sort key for runs that have not settled: the duration that would be enough, then
    the omitted time at the start that would be enough. Values that are not known count as 0.
    """
    return (settling.enough_s or 0.0, settling.enough_omit_s or 0.0) if settling else (0.0, 0.0)


def _reasons(settling: Settling) -> str:
    """Returns why a run has not settled, at most MOST_REASONS reasons, and which duration would be
    long enough.
    """
    reasons = "; ".join(settling.reasons[:MOST_REASONS])
    more = (
        f"; and {len(settling.reasons) - MOST_REASONS} more"
        if len(settling.reasons) > MOST_REASONS
        else ""
    )
    return f"{reasons}{more}; {needed_duration(settling)}"


def needed_duration(settling: Settling) -> str:
    """Returns the settings that would let a run settle: 'omit = 180s, duration = 300s would do'. If
    no duration is known because the goodput changed suddenly, returns 'find out what changed'.
    """
    if settling.enough_s is None:
        return "find out what changed"
    omit = f"omit = {settling.enough_omit_s:g}s, " if settling.enough_omit_s is not None else ""
    return f"{omit}duration = {settling.enough_s:g}s would do"


def settling_notes(runs: Iterable[FinishedRun]) -> Iterator[str]:
    """Yields a sentence for each condition (entry and swept values) with unsettled runs: how many
    there are, and the reasons of the run that needs the longest duration.
    """
    by_condition: dict[str, list[FinishedRun]] = {}
    for finished in runs:
        by_condition.setdefault(finished.run.place, []).append(finished)
    for name, iterations in by_condition.items():
        if worst := longest_settling(iterations):
            unsettled = sum(map(not_settled, iterations))
            how_many = f"{unsettled} of {len(iterations)} runs " if len(iterations) > 1 else ""
            yield f"{name}: {how_many}{settling_sentence(worst)}"
