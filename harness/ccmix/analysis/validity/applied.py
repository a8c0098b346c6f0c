"""Describes what was observed of a run, and reads the actual settings of an emulated path from the
kernel's reports, whatever was configured.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.counters import root_qdisc
from ccmix.analysis.tables import RunTables
from ccmix.conditions.qdisc import LEAF_PARENT, POLICER_QDISC
from ccmix.model import Measurement, PathState, QdiscCounters, Run, Topology

Limits = Iterator[tuple[str, str]]  # keys of terms.LIMITS, and details
_BITS = {"bit": 1.0, "Kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12}  # as tc writes rates
_CLASS_RATE = re.compile(r"class htb \S+ .*?\brate (\d+)([KMGT]?bit) ceil (\d+)([KMGT]?bit)")
_CLASS_BURST = re.compile(r"class htb \S+ .*?\bburst (\d+)([KMG]?)b")
_POLICE = re.compile(
    r"police \S+ rate (?P<rate>\d+)(?P<rate_unit>[KMGT]?bit) burst "
    r"(?P<burst>[\d.e+]+)(?P<burst_unit>[KMG]?)b .*?"
    r"action (?P<exceed>\w+)"
)
_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}  # as tc writes sizes
_UNLIMITED_BYTES_PER_S = 2**32 - 1  # fq without a maxrate (net/sched/sch_fq.c)
Options = Mapping[str, object]


def first_of_flows(limits: Limits) -> Limits:
    """Yields the first of several similar limits of flows, with the number of the other flows;
    nothing if there is none.
    """
    every = list(limits)
    for kind, detail in every[:1]:
        yield kind, detail + others(len(every))


def others(flows: int) -> str:
    """Returns ", and 3 more flows", to follow a clause about the first of 4 flows; '' if there is
    only one.
    """
    return f", and {flows - 1} more flow{'s' if flows > 2 else ''}" if flows > 1 else ""


@dataclass(frozen=True)
class AppliedQdisc:
    """Describes a queue discipline of a device as tc reports it, with all of its options."""

    kind: str
    parent: str | None  # None: the device's root
    options: Options


@dataclass(frozen=True)
class AppliedNetem:
    """Describes the effects of a device's netem, by its options."""

    delay_s: float
    jitter_s: float
    loss_model: str | None
    loss_parameters: tuple[float, ...]
    reorder: float
    rate_bps: float | None
    limit_packets: int


@dataclass(frozen=True)
class AppliedDevice:
    """Holds the queue disciplines of a device at one moment."""

    qdiscs: tuple[AppliedQdisc, ...]

    @property
    def root(self) -> AppliedQdisc:
        return next(qdisc for qdisc in self.qdiscs if qdisc.parent is None)

    @property
    def leaf(self) -> AppliedQdisc | None:
        """Returns the qdisc below a shaper; None if the shaper uses its built-in queue."""
        return next((qdisc for qdisc in self.qdiscs if qdisc.parent == LEAF_PARENT), None)

    @property
    def policed(self) -> bool:
        """Returns whether a policer may drop what leaves the device."""
        return any(qdisc.kind == POLICER_QDISC for qdisc in self.qdiscs)

    @property
    def netem(self) -> AppliedNetem | None:
        """Returns the effects of the device's netem; None if it has no netem."""
        return next((_netem(qdisc.options) for qdisc in self.qdiscs if qdisc.kind == "netem"), None)

    @property
    def pacing_bps(self) -> float | None:
        """Returns the rate to which fq limits each flow; None if there is no limit."""
        rates = [qdisc.options.get("maxrate") for qdisc in self.qdiscs if qdisc.kind == "fq"]
        limits = [
            float(rate) * 8
            for rate in rates
            if isinstance(rate, int) and rate < _UNLIMITED_BYTES_PER_S
        ]
        return min(limits, default=None)

    @property
    def bucket_bps(self) -> float | None:
        """Returns the rate of the device's tbf; None if it has no tbf."""
        rate = self.root.options.get("rate") if self.root.kind == "tbf" else None
        return rate * 8.0 if isinstance(rate, int) else None


@dataclass(frozen=True)
class AppliedPolicer:
    """Describes the policer of a device as tc shows its action; `exceed` is the action for packets
    above the rate.
    """

    rate_bps: float
    burst_bytes: float
    exceed: str


