"""Writes an INI file with emulated twins of measured paths, and tests over them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ccmix.config.ini import section_name
from ccmix.config.keys import ENTRY_KEYS, TOPOLOGY_KEYS
from ccmix.model import ImportedSource, Iperf3Source, Run
from ccmix.model.group_grammar import format_groups
from ccmix.twin.bottleneck import MANAGED, PER_FLOW
from ccmix.twin.estimate import (
    BASE_RTT,
    BUFFER,
    BURST,
    CROSS,
    ECN,
    LOSS,
    MTU,
    POLICER,
    QUEUE,
    RATE,
    REORDERING,
    WINDOW,
    Estimate,
    Twin,
    interval,
    value,
    why,
)
from ccmix.twin.way import gilbert
from ccmix.units import LEAST_RATE_BPS

UNKNOWN_BUFFERS = ("0.1bdp", "0.3bdp", "1bdp")
LARGER_BUFFERS = (1, 3, 10)  # times the lower bound
LARGER_RATES, UNKNOWN_BPS = (1, 2, 5), 1e9
LINKS = (2, 10)  # times the rate of a policer, for the link behind it
# of a rate: ends of the intervals of rate and cross traffic that differ by more are also swept
OPEN_SHARE = 0.05
OPEN_WINDOW = 0.01  # the same of a window: the goodput of a single flow is proportional to it
LEAST_OTHERS = 0.03  # of a rate: less cross traffic is left out if there may be none
MORE_OTHERS = 2  # times the cross traffic, if its interval has no upper end
QDISCS = {
    MANAGED: ("codel", "pie"),
    PER_FLOW: ("fq_codel",),
}  # that can emulate such a queue; otherwise a FIFO of bytes
SENDER, OTHERS = "h1", "others"
LEAST_SHARE = 1e-6
EXAMPLE = "cca", ("cubic", "bbr")
EXAMPLE_STREAMS = (1, 16)
EXAMPLE_S = 60
ITERATIONS = "iterations = 5"  # with the 3 that an interval needs, it is twice as wide
UDP_HEADERS_BYTES, ETHERNET_BYTES = 28, 14


@dataclass(frozen=True)
class _TwinTopology:
    """Holds the lines of a twin's [topology ...] section, and the sweeps that each entry over it
    needs for the values that the measurement leaves open.
    """

    name: str
    lines: tuple[str, ...]
    sweeps: tuple[str, ...]
    cross_bps: tuple[
        float, ...
    ]  # the best estimate, and other possible values; empty if no cross traffic shows


def ini(twins: Sequence[Twin]) -> str:
    """Returns the text of the INI file: for each path a topology, its twin, and the entries with
    the tests.
    """
    parts = [
        "# The twins of real paths, made by `ccmix twin`. Each value has its 95% interval and "
        "its origin above it.",
        "# Values that the measurement leaves open are swept, so that the answer is a range:",
        "#     ccmix run THIS-FILE --lab",
        "",
    ]
    for twin in twins:
        path = _topology(twin, "twin" if len(twins) == 1 else section_name(f"twin-{twin.name}"))
        parts += [f"[topology {path.name}]", *path.lines, ""]
        for entry in _entries(twin, path, several_paths=len(twins) > 1):
            parts += [*entry, ""]
    return "\n".join(parts)


def _topology(twin: Twin, name: str) -> _TwinTopology:
    """Returns the topology with the estimated properties of a path. Each value has a comment with
    its interval and origin; values that are not known well are swept.
    """
    sweeps: dict[str, str] = {}
    rate, base_rtt, cross_traffic = (
        twin.estimate_of(RATE),
        twin.estimate_of(BASE_RTT),
        twin.estimate_of(CROSS),
    )
    policer, window = twin.estimate_of(POLICER), twin.estimate_of(WINDOW)
    cross_rates_bps = _cross_traffic_rates(cross_traffic, rate)
    # the rate that cross traffic leaves is known better than either of the two
    rates = (
        _link_rates(rate) if policer.value else _rate_values(rate)[: 1 if cross_rates_bps else None]
    )
    lines = [
        *_comment(rate),
        f"rate = {rates[0]}",
        *_comment(policer),
        *_policer_lines(rate, policer),
    ]
    lines += [*_comment(base_rtt), *_rtt_lines(base_rtt)]
    if len(rates) > 1:
        sweeps["rate"] = ", ".join(rates)
    lines += [
        *_comment(twin.estimate_of(LOSS)),
        *_comment(twin.estimate_of(BURST)),
        f"loss = {_loss_value(twin)}",
    ]
    if sweep := _loss_sweep(twin.estimate_of(LOSS)):
        sweeps["loss"] = sweep
    buffer, sweep = _buffer_value_and_sweep(twin.estimate_of(BUFFER))
    lines += [*_comment(twin.estimate_of(BUFFER)), f"buffer = {buffer}"]
    if sweep:
        sweeps["buffer"] = sweep
    queue = twin.estimate_of(QUEUE)
    qdisc, *other_qdiscs = QDISCS.get(queue.word or "", ("bfifo",))
    lines += [*_comment(queue), f"qdisc = {qdisc}"]
    if other_qdiscs:
        sweeps["qdisc"] = ", ".join([qdisc, *other_qdiscs])
    mtu = twin.estimate_of(MTU)
    lines += [*_comment(mtu), f"mtu = {mtu.value or 1500:.0f}"]
    lines += [
        *_comment(twin.estimate_of(REORDERING)),
        *_reorder_lines(twin.estimate_of(REORDERING)),
    ]
    lines += [
        *_comment(twin.estimate_of(ECN)),
        f"ecn = {'off' if twin.estimate_of(ECN).word in (None, 'not negotiated') else 'on'}",
    ]
    lines += _comment(window)
    if window.value:
        windows = [
            f"{size:.0f}b"
            for size in (window.value, *_open_ends(window, window.value, OPEN_WINDOW))
        ]
        lines += [f"receiver-window = {windows[0]}"]
        if len(windows) > 1:
            sweeps["receiver-window"] = ", ".join(windows)
    lines += _comment(cross_traffic)
    if cross_rates_bps:
        lines += [
            f"host.{SENDER} =" + _host_value(base_rtt),
            f"host.{OTHERS} =" + _host_value(base_rtt) + " loss 0%",
        ]
    payload_share = ((mtu.value or 1500) - UDP_HEADERS_BYTES) / (
        (mtu.value or 1500) + ETHERNET_BYTES
    )
    payload_rates_bps = tuple(each * payload_share for each in cross_rates_bps)
    if len(payload_rates_bps) > 1:
        sweeps[f"flows.{OTHERS}"] = ", ".join(map(_cross_traffic_flow, payload_rates_bps))
    return _TwinTopology(name, tuple(lines), tuple(_sweep_lines(sweeps)), payload_rates_bps)


def _sweep_lines(sweeps: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of the sweeps ('sweep.rate = 10mbit, 20mbit') and, if there are any, the
    line that names their keys as unknown.

    sweeps: the values of each key, as written
    """
    yield from (f"sweep.{key} = {values}" for key, values in sweeps.items())
    if sweeps:
        yield f"unknown = {', '.join(sweeps)}"


