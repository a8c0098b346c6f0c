"""Reads the hosts of a topology, their delays and losses, timed changes, and a policer."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ccmix.conditions.layout import RECEIVER, ROUTERS
from ccmix.config.problems import Contradiction, quoted
from ccmix.config.queues import read_sender_queue
from ccmix.config.values import (
    BYTES,
    Kind,
    read_delay_up_to,
    read_part,
    read_shares_of_loss,
    settings,
    units,
)
from ccmix.model import (
    ETHERNET_HEADER_BYTES,
    Change,
    DelayChange,
    Loss,
    LossChange,
    Policer,
    RateChange,
)
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.units import (
    RATE_BPS,
    SIZE_BYTES,
    format_bytes,
    format_percent,
    format_rate,
    parse_percent,
    parse_rate,
    parse_time,
)

MOST_HOSTS = 254  # each has its own third byte in its addresses
# in each direction, so that a round trip with a queue is shorter than iperf3 waits for an answer
MOST_DELAY_S = 4.0
LEAST_RATE_BPS = 1e5
LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES = 65536, 256 * 2**20
MOST_LOSS = 0.5  # the share of all packets that a path may lose in the long run
RESERVED_NAMES = (*ROUTERS, RECEIVER, "localhost")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}", re.ASCII)
_RANGE = re.compile(
    r"(?P<first>[a-z][a-z0-9-]*?)(?P<low>\d{1,3})\.\.(?P<last>[a-z][a-z0-9-]*?)(?P<high>\d{1,3})",
    re.ASCII,
)


def _check_mean_loss(loss: Loss | None, max_share: float) -> None:
    """Raises ValueError if more than the share `max_share` of all packets is lost in the long
    run.
    """
    if loss and loss.mean > max_share:
        mean, most = format_percent(loss.mean), format_percent(max_share)
        raise ValueError(
            f"loses {mean} of all packets, but connections need a path that loses at most {most}"
        )


def read_path_loss(text: str) -> Loss | None:
    """Reads a random loss such as '0.025%', or bursts of losses from netem's Gilbert-Elliott model,
    'gemodel P [R [1-H [1-K]]]', whose parameters are percentages. Returns None for no loss.

    Raises ValueError if more than MOST_LOSS of all packets would be lost in the long run.
    """
    first_word, *parameters = text.split() or [""]
    path_loss = (
        read_shares_of_loss(parameters, "gemodel")
        if first_word == "gemodel"
        else read_shares_of_loss([text], "random")
    )
    _check_mean_loss(path_loss, MOST_LOSS)
    return path_loss


def read_path_delay(text: str) -> float:
    """Reads a one-way delay such as '20ms', in seconds."""
    return read_delay_up_to(text, MOST_DELAY_S)


def read_path_rtt(text: str) -> float:
    """Reads a base RTT such as '60ms', in seconds. It must be an even number of microseconds,
    because each direction gets half of it.
    """
    rtt_s = read_delay_up_to(text, 2 * MOST_DELAY_S)
    microseconds = round(rtt_s * 1e6, 3)
    if microseconds % 2:
        raise ValueError(
            "is not an even number of microseconds, but tc sets half of it in each direction: "
            "write for instance 60ms"
        )
    return rtt_s


def read_path_rate(text: str) -> float:
    """Reads a rate such as '1gbit', in bits per second. Raises ValueError if it is so low that
    iperf3 would time out.
    """
    rate_bps = parse_rate(text)
    if rate_bps < LEAST_RATE_BPS:
        raise ValueError(
            f"is less than {format_rate(LEAST_RATE_BPS)}, so a packet would take longer than "
            "iperf3 waits"
        )
    return rate_bps


def read_window(text: str) -> int:
    """Reads the largest receive window that TCP may use, such as '4mb', in bytes."""
    window_bytes = int(BYTES.read(text))
    if not LEAST_WINDOW_BYTES <= window_bytes <= MOST_WINDOW_BYTES:
        least, most = format_bytes(LEAST_WINDOW_BYTES), format_bytes(MOST_WINDOW_BYTES)
        raise ValueError(f"is not from {least} to {most}: write for instance 4mb")
    return window_bytes


def read_host_names(text: str) -> tuple[str, ...]:
    """Reads a sender's name such as 'h1', or a range of names, 'h1..h50'. Raises ValueError for a
    name that is not valid or belongs to another part of the path.
    """
    if match := _RANGE.fullmatch(text):
        low, high = int(match["low"]), int(match["high"])
        if match["first"] != match["last"] or low > high:
            raise ValueError(f"{quoted(text)} is not a range of hosts: write for instance h1..h50")
        return tuple(f"{match['first']}{number}" for number in range(low, high + 1))
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{quoted(text)} is not a host's name: write a letter, then letters, digits and -, at "
            "most 24 in all"
        )
    if text in RESERVED_NAMES or text.endswith(f"-{RECEIVER}"):
        raise ValueError(
            f"{quoted(text)} is the name of another part of the path: choose another, such as h1"
        )
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
_QUEUE_WORD = "sender-qdisc"


def _read_sender_fields(words: Sequence[str], known_words: Collection[str]) -> dict[str, Any]:
    """Reads settings such as 'delay 5ms loss gemodel 1% 10%', split into words. Returns their
    values by the names of the fields of model.Sender, but delays by the words delay, rtt,
    data-delay and ack-delay. `known_words` are the names that are allowed.
    """
    fields = {}
    for name, value in settings(words, known_words, long=("loss",)).items():
        field, read_value = _SETTINGS[name]
        fields[field] = read_part(value, read_value, name)
    return fields


@dataclass(frozen=True)
class Delays:
    """Holds the one-way delays of data and of ACKs that a text sets, in seconds; None: not set."""

    data_s: float | None
    acks_s: float | None


def delays_from_keys(given: Mapping[str, Any]) -> Delays:
    """Returns the one-way delays that the values of delay, rtt, data-delay and ack-delay in `given`
    (seconds by key) set. Raises Contradiction if two keys set the same delay.
    """
    names = [name for name in _DELAYS if name in given]
    if len(names) > 1 and names != ["data-delay", "ack-delay"]:
        raise Contradiction(names[1], f"sets the same delay as {names[0]}: remove one of them")
    if not names:
        return Delays(None, None)
    if names[0] in ("delay", "rtt"):
        delay_s = given["delay"] if "delay" in given else given["rtt"] / 2
        return Delays(delay_s, delay_s)
    return Delays(given.get("data-delay"), given.get("ack-delay"))


def read_sender(text: str) -> dict[str, Any]:
    """Reads the value of a key host.NAME, such as 'delay 5ms loss 0.1% sender-qdisc fq_codel limit
    100'.

    Returns values by the names of the fields of model.Sender, with `delays` as Delays. sender-qdisc
    must come last: all words after it belong to the queue discipline, because its parameters
    and the settings may have the same names.
    """
    words = text.split()
    queue_index = words.index(_QUEUE_WORD) if _QUEUE_WORD in words else len(words)
    fields = _read_sender_fields(words[:queue_index], [*_SETTINGS, _QUEUE_WORD])
    if queue_index < len(words):
        if queue_index == len(words) - 1:
            raise ValueError(f"has no value after {_QUEUE_WORD}")
        queue_words = words[queue_index + 1 :]
        hint = (
            ""
            if _SETTINGS.keys().isdisjoint(queue_words)
            else f"; write {_QUEUE_WORD} last in the line"
        )
        fields["queue"] = read_part(" ".join(queue_words), read_sender_queue, _QUEUE_WORD, hint)
    try:
        delays = delays_from_keys(fields)
    except Contradiction as contradiction:
        raise ValueError(f"contradicts itself: {contradiction.key} {contradiction}") from None
    own_fields = {field: value for field, value in fields.items() if field not in _DELAYS}
    return own_fields | {"delays": delays}


def read_moment(text: str) -> float:
    """Reads the TIME of a key at.TIME: when a change happens, in seconds after the traffic
    began.
    """
    moment_s = parse_time(text)
    if moment_s == 0:
        raise ValueError(f"{quoted(text)} is not a time during a run: write for instance at.60s")
    return moment_s


def read_changes(text: str) -> tuple[Change, ...]:
    """Reads the value of a key at.TIME, such as 'rate 500mbit, h2 delay 20ms': changes of the path
    during a run. Their at_s is 0 until the caller sets it from TIME.
    """
    parts = [part.split() for part in text.split(",")]
    if [] in parts:
        raise ValueError(
            "has no change between two commas, or at an end: write for instance rate 500mbit, loss "
            "1%"
        )
    changes = tuple(map(_read_change, parts))
    changed = [value for change in changes for value in _changed_values(change)]
    if len(set(changed)) < len(changed):
        raise ValueError("sets one value twice: write it once")
    return changes


def _changed_values(change: Change) -> list[tuple[str, str | None]]:
    """Returns the names of the values that a change sets, each with the sender (None: all senders),
    such as [('data', 'h2'), ('ack', 'h2')] for 'h2 delay 20ms'. So values that are set twice can be
    found.
    """
    if isinstance(change, DelayChange):
        directions = ("data", "ack") if change.direction == "both" else (change.direction,)
        return [(direction, change.sender) for direction in directions]
    return [(change.kind, None if isinstance(change, RateChange) else change.sender)]


def _read_change(words: list[str]) -> Change:
    """Reads the words of one change, [HOST] NAME VALUE, such as 'h2 delay 20ms'. A change without a
    host is for all senders. The rate is always the rate of the bottleneck, so it has no host.
    """
    known = ("rate", *_DELAYS, "loss")
    sender = None
    if len(words) > 2 and words[0] not in known and words[1] in known:
        sender = words.pop(0)
    fields = _read_sender_fields(words, known)
    if len(fields) != 1:
        raise ValueError(
            "has a part that is not a single change: write for instance rate 500mbit, h2 delay "
            "20ms, with commas between changes"
        )
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
        raise ValueError(
            f"changes the rate of {quoted(sender)}: only the bottleneck's rate can change"
        )
    return RateChange(0.0, value)


SENDER = Kind(
    "delay, rtt, data-delay, ack-delay, loss, jitter, reorder, rate, receiver-window, last "
    "sender-qdisc, each with its value",
    "as the keys of these names",
    read_sender,
)
CHANGES = Kind(
    "changes",
    "rate, loss or delay, written as for the key of that name; a host's name before it changes "
    "only that host",
    read_changes,
)
PATH_LOSS = Kind("share, or gemodel", "%", read_path_loss)
PATH_DELAY = Kind("time", "us, ms, s", read_path_delay)
PATH_RTT = Kind("time", "us, ms, s", read_path_rtt)
PATH_RATE = Kind("rate", units(RATE_BPS), read_path_rate)
WINDOW_BYTES = Kind("size", units(SIZE_BYTES), read_window)
SHARE = Kind("share", "%", parse_percent)

DEFAULT_BURST_S, LEAST_BURST_PACKETS = 0.005, 10


@dataclass(frozen=True)
class WrittenPolicer:
    """Holds a policer (it drops packets beyond a rate) as written in the file. `burst_bytes` is the
    size of its token bucket; None: not given, so it follows from the link.
    """

    rate_bps: float
    burst_bytes: int | None

    def resolve(self, link_bps: float, mtu_bytes: int, offloads: bool) -> Policer:
        """Returns the policer with a known burst, for a link of `link_bps` behind it. If none is
        written, it has the burst that a vendor recommends.

        This is the amount that the link carries in 5 ms, but at least ten packets (Juniper,
        "Determining Proper Burst Size for Traffic Policers"). With offloads it holds at least two
        super-packets (the up to 64 KiB that TCP passes to the device at once), because a policer
        never splits one.
        """
        if self.burst_bytes is not None:
            return Policer(self.rate_bps, self.burst_bytes)
        packets_bytes = LEAST_BURST_PACKETS * (mtu_bytes + ETHERNET_HEADER_BYTES)
        joined_bytes = BUCKET_PACKETS * SUPER_PACKET_BYTES if offloads else 0
        return Policer(
            self.rate_bps, max(round(link_bps * DEFAULT_BURST_S / 8), packets_bytes, joined_bytes)
        )


def read_policer(text: str) -> WrittenPolicer | None:
    """Reads the key policer: '500mbit', '500mbit burst 1mb', or 'none' (returns None)."""
    if text.lower() == "none":
        return None
    rate, *words = text.split() or [""]
    burst = settings(words, ("burst",)).get("burst")
    burst_bytes = None if burst is None else read_part(burst, BYTES.read, "burst")
    return WrittenPolicer(read_part(rate, read_path_rate), burst_bytes)


POLICER = Kind(
    "rate, then burst and a size; or none", f"{units(RATE_BPS)}; {units(SIZE_BYTES)}", read_policer
)