@dataclass(frozen=True)
class AppliedPath:
    """Describes an emulated path as it was read back.

    devices: by the purpose of a device, its states: when the path had been set up, before each
        change, and at the end
    changes_s: when changes were made, in seconds after the traffic began
    states: all other settings, when the path had been set up and at the end; empty if a run did not
        record them
    """

    devices: Mapping[str, tuple[AppliedDevice, ...]]
    changes_s: tuple[float, ...]
    states: tuple[PathState, ...]

    def class_rates_bps(self, place: str) -> list[tuple[float, float]]:
        """Returns the rate and the ceiling of htb's class on a device, in each of the states."""
        matches = [_CLASS_RATE.search(state.classes.get(place, "")) for state in self.states]
        return [
            (float(match[1]) * _BITS[match[2]], float(match[3]) * _BITS[match[4]])
            for match in matches
            if match
        ]

    def class_bursts_bytes(self, place: str) -> list[int]:
        """Returns the bucket size of htb's class on a device, in each of the states."""
        matches = [_CLASS_BURST.search(state.classes.get(place, "")) for state in self.states]
        return [int(match[1]) * _BYTES[match[2]] for match in matches if match]

    def policers(self, place: str) -> list[AppliedPolicer]:
        """Returns the policers of a device, in each of the states."""
        return [
            policer for state in self.states for policer in _policers(state.filters.get(place, ""))
        ]

    def receivers(self, of_address: str) -> set[str]:
        """Returns the namespaces that have an address."""
        return {
            place.partition("/")[0]
            for state in self.states
            for place, device in state.devices.items()
            if of_address in device.addresses
        }


@dataclass(frozen=True)
class Observed:
    """Holds a run as it was configured, and what was observed of it."""

    run: Run
    tables: RunTables
    measurement: Measurement

    @property
    def topology(self) -> Topology:
        return self.run.topology

    @functools.cached_property
    def applied(self) -> AppliedPath:
        """Returns the path as tc, the devices and the sysctls describe it."""
        return applied_path(self.measurement)


@dataclass(frozen=True)
class FieldComparison:
    """Compares fields of a configuration with what was read back.

    `fields` are 'CLASS.FIELD' of ccmix.model. `read_from` names the source of the applied values,
    and `equal` says how close they must be; docs/explanation/validity.md has both. `differences`
    yields the fields that differ.
    """

    fields: tuple[str, ...]
    read_from: str
    equal: str
    differences: Callable[[Observed], Limits]


def applied_path(measurement: Measurement) -> AppliedPath:
    devices = {}
    for what, before in measurement.before.qdiscs.items():
        until = [change.qdiscs[what] for change in measurement.changes if what in change.qdiscs]
        devices[what] = tuple(map(_device, (before, *until, measurement.after.qdiscs[what])))
    began_s = measurement.began_s or measurement.started_s
    return AppliedPath(
        devices,
        tuple(change.time_s - began_s for change in measurement.changes),
        tuple(state for state in (measurement.state_before, measurement.state_after) if state),
    )


def _device(qdiscs: Sequence[QdiscCounters]) -> AppliedDevice:
    root_qdisc(qdiscs)
    return AppliedDevice(
        tuple(AppliedQdisc(qdisc.kind, qdisc.parent, json.loads(qdisc.options)) for qdisc in qdiscs)
    )


def _netem(options: Options) -> AppliedNetem:
    """Reads tc's JSON of netem (iproute2, tc/q_netem.c): it leaves out what is 0."""
    model = next((name for name in ("random", "gemodel") if f"loss-{name}" in options), None)
    loss = _part(options, f"loss-{model}")
    order = ("loss",) if model == "random" else ("p", "r", "1-h", "1-k")
    other = [name for name in options if name in ("loss-state", "duplicate", "corrupt", "slot")]
    rate = _part(options, "rate").get("rate")
    limit = options.get("limit")
    return AppliedNetem(
        delay_s=_part(options, "delay").get("delay", 0.0),
        jitter_s=_part(options, "delay").get("jitter", 0.0),
        loss_model=other[0] if other else model,
        loss_parameters=tuple(loss[name] for name in order if name in loss),
        reorder=_part(options, "reorder").get("reorder", 0.0),
        rate_bps=None if rate is None else rate * 8,
        limit_packets=limit if isinstance(limit, int) else 0,
    )


def _part(options: Options, name: str) -> Mapping[str, float]:
    part = options.get(name)
    return part if isinstance(part, Mapping) else {}


def _policers(filters: str) -> list[AppliedPolicer]:
    """Reads the actions of a device's filters (iproute2, tc/m_police.c)."""
    return [
        AppliedPolicer(
            rate_bps=float(match["rate"]) * _BITS[match["rate_unit"]],
            burst_bytes=float(match["burst"]) * _BYTES[match["burst_unit"]],
            exceed=match["exceed"],
        )
        for match in _POLICE.finditer(filters)
    ]