def _loss_sweep(loss: Estimate) -> str | None:
    """Returns the sweep '0%, BOUND' of a loss for which only an upper bound is known; None for
    another loss.
    """
    if loss.value is not None or not loss.high or loss.high < LEAST_SHARE:
        return None
    return f"0%, {_percent(loss.high)}"


def _cross_traffic_rates(cross_traffic: Estimate, rate: Estimate) -> tuple[float, ...]:
    """Returns rates of the cross traffic in bit/s with headers: the estimate, and those ends of its
    interval that leave much of the path's rate open (0 for none). Returns () if there is hardly any
    cross traffic.
    """
    if cross_traffic.value is None or not rate.value:
        return ()
    ends = (
        cross_traffic.low or 0.0,
        MORE_OTHERS * cross_traffic.value if cross_traffic.high is None else cross_traffic.high,
    )
    rates_bps = (
        cross_traffic.value,
        *(end for end in ends if abs(end - cross_traffic.value) > OPEN_SHARE * rate.value),
    )
    return rates_bps if cross_traffic.low or max(rates_bps) >= LEAST_OTHERS * rate.value else ()


def _cross_traffic_flow(bps: float) -> str:
    """Returns the flows of the host of the cross traffic: 'others udp@5000K', or 'others none'."""
    return f"{OTHERS} udp@{round(bps / 1e3)}K" if bps >= LEAST_RATE_BPS else f"{OTHERS} none"


def _comment(estimate: Estimate) -> Iterator[str]:
    """Yields the comment above a key: quantity, value, interval and origin of its estimate."""
    between = f" ({interval(estimate)})" if interval(estimate) else ""
    yield f"# {estimate.quantity}: {value(estimate)}{between}; {why(estimate)}"


def _rtt_lines(base: Estimate) -> list[str]:
    return [f"rtt = {_microseconds(base.value or 0.0)}"]


def _host_value(base: Estimate) -> str:
    return f" rtt {_microseconds(base.value or 0.0)}"


def _microseconds(seconds: float) -> str:
    """Returns an RTT as the INI file has it, rounded to an even number of microseconds: half is for
    each way.
    """
    return f"{round(seconds * 1e6 / 2) * 2}us"


def _kbit(rate_bps: float) -> str:
    """Returns a rate in the form of the INI file: '10000kbit'."""
    return f"{rate_bps / 1e3:.0f}kbit"


