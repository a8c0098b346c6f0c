"""The bottleneck's queue discipline and its parameters: `qdisc = codel ecn ce_threshold 24.2ms`.

What the manual pages tc-NAME(8) of iproute2 6.1 say, but for what other keys say: `buffer` is the limit.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind
from ccmix.model import Queue
from ccmix.units import SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_REAL = re.compile(r"\d{1,6}(?:\.\d{1,9})?", re.ASCII)


def _count(text: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise ValueError("is no whole number")
    return text


def _real(text: str) -> str:
    if not _REAL.fullmatch(text):
        raise ValueError("is no number: write for instance 0.02")
    return text


def _time(text: str) -> str:
    return f"{parse_time(text) * 1e6:.10g}us"


def _size(text: str) -> str:
    number, unit = quantity(text, SIZE_BYTES, "1514b, 30kb")
    return f"{number * SIZE_BYTES[unit]:.0f}"


def _share(text: str) -> str:
    return f"{parse_percent(text):.10g}"


def _percent(text: str) -> str:
    return f"{parse_percent(text) * 100:.10g}"


def _rate(text: str) -> str:
    return f"{parse_rate(text):.0f}bit"


_Read = Callable[[str], str] | None  # None: a flag, without a value
_FLAG = None
_ECN: dict[str, _Read] = {"ecn": _FLAG, "noecn": _FLAG}
_PIE: dict[str, _Read] = _ECN | {
    "target": _time, "tupdate": _time, "alpha": _count, "beta": _count, "bytemode": _FLAG, "nobytemode": _FLAG,
    "dq_rate_estimator": _FLAG, "no_dq_rate_estimator": _FLAG,
}  # fmt: skip
_CAKE_FLAGS = (
    "datacentre", "lan", "metro", "regional", "internet", "oceanic", "satellite", "interplanetary",
    "besteffort", "diffserv8", "diffserv4", "diffserv3",
    "flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate",
    "wash", "nowash", "split-gso", "no-split-gso", "ack-filter", "ack-filter-aggressive", "no-ack-filter",
    "ptm", "atm", "noatm", "conservative", "raw",
)  # fmt: skip
QUEUES: Mapping[str, Mapping[str, _Read]] = {
    "bfifo": {},
    "pfifo": {},
    "pfifo_head_drop": {},
    "codel": _ECN | {"target": _time, "interval": _time, "ce_threshold": _time},
    "fq_codel": _ECN
    | {
        "flows": _count, "memory_limit": _size, "target": _time, "interval": _time, "quantum": _size,
        "ce_threshold": _time, "drop_batch": _count,
    },
    "fq": {
        "flow_limit": _count, "quantum": _size, "initial_quantum": _size, "maxrate": _rate, "buckets": _count,
        "pacing": _FLAG, "nopacing": _FLAG, "refill_delay": _time, "low_rate_threshold": _rate, "orphan_mask": _count,
        "timer_slack": _time, "ce_threshold": _time, "horizon": _time, "horizon_cap": _FLAG, "horizon_drop": _FLAG,
    },
    "pie": _PIE,
    "fq_pie": _PIE | {"flows": _count, "quantum": _size, "memory_limit": _size, "ecn_prob": _percent},
    "red": {
        "min": _size, "max": _size, "avpkt": _size, "burst": _count, "adaptive": _FLAG, "probability": _share,
        "bandwidth": _rate, "ecn": _FLAG, "harddrop": _FLAG, "nodrop": _FLAG,
    },
    "sfq": {
        "perturb": _count, "quantum": _size, "divisor": _count, "flows": _count, "depth": _count, "headdrop": _FLAG,
        "redflowlimit": _size, "min": _size, "max": _size, "avpkt": _size, "burst": _count, "probability": _share,
        "ecn": _FLAG, "harddrop": _FLAG,
    },
    "choke": {"min": _count, "max": _count, "burst": _count, "bandwidth": _rate, "ecn": _FLAG},
    "sfb": {
        "rehash": _count, "db": _count, "max": _count, "target": _count, "increment": _real, "decrement": _real,
        "penalty_rate": _count, "penalty_burst": _count,
    },
    "hhf": {
        "quantum": _size, "hh_limit": _count, "reset_timeout": _time, "admit_bytes": _size, "evict_timeout": _time,
        "non_hh_weight": _count,
    },
    "cake": dict.fromkeys(_CAKE_FLAGS) | {"rtt": _time, "overhead": _count, "mpu": _count},
}  # fmt: skip
_ELSEWHERE = {
    "limit": "buffer = ... says how much it holds",
    "memlimit": "buffer = ... says how much it holds",
    "rate": "rate = ... says how fast it is",
}


def read_queue(text: str) -> Queue:
    """'codel ecn ce_threshold 24.2ms': values in SI units as everywhere, given to tc in bytes, us and bit/s."""
    kind, *words = text.split()
    if kind not in QUEUES:
        raise ValueError(f"has the unknown queue discipline {quoted(kind)}{nearest(kind, QUEUES)}")
    return Queue(kind, tuple(_parameters(kind, iter(words))))


def _parameters(kind: str, words: Iterator[str]) -> Iterator[str]:
    known = QUEUES[kind]
    given: set[str] = set()
    for name in words:
        if name in _ELSEWHERE:
            raise ValueError(f"has the parameter {name}: {_ELSEWHERE[name]}")
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
