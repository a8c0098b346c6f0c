"""Reads queue disciplines and their parameters: `qdisc = codel ecn ce_threshold 24.2ms`, and those of senders.

What the manual pages tc-NAME(8) of iproute2 6.1 say, but for what other keys say: `buffer` is the bottleneck's limit.
Within the ranges tc and the kernel take a value as it is; beyond them they refuse it, or take another in silence.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.config.problems import nearest, quoted
from ccmix.config.red import red_refusal
from ccmix.config.values import Kind
from ccmix.model import Queue
from ccmix.units import SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_REAL = re.compile(r"\d{1,6}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True)
class Range:
    """Reads the values of a parameter from the least to the most, as people write them; `tc` is how tc takes them."""

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
        raise ValueError("is no whole number")
    return int(text)


def _parse_real(text: str) -> float:
    if not _REAL.fullmatch(text):
        raise ValueError("is no number: write for instance 0.02")
    return float(text)


def _parse_size(text: str) -> float:
    number, unit = quantity(text, SIZE_BYTES, "1514b, 30kb")
    return number * SIZE_BYTES[unit]


def _count(least: str, most: str = "999999999") -> Range:
    return Range(least, most, _parse_count, "{:.0f}".format)


def _time(least: str = "10us", most: str = "1h") -> Range:
    return Range(least, most, parse_time, lambda seconds: f"{seconds * 1e6:.10g}us")


def _size(least: str, most: str = "4gb") -> Range:
    return Range(least, most, _parse_size, "{:.0f}".format)


def _power_of_two(least: str, most: str) -> Range:
    def parse(text: str) -> float:
        if (value := int(_parse_count(text))).bit_count() != 1:
            raise ValueError(f"is no power of two: write for instance {most}")
        return value

    return Range(least, most, parse, "{:.0f}".format)


def _whole_percent(text: str) -> float:
    percent = round(parse_percent(text) * 100, 9)
    if percent != int(percent):
        raise ValueError("is no whole percentage: write for instance 10%")
    return percent


_Read = Callable[[str], str] | None  # None: a flag, without a value
_FLAG = None
_MOST_RATE = "34gbit"  # tc takes 32 bits of bytes per second for all rates but a shaper's
MOST_BANDWIDTH_BPS = parse_rate(_MOST_RATE)
_RATE = Range("1kbit", _MOST_RATE, parse_rate, "{:.0f}bit".format)
_FRACTION = Range("0", "1", _parse_real, "{:.10g}".format)
_SHARE = Range("0.1%", "100%", parse_percent, "{:.10g}".format)
_PERCENT = Range("1%", "99%", _whole_percent, "{:.0f}".format)
_TIME = _time()
_TIME_OR_ZERO = _time("0s")
_JIFFIES = _time("1ms")  # which some are counted in
_QUANTUM = _size("256b", "1mb")
_MEMORY = _size("4kib", "2gb")
_ECN: dict[str, _Read] = {"ecn": _FLAG, "noecn": _FLAG}
_PIE: dict[str, _Read] = _ECN | {
    "target": _time(most="4s"), "tupdate": _JIFFIES, "alpha": _count("1", "32"), "beta": _count("1", "32"),
    "bytemode": _FLAG, "nobytemode": _FLAG, "dq_rate_estimator": _FLAG, "no_dq_rate_estimator": _FLAG,
}  # fmt: skip
_CAKE_EXCLUSIVE = (
    ("datacentre", "lan", "metro", "regional", "internet", "oceanic", "satellite", "interplanetary", "rtt"),
    ("besteffort", "diffserv8", "diffserv4", "diffserv3"),
    ("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate"),
    ("wash", "nowash"),
    ("split-gso", "no-split-gso"),
    ("ack-filter", "ack-filter-aggressive", "no-ack-filter"),
    ("ptm", "atm", "noatm", "conservative", "raw"),
    ("overhead", "conservative", "raw"),
)
QUEUES: Mapping[str, Mapping[str, _Read]] = {
    "bfifo": {},
    "pfifo": {},
    "pfifo_head_drop": {},
    "codel": _ECN | {"target": _TIME, "interval": _TIME, "ce_threshold": _TIME_OR_ZERO},
    "fq_codel": _ECN
    | {
        "flows": _count("1", "65536"), "memory_limit": _MEMORY, "target": _TIME, "interval": _TIME, "quantum": _QUANTUM,
        "ce_threshold": _TIME_OR_ZERO, "drop_batch": _count("1"),
    },
    "fq": {
        "flow_limit": _count("1"), "quantum": _QUANTUM, "initial_quantum": _size("1b", "1mb"), "maxrate": _RATE,
        "buckets": _power_of_two("2", "262144"), "pacing": _FLAG, "nopacing": _FLAG, "refill_delay": _JIFFIES,
        "low_rate_threshold": _RATE, "orphan_mask": _count("0"), "timer_slack": _time("0s", "4s"),
        "ce_threshold": _TIME_OR_ZERO, "horizon": _TIME, "horizon_cap": _FLAG, "horizon_drop": _FLAG,
    },
    "pie": _PIE,
    "fq_pie": _PIE
    | {"flows": _count("1", "65536"), "quantum": _QUANTUM, "memory_limit": _MEMORY, "ecn_prob": _PERCENT},
    "red": {
        "min": _size("1b"), "max": _size("1b"), "avpkt": _size("64b", "64kib"), "burst": _count("1"),
        "adaptive": _FLAG, "probability": _SHARE, "bandwidth": _RATE, "ecn": _FLAG, "harddrop": _FLAG, "nodrop": _FLAG,
    },
    "sfq": {
        "perturb": _count("1", "1000000"), "quantum": _QUANTUM, "divisor": _power_of_two("1", "65536"),
        "flows": _count("1", "65408"), "depth": _count("1", "127"), "headdrop": _FLAG, "redflowlimit": _size("1b"),
        "min": _size("1b"), "max": _size("1b"), "avpkt": _size("64b", "64kib"), "burst": _count("1"),
        "probability": _SHARE, "ecn": _FLAG, "harddrop": _FLAG,
    },
    "choke": {"min": _count("1"), "max": _count("1"), "burst": _count("1"), "bandwidth": _RATE, "ecn": _FLAG},
    "sfb": {
        "rehash": _count("1", "3600000"), "db": _count("1", "3600000"), "max": _count("1"), "target": _count("1"),
        "increment": _FRACTION, "decrement": _FRACTION, "penalty_rate": _count("0"), "penalty_burst": _count("0"),
    },
    "hhf": {
        "quantum": _QUANTUM, "hh_limit": _count("1", "2048"), "reset_timeout": _JIFFIES, "admit_bytes": _size("1b"),
        "evict_timeout": _JIFFIES, "non_hh_weight": _count("1", "1000000"),
    },
    "cake": dict.fromkeys(name for group in _CAKE_EXCLUSIVE for name in group)
    | {"rtt": _TIME, "overhead": _count("0", "256"), "mpu": _count("0", "256")},
}  # fmt: skip
# Of these words, the last one that is given would count
_EXCLUSIVE: Mapping[str, Sequence[Sequence[str]]] = {
    "cake": _CAKE_EXCLUSIVE,
    "fq": (("pacing", "nopacing"), ("horizon_cap", "horizon_drop")),
}
_EXCLUSIVE_ANYWHERE = (("ecn", "noecn"), ("bytemode", "nobytemode"), ("dq_rate_estimator", "no_dq_rate_estimator"))
_OTHER_KEYS = {
    "limit": "buffer = ... says how much it holds",
    "memlimit": "buffer = ... says how much it holds",
    "rate": "rate = ... says how fast it is",
}
_OTHER_KEYS_OF_SENDERS = {"rate": "host.NAME = rate ... says how fast a sender's device is"}
_PACKETS = _count("1")
_BYTES = _size("64b")
SENDER_QUEUES: Mapping[str, Mapping[str, _Read]] = {
    **{kind: {**parameters, "limit": _PACKETS} for kind, parameters in QUEUES.items()},
    "bfifo": {"limit": _BYTES},
    "red": {**QUEUES["red"], "limit": _BYTES},
    "cake": {**QUEUES["cake"], "memlimit": _MEMORY},
    "pfifo_fast": {},
    "noqueue": {},
}
_NEEDED: Mapping[str, Sequence[str]] = {"red": ("limit", "avpkt"), "choke": ("limit", "bandwidth")}  # or tc refuses it


def read_queue(text: str) -> Queue:
    """Reads 'codel ecn ce_threshold 24.2ms': values in SI units as everywhere, given to tc in bytes, us and bit/s."""
    return _with_possible_averages(_queue(text, QUEUES, _OTHER_KEYS))


def read_sender_queue(text: str) -> Queue:
    """Reads 'fq_codel limit 1000 target 5ms': as read_queue(), with the limit among the parameters."""
    queue = _queue(text, SENDER_QUEUES, _OTHER_KEYS_OF_SENDERS)
    for name in _NEEDED.get(queue.kind, ()):
        if name not in queue.parameters:
            raise ValueError(f"has no {name}, which tc needs for {queue.kind}: add it, with a value")
    return _with_possible_averages(queue)


def _with_possible_averages(queue: Queue) -> Queue:
    """Returns the queue. Raises ValueError where its own parameters leave RED no average that tc takes."""
    if refusal := red_refusal(queue):
        raise ValueError(refusal)
    return queue


def _queue(text: str, kinds: Mapping[str, Mapping[str, _Read]], elsewhere: Mapping[str, str]) -> Queue:
    kind, *words = text.split()
    if kind not in kinds:
        raise ValueError(f"has the unknown queue discipline {quoted(kind)}{nearest(kind, kinds)}")
    queue = Queue(kind, tuple(_parameters(kind, kinds[kind], iter(words), elsewhere)))
    for names in (*_EXCLUSIVE_ANYWHERE, *_EXCLUSIVE.get(kind, ())):
        if len(both := [name for name in names if name in queue.parameters]) > 1:
            raise ValueError(f"says both {both[0]} and {both[1]}: leave one out")
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
            hint = nearest(name, known) if known else f": {kind} has none"
            raise ValueError(f"has the unknown parameter {quoted(name)} of {kind}{hint}")
        if name in given:
            raise ValueError(f"names the parameter {name} twice")
        given.add(name)
        yield name
        if read := known[name]:
            value = next(words, None)
            if value is None:
                raise ValueError(f"has no value after {name}")
            try:
                yield read(value)
            except ValueError as error:
                raise ValueError(f"has for {name} {quoted(value)}, which {error}") from None


QUEUE = Kind("queue discipline and parameters", f"times in us, ms, s; sizes in {', '.join(SIZE_BYTES)}", read_queue)
SENDER_QUEUE = Kind(QUEUE.name, QUEUE.unit, read_sender_queue)
