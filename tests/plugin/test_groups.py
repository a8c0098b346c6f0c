"""The tool's reader of groups, and the binary's."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plugin_runner import IPERF3


def of_tool(text: str) -> str:
    """Where and why the tool refuses a list; empty where it doesn't."""
    from iperf3mix import groups  # noqa: PLC0415 - conftest.py puts it on the path

    if not groups.is_mix(text):
        return "no mix"
    try:
        groups.parse(text)
    except groups.GroupsError as error:
        column, reason = re.fullmatch(r"column (\d+), at .*: (.*)", str(error), re.DOTALL).groups()  # type: ignore[union-attr]
        return f"column {column}: {reason}"
    return ""


def of_binary(iperf3: Path, text: str) -> str:
    """The same of iperf3, which reads its arguments before it finds nobody at the port."""
    argv = [str(iperf3), "-J", "-c", "127.0.0.1", "-p", "1", "-P", "128", "-t", "86400", "-C", text]
    said = subprocess.run(argv, capture_output=True, check=False)
    output = (said.stdout or said.stderr).decode(errors="replace")
    error = str(json.loads(output)["error"]) if output.startswith("{") else output
    if "bad list" not in error:
        assert "unable to connect" in error, error
        return ""
    column, reason = re.search(r"column (\d+), at '.*': (.*)", error, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"column {column}: {reason.strip()}"


NAMES = ["cubic", "bbr", "-", "sixteen_letters_", "fifteen_letters", " "]
MARKS = [",", ":", "@", "+", ".5", "1.", "K", "T", "s", "m", "x"]
VALUES = ["0", "1", "8", "1001", "1G", "2.4g", "999", "0.001m", "10s", "250ms", "86401"]
PARTS = st.lists(st.sampled_from([*NAMES, *MARKS, *VALUES]), min_size=1, max_size=10).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
def test_both_take_the_same(package: Path, text: str) -> None:
    tools = of_tool(text)
    if tools == "no mix":
        return
    binarys = of_binary(package / IPERF3, text)
    assert bool(tools) == bool(binarys), (text, tools, binarys)
    assert tools.split(":")[0] == binarys.split(":")[0], (text, tools, binarys)


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
def test_shares(text: str, streams: int, expected: list[int]) -> None:
    from iperf3mix import groups  # noqa: PLC0415 - conftest.py puts it on the path

    assert groups.shares(groups.parse(text), streams) == expected
