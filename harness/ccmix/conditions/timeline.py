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
        """Plans the changes. A phase is the time between two changes, with the topology's settings
        in this time. A change has the tc commands whose values differ from those of the phase
        before it.
        """
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
        """While the context lasts, makes the changes in a thread, each at its time after the
        traffic has begun. `lead_s` is the number of seconds until the traffic begins.

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
        """Makes each change at its time, counted from `begin`, until the event `ended` is set. It
        runs in a thread, so an error is kept, and running() raises it at its end.
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
        """Changes the qdiscs of a device with tc. Returns the device's purpose, such as
        'bottleneck', and the counters of its qdiscs just before the change, because a change may
        reset them.
        """
        place = change.device.place
        host = self._path.host(place.namespace)
        counters = qdisc_counters(host, place.device)
        run_tc(
            host, self._topology, [(change.device, line) for line in change.lines], f"at.{at_s:g}s"
        )
        return change.device.what, counters


def _changes(before: Layout, after: Layout) -> list[_Change]:
    """Returns the changes that turn one layout of the path into another: for each device that
    differs, the tc commands with new values. Commands with unchanged values are left out, because
    some qdiscs, such as htb, refuse them.
    """
    changes = []
    for old, new in zip(before.emulating, after.emulating, strict=True):
        commands = zip(old.lines("change"), new.lines("change"), strict=True)
        if different := tuple(command for former, command in commands if former != command):
            changes.append(_Change(new, different))
    return changes
