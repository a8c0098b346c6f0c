"""Reads queue disciplines of the bottleneck and of senders, and their parameters, such as
`qdisc = codel ecn ce_threshold 24.2ms`.

The parameters are those of the manual pages tc-NAME(8) of iproute2 6.1, except those that other
keys set: `buffer` is the bottleneck's limit. Within the ranges, tc and the kernel use a value as it
is; outside them, they refuse it or silently use another value.
"""

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind, read_named
from ccmix.model import Queue
from ccmix.units import SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_REAL = re.compile(r"\d{1,6}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True)
class Range:
    """Reads the values of a parameter from `least` to `most`, as people write them; `tc` formats
    them for tc.
    """

    least: str
    most: str
    parse: Callable[[str], float]
    tc: Callable[[float], str]

    def __call__(self, text: str) -> str:
        value = self.parse(text)
        if not self.parse(self.least) <= value <= self.parse(self.most):
            raise ValueError(f"is not from {self.least} to {self.most}")
        return self.tc(value)


def _parse_count(text: str) -> float:
    if not _INTEGER.fullmatch(text):
        raise ValueError("is not a whole number")
    return int(text)


def _parse_real(text: str) -> float:
    if not _REAL.fullmatch(text):
        raise ValueError("is not a number: write for instance 0.02")
    return float(text)


def _parse_size(text: str) -> float:
    number, unit = quantity(text, SIZE_BYTES, "1514b, 30kb")
    return number * SIZE_BYTES[unit]


def _parse_power_of_two(most: str, text: str) -> float:
    if (value := int(_parse_count(text))).bit_count() != 1:
        raise ValueError(f"is not a power of two: write for instance {most}")
    return value


def _parse_whole_percent(text: str) -> float:
    percent = round(parse_percent(text) * 100, 9)
    if percent != int(percent):
        raise ValueError("is not a whole percentage: write for instance 10%")
    return percent


_WHOLE, _REAL_NUMBER = "{:.0f}".format, "{:.10g}".format
_KINDS: Mapping[str, tuple[Callable[[str], float], Callable[[float], str]]] = {
    "count": (_parse_count, _WHOLE),
    "fraction": (_parse_real, _REAL_NUMBER),
    "percent": (_parse_whole_percent, _WHOLE),
    "rate": (parse_rate, "{:.0f}bit".format),
    "share": (parse_percent, _REAL_NUMBER),
    "size": (_parse_size, _WHOLE),
    "time": (parse_time, lambda seconds: f"{seconds * 1e6:.10g}us"),
}


def _range(row: str) -> Range:
    """Reads 'time 10us 1h', a row of queues.toml."""
    kind, least, most = row.split()
    if kind == "power":
        return Range(least, most, partial(_parse_power_of_two, most), _WHOLE)
    return Range(least, most, *_KINDS[kind])


_Read = Range | None  # None: a flag, without a value
# tc counts all rates except a shaper's in bytes per second, in 32 bits
MOST_BANDWIDTH_BPS = parse_rate("34gbit")
_ROWS = tomllib.loads(Path(__file__).with_name("queues.toml").read_text(encoding="utf-8"))
# tc would use only the last given word of each list
_EXCLUSIVE = {kind: row.pop("exclusive", []) for kind, row in _ROWS.items()}
_FLAGS = {
    kind: [*row.pop("flags", []), *itertools.chain(*_EXCLUSIVE[kind])]
    for kind, row in _ROWS.items()
}
QUEUES: Mapping[str, Mapping[str, _Read]] = {
    kind: dict.fromkeys(_FLAGS[kind]) | {name: _range(text) for name, text in row.items()}
    for kind, row in _ROWS.items()
}
_OTHER_KEYS = {
    "limit": "write buffer = ... instead",
    "memlimit": "write buffer = ... instead",
    "rate": "write rate = ... instead",
}
_OTHER_KEYS_OF_SENDERS = {"rate": "write host.NAME = rate ... instead"}
_PACKETS, _BYTES = _range("count 1 999999999"), _range("size 64b 4gb")
SENDER_QUEUES: Mapping[str, Mapping[str, _Read]] = {
    **{kind: {**parameters, "limit": _PACKETS} for kind, parameters in QUEUES.items()},
    "bfifo": {"limit": _BYTES},
    "red": {**QUEUES["red"], "limit": _BYTES},
    "cake": {**QUEUES["cake"], "memlimit": QUEUES["fq_codel"]["memory_limit"]},
    "pfifo_fast": {},
    "noqueue": {},
}
_NEEDED: Mapping[str, Sequence[str]] = {
    "red": ("limit", "avpkt"),
    "choke": ("limit", "bandwidth"),
}  # without which tc refuses it


def read_queue(text: str) -> Queue:
    """Reads 'codel ecn ce_threshold 24.2ms'. The text has SI units, as everywhere; tc gets bytes,
    us and bit/s.
    """
    return _with_possible_averages(_queue(text, QUEUES, _OTHER_KEYS))


def read_sender_queue(text: str) -> Queue:
    """Reads 'fq_codel limit 1000 target 5ms': as read_queue(), with the limit among the
    parameters.
    """
    queue = _queue(text, SENDER_QUEUES, _OTHER_KEYS_OF_SENDERS)
    for name in _NEEDED.get(queue.kind, ()):
        if name not in queue.parameters:
            raise ValueError(
                f"has no {name}, which tc needs for {queue.kind}: add it, with a value"
            )
    return _with_possible_averages(queue)


def _with_possible_averages(queue: Queue) -> Queue:
    """Returns the queue. Raises ValueError if RED has no average that tc accepts with the
    queue's parameters.
    """
    if refusal := red_refusal(queue):
        raise ValueError(refusal)
    return queue


def _queue(
    text: str, kinds: Mapping[str, Mapping[str, _Read]], elsewhere: Mapping[str, str]
) -> Queue:
    kind, *words = text.split()
    if kind not in kinds:
        raise ValueError(f"has the unknown queue discipline {quoted(kind)}{nearest(kind, kinds)}")
    queue = Queue(kind, tuple(_parameters(kind, kinds[kind], iter(words), elsewhere)))
    for names in _EXCLUSIVE.get(kind, ()):
        if len(both := [name for name in names if name in queue.parameters]) > 1:
            raise ValueError(f"has both {both[0]} and {both[1]}: remove one")
    least, most = queue.parameter("min"), queue.parameter("max")
    if least and most and int(least) >= int(most):
        raise ValueError("has a min that is not less than its max: write a smaller min")
    return queue


def _parameters(
    kind: str, known: Mapping[str, _Read], words: Iterator[str], elsewhere: Mapping[str, str]
) -> Iterator[str]:
    given: set[str] = set()
    for name in words:
        if name in elsewhere:
            raise ValueError(f"has the parameter {name}: {elsewhere[name]}")
        if name not in known:
            hint = nearest(name, known) if known else ", which has no parameters"
            raise ValueError(f"has the unknown parameter {quoted(name)} of {kind}{hint}")
        if name in given:
            raise ValueError(f"names the parameter {name} twice")
        given.add(name)
        yield name
        if read := known[name]:
            value = next(words, None)
            if value is None:
                raise ValueError(f"has no value after {name}")
            yield read_named(name, value, read)


QUEUE = Kind(
    "queue discipline and parameters",
    f"times in us, ms, s; sizes in {', '.join(SIZE_BYTES)}",
    read_queue,
)
SENDER_QUEUE = Kind(QUEUE.name, QUEUE.unit, read_sender_queue)


LIMIT_OF: Mapping[str, str] = {"red": "limit", "choke": "limit", "sfq": "redflowlimit"}
USUAL_PACKET_BYTES = 1000  # for choke, which counts packets, and for sfq
LIKELY_PROBABILITY = 0.02  # of a drop at the largest average
MOST_HALVINGS = 32  # of the weight of a queue's length in its average
MOST_BITS = 32  # of a threshold, and of the weight's exponent together
OF_RED = (
    "min",
    "max",
    "avpkt",
    "burst",
    "probability",
    "ecn",
    "harddrop",
)  # words that sfq accepts only with RED


def red_refusal(
    queue: Queue, limit: int | None = None, packet_bytes: int | None = None
) -> str | None:
    """Returns why tc or the kernel would refuse a queue's thresholds; None if they accept them, or
    if the queue has none.

    `limit` and `packet_bytes` come from the path, and apply if the queue itself sets neither.
    """
    own = _number(queue, LIMIT_OF[queue.kind]) if queue.kind in LIMIT_OF else None
    if queue.kind == "sfq" and own is None:
        word = next((word for word in OF_RED if word in queue.parameters), None)
        return (
            word
            and f"has {word} without redflowlimit, which switches it on: add redflowlimit with a "
            "size"
        )
    limit = own or limit
    if queue.kind not in LIMIT_OF or limit is None:
        return None
    least, most = _thresholds(queue, limit)
    if most > limit and queue.kind == "choke":
        return f"has a max of {most}, more than its limit of {limit}: write a smaller max"
    if least >= most:
        return (
            f"has a min of {least} and a max of {most}, as given or by default: write a "
            "smaller min or a larger limit"
        )
    packet = (
        _number(queue, "avpkt")
        or (packet_bytes if queue.kind == "red" else None)
        or USUAL_PACKET_BYTES
    )
    return _refused_average(queue, least, most, packet)


def _refused_average(queue: Queue, least: int, most: int, packet_bytes: int) -> str | None:
    """Returns why the queue's average length can't be computed for these thresholds."""
    in_packets = queue.kind == "choke"
    unit, scale = (1, packet_bytes) if in_packets else (packet_bytes, 1)
    burst = _number(queue, "burst") or (2 * least + most) // (3 * unit)
    halvings = _halvings(least / unit, burst)
    if halvings is None:
        enough = least // unit + 1
        return (
            f"has room for a burst of {burst} packets, but its min needs {enough}: write "
            f"burst {enough} or more"
        )
    probability = float(queue.parameter("probability") or LIKELY_PROBABILITY)
    if probability / ((most - least) * scale) * 2 ** (MOST_HALVINGS - 1) <= 1:
        return (
            f"has thresholds ({least} and {most}) too far apart for its probability: write a "
            "smaller max"
        )
    if most.bit_length() + halvings >= MOST_BITS:
        return (
            f"has a max of {most} and a burst of {burst}, which the kernel can't count: "
            "write smaller ones"
        )
    return None


def _number(queue: Queue, name: str) -> int | None:
    text = queue.parameter(name)
    return None if text is None else int(text)


def _thresholds(queue: Queue, limit: int) -> tuple[int, int]:
    """Returns min and max, in bytes; those of choke in packets."""
    least, most = _number(queue, "min"), _number(queue, "max")
    if most is None:
        most = 3 * least if least and queue.kind != "choke" else limit // 4
    return (most // 3 if least is None else least), most


def _halvings(least_packets: float, burst: int) -> int | None:
    """Returns how often 1 must be halved to get the weight of the queue's length in its average
    that lets a burst pass; None if no weight does.
    """
    room = burst + 1 - least_packets
    if room < 1:
        return None
    weights = ((number, 0.5**number) for number in range(1, MOST_HALVINGS))
    return next(
        (number for number, weight in weights if room <= (1 - (1 - weight) ** burst) / weight), None
    )
