"""Compares campaigns that were imported from other tools."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.commands import invoke

Differences = Callable[..., dict[str, tuple[list[str], list[str]]]]
TABLE = "host,cca,throughput_Gbps\n" + "h,cubic,5\n" * 3


@pytest.fixture
def differences(tmp_path: Path) -> Differences:
    """Imports the same table twice with the options of each side, and compares both."""

    def compared(a: list[str], b: list[str]) -> dict[str, tuple[list[str], list[str]]]:
        (tmp_path / "table.csv").write_text(TABLE)
        for name, options in (("a", a), ("b", b)):
            done = invoke("import", tmp_path / "table.csv", "-o", tmp_path / name, *options)
            assert done.exit_code == 0, done.output
        done = invoke("compare", tmp_path / "a", tmp_path / "b", "--format", "json")
        assert done.exit_code == 0, done.output
        found: list[dict[str, Any]] = json.loads(done.stdout)["differences"]
        return {each["what"]: (each["a"], each["b"]) for each in found}

    return compared


def test_rate_and_rtt_that_the_user_states(differences: Differences) -> None:
    a = ["--rate", "10gbit", "--rtt", "20ms"]
    assert differences(a, ["--rate", "40gbit", "--rtt", "50ms"]) == {
        "base RTT": (["20 ms"], ["50 ms"]),
        "rate": (["10 Gbit/s"], ["40 Gbit/s"]),
    }


def test_about_the_same_rtt_is_not_a_difference(differences: Differences) -> None:
    assert differences(["--rtt", "100ms"], ["--rtt", "101ms"]) == {}


def test_a_rate_that_only_one_states(differences: Differences) -> None:
    assert differences(["--rate", "10gbit"], []) == {"rate": (["10 Gbit/s"], ["unknown"])}
