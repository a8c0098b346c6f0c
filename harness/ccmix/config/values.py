"""Defines readers of values that several keys share: sizes, times, switches, shell lines.

Each raises ValueError with a sentence that says how to correct the value.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ccmix.config.problems import about, nearest, quoted
from ccmix.model import Buffer, Loss, RttProbe
from ccmix.model.netem import mean_loss
from ccmix.server_url import read_url
from ccmix.terms import LIMITS
from ccmix.units import (
    RATE_BPS,
    SIZE_BYTES,
    TIME_S,
    parse_percent,
    parse_rate,
    parse_time,
    quantity,
)

LEAST_DELAY_S = 1e-6  # see conditions/qdisc.py
STORAGE_BYTES = SIZE_BYTES | {"tb": 1e12, "tib": 2**40, "pb": 1e15}
PERIOD_S = {"h": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
MOST_STORED_BYTES = 1e18
MOST_SWEPT = 8  # values of a list that a message shows
MOST_QUESTIONS_HZ = 1000  # of ccmix-rtt
_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DOUBLED_JSON = re.compile(r'(?<!\S)\{\{(?=\S*")\S*\}\}(?!\S)')
_CORES = re.compile(
    r"(?:all|on|\d{1,4}(?:-\d{1,4})?)(?:,\d{1,4}(?:-\d{1,4})?)*", re.ASCII | re.IGNORECASE
)
_RTT_PROBE = re.compile(
    r"(?:icmp|tcp:(?P<port>\d{1,5}))@(?P<rate>\d{1,4})", re.ASCII | re.IGNORECASE
)
_SETTLED = re.compile(r"settled\s*,?\s+at\s+most\s+(.+)", re.IGNORECASE)
_KERNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)  # as lab/build accepts them
_WINDOW = re.compile(r"(\d\d):(\d\d)\s*-\s*(\d\d):(\d\d)\s*UTC", re.ASCII | re.IGNORECASE)


Settings = Mapping[str, Any]  # the values of an entry and of its path, by key


@dataclass(frozen=True)
class Kind:
    """Describes a kind of values: `name` and `unit` describe it to users, and `read` turns a text
    into the value.

    `shown` is whether a message may quote a wrong value: False if it may contain a password.
    """

    name: str
    unit: str
    read: Callable[[str], Any]
    shown: bool = True


def read_part(text: str, read: Callable[[str], Any], name: str = "", hint: str = "") -> Any:
    """Reads one part of a longer value. The message of a ValueError begins with this part, after
    its `name`, such as the delay of 'delay 5ms', and ends with `hint`.
    """
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(about(f"{name} {text}".strip(), error) + hint) from None


def split_list(text: str) -> tuple[str, ...]:
    """Splits a list at its commas. Empty items are left out."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def read_bytes(
    text: str,
    examples: str,
    most: str,
    most_bytes: float,
    unit_bytes: Mapping[str, float] = SIZE_BYTES,
) -> float:
    """Reads a size from 1 byte to `most_bytes`, in bytes. Raises ValueError, whose message has the
    maximum as text (`most`) and `examples`.
    """
    number, unit = quantity(text, unit_bytes, examples)
    size_bytes = number * unit_bytes[unit]
    if not 1 <= size_bytes <= most_bytes:
        example = examples.partition(",")[0]
        raise ValueError(f"is not a size from 1b to {most}: write for instance {example}")
    return size_bytes


def units(names: "dict[str, float] | dict[str, float | int]") -> str:
    """Joins the names of units for people: 'us, ms, s'."""
    return ", ".join(names)


def whole_number(least: int, most: int, unit: str = "") -> Kind:
    """Returns a kind of values: whole numbers from `least` to `most`, whose unit is only named to
    people.
    """

    def read(text: str) -> int:
        """Reads a whole number in the range. Raises ValueError."""
        if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise ValueError(f"is not a whole number from {least} to {most}")
        return int(text)

    return Kind(f"whole number, {least} to {most}", unit, read)


