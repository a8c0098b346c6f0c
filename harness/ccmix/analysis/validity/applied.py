"""Reads from tc's output which settings an emulated path really had, for the validity checks."""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.counters import root_qdisc
from ccmix.analysis.tables import RunTables
from ccmix.conditions.qdisc import LEAF_PARENT, POLICER_QDISC
from ccmix.model import Measurement, PathState, QdiscCounters, Run, Topology

Problems = Iterator[tuple[str, str]]  # pairs (kind, detail): a key of terms.LIMITS, and a clause
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


def first_flow_only(check: "Check") -> "Check":
    """Changes a check that yields a problem for each wrong flow: it then yields only the first one,
    with the number of other flows added to its detail: ", and 3 more flows". So a fault of all
    flows makes one line in the report.
    """

    @functools.wraps(check)
    def check_until_first(observed: Observed) -> Problems:
        """Yields the first problem, if there is any."""
        found = list(check(observed))
        for kind, detail in found[:1]:
            yield kind, detail + others(len(found))

    return check_until_first


def others(flows: int) -> str:
    """Returns the end of a clause about the first of some flows: ", and 3 more flows" if `flows` is
    4, and '' if it is 1.
    """
    return f", and {flows - 1} more flow{'s' if flows > 2 else ''}" if flows > 1 else ""


def difference(
    kind: str,
    sentence: str,
    applied: float,
    configured: float,
    tolerance: float,
    text: Callable[[float], str] | None = None,
) -> Problems:
    """Yields a problem of this kind if an applied number differs from the configured one by more
    than the tolerance. In `sentence`, {} stands for the applied number. `text` formats both; None:
    as they are.
    """
    if abs(applied - configured) > tolerance:
        seen = text(applied) if text else applied
        wanted = text(configured) if text else configured
        yield kind, f"{sentence.format(seen)}, configured: {wanted}"


@dataclass(frozen=True)
class AppliedQdisc:
    """A queue discipline (qdisc) of a device as tc reports it, with all of its options."""

    kind: str
    parent: str | None  # None: the device's root
    options: Options


@dataclass(frozen=True)
class AppliedNetem:
    """The settings of a device's netem, as tc reports them. Loss and reorder are fractions."""

    delay_s: float
    jitter_s: float
    loss_model: str | None
    loss_parameters: tuple[float, ...]
    reorder: float
    rate_bps: float | None
    limit_packets: int


@dataclass(frozen=True)
class AppliedDevice:
    """The qdiscs of one network device at one moment, read by `tc -j qdisc show`."""

    qdiscs: tuple[AppliedQdisc, ...]

    @property
    def root(self) -> AppliedQdisc:
        """Returns the qdisc at the root of the device. Every device has one."""
        return next(qdisc for qdisc in self.qdiscs if qdisc.parent is None)

    @property
    def leaf(self) -> AppliedQdisc | None:
        """Returns the qdisc below a shaper (tbf, htb); None if the shaper has only its built-in
        queue.
        """
        return next((qdisc for qdisc in self.qdiscs if qdisc.parent == LEAF_PARENT), None)

    @property
    def policed(self) -> bool:
        """Returns whether the device has a clsact qdisc, to which ccmix attaches a policer."""
        return any(qdisc.kind == POLICER_QDISC for qdisc in self.qdiscs)

    @property
    def netem(self) -> AppliedNetem | None:
        """Returns the effects of the device's netem; None if it has no netem."""
        return next((_netem(qdisc.options) for qdisc in self.qdiscs if qdisc.kind == "netem"), None)

    @property
    def pacing_bps(self) -> float | None:
        """Returns the rate to which fq limits each flow (its maxrate, in bits/s); None if it has no
        limit. If the device has several fq, returns the lowest of their rates.
        """
        maxrates = [qdisc.options.get("maxrate") for qdisc in self.qdiscs if qdisc.kind == "fq"]
        limits_bps = [
            float(bytes_per_s) * 8
            for bytes_per_s in maxrates
            if isinstance(bytes_per_s, int) and bytes_per_s < _UNLIMITED_BYTES_PER_S
        ]
        return min(limits_bps, default=None)

    @property
    def bucket_bps(self) -> float | None:
        """Returns the rate of the device's token bucket (tbf) in bits/s; None if it has no tbf."""
        bytes_per_s = self.root.options.get("rate") if self.root.kind == "tbf" else None
        return bytes_per_s * 8.0 if isinstance(bytes_per_s, int) else None


@dataclass(frozen=True)
class AppliedPolicer:
    """The policer of a device, as `tc filter show` prints it. `exceed` is its action for packets
    above the rate: 'drop'.
    """

    rate_bps: float
    burst_bytes: float
    exceed: str


