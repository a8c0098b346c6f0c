"""Compares a queue's configured parameters, and defaults, with the options that tc reports.

Defaults are those of Linux 7.2 (net/sched/sch_*.c) and iproute2 6.1 (tc/q_*.c), as tc reports them
in the lab. tc reports some options with other names than it takes. Times are in microseconds, rates
in bytes per second.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ccmix.conditions.qdisc import FQ_MEMORY_BYTES, SFQ_MOST_DEPTH
from ccmix.model import Queue, Topology

_TICK_US = 2.0  # in which tc and the kernel round times: 5 ms come back as 4999 us
_JIFFY_US = 4000.0  # of a kernel with 250 a second
_JIFFIES = ("tupdate", "refill_delay", "reset_timeout", "evict_timeout")
_FIXED_POINT = 0.05  # of SFB's shares, which are in parts of 65536 (net/sched/sch_sfb.c)
_ROUNDING = 1e-3  # of what tc prints with six digits

ABSENT = "absent"  # of an option that tc doesn't report
Value = float | str | None  # None: a word without a value
# of SFB, which tc takes in milliseconds and reports in microseconds
_MILLISECONDS = ("rehash", "db")
_TABLES = tomllib.loads(Path(__file__).with_name("queue_options.toml").read_text(encoding="utf-8"))
# Parameters that tc takes and doesn't report, by the kind of the queue
UNREPORTED = {kind: tuple(names) for kind, names in _TABLES["unreported"].items()}


def unreported(queue: Queue) -> list[str]:
    """Returns the configured parameters of a queue that tc never reports, so that they can't be
    verified.
    """
    return [name for name in UNREPORTED.get(queue.kind, ()) if name in queue.parameters]


def option_differences(
    queue: Queue,
    packet_bytes: int,
    options: Mapping[str, object],
    buffer_options: Mapping[str, Value] | None = None,
) -> Iterator[str]:
    """Yields a phrase for each option that differs in tc's report from the configured parameter:
    'target 4999, configured is 10000'. If an option is not configured, its default is expected.

    - packet_bytes: the size of the device's largest packet, from which tc derives defaults
    - options: the qdisc's options in tc's JSON
    - buffer_options: the expected options that follow from the configured buffer
    """
    for name, expected in _expected(queue, packet_bytes, buffer_options or {}).items():
        applied = options.get(name, ABSENT)
        if not _equal(name, applied, expected):
            yield f"{name} {_text(applied)}, configured: {_text(expected)}"


def options_of_buffer(topology: Topology) -> dict[str, Value]:
    """Returns those options of the bottleneck's qdisc that ccmix derives from the configured
    buffer, as tc reports them: {"flow_limit": 100} for fq.
    """
    packets, size_bytes = topology.buffer_packets, topology.buffer_bytes
    options_by_kind: dict[str, dict[str, Value]] = {
        "fq": {"flow_limit": packets},
        "fq_codel": {"memory_limit": max(FQ_MEMORY_BYTES, 4 * size_bytes)},
        "fq_pie": {"memory_limit": max(FQ_MEMORY_BYTES, 4 * size_bytes)},
        "sfq": {"depth": min(packets, SFQ_MOST_DEPTH)},
        "red": {"max": size_bytes // 4, "min": size_bytes // 4 // 3},  # iproute2, tc/q_red.c
        "choke": {"max": packets // 4, "min": packets // 4 // 3},  # tc/q_choke.c
    }
    return options_by_kind.get(topology.queue.kind, {})


def _expected(
    queue: Queue, packet_bytes: int, buffer_options: Mapping[str, Value]
) -> dict[str, Value]:
    """Returns all options that tc should report for a queue: the kernel's defaults, replaced by the
    options that follow from the buffer, and by the configured ones.
    """
    expected = dict(_TABLES["defaults"].get(queue.kind, {}))
    if queue.kind in ("fq_codel", "fq_pie", "sfq", "hhf"):
        expected["quantum"] = packet_bytes
    elif queue.kind == "fq":  # net/sched/sch_fq.c, fq_init()
        expected |= {"quantum": 2 * packet_bytes, "initial_quantum": 10 * packet_bytes}
    expected |= buffer_options
    expected |= _configured(queue)
    return {
        name: value
        for name, value in expected.items()
        if name not in UNREPORTED.get(queue.kind, ())
    }


def _configured(queue: Queue) -> dict[str, Value]:
    """Converts a queue's configured parameters from tc's command line to tc's JSON: ('target',
    '5000us', 'noecn') becomes {"target": 5000, "ecn": False}.
    """
    words = iter(queue.parameters)
    known = _TABLES["words"] | (_TABLES["cake_words"] if queue.kind == "cake" else {})
    configured: dict[str, Value] = {}
    for word in words:
        configured |= known.get(word) or {word: _number(word, next(words))}
    if queue.kind == "cake" and (
        "overhead" in configured or configured.get("atm") in ("atm", "noatm")
    ):
        configured = {"atm": "noatm"} | configured | {"raw": False}
    return configured


def _number(name: str, text: str) -> float:
    """Converts the text of a tc parameter to the number in tc's JSON: '5000us' to 5000
    (microseconds), '8bit' to 1 (bytes/s).
    """
    if text.endswith("us"):
        microseconds = float(text.removesuffix("us"))
        return (
            microseconds * 1000 if name == "timer_slack" else microseconds
        )  # that one is in nanoseconds
    if text.endswith("bit"):
        return float(text.removesuffix("bit")) / 8
    return float(text) * (1000 if name in _MILLISECONDS else 1)


def _equal(name: str, applied: object, expected: Value) -> bool:
    """Returns whether an option has the expected value in tc's report. Numbers may differ by the
    rounding of tc and the kernel: microseconds, jiffies, or six digits.
    """
    if name in ("horizon_cap", "horizon_drop"):  # words without a value, null in JSON
        return (applied is None) == bool(expected)
    if name == "pacing":  # reported only if it is off
        return (applied is not False) == bool(expected)
    if isinstance(expected, bool):
        return (False if applied == ABSENT else applied) == expected
    if (
        isinstance(expected, str)
        or isinstance(applied, str | bool)
        or not isinstance(applied, int | float)
    ):
        return applied == expected
    assert expected is not None
    tolerance = _JIFFY_US if name in _JIFFIES else max(_TICK_US, _ROUNDING * abs(expected))
    if name in ("increment", "decrement"):
        tolerance = _FIXED_POINT * expected
    elif isinstance(applied, int) and name not in _TIMES:
        tolerance = 0.5
    return abs(applied - expected) <= tolerance


_TIMES = (
    "target",
    "interval",
    "ce_threshold",
    "rtt",
    "horizon",
    "timer_slack",
    "rehash",
    "db",
    "low_rate_threshold",
    "maxrate",
    *_JIFFIES,
)


def _text(value: object) -> str:
    """Formats the value of an option for messages: 'on', 'given' for a word without a value, 'not
    given'.
    """
    match value:
        case None:
            return "given"
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:.10g}"
        case _:
            return "not given" if value == ABSENT else str(value)