def choice(*choices: str) -> Kind:
    """Returns a kind of values: one of these words."""

    def read(text: str) -> str:
        """Returns the text if it is one of the words, and otherwise raises ValueError."""
        if text not in choices:
            raise ValueError("is unknown" + nearest(text, choices))
        return text

    return Kind(" or ".join(choices), "", read)


def _read_switch(text: str) -> bool:
    """Reads on or off, also in the words of the original ESnet harness."""
    if text.lower() in _ON:
        return True
    if text.lower() not in _OFF:
        raise ValueError("is neither on nor off: write on or off")
    return False


def _read_text_or_off(text: str) -> str | None:
    """Reads a text; None if it is a word that switches off ('off', 'no', 'false' or '0')."""
    return None if text.lower() in _OFF else read_text(text)


def _read_limits(text: str) -> tuple[str, ...]:
    """Reads a list of limits, which are kinds of findings, such as 'cpu': reasons why a run is not
    valid.
    """
    names = split_list(text)
    for name in names:
        if name not in LIMITS:
            raise ValueError(f"{quoted(name)} is not a known limit" + nearest(name, LIMITS))
    return names


def _read_names(text: str) -> tuple[str, ...]:
    """Reads a list of different names of keys."""
    names = split_list(text)
    if len(set(names)) < len(names):
        raise ValueError("names a key twice")
    return names


def _read_buffer(text: str) -> Buffer:
    """Reads the size of a buffer: in BDP ('1bdp'), packets ('1000p') or bytes ('100kb')."""
    number, unit = quantity(text, ["bdp", "p", *SIZE_BYTES], "1bdp, 100kb or 1000p")
    if number == 0:
        raise ValueError("is zero: write for instance 1bdp, 100kb or 1000p")
    if unit == "bdp":
        return Buffer(number, "bdp")
    return Buffer(number, "packet") if unit == "p" else Buffer(number * SIZE_BYTES[unit], "byte")


def _read_size(text: str) -> int:
    """Reads a size such as '64kib', in bytes, less than 4 GiB."""
    return round(read_bytes(text, "64kib, 1514b", "4gb", 2**32 - 1))


def _read_positive_time(text: str) -> float:
    """Reads a time such as '10s', in seconds, more than 0."""
    seconds = parse_time(text)
    if seconds == 0:
        raise ValueError("is zero: write for instance 10s")
    return seconds


@dataclass(frozen=True)
class Duration:
    """Holds how long a run is measured, in seconds. If `settled`, the run ends earlier once its
    goodput no longer changes, and `seconds` is the limit.
    """

    seconds: float
    settled: bool = False


def _read_duration(text: str) -> Duration:
    """Reads '30s', or 'settled, at most 10m': until the goodput no longer changes."""
    if limit := _SETTLED.fullmatch(text):
        return Duration(_read_positive_time(limit[1]), settled=True)
    if text.lower().startswith("settled"):
        raise ValueError("has no limit: write for instance settled, at most 10m")
    return Duration(_read_positive_time(text))


def read_delay_up_to(text: str, most_s: float) -> float:
    """Reads a delay of at most `most_s`, in seconds."""
    delay_s = parse_time(text)
    if 0 < delay_s < LEAST_DELAY_S:
        raise ValueError(
            "is less than 1us, the step in which tc sets delays: write for instance 44ms"
        )
    if delay_s > most_s:
        raise ValueError(f"is more than {most_s:g} s: write for instance 44ms")
    return delay_s


def read_shares_of_loss(shares: Sequence[str], model: Literal["random", "gemodel"]) -> Loss | None:
    """Reads a random loss (one share of all packets, such as '0.1%'), or the one to four shares of
    netem's Gilbert-Elliott model. Returns None if no packet would be lost.

    Raises ValueError also if all packets would be lost in the long run.
    """
    if not 1 <= len(shares) <= (4 if model == "gemodel" else 1):
        raise ValueError("is not a loss: write for instance 0.025% or gemodel 1% 10% 70% 0.1%")
    parameters = tuple(map(parse_percent, shares))
    mean = mean_loss(model, parameters)
    if mean == 1:
        raise ValueError("lets no packet pass: write less loss than 100%")
    return Loss(model, parameters) if mean else None