@dataclass(frozen=True)
class AppliedPath:
    """The settings that an emulated path really had, read back from the kernel.

    - devices: the states of each device, by its purpose ('bottleneck', 'data-delay h2'): when the
      path had been set up, before each change, and at the end
    - changes_s: when tc made the changes, in seconds after the traffic began
    - states: MTUs, addresses, sysctls and so on, when the path had been set up and at the end;
      empty if a run did not record them
    """

    devices: Mapping[str, tuple[AppliedDevice, ...]]
    changes_s: tuple[float, ...]
    states: tuple[PathState, ...]

    def class_rates_bps(self, device: str) -> list[tuple[float, float]]:
        """Returns pairs (rate, ceil) of the htb class on a device, in bits/s: one for each of
        `states` that shows a class. `device` is the device's purpose, such as 'bottleneck'.
        """
        return [
            (float(match[1]) * _BITS[match[2]], float(match[3]) * _BITS[match[4]])
            for match in self._in_classes(_CLASS_RATE, device)
        ]

    def class_bursts_bytes(self, device: str) -> list[int]:
        """Returns the bucket size of the htb class on a device: one for each of `states` that shows
        a class. `device` is the device's purpose, such as 'bottleneck'.
        """
        matches = self._in_classes(_CLASS_BURST, device)
        return [int(match[1]) * _BYTES[match[2]] for match in matches]

    def _in_classes(self, pattern: re.Pattern[str], device: str) -> list[re.Match[str]]:
        """Returns the first match of the pattern in each of tc's outputs on a device's classes."""
        matches = [pattern.search(state.classes.get(device, "")) for state in self.states]
        return [match for match in matches if match]

    def policers(self, device: str) -> list[AppliedPolicer]:
        """Returns all policers of a device in all of `states`: usually one before and one after the
        traffic. `device` is the device's purpose, such as 'bottleneck'.
        """
        return [
            policer for state in self.states for policer in _policers(state.filters.get(device, ""))
        ]

    def receivers(self, address: str) -> set[str]:
        """Returns the network namespaces in which a device had this IP address, before or after the
        traffic.
        """
        return {
            netns_and_device.partition("/")[0]
            for state in self.states
            for netns_and_device, device in state.devices.items()
            if address in device.addresses
        }


@dataclass(frozen=True)
class Observed:
    """A run as it was configured, with the tables of its recordings and everything else that was
    measured: the input of each check of validity.
    """

    run: Run
    tables: RunTables
    measurement: Measurement

    @property
    def topology(self) -> Topology:
        """The emulated path as configured. Only for runs on an emulated path."""
        return self.run.topology

    @functools.cached_property
    def applied(self) -> AppliedPath:
        """The path's settings as tc, the devices and the sysctls report them; computed once."""
        return applied_path(self.measurement)


Check = Callable[[Observed], Problems]


def applied_path(measurement: Measurement) -> AppliedPath:
    """Determines the settings that an emulated path really had, from the outputs of tc and other
    tools that a run saved before, during and after the traffic.
    """
    devices = {}
    for purpose, at_start in measurement.before.qdiscs.items():
        before_changes = [
            change.qdiscs[purpose] for change in measurement.changes if purpose in change.qdiscs
        ]
        devices[purpose] = tuple(
            map(_device, (at_start, *before_changes, measurement.after.qdiscs[purpose]))
        )
    began_s = measurement.began_s or measurement.started_s
    return AppliedPath(
        devices,
        tuple(change.time_s - began_s for change in measurement.changes),
        tuple(state for state in (measurement.state_before, measurement.state_after) if state),
    )


def _device(qdiscs: Sequence[QdiscCounters]) -> AppliedDevice:
    """Parses the qdiscs of one device at one moment. Raises an error if it has no root qdisc."""
    root_qdisc(qdiscs)
    return AppliedDevice(
        tuple(AppliedQdisc(qdisc.kind, qdisc.parent, json.loads(qdisc.options)) for qdisc in qdiscs)
    )


def _netem(options: Options) -> AppliedNetem:
    """Parses the options of a netem qdisc in tc's JSON, which has no entry for a value of 0
    (iproute2, tc/q_netem.c).
    """
    model = next((name for name in ("random", "gemodel") if f"loss-{name}" in options), None)
    loss = _part(options, f"loss-{model}")
    names = ("loss",) if model == "random" else ("p", "r", "1-h", "1-k")
    unexpected = ("loss-state", "duplicate", "corrupt", "slot")
    rate = _part(options, "rate").get("rate")
    limit = options.get("limit")
    return AppliedNetem(
        delay_s=_part(options, "delay").get("delay", 0.0),
        jitter_s=_part(options, "delay").get("jitter", 0.0),
        loss_model=next((name for name in options if name in unexpected), model),
        loss_parameters=tuple(loss[name] for name in names if name in loss),
        reorder=_part(options, "reorder").get("reorder", 0.0),
        rate_bps=None if rate is None else rate * 8,
        limit_packets=limit if isinstance(limit, int) else 0,
    )


def _part(options: Options, name: str) -> Mapping[str, float]:
    """Returns a nested object of the options, such as {"delay": 0.01, "jitter": 0} for 'delay';
    empty if there is none.
    """
    part = options.get(name)
    return part if isinstance(part, Mapping) else {}


def _policers(tc_output: str) -> list[AppliedPolicer]:
    """Parses the policers in the output of `tc -s filter show` for a device (iproute2,
    tc/m_police.c).
    """
    return [
        AppliedPolicer(
            rate_bps=float(match["rate"]) * _BITS[match["rate_unit"]],
            burst_bytes=float(match["burst"]) * _BYTES[match["burst_unit"]],
            exceed=match["exceed"],
        )
        for match in _POLICE.finditer(tc_output)
    ]
