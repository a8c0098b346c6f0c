"""Tests that the verdict leaves out no configured field: each is compared, or listed with the
reason why not.
"""

import dataclasses
from typing import get_args

from ccmix.analysis.validity import fields
from ccmix.analysis.validity.flow_starts import lost_handshakes_s
from ccmix.model import (
    AckBottleneck,
    Buffer,
    Capture,
    Change,
    Commands,
    ConversionLimits,
    Destination,
    Group,
    HostPath,
    Loss,
    ModuleParameter,
    Netem,
    NetemPlace,
    Policer,
    Queue,
    RttProbe,
    RunSpread,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
)
from support.commands import REPOSITORY

CONFIGURED = (
    Topology,
    Policer,
    AckBottleneck,
    RunSpread,
    Sender,
    Queue,
    Loss,
    Buffer,
    Traffic,
    RttProbe,
    Group,
    *get_args(Change),
    *get_args(TrafficSource),
    HostPath,
    Destination,
    Commands,
    ModuleParameter,
    Capture,
    ConversionLimits,
    Netem,
    NetemPlace,
)
COMPARISONS = (*fields.PATH, *fields.TRAFFIC, *fields.HOST_PATH)
PAGE = REPOSITORY / "docs" / "explanation" / "validity.md"


def compared() -> list[str]:
    return [field for comparison in COMPARISONS for field in comparison.fields]


def test_every_configured_field_is_compared_or_has_a_reason_why_not() -> None:
    configured = {
        f"{kind.__name__}.{field.name}" for kind in CONFIGURED for field in dataclasses.fields(kind)
    }
    assert configured - {*compared(), *fields.NOT_COMPARED} == set()
    assert {*compared(), *fields.NOT_COMPARED} - configured == set()


def test_no_field_is_listed_twice() -> None:
    listed = [*compared(), *fields.NOT_COMPARED]
    assert sorted(set(listed)) == sorted(listed)


def table() -> list[str]:
    """Returns the rows about fields that the page should have."""
    rows = []
    for comparison in COMPARISONS:
        names = ", ".join(f"`{field}`" for field in comparison.fields) or "what follows from them"
        rows.append(f"| {names} | {comparison.read_from} | {comparison.equal} |")
    return rows


def test_the_page_about_validity_has_all_comparisons_and_reasons() -> None:
    """If it fails, it shows the rows that the page lacks."""
    lines = PAGE.read_text().splitlines()
    assert [row for row in table() if row not in lines] == []
    reasons = [f"| `{field}` | {reason} |" for field, reason in fields.NOT_COMPARED.items()]
    assert [row for row in reasons if row not in lines] == []


def test_the_more_a_path_loses_the_later_a_stream_may_begin() -> None:
    """Two lost segments take 3 s, three take 7 s (RFC 6298); if half of all are lost, 8 streams may
    be late by minutes.
    """
    percents = [Loss("random", (share,)) for share in (0.01, 0.05, 0.5)]
    assert [lost_handshakes_s([loss], 8) for loss in percents] == [3.5, 15.5, 4095.5]
    assert lost_handshakes_s(percents[:1], 128) == 7.5
    assert lost_handshakes_s([], 8) == 3.5
