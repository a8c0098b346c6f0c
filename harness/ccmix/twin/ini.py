"""Writes the INI file with the twins of measured paths as topologies, and with the tests of the
measured campaign.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ccmix.config.ini import section_name
from ccmix.config.keys import ENTRY_KEYS, TOPOLOGY_KEYS
from ccmix.model import ImportedSource, Iperf3Source, Run
from ccmix.model.group_grammar import format_groups
from ccmix.twin.bottleneck import MANAGED, OF_FLOWS
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
    OF_FLOWS: ("fq_codel",),
}  # that can emulate such a queue; otherwise a FIFO of bytes
SENDER, OTHERS = "h1", "others"
LEAST_SHARE = 1e-6
EXAMPLE = "cca", ("cubic", "bbr")
EXAMPLE_STREAMS = (1, 16)
EXAMPLE_S = 60
ITERATIONS = "iterations = 5"  # with the 3 that an interval needs, it is twice as wide
UDP_HEADERS_BYTES, ETHERNET_BYTES = 28, 14


@dataclass(frozen=True)
class _Path:
    """Holds the lines of a topology, and the keys of it that each entry sweeps."""

    name: str
    lines: tuple[str, ...]
    sweeps: tuple[str, ...]
    cross_bps: tuple[
        float, ...
    ]  # the best estimate, and other possible values; empty if no cross traffic shows


def ini(twins: Sequence[Twin]) -> str:
    """Returns the text of the file."""
    parts = [
        "# The twins of real paths, made by `ccmix twin`. Each value has its 95% interval and "
        "its origin above it.",
        "# Values that the measurement leaves open are swept, so that the answer is a range:",
        "#     ccmix run THIS-FILE --lab",
        "",
    ]
    for twin in twins:
        path = _path(twin, "twin" if len(twins) == 1 else section_name(f"twin-{twin.name}"))
        parts += [f"[topology {path.name}]", *path.lines, ""]
        for entry in _entries(twin, path, several=len(twins) > 1):
            parts += [*entry, ""]
    return "\n".join(parts)


def _path(twin: Twin, name: str) -> _Path:
    sweeps: dict[str, str] = {}
    rate, base, cross = twin.of(RATE), twin.of(BASE_RTT), twin.of(CROSS)
    policer, window = twin.of(POLICER), twin.of(WINDOW)
    crosses = _crosses(cross, rate)
    # the rate that cross traffic leaves is known better than either of the two
    rates = _links(rate) if policer.value else _rates(rate)[: 1 if crosses else None]
    lines = [*_comment(rate), f"rate = {rates[0]}", *_comment(policer), *_policer(rate, policer)]
    lines += [*_comment(base), *_rtt(base)]
    if len(rates) > 1:
        sweeps["rate"] = ", ".join(rates)
    lines += [*_comment(twin.of(LOSS)), *_comment(twin.of(BURST)), f"loss = {_loss(twin)}"]
    if more := _losses(twin.of(LOSS)):
        sweeps["loss"] = more
    buffer, more = _buffer(twin.of(BUFFER))
    lines += [*_comment(twin.of(BUFFER)), f"buffer = {buffer}"]
    if more:
        sweeps["buffer"] = more
    queue = twin.of(QUEUE)
    qdisc, *others = QDISCS.get(queue.word or "", ("bfifo",))
    lines += [*_comment(queue), f"qdisc = {qdisc}"]
    if others:
        sweeps["qdisc"] = ", ".join([qdisc, *others])
    mtu = twin.of(MTU)
    lines += [*_comment(mtu), f"mtu = {mtu.value or 1500:.0f}"]
    lines += [*_comment(twin.of(REORDERING)), *_reordering(twin.of(REORDERING))]
    lines += [
        *_comment(twin.of(ECN)),
        f"ecn = {'off' if twin.of(ECN).word in (None, 'not negotiated') else 'on'}",
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
    lines += _comment(cross)
    if crosses:
        lines += [f"host.{SENDER} =" + _host(base), f"host.{OTHERS} =" + _host(base) + " loss 0%"]
    payload_share = ((mtu.value or 1500) - UDP_HEADERS_BYTES) / (
        (mtu.value or 1500) + ETHERNET_BYTES
    )
    payloads = tuple(each * payload_share for each in crosses)
    if len(payloads) > 1:
        sweeps[f"flows.{OTHERS}"] = ", ".join(map(_others, payloads))
    return _Path(name, tuple(lines), tuple(_swept(sweeps)), payloads)


def _swept(sweeps: Mapping[str, str]) -> Iterator[str]:
    """Yields the sweeps of unknown keys, and the line that names these keys."""
    yield from (f"sweep.{key} = {values}" for key, values in sweeps.items())
    if sweeps:
        yield f"unknown = {', '.join(sweeps)}"


def _losses(loss: Estimate) -> str | None:
    """Returns the sweep of a loss with only an upper bound: no loss, and the bound."""
    if loss.value is not None or not loss.high or loss.high < LEAST_SHARE:
        return None
    return f"0%, {_share(loss.high)}"


def _crosses(cross: Estimate, rate: Estimate) -> tuple[float, ...]:
    """Returns the rate of the cross traffic with headers, and the ends of its interval if they
    leave much of the rate open (0 for none); nothing if there is hardly any cross traffic.
    """
    if cross.value is None or not rate.value:
        return ()
    ends = (cross.low or 0.0, MORE_OTHERS * cross.value if cross.high is None else cross.high)
    found = (
        cross.value,
        *(end for end in ends if abs(end - cross.value) > OPEN_SHARE * rate.value),
    )
    return found if cross.low or max(found) >= LEAST_OTHERS * rate.value else ()


def _others(bps: float) -> str:
    return f"{OTHERS} udp@{round(bps / 1e3)}K" if bps >= LEAST_RATE_BPS else f"{OTHERS} none"


def _comment(estimate: Estimate) -> Iterator[str]:
    between = f" ({interval(estimate)})" if interval(estimate) else ""
    yield f"# {estimate.quantity}: {value(estimate)}{between}; {why(estimate)}"


def _rtt(base: Estimate) -> list[str]:
    return [f"rtt = {_microseconds(base.value or 0.0)}"]


def _host(base: Estimate) -> str:
    return f" rtt {_microseconds(base.value or 0.0)}"


def _microseconds(seconds: float) -> str:
    return f"{round(seconds * 1e6 / 2) * 2}us"


def _rate(rate_bps: float) -> str:
    return f"{rate_bps / 1e3:.0f}kbit"


def _rates(rate: Estimate) -> list[str]:
    """Returns the value, with the ends of a wide interval; without a value, multiples of a lower
    bound.
    """
    if rate.value is None:
        low = rate.low or UNKNOWN_BPS
        return [_rate(low * times) for times in LARGER_RATES]
    return [_rate(rate.value), *map(_rate, _open_ends(rate, rate.value, OPEN_SHARE))]


def _open_ends(estimate: Estimate, value: float, open_share: float) -> list[float]:
    """Returns the ends of the interval that are far from the value."""
    return [
        end
        for end in (estimate.low, estimate.high)
        if end and abs(end - value) > open_share * value
    ]


def _links(policed: Estimate) -> list[str]:
    """Returns rates of the link behind a policer, which is only known to be faster."""
    return [_rate((policed.value or UNKNOWN_BPS) * times) for times in LINKS]


def _policer(rate: Estimate, burst: Estimate) -> list[str]:
    return (
        [f"policer = {_rate(rate.value)} burst {burst.value:.0f}b"]
        if rate.value and burst.value
        else []
    )


def _share(share: float) -> str:
    return f"{share * 100:.6f}".rstrip("0").rstrip(".") + "%"


def _loss(twin: Twin) -> str:
    """Returns the value of the key `loss`, with bursts if they are known; '0%' if the loss is
    unknown or negligible.
    """
    loss, burst = twin.of(LOSS), twin.of(BURST)
    if not loss.value or loss.value < LEAST_SHARE:
        return "0%"
    if burst.value:
        return "gemodel " + " ".join(map(_share, gilbert(loss.value, burst.value)))
    return _share(loss.value)


def _buffer(buffer: Estimate) -> tuple[str, str | None]:
    """Returns the value, and a sweep if the size is not known."""
    if buffer.value is not None:
        return f"{max(buffer.value, 1):.0f}b", None
    if buffer.low:
        sizes = [f"{buffer.low * times:.0f}b" for times in LARGER_BUFFERS]
        return sizes[0], ", ".join(sizes)
    return UNKNOWN_BUFFERS[-1], ", ".join(UNKNOWN_BUFFERS)


def _reordering(reordering: Estimate) -> list[str]:
    if not reordering.value or reordering.value < LEAST_SHARE:
        return []
    return [f"reorder = {_share(reordering.value)}"]


def _entries(twin: Twin, path: _Path, *, several: bool) -> Iterator[list[str]]:
    """Yields the lines of each entry: the tests of the measured campaign, or examples if it has
    none.
    """
    tests: dict[tuple[str, str], _TestOfCampaign] = {}
    for finished in twin.runs:
        run = finished.run
        tests_of_run = (
            source
            for source in run.traffic.sources
            if isinstance(source, Iperf3Source | ImportedSource)
        )
        own = [source for source in tests_of_run if twin.sender in (None, source.host)]
        if own and own[0].streams:
            named = not several or f"{run.entry}-".startswith(f"{section_name(twin.name)}-")
            name = section_name(run.entry if named else f"{run.entry}-{twin.name}")
            # an entry of an imported table is a host; its tests have other names on the twin
            condition = run.condition if isinstance(own[0], Iperf3Source) else {}
            condition = {
                key: value for key, value in condition.items() if key not in TOPOLOGY_KEYS
            }  # without the keys of the path
            test = _TestOfCampaign(
                condition, dict(_settings(run, own, path)), guessed=not run.traffic.duration_s
            )
            tests.setdefault((name, "\n".join(test.lines)), test)
    if not tests:
        yield _example(twin, path, several=several)
    sweeps = {
        name: _as_sweeps([test for (of, _), test in tests.items() if of == name])
        for name, _ in tests
    }
    entries: Counter[str] = Counter()
    for (name, _), test in tests.items():
        if sweeps[name] and entries[name]:
            continue
        entries[name] += 1
        suffix = f"-{entries[name]}" if entries[name] > 1 else ""
        head = [f"[{name}{suffix}]", "type = iperf3", f"topology = {path.name}"]
        yield [*head, *(sweeps[name] or test.lines), *path.sweeps, ITERATIONS]


@dataclass(frozen=True)
class _TestOfCampaign:
    """Holds the condition under which a test of the campaign ran, and the keys of its traffic for
    the twin. The duration is `guessed` if the results don't contain it.
    """

    condition: Mapping[str, str]
    settings: Mapping[str, str]
    guessed: bool

    @property
    def lines(self) -> list[str]:
        return [*self.notes, *(f"{key} = {value}" for key, value in self.settings.items())]

    @property
    def notes(self) -> list[str]:
        return (
            [f"# the results don't say how long the tests ran: {EXAMPLE_S} s is a guess"]
            if self.guessed
            else []
        )


def _as_sweeps(tests: Sequence[_TestOfCampaign]) -> list[str] | None:
    """Returns the lines of an entry with the campaign's sweeps, so that each condition of the twin
    has the same name as its real counterpart. Returns None if these sweeps don't determine the
    traffic completely.
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
            _same(key, value, test.settings.get(key)) for key, value in test.condition.items()
        )
        rest = {key: value for key, value in test.settings.items() if key not in swept}
        if test.condition.keys() != swept.keys() or not says_the_same or rest != fixed:
            return None
    lines = [*first.notes, *(f"{key} = {value}" for key, value in fixed.items())]
    for key, values in swept.items():
        lines += [f"sweep.{key} =", *(f"    {value}" for value in values)]
    return lines


