"""Finds the numbers of statements and published tables in the valid runs of an archive, and judges
the statements by them.
"""

import enum
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ccmix.analysis.counting import not_settled
from ccmix.analysis.intervals import confidence_interval, confidence_interval_of_positive
from ccmix.model import Run
from ccmix.model.results import FinishedRun, GroupMetrics
from ccmix.papers.experiment import (
    ALTERNATIVES,
    Bound,
    MeanOf,
    Number,
    Of,
    Quantity,
    Quotient,
    Statement,
    parts,
)

FRACTIONS: frozenset[Quantity] = frozenset({"utilisation", "share", "fairness"})
Block = tuple[int, tuple[str, ...]]  # iteration, and the values of keys that a selection pools
_Reading = Callable[[FinishedRun, Sequence[GroupMetrics]], float | None]


@dataclass(frozen=True)
class _RunValue:
    value: float
    settled: bool  # False if the run has not settled; True also if that can't be judged


@dataclass(frozen=True)
class MeasuredSample:
    """Holds a number of each run that has it, and how many of these runs have not settled.

    `is_fraction` tells whether the number is at most 1, or hardly above it, such as a share.
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
        """Returns the 95% interval of the mean, on a logarithmic scale unless the number is a
        fraction; None for fewer than 3 runs.
        """
        return (
            confidence_interval(self.values)
            if self.is_fraction
            else confidence_interval_of_positive(self.values)
        )


@dataclass(frozen=True)
class MeasuredRuns:
    """Holds the valid runs of an experiment."""

    runs: tuple[FinishedRun, ...]

    def sample(self, number: Number) -> MeasuredSample:
        """Returns a number of each run that has it; for means and ratios, one number for each block
        that has all parts.
        """
        values = tuple(self._by_block(number).values())
        return MeasuredSample(
            tuple(each.value for each in values),
            sum(not each.settled for each in values),
            not isinstance(number, Quotient)
            and all(of.quantity in FRACTIONS for of in parts(number)),
        )

    def lacking(self, of: Of) -> dict[str, tuple[str, ...]]:
        """Returns the keys of which 'at' pools several values that were not all measured, each
        with the measured values.
        """
        pooled = {
            key: text.split(ALTERNATIVES) for key, text in of.at.items() if ALTERNATIVES in text
        }
        return {
            key: there
            for key, values in pooled.items()
            if len(there := tuple(value for value in values if self._has(of, key, value)))
            < len(values)
        }

    def _has(self, of: Of, key: str, value: str) -> bool:
        return any(True for _ in self._selected(replace(of, at={**of.at, key: value})))

    def _by_block(self, number: Number) -> dict[Block, _RunValue]:
        """Returns the number in each block. A mean or a ratio needs all of its parts, and a ratio
        a divisor other than 0.

        Raises ValueError if a block has several runs: the selection is not complete.
        """
        if isinstance(number, Of):
            return (
                self._variations(number)
                if number.quantity == "variation"
                else self._of_runs(number)
            )
        if isinstance(number, MeanOf):
            return _in_all([self._by_block(each) for each in number.numbers], statistics.fmean)
        over, under = self._by_block(number.over), self._by_block(number.under)
        return _in_all(
            [over, {block: each for block, each in under.items() if each.value}],
            lambda both: both[0] / both[1],
        )

    def _of_runs(self, of: Of) -> dict[Block, _RunValue]:
        values: dict[Block, _RunValue] = {}
        before = self._iterations_before(of.entry)
        for run, groups in self._selected(of):
            value = _VALUES[of.quantity](run, groups)
            block = before[run.run.entry] + run.run.iteration, _pooled(run.run, of)
            if block in values:
                raise ValueError(
                    f"{of}: selects several runs of iteration {block[0]}: give more settings in "
                    "'at'"
                )
            if value is not None:
                values[block] = _RunValue(value, not not_settled(run))
        return values

    def _variations(self, of: Of) -> dict[Block, _RunValue]:
        """Returns the coefficient of variation of each iteration that has the goodputs of all
        values.
        """
        of_iteration: dict[int, list[_RunValue]] = {}
        for (iteration, _), goodput in self._of_runs(replace(of, quantity="goodput_bps")).items():
            of_iteration.setdefault(iteration, []).append(goodput)
        asked = math.prod(len(text.split(ALTERNATIVES)) for text in of.at.values())
        return {
            (iteration, ()): _together(
                lambda values: statistics.stdev(values) / statistics.fmean(values), goodputs
            )
            for iteration, goodputs in of_iteration.items()
            if len(goodputs) == asked > 1
        }

    def _iterations_before(self, entries: str) -> dict[str, int]:
        """Returns for each entry the number of iterations of the entries before it."""
        before, count = {}, 0
        for entry in entries.split(ALTERNATIVES):
            before[entry] = count
            count += max(
                (run.run.iteration for run in self.runs if run.run.entry == entry), default=0
            )
        return before

    def _selected(self, of: Of) -> Iterator[tuple[FinishedRun, list[GroupMetrics]]]:
        """Yields the runs in the conditions that `of` selects, each with its matching groups; runs
        without such a group are left out.
        """
        for run in self.runs:
            groups = [group for group in run.metrics.groups if _wanted(group, of)]
            if groups and _is_at(run.run, of):
                yield run, groups


def _in_all(
    parts: Sequence[dict[Block, _RunValue]], made: Callable[[Sequence[float]], float]
) -> dict[Block, _RunValue]:
    """Combines the values of each block that all parts have."""
    first, *others = parts
    return {
        block: _together(made, [part[block] for part in parts])
        for block in first
        if all(block in other for other in others)
    }


def _together(made: Callable[[Sequence[float]], float], values: Sequence[_RunValue]) -> _RunValue:
    """Combines several values; the result has settled if all of them have."""
    return _RunValue(made([each.value for each in values]), all(each.settled for each in values))


def _wanted(group: GroupMetrics, of: Of) -> bool:
    return of.cca in (None, group.cca) and of.host in (None, group.host)


def needed(numbers: Collection[Of], runs: Iterable[Run]) -> list[Run]:
    """Returns the planned runs that are needed for these numbers."""
    return [run for run in runs if any(_is_needed(run, of) for of in numbers)]


def _is_needed(run: Run, of: Of) -> bool:
    ccas = {group.cca for group in run.traffic.all_groups}
    return (of.cca is None or of.cca in ccas) and _is_at(run, of)


def _is_at(run: Run, of: Of) -> bool:
    """Returns whether the run has the entry, the buffer and the values of swept keys of a
    number.
    """
    return (
        run.entry in of.entry.split(ALTERNATIVES)
        and all(_swept(run, key) in value.split(ALTERNATIVES) for key, value in of.at.items())
        and _has_buffer(run, of)
    )


def _swept(run: Run, key: str) -> str | None:
    """Returns the value of a swept key. The key of CCAs has a value, such as 'bbr,cubic', even if
    the entry does not sweep it.
    """
    if key == "cca" and key not in run.condition:
        return ",".join(group.cca for group in run.traffic.all_groups)
    return run.condition.get(key)


def _has_buffer(run: Run, of: Of) -> bool:
    if of.buffer_bdp is None:
        return True
    path, (least, below) = run.topology, of.buffer_bdp
    return least <= path.buffer_bytes / path.bdp_bytes < below


def _pooled(run: Run, of: Of) -> tuple[str, ...]:
    """Returns the values of pooled keys, except the CCA, because groups are selected by it
    anyway.
    """
    return tuple(
        value
        for key, value in run.condition.items()
        if key != "cca" and (key not in of.at or ALTERNATIVES in of.at[key])
    )


def _goodput_bps(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    return sum(group.goodput_bps for group in groups)


def _retransmits(run: FinishedRun, groups: Sequence[GroupMetrics]) -> float | None:
    """Returns the segments that iperf3's sender counts."""
    names = {group.group for group in groups}
    counts = [flow.retransmits for flow in run.metrics.flows if flow.group in names]
    return None if None in counts or not counts else float(sum(count or 0 for count in counts))