def _read_pacing(text: str) -> float | None:
    """Reads the rate to which fq paces each flow, in bit/s; None for 'none'."""
    if text.lower() == "dynamic":
        raise ValueError("is not supported: try several rates, such as sweep.pacing = 1gbit, 2gbit")
    if "," in text:
        raise ValueError(f"is a list, but a run has one rate: write {_sweep_line('pacing', text)}")
    return None if text == "none" else parse_rate(text)


def _sweep_line(key: str, text: str) -> str:
    """Returns the INI line that sweeps a key over the values in `text`, 'sweep.pacing = 1gbit,
    2gbit', for a user who wrote a list where a single value is needed. A long list is shortened.
    """
    values = split_list(text)
    return (
        f"sweep.{key} = "
        f"{', '.join(values[:MOST_SWEPT])}{', ...' if len(values) > MOST_SWEPT else ''}"
    )


def _read_rtt_probe(text: str) -> RttProbe | None:
    """Reads how RTTs are measured during a run: 'icmp@10' is ten pings a second, 'tcp:22@10' ten
    connections to this port. Returns None for 'none'.
    """
    if text == "none":
        return None
    match = _RTT_PROBE.fullmatch(text)
    port = int(match["port"] or 1) if match else 0
    if not match or not 1 <= int(match["rate"]) <= MOST_QUESTIONS_HZ or not 0 < port < 2**16:
        raise ValueError(
            "is not a probe: write for instance icmp@10 or tcp:22@10, with 1 to 1000 questions a "
            "second"
        )
    return RttProbe(int(match["rate"]), port if match["port"] else None)


def read_text(text: str) -> str:
    """Reads any text, of one or several lines. Raises ValueError for control characters, because
    programs that get the text do not expect them.
    """
    if control := _CONTROL.search(text):
        raise ValueError(f"has the control character {ord(control[0]):#04x}: remove it")
    return text


def _read_one_line(text: str) -> str:
    """Reads a shell command that may be written on several lines; returns it as one."""
    return " ".join(read_text(text).split("\n"))


def _read_source_command(text: str) -> str:
    """Reads src-cmd, the command that sends traffic. Configurations of the original ESnet harness
    wrote JSON arguments with doubled braces, {{"key":"value"}}: turns them into quoted arguments
    with single braces, which is what the harness passed on, without a shell.
    """
    return _DOUBLED_JSON.sub(_with_single_braces, _read_one_line(text))


def _with_single_braces(word: "re.Match[str]") -> str:
    """Returns a matched argument with single braces, quoted for the shell."""
    return shlex.quote(word[0].replace("{{", "{").replace("}}", "}"))


def _read_cores(text: str) -> str:
    """Reads a list of CPU cores for mpstat -P, such as '0-15' or 'ALL'."""
    if not _CORES.fullmatch(text):
        raise ValueError("is not a list of cores for mpstat -P: write for instance 0-15, or ALL")
    return text.upper()


def _read_storage_size(text: str) -> float:
    """Reads a size on disk such as '1gb', in bytes."""
    return read_bytes(text, "1gb, 500mb", "1000pb", MOST_STORED_BYTES, STORAGE_BYTES)


def _read_budget(text: str) -> tuple[float, float]:
    """Reads the most data in a period, such as '2TB/day', as bytes and seconds."""
    size, _, period = text.partition("/")
    if period.strip().lower() not in PERIOD_S:
        raise ValueError(
            "is not SIZE/PERIOD: write for instance 2TB/day, with one of the periods "
            f"{', '.join(PERIOD_S)}"
        )
    return _read_storage_size(size.strip()), PERIOD_S[period.strip().lower()]


