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
    cross_bps: tuple[float, ...]
    """The best estimate of cross traffic, and other possible values; empty if none shows."""

    @property
    def cross_traffic(self) -> list[tuple[str, str]]:
        """Returns the key and value that make the cross traffic, if only one rate is possible;
        several rates are swept instead.
        """
        if len(self.cross_bps) != 1:
            return []
        return [(f"flows.{OTHERS}", _cross_traffic_flow(self.cross_bps[0]))]


def ini(twins: Sequence[Twin]) -> str:
    """Returns the text of the INI file for the twins: for each path, a topology section with the
    estimated properties, and the entries (test sections) that run tests over it.
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
    """Returns the topology section for a path, with the given name. Above each key, a comment has
    the estimate's interval and origin. If a value is not known well, the entries over the topology
    must sweep (vary) the key over its possible values.
    """
    known = {each.quantity: each for each in twin.estimates}
    rate, policer, mtu_bytes = known[RATE], known[POLICER], known[MTU].value or 1500
    rtt = _microseconds(known[BASE_RTT].value or 0.0)
    cross_rates_bps = _cross_traffic_rates(known[CROSS], rate)
    # the rate that cross traffic leaves is known better than either of the two
    rates = _rate_values(rate)[: 1 if cross_rates_bps else None]
    ecn = "off" if known[ECN].word in (None, "not negotiated") else "on"
    # by key: the quantities that the comment names, and the values, the best one first
    keys: dict[str, tuple[tuple[str, ...], Sequence[str]]] = {
        "rate": ((RATE,), _link_rates(rate) if policer.value else rates),
        "policer": ((POLICER,), _policer_values(rate, policer)),
        "rtt": ((BASE_RTT,), [rtt]),
        "loss": ((LOSS, BURST), _loss_values(known[LOSS], known[BURST])),
        "buffer": ((BUFFER,), _buffer_values(known[BUFFER])),
        "qdisc": ((QUEUE,), QDISCS.get(known[QUEUE].word or "", ("bfifo",))),
        "mtu": ((MTU,), [f"{mtu_bytes:.0f}"]),
        "reorder": ((REORDERING,), _reorder_values(known[REORDERING])),
        "ecn": ((ECN,), [ecn]),
        "receiver-window": ((WINDOW,), _window_values(known[WINDOW])),
    }
    lines, sweeps = [], {}
    for key, (quantities, values) in keys.items():
        lines += [_comment(known[quantity]) for quantity in quantities]
        if values:
            # of an unknown buffer, 1 BDP is written: entries without sweeps then have a usual one
            lines.append(f"{key} = {values[-1 if values is UNKNOWN_BUFFERS else 0]}")
        if len(values) > 1:
            sweeps[key] = ", ".join(values)
    lines.append(_comment(known[CROSS]))
    if cross_rates_bps:
        lines += [f"host.{SENDER} = rtt {rtt}", f"host.{OTHERS} = rtt {rtt} loss 0%"]
    payload_share = (mtu_bytes - UDP_HEADERS_BYTES) / (mtu_bytes + ETHERNET_BYTES)
    payload_rates_bps = tuple(each * payload_share for each in cross_rates_bps)
    if len(payload_rates_bps) > 1:
        sweeps[f"flows.{OTHERS}"] = ", ".join(map(_cross_traffic_flow, payload_rates_bps))
    return _TwinTopology(name, tuple(lines), tuple(_sweep_lines(sweeps)), payload_rates_bps)


def _sweep_lines(sweeps: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of an entry that sweep the values left open by the measurement, such as
    'sweep.rate = 10mbit, 20mbit', and then 'unknown = rate, ...'. The key `unknown` says that only
    one of the swept values is the path's true one. Yields nothing without sweeps.

    sweeps: by key, the values as written in the INI file
    """
    yield from (f"sweep.{key} = {values}" for key, values in sweeps.items())
    if sweeps:
        yield f"unknown = {', '.join(sweeps)}"