def _rate_values(rate: Estimate) -> list[str]:
    """Returns the rates to emulate: the estimate, with the ends of a wide interval; without an
    estimate, multiples of the lower bound.
    """
    if rate.value is None:
        low = rate.low or UNKNOWN_BPS
        return [_kbit(low * times) for times in LARGER_RATES]
    return [_kbit(rate.value), *map(_kbit, _open_ends(rate, rate.value, OPEN_SHARE))]


def _open_ends(estimate: Estimate, value: float, open_share: float) -> list[float]:
    """Returns the ends of the interval that differ from the value by more than the share
    `open_share`, so that they must be swept, too.
    """
    return [
        end
        for end in (estimate.low, estimate.high)
        if end and abs(end - value) > open_share * value
    ]


def _link_rates(policed: Estimate) -> list[str]:
    """Returns rates of the link behind a policer, of which we only know that it is faster
    (`policed` is the policer's rate).
    """
    return [_kbit((policed.value or UNKNOWN_BPS) * times) for times in LINKS]


def _policer_lines(rate: Estimate, burst: Estimate) -> list[str]:
    """Returns the line of the key `policer`; none if the path has no policer that is known."""
    return (
        [f"policer = {_kbit(rate.value)} burst {burst.value:.0f}b"]
        if rate.value and burst.value
        else []
    )


def _percent(share: float) -> str:
    """Returns a share as the INI file has it: '0.1%' for 0.001."""
    return f"{share * 100:.6f}".rstrip("0").rstrip(".") + "%"


def _loss_value(twin: Twin) -> str:
    """Returns the value of the key `loss`, with bursts if they are known; '0%' if the loss is
    unknown or negligible.
    """
    loss, burst = twin.estimate_of(LOSS), twin.estimate_of(BURST)
    if not loss.value or loss.value < LEAST_SHARE:
        return "0%"
    if burst.value:
        return "gemodel " + " ".join(map(_percent, gilbert(loss.value, burst.value)))
    return _percent(loss.value)


def _buffer_value_and_sweep(buffer: Estimate) -> tuple[str, str | None]:
    """Returns the value of the key `buffer`, and its sweep if the size is not known, otherwise
    None.
    """
    if buffer.value is not None:
        return f"{max(buffer.value, 1):.0f}b", None
    if buffer.low:
        sizes = [f"{buffer.low * times:.0f}b" for times in LARGER_BUFFERS]
        return sizes[0], ", ".join(sizes)
    return UNKNOWN_BUFFERS[-1], ", ".join(UNKNOWN_BUFFERS)


def _reorder_lines(reordering: Estimate) -> list[str]:
    """Returns the line of the key `reorder`; none if reordering is unknown or negligible."""
    if not reordering.value or reordering.value < LEAST_SHARE:
        return []
    return [f"reorder = {_percent(reordering.value)}"]


def _entries(twin: Twin, path: _TwinTopology, *, several_paths: bool) -> Iterator[list[str]]:
    """Yields the lines of each entry that tests over the twin: the tests of the measured campaign,
    so that both can be compared, or an example if it had none.

    Tests of an entry become one entry with the campaign's sweeps if these determine them; otherwise
    an entry each. `several_paths` says whether the file has several twins, so that names need the
    path.
    """
    tests: dict[tuple[str, str], _TestOfCampaign] = {}
    for finished in twin.runs:
        run = finished.run
        iperf3_tests = (
            source
            for source in run.traffic.sources
            if isinstance(source, Iperf3Source | ImportedSource)
        )
        tests_of_path = [source for source in iperf3_tests if twin.sender in (None, source.host)]
        if tests_of_path and tests_of_path[0].streams:
            entry_names_path = not several_paths or f"{run.entry}-".startswith(
                f"{section_name(twin.name)}-"
            )
            name = section_name(run.entry if entry_names_path else f"{run.entry}-{twin.name}")
            # an entry of an imported table is a host; its tests have other names on the twin
            condition = run.condition if isinstance(tests_of_path[0], Iperf3Source) else {}
            condition = {
                key: value for key, value in condition.items() if key not in TOPOLOGY_KEYS
            }  # without the keys of the path
            test = _TestOfCampaign(
                condition,
                dict(_traffic_settings(run, tests_of_path, path)),
                guessed=not run.traffic.duration_s,
            )
            tests.setdefault((name, "\n".join(test.lines)), test)
    if not tests:
        yield _example_entry(twin, path, several_paths=several_paths)
    sweeps = {
        name: _lines_with_sweeps([test for (of, _), test in tests.items() if of == name])
        for name, _ in tests
    }
    entries: Counter[str] = Counter()
    for (name, _), test in tests.items():
        if sweeps[name] and entries[name]:
            continue
        entries[name] += 1
        suffix = f"-{entries[name]}" if entries[name] > 1 else ""
        heading = [f"[{name}{suffix}]", "type = iperf3", f"topology = {path.name}"]
        yield [*heading, *(sweeps[name] or test.lines), *path.sweeps, ITERATIONS]


