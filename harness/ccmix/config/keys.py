"""Every key of an INI file: how its value is read, what it means, an example and its default."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ccmix.config.problems import nearest, quoted
from ccmix.model import Buffer, Group
from ccmix.model.traffic import DEFAULT_CCA
from ccmix.terms import CCAS, LIMITS
from ccmix.units import LEAST_RATE_BPS, MOST_RATE_BPS, SIZE_BYTES, parse_percent, parse_rate, parse_time, quantity

GENERATORS = ("iperf3",)
REPEAT_ORDERS = ("in-order", "shuffled")

# The group grammar of the patched iperf3, and its limits (src/iperf_congestion.c there)
GROUP_RATE_BPS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
MOST_WEIGHT, MOST_GROUP_DELAY_S = 1000, 86400
_GROUP = re.compile(
    r"(?P<cca>-|[A-Za-z0-9_-]{1,15})(?::(?P<weight>\d{1,6}))?"
    r"(?:@(?P<rate>\d{1,15}(?:\.\d{1,9})?)(?P<rate_unit>[KMGTkmgt]?))?"
    r"(?:\+(?P<delay>\d{1,9}(?:\.\d{1,9})?)(?P<delay_unit>ms|s)?)?",
    re.ASCII,
)


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


def _groups(text: str) -> tuple[Group, ...]:
    """The group grammar of the patched iperf3 (iperf3-patch/README.md)."""
    return tuple(_group(part.strip()) for part in text.split(","))


def _group(text: str) -> Group:
    match = _GROUP.fullmatch(text)
    if not match:
        raise ValueError(f"has {quoted(text)}, which is no CCA[:WEIGHT][@RATE][+DELAY], such as bbr:4@2.4G+10s")
    cca = match["cca"]
    if cca not in (DEFAULT_CCA, *CCAS):
        raise ValueError(f"has the unknown CCA {quoted(cca)}" + nearest(cca, CCAS))
    weight = int(match["weight"] or 1)
    if not 1 <= weight <= MOST_WEIGHT:
        raise ValueError(f"has the weight {weight}: a weight is a whole number from 1 to {MOST_WEIGHT}")
    rate, delay = match["rate"], match["delay"]
    pacing_bps = float(rate) * GROUP_RATE_BPS[(match["rate_unit"] or "").upper()] if rate else None
    if pacing_bps is not None and not LEAST_RATE_BPS <= pacing_bps <= MOST_RATE_BPS:
        raise ValueError(f"has the rate {rate}{match['rate_unit'] or ''}: a rate is from 1K to 1000T")
    delay_s = float(delay or 0) * (1e-3 if match["delay_unit"] == "ms" else 1.0)
    if delay_s > MOST_GROUP_DELAY_S:
        raise ValueError(f"has the delay {delay}: a group starts within a day")
    return Group(cca, weight, pacing_bps, delay_s)


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
    Key(
        "cca",
        _groups,
        "one CCA, or groups CCA[:WEIGHT][@RATE][+DELAY] given to the streams in turn",
        "cubic:8,bbr:8",
        "cubic",
    ),
    Key("streams", _whole_number(1, 128), "parallel TCP flows of the test", "8", "1"),
    Key("pacing", _pacing, "rate that fq paces each flow to at most, or none", "2.4gbit", "none"),
    Key("duration", _positive_time, "measured time of a run", "60s", "10s"),
    Key("omit", parse_time, "time before that, which is left out", "3s", "0s"),
    Key("interval", _positive_time, "time between two samples of sockets, queues and goodput", "500ms", "500ms"),
    Key("iterations", _whole_number(1, 10_000), "runs of each condition", "10", "1"),
    Key("repeat-order", _choice(*REPEAT_ORDERS), "order of the conditions in each iteration", "shuffled", "in-order"),
    Key("accept-limits", _limits, "limits that leave a run valid", "rtt, loss", ""),
)
