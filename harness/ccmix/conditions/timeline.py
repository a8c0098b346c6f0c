"""Changes an emulated path, such as its rate or delay, at given times while the traffic runs."""

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
    """Describes the change of one device: the lines for `tc -batch`, and the device with the
    settings that it has after the change.
    """

    device: EmulatingDevice
    lines: tuple[str, ...]


class Timeline:
    """Makes the changes that a topology has during a run, each at its time after the traffic has
    begun, in a thread. `made` lists those that were made.
    """

    def __init__(self, topology: Topology, path: Dumbbell) -> None:
        """Plans the layout of each phase, and what differs from the phase before it."""
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
        """Makes the changes in a thread while the context lasts. `lead_s` is the time in seconds
        until the traffic begins, from which the times of the changes count.

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
        """Waits for the time of each change and makes it, until `ended` is set. Runs in a thread;
        running() raises its error later.
        """
        try:
            for at_s, changes in self._moments:
                if ended.wait(begin.plus(at_s).remaining_s):
                    return
                time_s = time.time()
                counters = dict(self._make(change, at_s) for change in changes)
                self.made.append(PathChange(at_s, time_s, counters))
        # of any kind, since nothing else reports an error of this thread
        except Exception as error:
            self._failed = error

    def _make(self, change: _Change, at_s: float) -> tuple[str, tuple[QdiscCounters, ...]]:
        """Changes a device with tc. Returns its purpose, such as 'bottleneck', and the counters of
        its qdiscs just before the change, which a change may reset.
        """
        place = change.device.place
        host = self._path.host(place.namespace)
        counters = qdisc_counters(host, place.device)
        run_tc(
            host, self._topology, [(change.device, line) for line in change.lines], f"at.{at_s:g}s"
        )
        return change.device.what, counters


def _changes(before: Layout, after: Layout) -> list[_Change]:
    """Returns the changes that turn the devices of one layout into those of another.

    They have only the lines that differ, because some qdiscs, such as htb, refuse to be changed to
    the values that they have.
    """
    changes = []
    for old, new in zip(before.emulating, after.emulating, strict=True):
        lines = zip(old.lines("change"), new.lines("change"), strict=True)
        if different := tuple(line for former, line in lines if former != line):
            changes.append(_Change(new, different))
    return changes
