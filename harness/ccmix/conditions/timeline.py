"""Changes an emulated path while the traffic runs."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ccmix.agent.deadline import Deadline
from ccmix.conditions.dumbbell import Dumbbell
from ccmix.conditions.layout import EmulatingDevice, Layout, layout
from ccmix.conditions.tc import qdisc_counters, run_tc
from ccmix.model import PathChange, QdiscCounters, Topology


@dataclass(frozen=True)
class _Change:
    """Describes the change of one device: the lines for tc, and the device after the change."""

    device: EmulatingDevice
    lines: tuple[str, ...]


class Timeline:
    """Makes the changes of a topology, each at its time after the traffic has begun."""

    def __init__(self, topology: Topology, path: Dumbbell) -> None:
        self._path, self._topology = path, topology
        layouts = [(at_s, layout(phase)) for at_s, phase in topology.phases]
        self._moments = [
            (at_s, _changes(before, after))
            for (_, before), (at_s, after) in itertools.pairwise(layouts)
        ]
        self._failed: Exception | None = None
        self.made: list[PathChange] = []

    @contextmanager
    def running(self, lead_s: float) -> Iterator[None]:
        """Makes the changes during traffic that begins in `lead_s` seconds.

        Raises CommandError at the end if a change could not be made.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(Deadline(lead_s), ended), daemon=True)
        if self._moments:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if self._moments:
                thread.join()
        if self._failed:
            raise self._failed

    def _run(self, begin: Deadline, ended: threading.Event) -> None:
        try:
            for at_s, changes in self._moments:
                if ended.wait(begin.plus(at_s).remaining_s):
                    return
                time_s = time.time()
                until_now = dict(self._make(change, at_s) for change in changes)
                self.made.append(PathChange(at_s, time_s, until_now))
        except (
            Exception
        ) as error:  # of any kind, since nothing else reports an error of this thread
            self._failed = error

    def _make(self, change: _Change, at_s: float) -> tuple[str, tuple[QdiscCounters, ...]]:
        """Makes a change; returns the purpose of the device, and its statistics until now."""
        place = change.device.place
        host = self._path.host(place.namespace)
        until_now = qdisc_counters(host, place.device)
        run_tc(
            host, self._topology, [(change.device, line) for line in change.lines], f"at.{at_s:g}s"
        )
        return change.device.what, until_now


def _changes(before: Layout, after: Layout) -> list[_Change]:
    """Returns only the arguments that differ, because some queue disciplines, such as htb, refuse
    to be changed to the values that they have.
    """
    changes = []
    for old, new in zip(before.emulating, after.emulating, strict=True):
        lines = zip(old.lines("change"), new.lines("change"), strict=True)
        if different := tuple(line for former, line in lines if former != line):
            changes.append(_Change(new, different))
    return changes
