"""Reads and writes groups of the patched iperf3: CCA[:WEIGHT][@RATE][+DELAY], joined by commas.

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
    """Reports text that is not a valid list of groups. `column` counts characters from 1."""

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
        """Returns the group as the patched iperf3 reads it, without default values:
        'bbr:2@10000000+5s', or just 'cubic'.
        """
        weight = f":{self.weight}" if self.weight != 1 else ""
        pacing = f"@{self.pacing_bps:.0f}" if self.pacing_bps is not None else ""
        delay = f"+{self.delay_s:g}s" if self.delay_s else ""
        return f"{self.cca}{weight}{pacing}{delay}"


def is_group_list(text: str) -> bool:
    """Returns whether a text is more than the name of one CCA, so that only the patched iperf3 can
    read it.
    """
    return text == DEFAULT_CCA or any(mark in text for mark in ",:@+")


def parse_groups(text: str) -> tuple[Group, ...]:
    """Reads a list of groups, such as 'cubic,bbr:2'. Raises GroupGrammarError if the patched iperf3
    would refuse it.
    """
    if "\0" in text:
        raise GroupGrammarError(text, text.index("\0") + 1, "a list has no NUL character")
    groups: list[Group] = []
    position = 0
    while True:
        if len(groups) == MOST_GROUPS:
            raise GroupGrammarError(text, position + 1, f"a list has at most {MOST_GROUPS} groups")
        group, position = _parse_group(text, position)
        groups.append(group)
        if position == len(text):
            return tuple(groups)
        if text[position] != ",":
            raise GroupGrammarError(text, position + 1, "a group is CCA[:WEIGHT][@RATE][+DELAY]")
        position += 1


def format_groups(groups: Iterable[Group]) -> str:
    """Returns groups as the text that the patched iperf3 reads: 'cubic,bbr:2'."""
    return ",".join(map(str, groups))


def streams_of_groups(groups: Sequence[Group], streams: int) -> list[int]:
    """Returns how many of `streams` parallel streams each group gets, in the order of the groups.

    The patched iperf3 distributes streams by smooth weighted round robin. For each stream, every
    group gets its weight as credit. The group with the largest credit (the first of them) gets the
    stream, and its credit is reduced by the sum of all weights.
    """
    credits, counts = [0] * len(groups), [0] * len(groups)
    for _ in range(streams):
        credits = [credit + group.weight for credit, group in zip(credits, groups)]
        richest = credits.index(max(credits))
        credits[richest] -= sum(group.weight for group in groups)
        counts[richest] += 1
    return counts


def _parse_group(text: str, start: int) -> tuple[Group, int]:
    """Reads the group that begins at position `start` of the text. Returns the group and the
    position after it.
    """
    cca, position = _parse_name(text, start)
    weight, pacing_bps, delay_s = 1, None, 0.0
    if text.startswith(":", position):
        weight, position = _parse_weight(text, position + 1)
    if text.startswith("@", position):
        pacing_bps, position = _parse_rate(text, position + 1)
    if text.startswith("+", position):
        delay_s, position = _parse_delay(text, position + 1)
    return Group(cca, weight, pacing_bps, delay_s), position


def _parse_name(text: str, position: int) -> tuple[str, int]:
    """Reads the CCA's name that begins at a position of the text. Returns the name and the position
    after it. Raises GroupGrammarError.
    """
    match = _NAME.match(text, position)
    if not match or not 1 <= len(match[0].encode(errors="surrogatepass")) <= MOST_NAME_BYTES:
        raise GroupGrammarError(
            text, position + 1, f"each name must have 1 to {MOST_NAME_BYTES} characters"
        )
    return match[0], match.end()


def _parse_weight(text: str, position: int) -> tuple[int, int]:
    """Reads the weight that begins at a position of the text. Returns the weight and the position
    after it. Raises GroupGrammarError.
    """
    match = _WEIGHT.match(text, position)
    digits = match[1] if match else ""
    if not match or len(digits) > len(str(MOST_WEIGHT)) or not 1 <= int(digits or 0) <= MOST_WEIGHT:
        raise GroupGrammarError(
            text, position + 1, f"a weight must be a whole number from 1 to {MOST_WEIGHT}"
        )
    return int(digits), match.end()


def _parse_rate(text: str, position: int) -> tuple[float, int]:
    """Reads the rate ('10M') that begins at a position of the text. Returns it in bits/s, and the
    position after it. Raises GroupGrammarError.
    """
    match = _RATE.match(text, position)
    rate_bps = float(match[1]) * RATE_UNITS_BPS[match[2].upper()] if match else 0.0
    if not match or not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise GroupGrammarError(text, position + 1, "a rate must be 1K to 1000T bits/s")
    return rate_bps, match.end()


def _parse_delay(text: str, position: int) -> tuple[float, int]:
    """Reads the delay ('100ms') that begins at a position of the text. Returns it in seconds, and
    the position after it. Raises GroupGrammarError.
    """
    match = _DELAY.match(text, position)
    delay_s = float(match[1]) * (1e-3 if match[2] == "ms" else 1.0) if match else 0.0
    if not match or delay_s > MOST_DELAY_S:
        raise GroupGrammarError(text, position + 1, f"a delay must be 0 to {MOST_DELAY_S} seconds")
    return delay_s, match.end()