def _cross_traffic_rates(cross_traffic: Estimate, rate: Estimate) -> tuple[float, ...]:
    """Returns the rates of cross traffic to test, in bit/s with headers: first the estimated rate,
    and then those ends of its interval that differ from it by more than 5% of the path's rate. A
    rate of 0 means no cross traffic. Returns () if there is hardly any cross traffic: less than 3%
    of the path's rate, or if an estimate is missing.
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
    """Returns the value of the key `flows.others`, which makes cross traffic of this rate: 'others
    udp@5000K'. For a negligible rate, it is 'others none'.
    """
    return f"{OTHERS} udp@{round(bps / 1e3)}K" if bps >= LEAST_RATE_BPS else f"{OTHERS} none"


def _comment(estimate: Estimate) -> str:
    """Returns the comment above a key: quantity, value, interval and origin of its estimate."""
    between = f" ({interval(estimate)})" if interval(estimate) else ""
    return f"# {estimate.quantity}: {value(estimate)}{between}; {why(estimate)}"


def _microseconds(seconds: float) -> str:
    """Returns an RTT as the INI file has it: '20000us'. It is rounded to an even number of
    microseconds, because each direction gets half of it.
    """
    return f"{round(seconds * 1e6 / 2) * 2}us"


def _kbit(rate_bps: float) -> str:
    """Returns a rate in the form of the INI file: '10000kbit'."""
    return f"{rate_bps / 1e3:.0f}kbit"


def _rate_values(rate: Estimate) -> list[str]:
    """Returns the rates to emulate, as in the INI file: the estimated rate, followed by those ends
    of its interval that differ from it by more than 5%. Without an estimate, they are 1, 2 and 5
    times the lower bound, or times 1 Gbit/s if there is no bound.
    """
    if rate.value is None:
        low = rate.low or UNKNOWN_BPS
        return [_kbit(low * times) for times in LARGER_RATES]
    return [_kbit(rate.value), *map(_kbit, _open_ends(rate, rate.value, OPEN_SHARE))]


def _open_ends(estimate: Estimate, value: float, open_share: float) -> list[float]:
    """Returns those ends of an estimate's interval that differ from its value by more than
    `open_share` (0.05: 5%). They must be swept, because the value is not known well enough.
    """
    return [
        end
        for end in (estimate.low, estimate.high)
        if end and abs(end - value) > open_share * value
    ]


def _link_rates(policed: Estimate) -> list[str]:
    """Returns the rates to emulate for the link behind a policer: 2 and 10 times the policer's rate
    (`policed`). Nothing is known of the link's rate but that it is higher.
    """
    return [_kbit((policed.value or UNKNOWN_BPS) * times) for times in LINKS]


def _policer_values(rate: Estimate, burst: Estimate) -> list[str]:
    """Returns the value of the key `policer`, such as '10000kbit burst 64000b'; empty if the
    policer's rate or burst is not known, or if the path has no policer.
    """
    known = rate.value and burst.value
    return [f"{_kbit(rate.value or 0)} burst {burst.value:.0f}b"] if known else []


def _percent(share: float) -> str:
    """Returns a share as the INI file has it: '0.1%' for 0.001."""
    return f"{share * 100:.6f}".rstrip("0").rstrip(".") + "%"


def _loss_values(loss: Estimate, burst: Estimate) -> list[str]:
    """Returns the values of the key `loss` to emulate: '0.1%', or 'gemodel P R' if the mean length
    of bursts of losses is known. If only an upper bound is known, they are '0%' and the bound. A
    negligible loss is '0%'.
    """
    if loss.value is None and loss.high and loss.high >= LEAST_SHARE:
        return ["0%", _percent(loss.high)]
    if not loss.value or loss.value < LEAST_SHARE:
        return ["0%"]
    if burst.value:
        return ["gemodel " + " ".join(map(_percent, gilbert(loss.value, burst.value)))]
    return [_percent(loss.value)]


def _buffer_values(buffer: Estimate) -> Sequence[str]:
    """Returns the values of the key `buffer` to emulate: the size, or 1, 3 and 10 times a lower
    bound. Without a bound, they are multiples of the BDP.
    """
    if buffer.value is not None:
        return [f"{max(buffer.value, 1):.0f}b"]
    if buffer.low:
        return [f"{buffer.low * times:.0f}b" for times in LARGER_BUFFERS]
    return UNKNOWN_BUFFERS


def _reorder_values(reordering: Estimate) -> list[str]:
    """Returns the value of the key `reorder`; empty if reordering is unknown or negligible."""
    share = reordering.value or 0.0
    return [_percent(share)] if share >= LEAST_SHARE else []


def _window_values(window: Estimate) -> list[str]:
    """Returns the values of the key `receiver-window` to emulate: the estimate, and the ends of its
    interval that differ from it by more than 1%; empty if the window is unknown.
    """
    if not window.value:
        return []
    sizes = (window.value, *_open_ends(window, window.value, OPEN_WINDOW))
    return [f"{size:.0f}b" for size in sizes]


def _entries(twin: Twin, path: _TwinTopology, *, several_paths: bool) -> Iterator[list[str]]:
    """Yields the lines of each entry (test section) over the twin. They repeat the tests of the
    measured campaign, so that the results can be compared; if it had no tests, an example is
    written.

    The tests of one entry of the campaign become one entry with the campaign's sweeps (lists of
    values to test) if these sweeps determine all tests. Otherwise each test gets its own entry.
    With `several_paths`, the file has several twins, so the names of entries contain the path.
    """
    # by the entry's name and the test's lines: iterations of a test are one test
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
        name: _lines_with_sweeps(
            [test for (test_name, _), test in tests.items() if test_name == name]
        )
        for name, _ in tests
    }
    # how many entries with each name were written; from the second on, the name gets a number
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
        """Returns the lines of an entry that repeats this test: its notes, and the keys of its
        traffic.
        """
        return [*self.notes, *(f"{key} = {value}" for key, value in self.settings.items())]

    @property
    def notes(self) -> list[str]:
        """Returns the comment that says that the duration is a guess; empty if it is known."""
        return (
            [f"# the results don't say how long the tests ran: {EXAMPLE_S} s is a guess"]
            if self.guessed
            else []
        )


def _lines_with_sweeps(tests: Sequence[_TestOfCampaign]) -> list[str] | None:
    """Returns the lines of one entry that repeats all `tests`, with the campaign's sweeps (lists of
    values to test). Each condition (combination of swept values) then has the same name as in the
    real campaign. Returns None if the sweeps don't determine the tests, for example because a
    combination is missing: then each test needs its own entry.
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
        has_swept_values = all(
            _same_setting(key, value, test.settings.get(key))
            for key, value in test.condition.items()
        )
        rest = {key: value for key, value in test.settings.items() if key not in swept}
        if test.condition.keys() != swept.keys() or not has_swept_values or rest != fixed:
            return None
    lines = [*first.notes, *(f"{key} = {value}" for key, value in fixed.items())]
    for key, values in swept.items():
        lines += [f"sweep.{key} =", *(f"    {value}" for value in values)]
    return lines


