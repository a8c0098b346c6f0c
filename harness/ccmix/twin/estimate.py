"""Defines an estimate of a path's property, such as its rate, and writes it as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ccmix.model.results import FinishedRun
from ccmix.text.tables import aligned
from ccmix.text.words import joined
from ccmix.units import format_bytes, format_count, format_percent, format_rate

BASE_RTT, NOISE = "base RTT", "RTT noise"
RATE, CROSS = "rate", "cross traffic"
BUFFER, QUEUE, POLICER = "buffer", "queue", "policer's burst"
LOSS, SEEN, BURST = "random loss", "losses seen", "burst of losses"
REORDERING = "reordering"
WINDOW, SEND_BUFFER = "receiver's window", "send buffer"
MTU, ECN = "MTU", "ECN"
UNITS = {
    BASE_RTT: "s",
    NOISE: "s",
    RATE: "bps",
    CROSS: "bps",
    BUFFER: "bytes",
    QUEUE: "",
    POLICER: "bytes",
    LOSS: "share",
    SEEN: "",
    BURST: "packets",
    REORDERING: "share",
    WINDOW: "bytes",
    SEND_BUFFER: "",
    MTU: "bytes",
    ECN: "",
}
"""The units of all quantities, in the order in which estimates are shown."""
HEADINGS = ("quantity", "value", "95% interval", "origin, or why unknown")
LESS_THAN_S = 1e-3


@dataclass(frozen=True)
class Estimate:
    """Holds the estimate of a quantity (a key of UNITS, such as RATE), in SI units and fractions.

    `low` and `high` are the ends of the 95% interval. Without `high`, the quantity is at least
    `low`. `word` is the value of a quantity that is not a number, such as 'fifo'. `origin` names
    the steps or samples and the method. `unknown` is the reason why the quantity can't be
    estimated, as a clause after "because"; then there is no value.
    """

    quantity: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    word: str | None = None
    origin: str = ""
    unknown: str | None = None

    @property
    def unit(self) -> str:
        """Returns the unit of the quantity: 's', 'bps', 'bytes', 'packets', 'share' or ''."""
        return UNITS[self.quantity]

    @property
    def known(self) -> bool:
        """Returns whether the estimate has a value or a word. Only a bound does not count."""
        return self.value is not None or self.word is not None

    def to_json(self) -> dict[str, str | float | None]:
        """Returns the estimate as --format json prints it."""
        return {"quantity": self.quantity, "unit": self.unit} | asdict(self)


def cannot_be_told(
    quantity: str, because: str, low: float | None = None, origin: str = ""
) -> Estimate:
    """Returns an estimate without a value. `because` is the reason, as a clause; `low` is a lower
    bound, if one is known.
    """
    return Estimate(quantity, low=low, unknown=because, origin=origin)


def best(estimates: Sequence[Estimate]) -> Estimate:
    """Joins the estimates of the same quantity from several runs into one.

    If runs have a value, the result is the median of the values (the lower of the two middle ones
    if their number is even). Its interval covers the intervals of all values, because the path may
    have changed between the runs.

    If no run has a value, the result is the first estimate that has a word, such as 'fifo'. If no
    run has a word either, the result is the estimate with the largest lower bound.
    """
    with_value = [each for each in estimates if each.value is not None]
    if with_value:
        middle = sorted(with_value, key=lambda each: each.value or 0.0)[(len(with_value) - 1) // 2]
        if len(with_value) == 1:
            return middle
        lows = [each.low for each in with_value if each.low is not None]
        highs = [each.high for each in with_value if each.high is not None]
        origin = f"{middle.origin}; {len(with_value)} runs"
        return replace(
            middle, low=min(lows, default=None), high=max(highs, default=None), origin=origin
        )
    with_word = [each for each in estimates if each.word is not None]
    if with_word:
        return with_word[0]
    return max(estimates, key=lambda each: -1.0 if each.low is None else each.low)


def _format_time(seconds: float) -> str:
    """Returns '12.5 ms', or '250 us' below a millisecond."""
    return (
        f"{seconds * 1e3:.4g} ms"
        if seconds >= LESS_THAN_S or not seconds
        else f"{seconds * 1e6:.3g} us"
    )


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "s": _format_time,
    "bps": format_rate,
    "bytes": format_bytes,
    "share": format_percent,
    "packets": lambda value: f"{value:.3g} packets",
    "": lambda value: f"{value:g}",
}


def _formatter(estimate: Estimate) -> Callable[[float], str]:
    """Returns the function that writes a value of the estimate's quantity as text, such as '10.2
    ms'. An MTU is written in whole bytes.
    """
    return (lambda size: f"{size:.0f} B") if estimate.quantity == MTU else _FORMATS[estimate.unit]


def value(estimate: Estimate) -> str:
    """Returns the text of the value: '10.2 ms', 'at least 1.5 MB' for a bound, or 'cannot be
    told'.
    """
    write = _formatter(estimate)
    if estimate.word is not None:
        return estimate.word
    if estimate.value is not None:
        return write(estimate.value)
    if estimate.high is not None:
        return f"at most {write(estimate.high)}"
    if estimate.low:
        return f"at least {write(estimate.low)}"
    return "cannot be told"


def interval(estimate: Estimate) -> str:
    """Returns the text of the 95% interval, '9.9 ms to 10.1 ms'; '' if there is none."""
    write = _formatter(estimate)
    if (
        estimate.value is None
        or estimate.low is None
        or estimate.high is None
        or estimate.low == estimate.high
    ):
        return ""
    return f"{write(estimate.low)} to {write(estimate.high)}"


def why(estimate: Estimate) -> str:
    """Returns the text of a table's last column: where the estimate comes from ('idle step: ...').
    If there is no value, the reason for that comes first ('because ...').
    """
    because = f"because {estimate.unknown}" if estimate.unknown else ""
    return joined("; ", because, estimate.origin)


def line(estimate: Estimate) -> tuple[str, ...]:
    """Returns an estimate's row in a table with the columns HEADINGS: quantity, value, interval and
    origin.
    """
    return estimate.quantity, value(estimate), interval(estimate), why(estimate)


@dataclass(frozen=True)
class Twin:
    """Holds the estimates of a real path, from which its twin (an emulated path with the same
    properties) is written, and the runs over it.

    `name` is the name of the destination, or of the topology of an emulated path. If several paths
    have that name, the sender and the path's swept values are added to it.
    """

    name: str
    estimates: tuple[Estimate, ...]
    runs: tuple[FinishedRun, ...]
    sender: str | None = None  # of an emulated path


def estimates_table(twins: Sequence[Twin]) -> str:
    """Returns the text of `ccmix twin`: for each path a heading and a table with a line for each
    estimate.
    """
    return "\n".join(
        f"{twin.name}, {format_count(len(twin.runs), 'run')}\n"
        f"{aligned([HEADINGS, *map(line, twin.estimates)])}"
        for twin in twins
    )
