"""Finds in the lab's runs the numbers that statements and figures of a paper ask for."""

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
    Number,
    Quantity,
    RunNumber,
)

FRACTIONS: frozenset[Quantity] = frozenset({"utilisation", "share", "fairness"})
# Identifies the runs whose numbers may be combined: iteration, and the values of pooled swept keys
Block = tuple[int, tuple[str, ...]]
_Reading = Callable[[FinishedRun, Sequence[GroupMetrics]], float | None]


@dataclass(frozen=True)
class _RunValue:
    """Holds the value of a number in one run, or a value that was calculated from several runs."""

    value: float
    settled: bool  # False if the run has not settled; True also if that can't be judged


@dataclass(frozen=True)
class MeasuredSample:
    """Holds one number for each run that has it, for example a goodput of each iteration.

    `not_settled` counts the runs whose measured goodput was still changing at the end.
    `is_fraction` tells whether the number is at most 1, or hardly above it, such as a share.
    """

    values: tuple[float, ...]
    not_settled: int = 0
    is_fraction: bool = False

    @property
    def runs(self) -> int:
        """Returns the number of values."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """Returns the mean of the values; None if there are none."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Returns the 95% confidence interval of the mean; None for fewer than 3 runs. It is
        calculated on a logarithmic scale unless the number is a fraction.
        """
        return (
            confidence_interval(self.values)
            if self.is_fraction
            else confidence_interval_of_positive(self.values)
        )


@dataclass(frozen=True)
class MeasuredRuns:
    """Holds the valid runs of an experiment, and finds the numbers in them that statements and
    figures ask for.
    """

    runs: tuple[FinishedRun, ...]

    def sample(self, number: Number) -> MeasuredSample:
        """Returns all measured values of a number. A number of single runs has one value for each
        run. A mean or a ratio has one value for each block: the runs of one iteration that have the
        same values of the swept keys that the number does not fix.

        A block that lacks a part of the mean or ratio has no value. Raises ValueError if `number`
        selects several runs of a block.
        """
        values = tuple(self._by_block(number).values())
        return MeasuredSample(
            tuple(each.value for each in values),
            sum(not each.settled for each in values),
            isinstance(number, RunNumber) and number.quantity in FRACTIONS,
        )

    def lacking(self, number: RunNumber) -> dict[str, tuple[str, ...]]:
        """Returns the swept keys for which only some of the wanted values were measured, each with
        the measured values. A number at rtt '1ms or 2ms or 5ms' gives {'rtt': ('1ms', '2ms')} if
        there are no runs at 5ms. Such a number is the mean over all of these values.
        """
        pooled = {
            key: text.split(ALTERNATIVES) for key, text in number.at.items() if ALTERNATIVES in text
        }
        measured = {
            key: tuple(value for value in values if self._has(number, key, value))
            for key, values in pooled.items()
        }
        return {key: values for key, values in measured.items() if len(values) < len(pooled[key])}

    def _has(self, number: RunNumber, key: str, value: str) -> bool:
        """Returns whether there is a run for the number at which the swept key has this value."""
        return any(True for _ in self._selected(replace(number, at={**number.at, key: value})))

    def _by_block(self, number: Number) -> dict[Block, _RunValue]:
        """Returns the number's value in each block: the runs of one iteration that have the same
        values of the swept keys that the number does not fix.

        A block is left out if it lacks a part of a mean or ratio, or if the divisor is 0. Raises
        ValueError if a block has several runs for a single number, because then the number's `at`
        has too few settings.
        """
        if isinstance(number, RunNumber):
            of_runs = self._variations if number.quantity == "variation" else self._run_values
            return of_runs(number)
        over, under = (
            _combined_by_block(list(map(self._by_block, side)), statistics.fmean)
            for side in (number.over, number.under)
        )
        divisors = {block: divisor for block, divisor in under.items() if divisor.value}
        return _combined_by_block([over, divisors], lambda both: both[0] / both[1])

    def _run_values(self, number: RunNumber) -> dict[Block, _RunValue]:
        """Returns the value of a number in each run that it selects, by the run's block: the
        iteration, and the run's values of the swept keys that the number does not fix. Raises
        ValueError if two runs have the same block, because then the number's `at` has too few
        settings.
        """
        values: dict[Block, _RunValue] = {}
        before = self._iterations_before(number.entry)
        for run, groups in self._selected(number):
            value = _VALUES[number.quantity](run, groups)
            block = before[run.run.entry] + run.run.iteration, _pooled_values(run.run, number)
            if block in values:
                raise ValueError(
                    f"{number}: selects several runs of iteration {block[0]}: give more settings "
                    "in 'at'"
                )
            if value is not None:
                values[block] = _RunValue(value, not not_settled(run))
        return values

    def _variations(self, number: RunNumber) -> dict[Block, _RunValue]:
        """Returns for each iteration the coefficient of variation (standard deviation / mean) of
        the goodputs of its runs, which differ in the swept keys for which the number has several
        values ('A or B'). An iteration is left out if a run is missing.
        """
        by_iteration: dict[int, list[_RunValue]] = {}
        goodput = replace(number, quantity="goodput_bps")
        for (iteration, _), value in self._run_values(goodput).items():
            by_iteration.setdefault(iteration, []).append(value)
        pooled_runs = math.prod(len(text.split(ALTERNATIVES)) for text in number.at.values())
        return {
            (iteration, ()): _combined(
                lambda values: statistics.stdev(values) / statistics.fmean(values), goodputs
            )
            for iteration, goodputs in by_iteration.items()
            if len(goodputs) == pooled_runs > 1
        }

    def _iterations_before(self, entries: str) -> dict[str, int]:
        """Returns for each entry in a text such as 'A or B' the number of iterations of all entries
        before it: {'A': 0, 'B': 5} if A has 5 iterations. The iterations of B are then numbered
        from 6 on.
        """
        before, count = {}, 0
        for entry in entries.split(ALTERNATIVES):
            before[entry] = count
            count += max(
                (run.run.iteration for run in self.runs if run.run.entry == entry), default=0
            )
        return before

    def _selected(self, number: RunNumber) -> Iterator[tuple[FinishedRun, list[GroupMetrics]]]:
        """Yields the runs that a number selects by its entry, settings and buffer. Each comes with
        the groups of flows that have the number's CCA and host. A run without such a group is left
        out.
        """
        for run in self.runs:
            groups = [group for group in run.metrics.groups if _is_group_selected(group, number)]
            if groups and _is_run_selected(run.run, number):
                yield run, groups


def _combined_by_block(
    parts: Sequence[dict[Block, _RunValue]], combine: Callable[[Sequence[float]], float]
) -> dict[Block, _RunValue]:
    """Calculates a value for each block (the runs that belong together) from the values that its
    parts have, for example the ratio of two numbers. `combine` is the calculation. A block that
    lacks one of the parts is left out.
    """
    first, *others = parts
    return {
        block: _combined(combine, [part[block] for part in parts])
        for block in first
        if all(block in other for other in others)
    }


def _combined(
    combine: Callable[[Sequence[float]], float], values: Sequence[_RunValue]
) -> _RunValue:
    """Calculates one value from several with the function `combine`, such as a ratio. The result
    counts as settled if all of the values come from runs that have settled.
    """
    return _RunValue(combine([each.value for each in values]), all(each.settled for each in values))


def _is_group_selected(group: GroupMetrics, number: RunNumber) -> bool:
    """Returns whether a group of flows has the CCA and the host that a number names. A number that
    names no CCA or no host accepts all of them.
    """
    return number.cca in (None, group.cca) and number.host in (None, group.host)


def needed(numbers: Collection[RunNumber], runs: Iterable[Run]) -> list[Run]:
    """Returns those of the planned runs from which at least one of the numbers is taken. If a user
    asks for a single statement of a paper, only these runs are made.
    """
    return [run for run in runs if any(_is_needed(run, number) for number in numbers)]


def _is_needed(run: Run, number: RunNumber) -> bool:
    """Returns whether a planned run has flows of the number's CCA, and the number's settings."""
    ccas = {group.cca for group in run.traffic.all_groups}
    return (number.cca is None or number.cca in ccas) and _is_run_selected(run, number)


def _is_run_selected(run: Run, number: RunNumber) -> bool:
    """Returns whether the run has the entry, the buffer and the values of swept keys that a number
    asks for.
    """
    return (
        run.entry in number.entry.split(ALTERNATIVES)
        and all(_swept(run, key) in value.split(ALTERNATIVES) for key, value in number.at.items())
        and _has_buffer(run, number)
    )


def _swept(run: Run, key: str) -> str | None:
    """Returns the run's value of a swept (varied) key; None if the key is not swept. The key 'cca'
    always has a value: the CCAs of all flows, such as 'bbr,cubic'.
    """
    if key == "cca" and key not in run.condition:
        return ",".join(group.cca for group in run.traffic.all_groups)
    return run.condition.get(key)


def _has_buffer(run: Run, number: RunNumber) -> bool:
    """Returns whether the run's buffer is in the number's range (`buffer_bdp`, in BDPs): at least
    its first end, and below its second. True if the number has no range.
    """
    if number.buffer_bdp is None:
        return True
    path, (least, below) = run.topology, number.buffer_bdp
    return least <= path.buffer_bytes / path.bdp_bytes < below


def _pooled_values(run: Run, number: RunNumber) -> tuple[str, ...]:
    """Returns the run's values of the swept keys that a number pools (does not fix to one value):
    keys that its `at` leaves out, or for which it has several values ('A or B'). The key 'cca' is
    left out, because the CCA selects groups of flows, not runs.
    """
    return tuple(
        value
        for key, value in run.condition.items()
        if key != "cca" and (key not in number.at or ALTERNATIVES in number.at[key])
    )


def _goodput_bps(_: FinishedRun, groups: Sequence[GroupMetrics]) -> float:
    """Returns the sum of the groups' goodputs."""
    return sum(group.goodput_bps for group in groups)


def _retransmits(run: FinishedRun, groups: Sequence[GroupMetrics]) -> float | None:
    """Returns the retransmitted segments of the groups' flows, as iperf3's sender counts them; None
    if a flow has no count.
    """
    names = {group.group for group in groups}
    counts = [flow.retransmits for flow in run.metrics.flows if flow.group in names]
    return None if None in counts or not counts else float(sum(count or 0 for count in counts))


def _convergence_s(run: FinishedRun, _: Sequence[GroupMetrics]) -> float:
    """Returns the seconds until the flows have fair shares. If they never have fair shares, the
    result is a lower limit: the time from the start of the last flow to the end of the run.
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
    """Returns a statistic of the bottleneck's queue divided by the path's BDP; None if the queue
    was not recorded. `column` is the statistic, such as 'backlog_mean_bytes'.
    """
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