def _read_time_window(text: str) -> tuple[float, float]:
    """Reads the time of day in which runs are allowed, such as '01:00-05:00 UTC', as two times in
    seconds since midnight. It may extend over midnight.
    """
    match = _WINDOW.fullmatch(text)
    hours, minutes = (
        [int(match[at]) for at in pair] if match else [99] for pair in ((1, 3), (2, 4))
    )
    if max(hours) > 23 or max(minutes) > 59:
        raise ValueError("is not a time window in UTC: write for instance 01:00-05:00 UTC")
    begin, end = (
        3600.0 * hour + 60.0 * minute for hour, minute in zip(hours, minutes, strict=True)
    )
    if begin == end:
        raise ValueError("has the same begin and end: write for instance 01:00-05:00 UTC")
    return begin, end


def _read_kernel(text: str) -> str:
    """Reads the name of a lab kernel: 'stock', or a name given to lab/build --name."""
    if not _KERNEL.fullmatch(text):
        raise ValueError(
            "is not a kernel's name: write stock, or the name given to lab/build --name"
        )
    return text


LEAST_INTERVAL_S, MOST_INTERVAL_S = (
    0.001,
    60.0,
)  # of ccmix-sockmon (probes/sockmon/options.c); iperf3's longest

SWITCH = Kind("on or off", "", _read_switch)
TEXT = Kind("text", "", read_text)
TEXT_OR_OFF = Kind("text", "", _read_text_or_off)
SHELL = Kind("shell line", "", read_text)
SHELL_ONE_LINE = Kind("shell line", "", _read_one_line)
SOURCE_COMMAND = Kind("shell line", "", _read_source_command)
FILE = Kind("file", "relative to the INI file's folder", read_text)
RATE = Kind("rate", units(RATE_BPS), parse_rate)
PACING = Kind("rate, or none", units(RATE_BPS), _read_pacing)
TIME = Kind("time", units(TIME_S), parse_time)
DURATION = Kind("time, or settled, at most TIME", units(TIME_S), _read_duration)
POSITIVE_TIME = Kind("time", units(TIME_S), _read_positive_time)
LIMIT_NAMES = Kind("list of limits", "", _read_limits)
KEY_NAMES = Kind("list of keys", "", _read_names)
BUFFER = Kind("size", f"bdp, p (packets), {units(SIZE_BYTES)}", _read_buffer)
BYTES = Kind("size", units(SIZE_BYTES), _read_size)
STORED = Kind("size", units(STORAGE_BYTES), lambda text: int(_read_storage_size(text)))
BUDGET = Kind("size per period", f"{units(STORAGE_BYTES)} per {units(PERIOD_S)}", _read_budget)
WINDOW = Kind("begin and end", "hours and minutes, UTC", _read_time_window)
RTT_PROBE = Kind("icmp@RATE, tcp:PORT@RATE or none", "times a second", _read_rtt_probe)
ELASTICSEARCH = Kind("URL", "", read_url, shown=False)
KERNEL = Kind("name", "", _read_kernel)
CORES = Kind("list of cores", "", _read_cores)


def settings(
    words: Sequence[str], known: Collection[str], long: Collection[str] = ()
) -> dict[str, str]:
    """Returns values by name from words such as 'delay 5ms loss gemodel 1% 10%': {'delay': '5ms',
    'loss': 'gemodel 1% 10%'}.

    `known` are the names. A value is one word, but the value of a name in `long` has all words up
    to the next name. Raises ValueError for an unknown name, a name without a value, and a name that
    is given twice.
    """
    values: dict[str, str] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0)
        if name not in known:
            raise ValueError(f"has the unknown word {quoted(name)}{nearest(name, known)}")
        if name in values:
            raise ValueError(f"has {name} twice")
        value: list[str] = []
        while rest and rest[0] not in known and (name in long or not value):
            value.append(rest.pop(0))
        if not value:
            raise ValueError(f"has no value after {name}")
        values[name] = " ".join(value)
    return values
