"""The hosts of a topology, what each of their paths is like, and what changes during a run."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ccmix.config.emulation import MOST_DELAY_S
from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind
from ccmix.model import Change, Loss
from ccmix.units import parse_percent, parse_rate, parse_time

MOST_HOSTS = 254  # each has the third byte of its addresses for itself
RESERVED = ("bottleneck", "delay", "exit", "localhost", "receiver")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}", re.ASCII)
_RANGE = re.compile(
    r"(?P<first>[a-z][a-z0-9-]*?)(?P<low>\d{1,3})\.\.(?P<last>[a-z][a-z0-9-]*?)(?P<high>\d{1,3})", re.ASCII
)


def read_path_loss(text: str) -> Loss | None:
    """'0.025%' or 'gemodel P [R [1-H [1-K]]]'; None for 0%."""
    words = text.split()
    model = "gemodel" if words[:1] == ["gemodel"] else "random"
    shares = tuple(map(parse_percent, words[1:] if model == "gemodel" else [text]))
    if not 1 <= len(shares) <= 4:
        raise ValueError("is no loss: write for instance 0.025% or gemodel 1% 10% 70% 0.1%")
    if model == "random" and shares == (1.0,):
        raise ValueError("lets nothing pass: write less than 100%")
    return None if shares == (0.0,) else Loss(model, shares)


def read_path_delay(text: str) -> float:
    """In seconds."""
    delay_s = parse_time(text)
    if delay_s > MOST_DELAY_S:
        raise ValueError(f"is more than {MOST_DELAY_S:g} s: write for instance 44ms")
    return delay_s


def read_host_names(text: str) -> tuple[str, ...]:
    """'h1', or all from 'h1..h50'."""
    if match := _RANGE.fullmatch(text):
        low, high = int(match["low"]), int(match["high"])
        if match["first"] != match["last"] or low > high:
            raise ValueError(f"{quoted(text)} is no range of hosts: write for instance h1..h50")
        return tuple(f"{match['first']}{number}" for number in range(low, high + 1))
    if not _NAME.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no name of a host: write a letter, then letters, digits and -, at most 24")
    if text in RESERVED or text.endswith("-receiver"):
        raise ValueError(f"{quoted(text)} is the name of something else of the path: choose another, such as h1")
    return (text,)


_SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "delay": ("delay_s", read_path_delay),
    "loss": ("loss", read_path_loss),
    "jitter": ("jitter_s", read_path_delay),
    "reorder": ("reorder", parse_percent),
    "rate": ("rate_bps", parse_rate),
}


def _settings(words: Sequence[str], known: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """'delay 5ms loss gemodel 1% 10%' to the fields of a Sender and their values."""
    if words and words[0] not in known:
        raise ValueError(f"has the unknown word {quoted(words[0])}{nearest(words[0], known)}")
    starts = [at for at, word in enumerate(words) if word in known]
    for begin, end in zip(starts, [*starts[1:], len(words)], strict=True):
        name, value = words[begin], " ".join(words[begin + 1 : end])
        field, read = _SETTINGS[name]
        if not value:
            raise ValueError(f"has no value after {name}")
        try:
            yield field, read(value)
        except ValueError as error:
            raise ValueError(f"has for {name} {quoted(value)}, which {error}") from None


def read_sender(text: str) -> dict[str, Any]:
    """'delay 5ms loss 0.1% rate 100mbit' to the fields of a Sender that are given."""
    found: dict[str, Any] = {}
    for field, value in _settings(text.split(), tuple(_SETTINGS)):
        if field in found:
            raise ValueError(f"says {field.partition('_')[0]} twice")
        found[field] = value
    return found


def read_moment(text: str) -> float:
    """Seconds after the traffic began."""
    moment_s = parse_time(text)
    if moment_s == 0:
        raise ValueError(f"{quoted(text)} is no moment of a run: write for instance at.60s")
    return moment_s


def read_changes(text: str) -> tuple[Change, ...]:
    """'rate 500mbit, h2 delay 20ms' to changes without a moment."""
    parts = [part.split() for part in text.split(",")]
    if [] in parts:
        raise ValueError("has nothing between two commas, or after the last: write for instance rate 500mbit, loss 1%")
    return tuple(map(_change, parts))


def _change(words: list[str]) -> Change:
    known = ("rate", "delay", "loss")
    sender = None
    if len(words) > 2 and words[0] not in known and words[1] in known:
        sender = words.pop(0)
    found = list(_settings(words, known))
    if len(found) != 1:
        raise ValueError("is no change: write for instance rate 500mbit, or h2 delay 20ms; between changes, a comma")
    [(field, value)] = found
    if field == "loss" and value is None:
        value = Loss("random", (0.0,))
    if sender and field == "rate_bps":
        raise ValueError(f"has a rate of {quoted(sender)}: only the bottleneck's changes")
    return Change(0.0, sender, **{field: value})


SENDER = Kind("delay, loss, jitter, reorder, rate, each with its value", "as the keys of these names", read_sender)
CHANGES = Kind("changes", "rate, delay or loss; of a host alone where its name stands before", read_changes)
PATH_LOSS = Kind("share, or gemodel", "%", read_path_loss)
PATH_DELAY = Kind("time", "us, ms, s", read_path_delay)
SHARE = Kind("share", "%", parse_percent)
