"""Compares ccmix's reader of groups, which is also the plugin's, with the patched iperf3's."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ccmix.model.group_grammar import (
    GroupGrammarError,
    format_groups,
    is_group_list,
    parse_groups,
    streams_of_groups,
)
from support.plugin_runner import IPERF3


def error_of_parser(text: str) -> str:
    """Returns the column and the reason of the parser's error; empty if it accepts the list."""
    try:
        parse_groups(text)
    except GroupGrammarError as error:
        return f"column {error.column}: {error.reason}"
    return ""


def error_of_binary(iperf3: Path, text: str) -> str:
    """Returns the same for iperf3, which reads its arguments before it fails to connect."""
    argv = [str(iperf3), "-J", "-c", "127.0.0.1", "-p", "1", "-P", "128", "-t", "86400", "-C", text]
    client = subprocess.run(argv, capture_output=True, check=False)
    output = (client.stdout or client.stderr).decode(errors="replace")
    error = str(json.loads(output)["error"]) if output.startswith("{") else output
    if "bad list" not in error:
        assert "unable to connect" in error, error
        return ""
    column, reason = re.search(
        r"column (\d+), at '.*': "
        r"(.*)",
        error,
        re.DOTALL,
    ).groups()  # type: ignore[union-attr]
    return f"column {column}: {reason.strip()}"


NAMES = ["cubic", "bbr", "-", "sixteen_letters_", "fifteen_letters", " "]
MARKS = [",", ":", "@", "+", ".5", "1.", "K", "T", "s", "m", "x"]
VALUES = ["0", "1", "8", "1001", "1G", "2.4g", "999", "0.001m", "10s", "250ms", "86401"]
PARTS = st.lists(st.sampled_from([*NAMES, *MARKS, *VALUES]), min_size=1, max_size=10).map("".join)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=PARTS)
@example("cubic:8,bbr:8")
@example("cubic:00000000000000000001")
@example("cubic:99999999999999999999")
@example("cubic:1000")
@example("cubic:1001")
@example("cubic@1000")
@example("cubic@999")
@example("cubic+86401")
@example("cubic@0.999999999K")
@example("cubic@1000T,bbr+86400")
@example("cubic@1000.1T")
@example(",".join(["cubic"] * 128))
@example(",".join(["cubic"] * 129))
@example("ééééééé,bbr")
@example("éééééééé,bbr")
def test_both_accept_the_same(package: Path, text: str) -> None:
    if not is_group_list(text):
        return
    by_parser, by_binary = error_of_parser(text), error_of_binary(package / IPERF3, text)
    assert bool(by_parser) == bool(by_binary), (text, by_parser, by_binary)
    assert by_parser.split(":")[0] == by_binary.split(":")[0], (text, by_parser, by_binary)


@pytest.mark.parametrize(
    ("text", "streams", "expected"),
    [
        ("cubic,bbr", 16, [8, 8]),
        ("cubic:12,bbr:4", 16, [12, 4]),
        ("cubic:12,bbr:4", 6, [5, 1]),
        ("a:3,b", 1, [1, 0]),
        ("a,b,c", 2, [1, 1, 0]),
    ],
)
def test_streams_of_groups(text: str, streams: int, expected: list[int]) -> None:
    assert streams_of_groups(parse_groups(text), streams) == expected


@given(text=PARTS)
def test_a_formatted_list_is_read_as_the_same_groups(text: str) -> None:
    """Rates are written in whole bits per second, and delays with six digits."""
    try:
        groups = parse_groups(text)
    except GroupGrammarError:
        return
    again = parse_groups(format_groups(groups))
    assert [(group.cca, group.weight) for group in again] == [
        (group.cca, group.weight) for group in groups
    ]
    assert format_groups(again) == format_groups(groups)