@dataclass(frozen=True)
class _TestOfCampaign:
    """Holds the condition (swept keys and their values) under which a test of the campaign ran, and
    the keys of its traffic for the twin.

    The duration is `guessed` if the results don't contain it.
    """

    condition: Mapping[str, str]
    settings: Mapping[str, str]
    guessed: bool

    @property
    def lines(self) -> list[str]:
        return [*self.notes, *(f"{key} = {value}" for key, value in self.settings.items())]

    @property
    def notes(self) -> list[str]:
        """Returns the comment on a guessed duration, if it is guessed."""
        return (
            [f"# the results don't say how long the tests ran: {EXAMPLE_S} s is a guess"]
            if self.guessed
            else []
        )


def _lines_with_sweeps(tests: Sequence[_TestOfCampaign]) -> list[str] | None:
    """Returns the lines of an entry with the campaign's sweeps, so that each condition (a
    combination of swept values) of the twin has the same name as its real counterpart. Returns None
    if these sweeps don't determine the traffic completely: then each test needs its own entry.
    """
    first = tests[0]
    swept = {
        key: list(dict.fromkeys(test.condition.get(key, "") for test in tests))
        for key in first.condition
    }
    if not swept or math.prod(map(len, swept.values())) != len(tests):
        return None
    fixed = {key: value for key, value in first.settings.items() if key not in swept}
    for test in tests:
        says_the_same = all(
            _same_setting(key, value, test.settings.get(key))
            for key, value in test.condition.items()
        )
        rest = {key: value for key, value in test.settings.items() if key not in swept}
        if test.condition.keys() != swept.keys() or not says_the_same or rest != fixed:
            return None
    lines = [*first.notes, *(f"{key} = {value}" for key, value in fixed.items())]
    for key, values in swept.items():
        lines += [f"sweep.{key} =", *(f"    {value}" for value in values)]
    return lines


def _same_setting(key: str, written: str, setting: str | None) -> bool:
    """Returns whether a swept value, as the campaign's file has it (`written`), equals the twin's
    setting of this key: '1m' equals '60s'.
    """
    if setting is None or key not in ENTRY_KEYS:
        return False
    try:
        return bool(ENTRY_KEYS[key].read(written) == ENTRY_KEYS[key].read(setting))
    except ValueError:
        return False


def _traffic_settings(
    run: Run, tests: Sequence[Iperf3Source | ImportedSource], path: _TwinTopology
) -> Iterator[tuple[str, str]]:
    """Yields the keys of an entry and their values that repeat a run's iperf3 tests over the twin,
    together with the path's cross traffic if its rate is not swept.
    """
    traffic = run.traffic
    if tests[0].name:
        for test in tests:
            groups = test.groups
            if len(groups) == 1:
                groups = (replace(groups[0], weight=test.streams or 1),)
            yield f"flows.{test.name}", f"{SENDER} {format_groups(groups)}"
    else:
        yield "cca", format_groups(tests[0].groups)
        yield "streams", str(tests[0].streams)
    if len(path.cross_bps) == 1:
        yield f"flows.{OTHERS}", _cross_traffic_flow(path.cross_bps[0])
    if traffic.pacing_bps is not None:
        yield "pacing", _kbit(traffic.pacing_bps)
    yield "duration", f"{traffic.duration_s or EXAMPLE_S:.0f}s"
    if isinstance(tests[0], Iperf3Source):
        yield "omit", f"{traffic.omit_s:.0f}s"
        yield "interval", f"{traffic.interval_s * 1e3:g}ms"


def _example_entry(twin: Twin, path: _TwinTopology, *, several_paths: bool) -> list[str]:
    """Returns the lines of an entry with example tests, for a campaign that only measured
    the path.
    """
    key, ccas = EXAMPLE
    lines = [
        f"[{section_name(f'tests-{twin.name}' if several_paths else 'tests')}]",
        "type = iperf3",
        f"topology = {path.name}",
    ]
    cross_traffic = (
        [f"flows.{OTHERS} = {_cross_traffic_flow(path.cross_bps[0])}"]
        if len(path.cross_bps) == 1
        else []
    )
    lines += [f"duration = {EXAMPLE_S}s", "omit = 5s", *cross_traffic, *path.sweeps, ITERATIONS]
    lines += [
        f"sweep.{key} = {', '.join(ccas)}",
        f"sweep.streams = {', '.join(map(str, EXAMPLE_STREAMS))}",
    ]
    return lines