def _convergence_s(run: FinishedRun, _: Sequence[GroupMetrics]) -> float:
    """Returns the time until the flows are fair; if they never are, the time from the last start to
    the end.
    """
    traffic = run.run.traffic
    starts_s = [
        source.start_s + group.delay_s
        for source in traffic.sources
        for group in getattr(source, "groups", ())
    ]
    known = run.metrics.convergence_s
    return traffic.total_s - max(starts_s, default=0.0) if known is None else known


def _queue_bdp(run: FinishedRun, column: str) -> float | None:
    queue = run.metrics.bottleneck
    return None if queue is None else getattr(queue, column) / run.run.topology.bdp_bytes


_VALUES: dict[Quantity, _Reading] = {
    "goodput_bps": _goodput_bps,
    "utilisation": lambda run, groups: _goodput_bps(run, groups) / run.run.topology.rate_bps,
    "share": lambda _, groups: sum(group.share or 0.0 for group in groups),
    "retransmits": _retransmits,
    "retransmission_rate": lambda run, groups: (
        (groups[0] if len(groups) == 1 else run.metrics).retransmission_rate
    ),
    "fairness": lambda run, _: run.metrics.fairness,
    "convergence_s": _convergence_s,
    "queue_mean_bdp": lambda run, _: _queue_bdp(run, "backlog_mean_bytes"),
    "queue_p95_bdp": lambda run, _: _queue_bdp(run, "backlog_p95_bytes"),
    "rtt_p95_s": lambda _, groups: groups[0].rtt_p95_s,
}


