"""Reads queue disciplines and their parameters, such as `qdisc = codel ecn ce_threshold 24.2ms`.

They are those of the bottleneck and of senders. The parameters are those of the manual pages
tc-NAME(8) of iproute2 6.1, except those that other keys set: `buffer` is the bottleneck's limit.
Within the ranges, tc and the kernel use a value as it is; outside them, they refuse it or silently
use another value.
"""

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind, read_part
from ccmix.model import Queue
from ccmix.units import SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_REAL = re.compile(r"\d{1,6}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True)
class Range:
    """Reads the value of one parameter of a queue discipline, from `least` to `most`.

    `parse` turns a value as written ('24.2ms') into a number, and `tc` a number into text for tc
    ('24200us').
    """

    least: str
    most: str
    parse: Callable[[str], float]
    tc: Callable[[float], str]

    def __call__(self, text: str) -> str:
        """Reads a value and returns it as text for tc. Raises ValueError if it is outside of the
        range.
        """
        value = self.parse(text)
        if not self.parse(self.least) <= value <= self.parse(self.most):
            raise ValueError(f"is not from {self.least} to {self.most}")
        return self.tc(value)


def _parse_count(text: str) -> float:
    """Reads a whole number of up to nine digits."""
    if not _INTEGER.fullmatch(text):
        raise ValueError("is not a whole number")
    return int(text)


def _parse_real(text: str) -> float:
    """Reads a number such as '0.02', without a unit."""
    if not _REAL.fullmatch(text):
        raise ValueError("is not a number: write for instance 0.02")
    return float(text)


def _parse_size(text: str) -> float:
    """Reads a size such as '30kb', in bytes."""
    number, unit = quantity(text, SIZE_BYTES, "1514b, 30kb")
    return number * SIZE_BYTES[unit]


def _parse_power_of_two(most: str, text: str) -> float:
    """Reads a whole number that must be a power of two; the message for others suggests `most`."""
    if (value := int(_parse_count(text))).bit_count() != 1:
        raise ValueError(f"is not a power of two: write for instance {most}")
    return value


def _parse_whole_percent(text: str) -> float:
    """Reads '10%' as 10. Raises ValueError for a fraction of a percent, because tc takes none."""
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


def _read_range(row: str) -> Range:
    """Reads the range of a parameter from its text in queues.toml, such as 'time 10us 1h': the kind
    of the value, its minimum and its maximum.
    """
    kind, least, most = row.split()
    if kind == "power":
        return Range(least, most, partial(_parse_power_of_two, most), _WHOLE)
    return Range(least, most, *_KINDS[kind])


_Reader = Range | None  # None: a flag, without a value
# tc counts all rates except a shaper's in bytes per second, in 32 bits
MOST_BANDWIDTH_BPS = parse_rate("34gbit")
_ROWS = tomllib.loads(Path(__file__).with_name("queues.toml").read_text(encoding="utf-8"))
# tc would use only the last given word of each list
_EXCLUSIVE = {kind: row.pop("exclusive", []) for kind, row in _ROWS.items()}
_FLAGS = {
    kind: [*row.pop("flags", []), *itertools.chain(*_EXCLUSIVE[kind])]
    for kind, row in _ROWS.items()
}
QUEUES: Mapping[str, Mapping[str, _Reader]] = {
    kind: dict.fromkeys(_FLAGS[kind]) | {name: _read_range(text) for name, text in row.items()}
    for kind, row in _ROWS.items()
}
_BOTTLENECK_KEYS = {
    "limit": "write buffer = ... instead",
    "memlimit": "write buffer = ... instead",
    "rate": "write rate = ... instead",
}
_SENDER_KEYS = {"rate": "write host.NAME = rate ... instead"}
_PACKETS, _BYTES = _read_range("count 1 999999999"), _read_range("size 64b 4gb")
SENDER_QUEUES: Mapping[str, Mapping[str, _Reader]] = {
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
    """Reads the bottleneck's queue discipline and its parameters: 'codel ecn ce_threshold 24.2ms'.

    The parameters of the result are in the units of tc: bytes, us and bit/s. Raises ValueError with
    a hint.
    """
    return _checked_averages(_read_kind_and_parameters(text, QUEUES, _BOTTLENECK_KEYS))


def read_sender_queue(text: str) -> Queue:
    """Reads a sender's queue discipline, such as 'fq_codel limit 1000 target 5ms'. Unlike at the
    bottleneck, the limit is one of the parameters, because no other key sets it.
    """
    queue = _read_kind_and_parameters(text, SENDER_QUEUES, _SENDER_KEYS)
    for name in _NEEDED.get(queue.kind, ()):
        if name not in queue.parameters:
            raise ValueError(
                f"has no {name}, which tc needs for {queue.kind}: add it, with a value"
            )
    return _checked_averages(queue)


def _checked_averages(queue: Queue) -> Queue:
    """Returns the same queue. Raises ValueError if tc would refuse the thresholds or the averaging
    of RED, CHOKe or SFQ. Other queue disciplines are not checked.
    """
    if refusal := red_refusal(queue):
        raise ValueError(refusal)
    return queue


def _read_kind_and_parameters(
    text: str,
    known_kinds: Mapping[str, Mapping[str, _Reader]],
    hints_by_parameter: Mapping[str, str],
) -> Queue:
    """Reads a queue discipline, then its parameters. Raises ValueError.

    `known_kinds` has the parameters of each queue discipline, with the readers of their values.
    `hints_by_parameter` has the parameters that other keys of the INI file set, each with a hint to
    write this key instead.
    """
    kind, *words = text.split()
    if kind not in known_kinds:
        raise ValueError(
            f"has the unknown queue discipline {quoted(kind)}{nearest(kind, known_kinds)}"
        )
    queue = Queue(
        kind, tuple(_read_parameters(kind, known_kinds[kind], iter(words), hints_by_parameter))
    )
    for names in _EXCLUSIVE.get(kind, ()):
        if len(given_names := [name for name in names if name in queue.parameters]) > 1:
            raise ValueError(f"has both {given_names[0]} and {given_names[1]}: remove one")
    least, most = queue.parameter("min"), queue.parameter("max")
    if least and most and int(least) >= int(most):
        raise ValueError("has a min that is not less than its max: write a smaller min")
    return queue


def _read_parameters(
    kind: str,
    readers: Mapping[str, _Reader],
    words: Iterator[str],
    hints_by_parameter: Mapping[str, str],
) -> Iterator[str]:
    """Yields the parameters of the queue discipline `kind` as words for tc: the name of each
    parameter, and then its value. Flags have no value.

    `words` are the parameters as written. `readers` has the parameters of this queue discipline,
    with the readers of their values (None for a flag). `hints_by_parameter` has the parameters that
    other keys of the INI file set, each with a hint to write this key instead.
    """
    given: set[str] = set()
    for name in words:
        if name in hints_by_parameter:
            raise ValueError(f"has the parameter {name}: {hints_by_parameter[name]}")
        if name not in readers:
            hint = nearest(name, readers) if readers else ", which has no parameters"
            raise ValueError(f"has the unknown parameter {quoted(name)} of {kind}{hint}")
        if name in given:
            raise ValueError(f"names the parameter {name} twice")
        given.add(name)
        yield name
        if reader := readers[name]:
            value = next(words, None)
            if value is None:
                raise ValueError(f"has no value after {name}")
            yield read_part(value, reader, name)


QUEUE = Kind(
    "queue discipline and parameters",
    f"times in us, ms, s; sizes in {', '.join(SIZE_BYTES)}",
    read_queue,
)
SENDER_QUEUE = Kind(QUEUE.name, QUEUE.unit, read_sender_queue)


LIMIT_PARAMETERS: Mapping[str, str] = {"red": "limit", "choke": "limit", "sfq": "redflowlimit"}
USUAL_PACKET_BYTES = 1000  # for choke, which counts packets, and for sfq
LIKELY_PROBABILITY = 0.02  # of a drop at the largest average
MOST_HALVINGS = 32  # of the weight of a queue's length in its average
MOST_BITS = 32  # of a threshold, and of the weight's exponent together
RED_PARAMETERS = (
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
    """Returns the reason why tc or the kernel would refuse the thresholds min and max of RED, CHOKe
    or SFQ; None if it accepts them, or the queue discipline has no thresholds.

    `limit` (bytes; packets for CHOKe) and `packet_bytes` are the buffer and packet size of the
    path, for queues that set neither; None while the path is not known yet.
    """
    own_limit = (
        _whole_parameter(queue, LIMIT_PARAMETERS[queue.kind])
        if queue.kind in LIMIT_PARAMETERS
        else None
    )
    if queue.kind == "sfq" and own_limit is None:
        word = next((word for word in RED_PARAMETERS if word in queue.parameters), None)
        return (
            word
            and f"has {word} without redflowlimit, which switches it on: add redflowlimit with a "
            "size"
        )
    limit = own_limit or limit
    if queue.kind not in LIMIT_PARAMETERS or limit is None:
        return None
    least, most = _thresholds(queue, limit)
    if most > limit and queue.kind == "choke":
        return f"has a max of {most}, more than its limit of {limit}: write a smaller max"
    if least >= most:
        return (
            f"has a min of {least} and a max of {most}, as given or by default: write a "
            "smaller min or a larger limit"
        )
    average_packet_bytes = (
        _whole_parameter(queue, "avpkt")
        or (packet_bytes if queue.kind == "red" else None)
        or USUAL_PACKET_BYTES
    )
    return _average_refusal(queue, least, most, average_packet_bytes)


def _average_refusal(queue: Queue, least: int, most: int, packet_bytes: int) -> str | None:
    """Returns the reason why the kernel can't average the queue's length with these thresholds;
    None if it can.

    `least` and `most` are the thresholds min and max (bytes; packets for CHOKe). The checks repeat
    those of tc and of the kernel for the weight of a new length in the average and for the drop
    probability.
    """
    in_packets = queue.kind == "choke"
    unit, probability_scale = (1, packet_bytes) if in_packets else (packet_bytes, 1)
    burst = _whole_parameter(queue, "burst") or (2 * least + most) // (3 * unit)
    halvings = _halvings(least / unit, burst)
    if halvings is None:
        needed_burst = least // unit + 1
        return (
            f"has room for a burst of {burst} packets, but its min needs {needed_burst}: write "
            f"burst {needed_burst} or more"
        )
    probability = float(queue.parameter("probability") or LIKELY_PROBABILITY)
    if probability / ((most - least) * probability_scale) * 2 ** (MOST_HALVINGS - 1) <= 1:
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


def _whole_parameter(queue: Queue, name: str) -> int | None:
    """Returns the value of a parameter as a whole number; None if the queue does not set it."""
    text = queue.parameter(name)
    return None if text is None else int(text)


def _thresholds(queue: Queue, limit: int) -> tuple[int, int]:
    """Returns the thresholds min and max in bytes (packets for CHOKe), with tc's defaults if not
    set.
    """
    least, most = _whole_parameter(queue, "min"), _whole_parameter(queue, "max")
    if most is None:
        most = 3 * least if least and queue.kind != "choke" else limit // 4
    return (most // 3 if least is None else least), most


def _halvings(least_packets: float, burst: int) -> int | None:
    """Returns n for the weight 1/2^n with which RED averages the queue's length, as tc computes it:
    the largest weight with which `burst` packets in a row do not raise the average above
    `least_packets`.

    None if no weight does.
    """
    burst_room = burst + 1 - least_packets
    if burst_room < 1:
        return None
    weights = ((halvings, 0.5**halvings) for halvings in range(1, MOST_HALVINGS))
    return next(
        (
            halvings
            for halvings, weight in weights
            if burst_room <= (1 - (1 - weight) ** burst) / weight
        ),
        None,
    )
