"""The group grammar of the patched iperf3: GROUP[,GROUP]..., where GROUP = CCA[:WEIGHT][@RATE][+DELAY].

What is accepted, and where an error points, is what the binary does (iperf3-patch/README.md); tests compare the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SYSTEM_DEFAULT = "-"
MOST_GROUPS = 128  # as many as iperf3 has streams
MOST_NAME_BYTES = 15  # TCP_CA_NAME_MAX of the kernel, without the NUL
MOST_WEIGHT = 1000
LEAST_RATE_BPS, MOST_RATE_BPS = 1e3, 1e15
MOST_DELAY_S = 86400.0

_NAME = re.compile(r"[^,:@+]*", re.DOTALL)
_WEIGHT = re.compile(r"[0-9]+")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmgtKMGT]?)")
_DELAY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)?")


class GroupsError(ValueError):
    """A string that is no list of groups; the text says at which column."""


@dataclass(frozen=True)
class Group:
    """Streams with the same CCA, pacing and start. `text` is the group as it was asked for."""

    text: str
    cca: str
    weight: int = 1
    rate_bps: float | None = None  # of each stream
    delay_s: float = 0.0


def is_mix(text: str) -> bool:
    """Whether stock iperf3 doesn't understand it: it takes one CCA's name and nothing else."""
    return text == SYSTEM_DEFAULT or any(mark in text for mark in ",:@+")


def parse(text: str) -> tuple[Group, ...]:
    """The groups of a list; raises GroupsError where the patched iperf3 would refuse it."""
    if "\0" in text:
        raise GroupsError("it has a NUL character")
    groups: list[Group] = []
    at = 0
    while True:
        if len(groups) == MOST_GROUPS:
            raise _error(text, at, f"more than {MOST_GROUPS} groups")
        group, at = _group(text, at)
        groups.append(group)
        if at == len(text):
            return tuple(groups)
        if text[at] != ",":
            raise _error(text, at, "a group is CCA[:WEIGHT][@RATE][+DELAY]")
        at += 1


def shares(groups: tuple[Group, ...], streams: int) -> list[int]:
    """How many of the streams each group gets: smooth weighted round robin, as iperf3 deals them out."""
    credit, dealt = [0] * len(groups), [0] * len(groups)
    for _ in range(streams):
        credit = [had + group.weight for had, group in zip(credit, groups, strict=True)]
        chosen = credit.index(max(credit))
        credit[chosen] -= sum(group.weight for group in groups)
        dealt[chosen] += 1
    return dealt


def _group(text: str, start: int) -> tuple[Group, int]:
    """The group that begins at a position, and the position after it."""
    at = start
    cca = _match(_NAME, text, at)[0]
    if not 1 <= len(cca.encode(errors="surrogatepass")) <= MOST_NAME_BYTES:
        raise _error(text, at, f"each name must have 1 to {MOST_NAME_BYTES} characters")
    at += len(cca)
    weight, rate_bps, delay_s = 1, None, 0.0
    if text[at : at + 1] == ":":
        found = _WEIGHT.match(text, at + 1)
        weight = int(found[0].lstrip("0")[:9] or 0) if found else 0
        if not found or not 1 <= weight <= MOST_WEIGHT:
            raise _error(text, at + 1, f"a weight must be a whole number from 1 to {MOST_WEIGHT}")
        at = found.end()
    if text[at : at + 1] == "@":
        found = _RATE.match(text, at + 1)
        rate_bps = float(found[1]) * 1000 ** (" kmgt".index(found[2].lower() or " ")) if found else None
        if not found or rate_bps is None or not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
            raise _error(text, at + 1, "a rate must be 1K to 1000T bits/s")
        at = found.end()
    if text[at : at + 1] == "+":
        found = _DELAY.match(text, at + 1)
        delay_s = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else 0.0
        if not found or delay_s > MOST_DELAY_S:
            raise _error(text, at + 1, "a delay must be 0 to 86400 seconds")
        at = found.end()
    return Group(text[start:at], cca, weight, rate_bps, delay_s), at


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    assert found is not None, "the pattern also matches nothing"
    return found


def _error(text: str, at: int, reason: str) -> GroupsError:
    place = text[at : at + 20]
    return GroupsError(f"column {at + 1}, at {place!r}: {reason}")