def _same_setting(key: str, written: str, setting: str | None) -> bool:
    """Returns whether two texts mean the same value of a key of an entry, as '1m' and '60s' do.
    `written` is the value in the campaign's file, and `setting` the value in the twin's entry, or
    None if it lacks the key. Also False for values that the key does not allow.
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
    """Yields the keys and values of an entry that repeats a run's traffic over the twin: the iperf3
    `tests` of one sender, their pacing and duration. Cross traffic is added if only one rate of it
    is possible; several rates are swept instead (see _topology()).
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
    yield from path.cross_traffic
    if traffic.pacing_bps is not None:
        yield "pacing", _kbit(traffic.pacing_bps)
    yield "duration", f"{traffic.duration_s or EXAMPLE_S:.0f}s"
    if isinstance(tests[0], Iperf3Source):
        yield "omit", f"{traffic.omit_s:.0f}s"
        yield "interval", f"{traffic.interval_s * 1e3:g}ms"


def _example_entry(twin: Twin, path: _TwinTopology, *, several_paths: bool) -> list[str]:
    """Returns the lines of an entry with example tests over the twin (CUBIC and BBR, 1 and 16
    flows), for a campaign that measured the path but tested nothing over it. With `several_paths`,
    the file has several twins, so the entry's name contains the path.
    """
    return [
        f"[{section_name(f'tests-{twin.name}' if several_paths else 'tests')}]",
        "type = iperf3",
        f"topology = {path.name}",
        f"duration = {EXAMPLE_S}s",
        "omit = 5s",
        *(f"{key} = {value}" for key, value in path.cross_traffic),
        *path.sweeps,
        ITERATIONS,
        "sweep.cca = cubic, bbr",
        "sweep.streams = 1, 16",
    ]
