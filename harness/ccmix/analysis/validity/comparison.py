"""Describes how a configured field is compared with what was applied."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, Run

Limits = Iterator[tuple[str, str]]  # keys of terms.LIMITS, and details


@dataclass(frozen=True)
class Observed:
    """Holds a run as it was configured, and what was observed of it."""

    run: Run
    tables: RunTables
    measurement: Measurement


@dataclass(frozen=True)
class FieldComparison:
    """Compares fields of a configuration with what was read back.

    `fields` are 'CLASS.FIELD' of ccmix.model. `read_from` names who reports what was applied, `equal` says how close it
    must come, both for docs/reference/findings.md. `differences` yields what differs.
    """

    fields: tuple[str, ...]
    read_from: str
    equal: str
    differences: Callable[[Observed], Limits]


def first_of_flows(limits: Limits) -> Limits:
    """Yields the first limit of flows that differ alike, and how many more flows do; nothing where none does."""
    every = list(limits)
    for kind, detail in every[:1]:
        yield kind, detail + others(len(every))


def others(flows: int) -> str:
    """Returns ", and 3 more flows", to follow what is said of the first of 4 flows; nothing where it is alone."""
    return f", and {flows - 1} more flow{'s' if flows > 2 else ''}" if flows > 1 else ""
