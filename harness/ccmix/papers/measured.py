"""Takes from the valid runs of an archive the numbers that statements and published tables are about."""

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ccmix.analysis.intervals import confidence_interval, confidence_interval_of_positive
from ccmix.analysis.settling_text import not_settled
from ccmix.model import Run, Topology
from ccmix.model.results import FinishedRun, GroupMetrics
from ccmix.papers.experiment import ALTERNATIVES, MeanOf, Number, Of, Quantity, Quotient, parts

FRACTIONS: frozenset[Quantity] = frozenset({"utilisation", "share", "fairness"})
Block = tuple[int, tuple[str, ...]]  # iteration, and the values of keys that a selection pools
_Reading = Callable[[FinishedRun, Sequence[GroupMetrics]], float | None]


@dataclass(frozen=True)
class _RunValue:
    value: float
    settled: bool  # False of a run that has not; True also where that can't be judged


@dataclass(frozen=True)
class MeasuredSample:
    """Holds a number of each run that has it, and how many of these runs have not settled.

    `is_fraction` says whether it cannot be above 1, or hardly, as a share.
    """

    values: tuple[float, ...]
    not_settled: int = 0
    is_fraction: bool = False

    @property
    def runs(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Returns the 95% interval of the mean, of what is no fraction on a logarithmic scale; None for fewer than 3
        runs.
        """
        return confidence_interval(self.values) if self.is_fraction else confidence_interval_of_positive(self.values)


@dataclass(frozen=True)
class MeasuredRuns:
    """Holds the valid runs of an experiment."""

    runs: tuple[FinishedRun, ...]

    def sample(self, number: Number) -> MeasuredSample:
        """Returns a number of each run that has it; of means and ratios one for each block that has all parts."""
        values = tuple(self._by_block(number).values())
        return MeasuredSample(
            tuple(each.value for each in values),
            sum(not each.settled for each in values),
            not isinstance(number, Quotient) and all(of.quantity in FRACTIONS for of in parts(number)),
        )

    def lacking(self, of: Of) -> dict[str, tuple[str, ...]]:
        """Returns the keys of which 'at' pools several values and not all were measured, each with those that were."""
        pooled = {key: text.split(ALTERNATIVES) for key, text in of.at.items() if ALTERNATIVES in text}
        return {
            key: there
            for key, values in pooled.items()
            if len(there := tuple(value for value in values if self._has(of, key, value))) < len(values)
        }

    def _has(self, of: Of, key: str, value: str) -> bool:
        return any(True for _ in self._selected(replace(of, at={**of.at, key: value})))

    def _by_block(self, number: Number) -> dict[Block, _RunValue]:
        """Returns the number in each block: of a mean or a ratio where all parts are known, of a ratio by what isn't 0.

        Raises ValueError if a block has several runs: the selection is not complete.
        """
        if isinstance(number, Of):
            return self._variations(number) if number.quantity == "variation" else self._of_runs(number)
        if isinstance(number, MeanOf):
            return _in_all([self._by_block(each) for each in number.numbers], statistics.fmean)
        over, under = self._by_block(number.over), self._by_block(number.under)
        return _in_all(
            [over, {block: each for block, each in under.items() if each.value}], lambda both: both[0] / both[1]
        )

    def _of_runs(self, of: Of) -> dict[Block, _RunValue]:
        values: dict[Block, _RunValue] = {}
        before = self._iterations_before(of.entry)
        for run, groups in self._selected(of):
            value = _VALUES[of.quantity](run, groups)
            block = before[run.run.entry] + run.run.iteration, _pooled(run.run, of)
            if block in values:
                raise ValueError(f"{of}: selects several runs of iteration {block[0]}: give more settings in 'at'")
            if value is not None:
                values[block] = _RunValue(value, not not_settled(run))
        return values

    def _variations(self, of: Of) -> dict[Block, _RunValue]:
        """Returns the coefficient of variation of each iteration that has goodputs of all pooled values."""
        of_iteration: dict[int, list[_RunValue]] = {}
        for (iteration, _), goodput in self._of_runs(replace(of, quantity="goodput_bps")).items():
            of_iteration.setdefault(iteration, []).append(goodput)
        asked = math.prod(len(text.split(ALTERNATIVES)) for text in of.at.values())
        return {
            (iteration, ()): _together(_variation, goodputs)
            for iteration, goodputs in of_iteration.items()
            if len(goodputs) == asked > 1
        }

    def _iterations_before(self, entries: str) -> dict[str, int]:
        """Returns for each of the entries how many iterations those before it have."""
        before, count = {}, 0
        for entry in entries.split(ALTERNATIVES):
            before[entry] = count
            count += max((run.run.iteration for run in self.runs if run.run.entry == entry), default=0)
        return before

    def _selected(self, of: Of) -> Iterator[tuple[FinishedRun, list[GroupMetrics]]]:
        """Yields the runs that a number is of, with their groups that it is of."""
        for run in self.runs:
            groups = [group for group in run.metrics.groups if _wanted(group, of)]
            if groups and _is_at(run.run, of):
                yield run, groups


def _in_all(
    parts: Sequence[dict[Block, _RunValue]], made: Callable[[Sequence[float]], float]
) -> dict[Block, _RunValue]:
    """Returns what is made of the values of a block, for each block that all parts have."""
    first, *others = parts
    return {
        block: _together(made, [part[block] for part in parts])
        for block in first
        if all(block in other for other in others)
    }


def _together(made: Callable[[Sequence[float]], float], values: Sequence[_RunValue]) -> _RunValue:
    """Returns what is made of several values; it has settled if all of them have."""
    return _RunValue(made([each.value for each in values]), all(each.settled for each in values))


def _variation(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)


def _wanted(group: GroupMetrics, of: Of) -> bool:
    return of.cca in (None, group.cca) and of.host in (None, group.host)


def needed(numbers: Collection[Of], runs: Iterable[Run]) -> list[Run]:
    """Returns those of the planned runs that some numbers are of."""
    return [run for run in runs if any(_is_needed(run, of) for of in numbers)]


def _is_needed(run: Run, of: Of) -> bool:
    ccas = {group.cca for group in run.traffic.all_groups}
    return (of.cca is None or of.cca in ccas) and _is_at(run, of)


def _is_at(run: Run, of: Of) -> bool:
    """Returns whether the run has the entry, the buffer and the values of swept keys that a number is of."""
    return (
        run.entry in of.entry.split(ALTERNATIVES)
        and all(_swept(run, key) in value.split(ALTERNATIVES) for key, value in of.at.items())
        and _has_buffer(run, of)
    )


def _swept(run: Run, key: str) -> str | None:
    """Returns the value of a swept key; of the CCAs also where an entry has some and sweeps none, as 'bbr,cubic'."""
    if key == "cca" and key not in run.condition:
        return ",".join(group.cca for group in run.traffic.all_groups)
    return run.condition.get(key)


def _has_buffer(run: Run, of: Of) -> bool:
    if of.buffer_bdp is None:
        return True
    path, (least, below) = _topology(run), of.buffer_bdp
    return least <= path.buffer_bytes / path.bdp_bytes < below


def _pooled(run: Run, of: Of) -> tuple[str, ...]:
    """Returns the values of keys that are pooled, but the CCA's, by which groups are selected anyway."""
    return tuple(
        value
        for key, value in run.condition.items()
        if key != "cca" and (key not in of.at or ALTERNATIVES in of.at[key])
    )


def _topology(run: Run) -> Topology:
    """Raises TypeError for a run between hosts: experiments are made in the lab."""
    if not isinstance(run.path, Topology):
        raise TypeError(f"{run.name} is not on an emulated path")
    return run.path


def _goodput_bps(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    return sum(group.goodput_bps for group in groups)


def _utilisation(run: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    return _goodput_bps(run, groups) / _topology(run.run).rate_bps


def _share(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    return sum(group.share or 0.0 for group in groups)


def _retransmits(run: FinishedRun, groups: Sequence[GroupMetrics]) -> float | None:
    """Returns the segments that iperf3's sender counts."""
    names = {group.group for group in groups}
    counts = [flow.retransmits for flow in run.metrics.flows if flow.group in names]
    return None if None in counts or not counts else float(sum(count or 0 for count in counts))


def _retransmission_rate(run: FinishedRun, groups: Sequence[GroupMetrics]) -> float | None:
    return groups[0].retransmission_rate if len(groups) == 1 else run.metrics.retransmission_rate


def _fairness(run: FinishedRun, _: Sequence[GroupMetrics]) -> float | None:
    return run.metrics.fairness


def _convergence_s(run: FinishedRun, _: Sequence[GroupMetrics]) -> float:
    """Returns the time until the flows are fair; where they never are, that from the last start to the end."""
    traffic = run.run.traffic
    starts_s = [source.start_s + group.delay_s for source in traffic.sources for group in getattr(source, "groups", ())]
    known = run.metrics.convergence_s
    return traffic.total_s - max(starts_s, default=0.0) if known is None else known


def _queue_mean_bdp(run: FinishedRun, _: Sequence[GroupMetrics]) -> float | None:
    queue = run.metrics.bottleneck
    return None if queue is None else queue.backlog_mean_bytes / _topology(run.run).bdp_bytes


def _queue_p95_bdp(run: FinishedRun, _: Sequence[GroupMetrics]) -> float | None:
    queue = run.metrics.bottleneck
    return None if queue is None else queue.backlog_p95_bytes / _topology(run.run).bdp_bytes


def _rtt_p95_s(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float | None:
    return groups[0].rtt_p95_s


_VALUES: dict[Quantity, _Reading] = {
    "goodput_bps": _goodput_bps, "utilisation": _utilisation, "share": _share, "retransmits": _retransmits,
    "retransmission_rate": _retransmission_rate, "fairness": _fairness, "convergence_s": _convergence_s,
    "queue_mean_bdp": _queue_mean_bdp, "queue_p95_bdp": _queue_p95_bdp, "rtt_p95_s": _rtt_p95_s,
}  # fmt: skip