class Judgement(enum.Enum):
    """Tells whether the lab's numbers confirm a bound or a statement."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNTOLD = "undecided"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class JudgedBound:
    """Holds a bound and its measured numbers."""

    bound: Bound
    sample: MeasuredSample

    @property
    def outcome(self) -> Judgement:
        """Returns HOLDS or FAILS only if the whole interval is within the limits or beyond one."""
        if not self.sample.runs:
            return Judgement.UNMEASURED
        interval = self.sample.interval
        if interval is None:
            return Judgement.UNTOLD
        low, high = interval
        least = -float("inf") if self.bound.least is None else self.bound.least
        most = float("inf") if self.bound.most is None else self.bound.most
        if least <= low and high <= most:
            return Judgement.HOLDS
        return Judgement.FAILS if high < least or low > most else Judgement.UNTOLD


@dataclass(frozen=True)
class JudgedBounds:
    """Holds the judged bounds of a statement, in its own entry or in one that was tried."""

    bounds: tuple[JudgedBound, ...]

    @property
    def measured(self) -> int:
        """Returns how many of the bounds were measured."""
        return sum(bound.outcome is not Judgement.UNMEASURED for bound in self.bounds)

    @property
    def in_part(self) -> bool:
        """Returns whether only some of the bounds were measured."""
        return 0 < self.measured < len(self.bounds)

    @property
    def outcome(self) -> Judgement:
        """Returns HOLDS if all measured bounds hold, FAILS if one does not."""
        outcomes = {bound.outcome for bound in self.bounds} - {Judgement.UNMEASURED}
        if not outcomes:
            return Judgement.UNMEASURED
        if Judgement.FAILS in outcomes:
            return Judgement.FAILS
        return Judgement.HOLDS if outcomes == {Judgement.HOLDS} else Judgement.UNTOLD


@dataclass(frozen=True)
class JudgedTry:
    """Holds the judged bounds of a statement with a setting that was tried."""

    setting: str
    judged: JudgedBounds


@dataclass(frozen=True)
class JudgedStatement:
    """Holds a statement with its judged bounds, and with the settings that were tried. These only
    explain, and do not change the outcome.
    """

    statement: Statement
    judged: JudgedBounds
    tried: tuple[JudgedTry, ...] = ()  # only measured ones

    @property
    def bounds(self) -> tuple[JudgedBound, ...]:
        return self.judged.bounds

    @property
    def outcome(self) -> Judgement:
        return self.judged.outcome

    @property
    def explaining(self) -> tuple[JudgedTry, ...]:
        """Returns the tried settings, unless the statement holds without them."""
        return () if self.outcome is Judgement.HOLDS else self.tried

    @property
    def holds_if_tried(self) -> bool:
        """Returns whether the statement holds only with a setting that was tried."""
        return any(each.judged.outcome is Judgement.HOLDS for each in self.explaining)


def judge(statements: Sequence[Statement], runs: MeasuredRuns) -> list[JudgedStatement]:
    """Judges the statements by the runs, in their order."""
    return [
        JudgedStatement(
            statement, _judged_all(statement.bounds, runs), tuple(_tries(statement, runs))
        )
        for statement in statements
    ]


def _tries(statement: Statement, runs: MeasuredRuns) -> Iterator[JudgedTry]:
    for tried in statement.tried:
        judged = _judged_all(map(tried.instead_of, statement.bounds), runs)
        if judged.measured:
            yield JudgedTry(tried.setting, judged)


def _judged_all(bounds: Iterable[Bound], runs: MeasuredRuns) -> JudgedBounds:
    return JudgedBounds(tuple(JudgedBound(bound, runs.sample(bound.number)) for bound in bounds))
