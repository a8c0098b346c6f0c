"""Reads and writes groups like the patched iperf3: GROUP[,GROUP]..., GROUP =
CCA[:WEIGHT][@RATE][+DELAY].

The parser accepts and refuses the same text as the binary, and its errors name the same column
(iperf3-patch/README.md); tests compare the two. The build of the plugin for pScheduler copies this
file, so it imports only the standard library, and runs on Python 3.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DEFAULT_CCA = "-"  # stands for the system's default

MOST_GROUPS = 128  # the largest number of streams that iperf3 has
MOST_NAME_BYTES = 15  # TCP_CA_NAME_MAX of the kernel, without the NUL
MOST_WEIGHT = 1000
RATE_UNITS_BPS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
LEAST_RATE_BPS, MOST_RATE_BPS = 1e3, 1e15
MOST_DELAY_S = 86400

_NAME = re.compile(r"[^,:@+]*")
_WEIGHT = re.compile(r"0*([0-9]*)")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTkmgt]?)")
_DELAY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)?")


class GroupGrammarError(ValueError):
    """Reports text that is not a list of groups; `column` counts characters from 1."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        super().__init__(f"column {column}, at {text[column - 1 : column + 19]!r}: {reason}")
        self.column = column
        self.reason = reason


@dataclass(frozen=True)
class Group:
    """Describes streams of an iperf3 test that share their CCA, pacing rate and start.

    The CCA of the name '-' is known only after the run.
    """

    cca: str
    weight: int = 1
    pacing_bps: float | None = None  # of each stream, by its socket (SO_MAX_PACING_RATE)
    delay_s: float = 0.0  # from the start of the traffic, the omitted time included

    def __str__(self) -> str:
        """Returns the group in the form of the patched iperf3; a group with only a CCA is just its
        name.
        """
        weight = f":{self.weight}" if self.weight != 1 else ""
        pacing = f"@{self.pacing_bps:.0f}" if self.pacing_bps is not None else ""
        delay = f"+{self.delay_s:g}s" if self.delay_s else ""
        return f"{self.cca}{weight}{pacing}{delay}"


def is_group_list(text: str) -> bool:
    """Returns whether the text is more than one name of a CCA, which is all that stock iperf3
    accepts.
    """
    return text == DEFAULT_CCA or any(mark in text for mark in ",:@+")


def parse_groups(text: str) -> tuple[Group, ...]:
    """Reads a list of groups. Raises GroupGrammarError if the patched iperf3 would refuse it."""
    if "\0" in text:
        raise GroupGrammarError(text, text.index("\0") + 1, "a list has no NUL character")
    groups: list[Group] = []
    at = 0
    while True:
        if len(groups) == MOST_GROUPS:
            raise GroupGrammarError(text, at + 1, f"a list has at most {MOST_GROUPS} groups")
        group, at = _parse_group(text, at)
        groups.append(group)
        if at == len(text):
            return tuple(groups)
        if text[at] != ",":
            raise GroupGrammarError(text, at + 1, "a group is CCA[:WEIGHT][@RATE][+DELAY]")
        at += 1


def format_groups(groups: Iterable[Group]) -> str:
    """Returns the list that the patched iperf3 reads as these groups."""
    return ",".join(map(str, groups))


def streams_of_groups(groups: Sequence[Group], streams: int) -> list[int]:
    """Returns the number of streams of each group.

    The patched iperf3 distributes streams by smooth weighted round robin: each stream adds the
    weights to the groups' credits, and goes to the first group with the largest credit, which pays
    the sum of all weights for it.
    """
    credits, counts = [0] * len(groups), [0] * len(groups)
    for _ in range(streams):
        credits = [credit + group.weight for credit, group in zip(credits, groups)]
        chosen = credits.index(max(credits))
        credits[chosen] -= sum(group.weight for group in groups)
        counts[chosen] += 1
    return counts


def _parse_group(text: str, start: int) -> tuple[Group, int]:
    """Reads the group that begins at a position; returns it and the position after it."""
    cca, at = _parse_name(text, start)
    weight, pacing_bps, delay_s = 1, None, 0.0
    if text.startswith(":", at):
        weight, at = _parse_weight(text, at + 1)
    if text.startswith("@", at):
        pacing_bps, at = _parse_rate(text, at + 1)
    if text.startswith("+", at):
        delay_s, at = _parse_delay(text, at + 1)
    return Group(cca, weight, pacing_bps, delay_s), at


def _parse_name(text: str, at: int) -> tuple[str, int]:
    match = _NAME.match(text, at)
    if not match or not 1 <= len(match[0].encode(errors="surrogatepass")) <= MOST_NAME_BYTES:
        raise GroupGrammarError(
            text, at + 1, f"each name must have 1 to {MOST_NAME_BYTES} characters"
        )
    return match[0], match.end()


def _parse_weight(text: str, at: int) -> tuple[int, int]:
    match = _WEIGHT.match(text, at)
    digits = match[1] if match else ""
    if not match or len(digits) > len(str(MOST_WEIGHT)) or not 1 <= int(digits or 0) <= MOST_WEIGHT:
        raise GroupGrammarError(
            text, at + 1, f"a weight must be a whole number from 1 to {MOST_WEIGHT}"
        )
    return int(digits), match.end()


def _parse_rate(text: str, at: int) -> tuple[float, int]:
    match = _RATE.match(text, at)
    rate_bps = float(match[1]) * RATE_UNITS_BPS[match[2].upper()] if match else 0.0
    if not match or not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise GroupGrammarError(text, at + 1, "a rate must be 1K to 1000T bits/s")
    return rate_bps, match.end()


def _parse_delay(text: str, at: int) -> tuple[float, int]:
    match = _DELAY.match(text, at)
    delay_s = float(match[1]) * (1e-3 if match[2] == "ms" else 1.0) if match else 0.0
    if not match or delay_s > MOST_DELAY_S:
        raise GroupGrammarError(text, at + 1, f"a delay must be 0 to {MOST_DELAY_S} seconds")
    return delay_s, match.end()
