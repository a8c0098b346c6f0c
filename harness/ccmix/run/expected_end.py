"""Expects the end of a campaign: by the model of what runs cost, corrected by those that have finished."""

from collections.abc import Sequence

from ccmix.analysis.cost import run_seconds, slower_by, together
from ccmix.model import HostPath, Run

MOST_PLACED = 1000  # runs; of more, how they fall on the processors changes hardly anything


class ExpectedEnd:
    """Says how long the runs that are left will take. Times are of any one clock, in seconds.

    How many runs are made at the same time is seen: on a cluster nobody says it. A run of unknown length is taken for
    the mean of the others.
    """

    def __init__(self, runs: Sequence[Run], in_lab: bool) -> None:
        known = {run.name: run_seconds(run, in_lab) for run in runs}
        seconds = [each for each in known.values() if each is not None]
        self._mean_s = sum(seconds) / len(seconds) if seconds else 1.0
        self._left = {name: self._mean_s if each is None else each for name, each in known.items()}
        self._pauses_s = {run.name: run.path.pause_s for run in runs if isinstance(run.path, HostPath)}
        self._begun: dict[str, float] = {}
        self._places = 1
        self._expected_s = self._took_s = 0.0

    def expected_s(self, run: Run) -> float:
        """Returns what the model expects of a run that has not ended."""
        return self._left[run.name]

    def started(self, run: Run, now_s: float) -> None:
        self._begun[run.name] = now_s
        self._places = max(self._places, len(self._begun))

    def ended(self, run: Run, now_s: float, *, finished: bool) -> None:
        """Takes note of an end; only a run that has `finished` says how long others take."""
        expected_s, began_s = self._left.pop(run.name), self._begun.pop(run.name, None)
        if finished and began_s is not None:
            self._expected_s += expected_s
            self._took_s += now_s - began_s

    def left_s(self, now_s: float) -> float:
        """Returns the seconds until the last run ends; the first that finished weigh as much as the model."""
        prior_s = self._mean_s if self._left else 0.0
        took_s = self._took_s + prior_s * slower_by(self._places)
        times = took_s / (self._expected_s + prior_s) if self._expected_s + prior_s else 1.0
        busy = [max(0.0, self._left[name] * times - (now_s - began_s)) for name, began_s in self._begun.items()]
        waiting = {name: each for name, each in self._left.items() if name not in self._begun}
        of_each = (each * times + self._pauses_s.get(name, 0.0) for name, each in waiting.items())
        if len(waiting) > MOST_PLACED:
            return (sum(busy) + sum(of_each)) / self._places
        return together(of_each, self._places, busy)
