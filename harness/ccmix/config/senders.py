"""The hosts of a topology, what each of their paths is like, and what changes during a run."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ccmix.conditions.layout import RECEIVER, ROUTERS
from ccmix.config.named_values import settings
from ccmix.config.netem_values import check_mean, delay, loss
from ccmix.config.problems import Contradiction, quoted
from ccmix.config.queues import read_sender_queue
from ccmix.config.values import BYTES, Kind, units
from ccmix.model import Change, DelayChange, Loss, LossChange, Queue, RateChange
from ccmix.units import RATE_BPS, SIZE_BYTES, format_bytes, format_rate, parse_percent, parse_rate, parse_time

MOST_HOSTS = 254  # each has the third byte of its addresses for itself
MOST_DELAY_S = 4.0  # in each direction, so that a round trip with a queue is less than iperf3 waits for an answer
LEAST_RATE_BPS = 1e5
LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES = 65536, 256 * 2**20
MOST_LOSS = 0.5  # in the mean
RESERVED = (*ROUTERS, RECEIVER, "localhost")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}", re.ASCII)
_RANGE = re.compile(
    r"(?P<first>[a-z][a-z0-9-]*?)(?P<low>\d{1,3})\.\.(?P<last>[a-z][a-z0-9-]*?)(?P<high>\d{1,3})", re.ASCII
)


def read_path_loss(text: str) -> Loss | None:
    """Reads '0.025%' or 'gemodel P [R [1-H [1-K]]]'; returns None for no loss."""
    model, *shares = text.split() or [""]
    path_loss = loss(shares, "gemodel") if model == "gemodel" else loss([text], "random")
    check_mean(path_loss, MOST_LOSS)
    return path_loss


def read_path_delay(text: str) -> float:
    """Reads a delay in seconds."""
    return delay(text, MOST_DELAY_S)


def read_path_rtt(text: str) -> float:
    """Reads a base RTT in seconds."""
    rtt_s = delay(text, 2 * MOST_DELAY_S)
    microseconds = round(rtt_s * 1e6, 3)
    if microseconds % 2:
        raise ValueError("is no even number of microseconds, of which tc sets half in each direction: write 60ms")
    return rtt_s


def read_path_rate(text: str) -> float:
    """Reads a rate in bits per second."""
    rate_bps = parse_rate(text)
    if rate_bps < LEAST_RATE_BPS:
        raise ValueError(
            f"is less than {format_rate(LEAST_RATE_BPS)}, at which a packet takes longer than iperf3 waits"
        )
    return rate_bps


def read_window(text: str) -> int:
    """Reads the largest window of a receiver, in bytes."""
    window_bytes = int(BYTES.read(text))
    if not LEAST_WINDOW_BYTES <= window_bytes <= MOST_WINDOW_BYTES:
        least, most = format_bytes(LEAST_WINDOW_BYTES), format_bytes(MOST_WINDOW_BYTES)
        raise ValueError(f"is not from {least} to {most}: write for instance 4mb")
    return window_bytes


def read_host_names(text: str) -> tuple[str, ...]:
    """Reads 'h1', or all names from 'h1..h50'."""
    if match := _RANGE.fullmatch(text):
        low, high = int(match["low"]), int(match["high"])
        if match["first"] != match["last"] or low > high:
            raise ValueError(f"{quoted(text)} is no range of hosts: write for instance h1..h50")
        return tuple(f"{match['first']}{number}" for number in range(low, high + 1))
    if not _NAME.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no name of a host: write a letter, then letters, digits and -, at most 24")
    if text in RESERVED or text.endswith(f"-{RECEIVER}"):
        raise ValueError(f"{quoted(text)} is the name of something else of the path: choose another, such as h1")
    return (text,)


_DELAYS: Mapping[str, Callable[[str], float]] = {
    "delay": read_path_delay,
    "rtt": read_path_rtt,
    "data-delay": read_path_delay,
    "ack-delay": read_path_delay,
}
_SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    **{name: (name, read) for name, read in _DELAYS.items()},
    "loss": ("loss", read_path_loss),
    "jitter": ("jitter_s", read_path_delay),
    "reorder": ("reorder", parse_percent),
    "rate": ("rate_bps", read_path_rate),
    "receiver-window": ("receiver_window_bytes", read_window),
}
_QUEUE = "sender-qdisc"


def _fields(words: Sequence[str], known: Collection[str]) -> dict[str, Any]:
    """Reads 'delay 5ms loss gemodel 1% 10%' as the fields of a Sender that are given, and their values."""
    fields = {}
    for name, value in settings(words, known, long=("loss",)).items():
        field, read = _SETTINGS[name]
        try:
            fields[field] = read(value)
        except ValueError as error:
            raise ValueError(f"has for {name} {quoted(value)}, which {error}") from None
    return fields


@dataclass(frozen=True)
class Delays:
    """Holds the delays of a path that are given, in seconds; None: not given."""

    data_s: float | None
    acks_s: float | None


def delays_of(given: Mapping[str, Any]) -> Delays:
    """Returns what delay, rtt, data-delay and ack-delay come to. Raises Contradiction where two say the same."""
    names = [name for name in _DELAYS if name in given]
    if len(names) > 1 and names != ["data-delay", "ack-delay"]:
        raise Contradiction(names[1], f"and {names[0]} both say how long packets take: remove one of them")
    if not names:
        return Delays(None, None)
    if names[0] in ("delay", "rtt"):
        both_s = given["delay"] if "delay" in given else given["rtt"] / 2
        return Delays(both_s, both_s)
    return Delays(given.get("data-delay"), given.get("ack-delay"))


def read_sender(text: str) -> dict[str, Any]:
    """Reads 'delay 5ms loss 0.1% sender-qdisc fq_codel limit 100' as the fields of a Sender that are given, and its
    `delays`. The queue discipline's parameters, which may have the names of settings, go on to the end.
    """
    words = text.split()
    at = words.index(_QUEUE) if _QUEUE in words else len(words)
    fields = _fields(words[:at], [*_SETTINGS, _QUEUE])
    if at < len(words):
        if at == len(words) - 1:
            raise ValueError(f"has no value after {_QUEUE}")
        fields["queue"] = _queue(" ".join(words[at + 1 :]))
    try:
        delays = delays_of(fields)
    except Contradiction as contradiction:
        raise ValueError(f"contradicts itself: {contradiction.key} {contradiction}") from None
    own = {field: value for field, value in fields.items() if field not in _DELAYS}
    return own | {"delays": delays}


def _queue(text: str) -> Queue:
    try:
        return read_sender_queue(text)
    except ValueError as error:
        last = f"; write {_QUEUE} last in the line" if not _SETTINGS.keys().isdisjoint(text.split()) else ""
        raise ValueError(f"has for {_QUEUE} {quoted(text)}, which {error}{last}") from None


def read_moment(text: str) -> float:
    """Seconds after the traffic began."""
    moment_s = parse_time(text)
    if moment_s == 0:
        raise ValueError(f"{quoted(text)} is no moment of a run: write for instance at.60s")
    return moment_s


def read_changes(text: str) -> tuple[Change, ...]:
    """Reads 'rate 500mbit, h2 delay 20ms' as changes, at_s of which is not known yet."""
    parts = [part.split() for part in text.split(",")]
    if [] in parts:
        raise ValueError("has nothing between two commas, or after the last: write for instance rate 500mbit, loss 1%")
    changes = tuple(map(_change, parts))
    changed = [what for change in changes for what in _changed(change)]
    if len(set(changed)) < len(changed):
        raise ValueError("changes one thing twice: write it once")
    return changes


def _changed(change: Change) -> list[tuple[str, str | None]]:
    """Returns what a change sets, each with the sender that it is of."""
    if isinstance(change, DelayChange):
        directions = ("data", "ack") if change.direction == "both" else (change.direction,)
        return [(direction, change.sender) for direction in directions]
    return [(change.kind, None if isinstance(change, RateChange) else change.sender)]


def _change(words: list[str]) -> Change:
    known = ("rate", *_DELAYS, "loss")
    sender = None
    if len(words) > 2 and words[0] not in known and words[1] in known:
        sender = words.pop(0)
    fields = _fields(words, known)
    if len(fields) != 1:
        raise ValueError("is no change: write for instance rate 500mbit, or h2 delay 20ms; between changes, a comma")
    [(field, value)] = fields.items()
    if field in ("delay", "rtt"):
        return DelayChange(0.0, sender, value if field == "delay" else value / 2)
    if field == "data-delay":
        return DelayChange(0.0, sender, value, direction="data")
    if field == "ack-delay":
        return DelayChange(0.0, sender, value, direction="ack")
    if field == "loss":
        return LossChange(0.0, sender, value)
    if sender:
        raise ValueError(f"has a rate of {quoted(sender)}: only the bottleneck's changes")
    return RateChange(0.0, value)


SENDER = Kind(
    "delay, rtt, data-delay, ack-delay, loss, jitter, reorder, rate, receiver-window, last sender-qdisc, each with its "
    "value",
    "as the keys of these names",
    read_sender,
)
CHANGES = Kind("changes", "rate, loss, or a delay as the keys; of one host if its name comes first", read_changes)
PATH_LOSS = Kind("share, or gemodel", "%", read_path_loss)
PATH_DELAY = Kind("time", "us, ms, s", read_path_delay)
PATH_RTT = Kind("time", "us, ms, s", read_path_rtt)
PATH_RATE = Kind("rate", units(RATE_BPS), read_path_rate)
WINDOW_BYTES = Kind("size", units(SIZE_BYTES), read_window)
SHARE = Kind("share", "%", parse_percent)