def _same(key: str, written: str, setting: str | None) -> bool:
    """Returns whether a swept value, as the campaign's file has it, equals the twin's setting."""
    if setting is None or key not in ENTRY_KEYS:
        return False
    try:
        return bool(ENTRY_KEYS[key].read(written) == ENTRY_KEYS[key].read(setting))
    except ValueError:
        return False


def _settings(
    run: Run, tests: Sequence[Iperf3Source | ImportedSource], path: _Path
) -> Iterator[tuple[str, str]]:
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
        yield f"flows.{OTHERS}", _others(path.cross_bps[0])
    if traffic.pacing_bps is not None:
        yield "pacing", _rate(traffic.pacing_bps)
    yield "duration", f"{traffic.duration_s or EXAMPLE_S:.0f}s"
    if isinstance(tests[0], Iperf3Source):
        yield "omit", f"{traffic.omit_s:.0f}s"
        yield "interval", f"{traffic.interval_s * 1e3:g}ms"


def _example(twin: Twin, path: _Path, *, several: bool) -> list[str]:
    """Returns an entry for a campaign that only measured the path."""
    key, ccas = EXAMPLE
    lines = [
        f"[{section_name(f'tests-{twin.name}' if several else 'tests')}]",
        "type = iperf3",
        f"topology = {path.name}",
    ]
    others = [f"flows.{OTHERS} = {_others(path.cross_bps[0])}"] if len(path.cross_bps) == 1 else []
    lines += [f"duration = {EXAMPLE_S}s", "omit = 5s", *others, *path.sweeps, ITERATIONS]
    lines += [
        f"sweep.{key} = {', '.join(ccas)}",
        f"sweep.streams = {', '.join(map(str, EXAMPLE_STREAMS))}",
    ]
    return lines
