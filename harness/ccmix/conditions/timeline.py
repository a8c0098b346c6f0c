"""What changes on an emulated path while the traffic runs."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ccmix.conditions import qdisc
from ccmix.conditions.dumbbell import Dumbbell
from ccmix.conditions.layout import Emulating, Layout, layout
from ccmix.conditions.tc_batch import tell_tc
from ccmix.hosts import CommandError
from ccmix.model import Topology


@dataclass(frozen=True)
class _Change:
    """Of one device: what tc is told, and the device as it then is."""

    device: Emulating
    lines: tuple[str, ...]


class Timeline:
    """The changes of a topology, each at its moment after the traffic has begun."""

    def __init__(self, topology: Topology, path: Dumbbell) -> None:
        self._path, self._topology = path, topology
        layouts = [(at_s, layout(phase)) for at_s, phase in topology.phases]
        self._moments = [(at_s, _changes(before, after)) for (_, before), (at_s, after) in itertools.pairwise(layouts)]
        self._failed: CommandError | None = None
        self.made: list[dict[str, Any]] = []  # at_s as configured, time_s of the wall clock, qdiscs before the change

    @contextmanager
    def running(self, lead_s: float) -> Iterator[None]:
        """The traffic begins in `lead_s` seconds. Raises CommandError at the end where a change could not be made."""
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(time.monotonic() + lead_s, ended), daemon=True)
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

    def _run(self, begin_s: float, ended: threading.Event) -> None:
        try:
            for at_s, changes in self._moments:
                if ended.wait(begin_s + at_s - time.monotonic()):
                    return
                time_s = time.time()
                until_now = dict(self._make(change, at_s) for change in changes)
                self.made.append({"at_s": at_s, "time_s": time_s, "qdiscs": until_now})
        except CommandError as error:
            self._failed = error

    def _make(self, change: _Change, at_s: float) -> tuple[str, list[dict[str, Any]]]:
        """Returns what the device is for, and its statistics until now."""
        place = change.device.place
        host = self._path.host(place.namespace)
        until_now = qdisc.qdiscs(host, place.device)
        tell_tc(host, self._topology, [(change.device, line) for line in change.lines], f"at.{at_s:g}s")
        return change.device.what, until_now


def _changes(before: Layout, after: Layout) -> list[_Change]:
    """Only what differs is told to tc: some queue disciplines, such as htb, refuse to be changed to what they are."""
    found = []
    for old, new in zip(before.emulating, after.emulating, strict=True):
        lines = zip(old.lines("change"), new.lines("change"), strict=True)
        if different := tuple(line for former, line in lines if former != line):
            found.append(_Change(new, different))
    return found
