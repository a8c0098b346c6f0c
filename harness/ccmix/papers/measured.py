"""Takes from the valid runs of an archive the numbers that statements and published tables are about."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ccmix.analysis.intervals import confidence_interval
from ccmix.analysis.settling_text import not_settled
from ccmix.model import Run, Topology
from ccmix.model.results import FinishedRun, GroupMetrics
from ccmix.papers.experiment import ALTERNATIVES, Of, Quantity, Quotient, Statement

Block = tuple[int, tuple[str, ...]]  # iteration, and the values of keys that a selection pools
_Reading = Callable[[FinishedRun, Sequence[GroupMetrics]], float | None]


@dataclass(frozen=True)
class _RunValue:
    value: float
    settled: bool  # False of a run that has not; True also where that can't be judged


@dataclass(frozen=True)
class MeasuredSample:
    """Holds a number of each run that has it, and how many of these runs have not settled."""

    values: tuple[float, ...]
    not_settled: int = 0

    @property
    def runs(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Returns the 95% interval of the mean; None for fewer than 3 runs."""
        return confidence_interval(self.values)


@dataclass(frozen=True)
class MeasuredRuns:
    """Holds the valid runs of an experiment."""

    runs: tuple[FinishedRun, ...]

    def sample(self, number: Of | Quotient) -> MeasuredSample:
        """Returns a number of each run that has it; of ratios one for each block that has both sides."""
        if isinstance(number, Of):
            return _sample(self._by_block(number).values())
        over, under = self._by_block(number.over), self._by_block(number.under)
        both = [(value, under[block]) for block, value in over.items() if block in under and under[block].value]
        return _sample(_RunValue(a.value / b.value, a.settled and b.settled) for a, b in both)

    def lacking(self, of: Of) -> dict[str, tuple[str, ...]]:
        """Returns the keys of which 'at' pools several values and not all were measured, each with those that were."""
        pooled = {key: text.split(ALTERNATIVES) for key, text in of.at.items() if ALTERNATIVES in text}
        return {
            key: there
            for key, values in pooled.items()
            if len(there := tuple(value for value in values if self._has(of, key, value))) < len(values)
        }

    def _has(self, of: Of, key: str, value: str) -> bool:
        return self.sample(replace(of, at={**of.at, key: value})).runs > 0

    def _by_block(self, of: Of) -> dict[Block, _RunValue]:
        """Raises ValueError if a block has several runs: the selection is not complete."""
        values: dict[Block, _RunValue] = {}
        for run in self.runs:
            groups = [group for group in run.metrics.groups if _wanted(group, of)]
            if run.run.entry != of.entry or not groups or not _is_at(run.run, of):
                continue
            value, block = _VALUES[of.quantity](run, groups), _block(run, of)
            if block in values:
                raise ValueError(f"{of}: selects several runs of iteration {block[0]}: give more settings in 'at'")
            if value is not None:
                values[block] = _RunValue(value, not not_settled(run))
        return values


def _sample(values: Iterable[_RunValue]) -> MeasuredSample:
    known = tuple(values)
    return MeasuredSample(tuple(each.value for each in known), sum(not each.settled for each in known))


def _wanted(group: GroupMetrics, of: Of) -> bool:
    return of.cca in (None, group.cca) and of.host in (None, group.host)


def numbers_of(statement: Statement) -> Iterator[Of]:
    """Yields each number that a statement is about, both of a ratio."""
    for bound in statement.bounds:
        yield from (bound.number.over, bound.number.under) if isinstance(bound.number, Quotient) else (bound.number,)


def needed(statement: Statement, runs: Iterable[Run]) -> list[Run]:
    """Returns those of the planned runs that tell whether a statement holds."""
    numbers = list(numbers_of(statement))
    return [run for run in runs if any(_is_needed(run, of) for of in numbers)]


def _is_needed(run: Run, of: Of) -> bool:
    ccas = {group.cca for group in run.traffic.all_groups}
    return run.entry == of.entry and (of.cca is None or of.cca in ccas) and _is_at(run, of)


def _is_at(run: Run, of: Of) -> bool:
    return all(run.condition.get(key) in value.split(ALTERNATIVES) for key, value in of.at.items())


def _block(run: FinishedRun, of: Of) -> Block:
    """Returns the iteration, and what is pooled but the CCA, by which groups are selected anyway."""
    pooled = [
        value
        for key, value in run.run.condition.items()
        if key != "cca" and (key not in of.at or ALTERNATIVES in of.at[key])
    ]
    return run.run.iteration, tuple(pooled)


def _topology(run: FinishedRun) -> Topology:
    """Raises TypeError for a run between hosts: experiments are made in the lab."""
    if not isinstance(run.run.path, Topology):
        raise TypeError(f"{run.run.name} is not on an emulated path")
    return run.run.path


def _goodput_bps(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    return sum(group.goodput_bps for group in groups)


def _utilisation(run: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    return _goodput_bps(run, groups) / _topology(run).rate_bps


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
    return None if queue is None else queue.backlog_mean_bytes / _topology(run).bdp_bytes


def _rtt_p95_s(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float | None:
    return groups[0].rtt_p95_s


_VALUES: dict[Quantity, _Reading] = {
    "goodput_bps": _goodput_bps, "utilisation": _utilisation, "share": _share, "retransmits": _retransmits,
    "retransmission_rate": _retransmission_rate, "fairness": _fairness, "convergence_s": _convergence_s,
    "queue_mean_bdp": _queue_mean_bdp, "rtt_p95_s": _rtt_p95_s,
}  # fmt: skip
