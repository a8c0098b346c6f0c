"""Every key of an INI file: how its value is read, what it means, an example and its default."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ccmix.config.problems import nearest, quoted
from ccmix.model import Buffer
from ccmix.terms import CCAS, LIMITS
from ccmix.units import SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

GENERATORS = ("iperf3",)
REPEAT_ORDERS = ("in-order", "shuffled")


@dataclass(frozen=True)
class Key:
    """A key: `read` raises ValueError with a sentence that says what would be right."""

    name: str
    read: Callable[[str], Any]
    meaning: str
    example: str
    default: str | None = None


def _whole(text: str, least: int, most: int) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise ValueError(f"is not a whole number from {least} to {most}")
    return int(text)


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    return lambda text: _whole(text, least, most)


def _choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("is unknown" + nearest(text, choices))
        return text

    return read


def _switch(text: str) -> bool:
    values = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in values:
        raise ValueError("is neither on nor off: write on or off")
    return values[text.lower()]


def _ccas(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in CCAS:
            raise ValueError(f"has the unknown CCA {quoted(name)}" + nearest(name, CCAS))
    return names


def _limits(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in LIMITS:
            raise ValueError(f"has the unknown limit {quoted(name)}" + nearest(name, LIMITS))
    return names


def _buffer(text: str) -> Buffer:
    units = {"bdp": ("bdp", 1.0), "p": ("packet", 1.0)} | {name: ("byte", scale) for name, scale in SIZE_BYTES.items()}
    number, unit = quantity(text, units, "1bdp, 100kb or 1000p")
    if number == 0:
        raise ValueError("is zero: write for instance 1bdp, 100kb or 1000p")
    kind, scale = units[unit]
    return Buffer(number * scale, kind)


def _positive_time(text: str) -> float:
    seconds = parse_time(text)
    if seconds == 0:
        raise ValueError("is zero: write for instance 10s")
    return seconds


def _loss(text: str) -> float:
    loss = parse_percent(text)
    if loss == 1:
        raise ValueError("lets nothing pass: write less than 100%")
    return loss


def _pacing(text: str) -> float | None:
    return None if text == "none" else parse_rate(text)


def _named(text: str) -> str:
    if not text:
        raise ValueError("is empty: name a [topology NAME] section")
    return text


def _table(*keys: Key) -> Mapping[str, Key]:
    return {key.name: key for key in keys}


TOPOLOGY_KEYS = _table(
    Key("rate", parse_rate, "rate of the bottleneck; counts the Ethernet header, as tbf does", "1gbit"),
    Key("delay", parse_time, "delay in each direction; the base RTT is twice that", "5ms"),
    Key("loss", _loss, "random loss per packet, in the data direction only", "0.1%", "0%"),
    Key("buffer", _buffer, "buffer of the bottleneck, in BDP, bytes or packets", "1bdp", "1bdp"),
    Key("mtu", _whole_number(576, 65535), "MTU of every device in bytes", "9000", "1500"),
    Key("offloads", _switch, "off: every packet is one packet to netem, as on a wire", "off", "off"),
)

ENTRY_KEYS = _table(
    Key("type", _choice(*GENERATORS), "what makes the traffic", "iperf3"),
    Key("enabled", _switch, "off leaves the entry out", "on", "on"),
    Key("topology", _named, "the emulated path: the NAME of a [topology NAME] section", "dtn"),
    Key("cca", _ccas, "one CCA, or several given to the streams in turn", "cubic,bbr", "cubic"),
    Key("streams", _whole_number(1, 128), "parallel TCP flows of the test", "8", "1"),
    Key("pacing", _pacing, "rate that fq paces each flow to at most, or none", "2.4gbit", "none"),
    Key("duration", _positive_time, "measured time of a run", "60s", "10s"),
    Key("omit", parse_time, "time before that, which is left out", "3s", "0s"),
    Key("interval", _positive_time, "time between two samples of sockets, queues and goodput", "500ms", "500ms"),
    Key("iterations", _whole_number(1, 10_000), "runs of each condition", "10", "1"),
    Key("repeat-order", _choice(*REPEAT_ORDERS), "order of the conditions in each iteration", "shuffled", "in-order"),
    Key("accept-limits", _limits, "limits that leave a run valid", "rtt, loss", ""),
)
