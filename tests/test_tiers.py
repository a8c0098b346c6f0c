"""Tests tools/test.py: which tests it runs with which rights, and its message at the end."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.commands import REPOSITORY, loaded

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.run.test_x" name="test_good[a]" time="1.5"/>
<testcase classname="tests.run.test_x" name="test_bad" time="0.5"><failure message="assert 1 == 2"/></testcase>
<testcase classname="tests.run.test_x" name="test_else" time="0"><skipped message="no chromium"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def tiers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Loads the program as a module, for an ordinary user who may use sudo and user namespaces."""
    module = loaded(REPOSITORY / "tools" / "test.py", "tiers")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(module, "works", lambda argv: True)
    monkeypatch.setattr(module, "by_sudo", lambda: ("sudo",))
    monkeypatch.setattr(module, "build", lambda program, option: f"/cache/{program}")
    return module


def prefixes(tiers: ModuleType, *names: str) -> dict[str, str]:
    return {part.name: (part.prefix or ("",))[0] for part in tiers.parts(names)}


def test_each_right_has_a_part_and_sudo_comes_first(tiers: ModuleType) -> None:
    assert list(prefixes(tiers, "test").items()) == [
        ("test: root", "sudo"),
        ("test: namespaces", "unshare"),
        ("test: user", ""),
    ]
    assert prefixes(tiers, "fast") == {"fast: user": ""}
    assert list(prefixes(tiers, "system")) == ["system: root", "system: namespaces"]


def test_sudo_does_for_a_machine_without_user_namespaces(
    tiers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "works", lambda argv: False)
    assert prefixes(tiers, "test") == {
        "test: root": "sudo",
        "test: namespaces": "sudo",
        "test: user": "",
    }


def test_root_runs_all_at_once(tiers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert prefixes(tiers, "test") == {"test: all": ""}


def test_deep_has_the_sanitizers_and_only_those_of_iperf3_count_no_leaks(tiers: ModuleType) -> None:
    sanitized = [part for part in tiers.parts(["deep"]) if "sanitizers" in part.name]
    assert {part.name.split(": ")[1] for part in sanitized} == {"root", "namespaces", "user"}
    assert {part.paths[0] for part in sanitized} == {
        "tests/iperf3_patch",
        "tests/probes/capflow",
        "tests/probes",
    }
    for part in sanitized:
        assert ("ASAN_OPTIONS" in part.environment) == (part.paths == ("tests/iperf3_patch",))


def test_named_tests_run_without_those_of_the_sanitizers(tiers: ModuleType) -> None:
    for arguments, sanitized in ((["tests/agent/test_fuzz.py"], False), (["-k", "iperf3"], True)):
        assert (
            any("sanitizers" in part.name for part in tiers.parts(["deep"], arguments)) == sanitized
        )
    assert any("sanitizers" in part.name for part in tiers.parts(["sanitize"], ["tests/probes"]))


@pytest.mark.parametrize(
    ("status", "report", "ends_with", "line"),
    [
        (0, JUNIT.replace("failure", "system-out"), 0, "2 passed, 1 skipped"),
        (1, JUNIT, 1, "1 failed, 1 passed, 1 skipped"),
        (3, "", 1, "no tests ran"),
        (5, "", 1, "no tests ran"),
    ],
    ids=["good", "a failure", "pytest fails", "no tests"],
)
def test_the_summary_and_the_exit_status(
    status: int,
    report: str,
    ends_with: int,
    line: str,
    tiers: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(part: Any, file: Path, arguments: Sequence[str]) -> int:
        if report:
            file.write_text(report)
        return status

    monkeypatch.setattr(tiers, "run", run)
    monkeypatch.setattr(sys, "argv", ["tools/test.py", "fast"])
    assert tiers.main() == ends_with
    printed = capsys.readouterr().out
    assert f" {line} in " in printed.splitlines()[-1]
    if report:
        assert "1.5 s  tests/run/test_x.py::test_good[a]" in printed
        assert "SKIPPED: 1 tests were not run here:\n    1  no chromium\n" in printed
    assert ("FAILED tests/run/test_x.py::test_bad" in printed) == (status == 1)
    assert ("FAILED PART" in printed) == (status in (1, 3))


FAILS_UNTIL_ALONE = """
import os, pytest
def test_disturbed():
    assert os.environ.get("PYTEST_XDIST_WORKER") is None
class TestOfAClass:
    @pytest.mark.parametrize("word", ["a b", "c/d"])
    def test_disturbed_too(self, word):
        assert os.environ.get("PYTEST_XDIST_WORKER") is None, "is not alone"
def test_good():
    pass
"""


@pytest.mark.parametrize(("broken", "ends_with"), [(False, 0), (True, 1)])
def test_a_test_that_passes_alone_is_unstable(
    broken: bool,
    ends_with: int,
    tiers: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A test that also fails when it runs without other tests, fails."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_one.py").write_text(
        FAILS_UNTIL_ALONE + "def test_bad():\n    assert False\n" * broken
    )
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # this test's own
    monkeypatch.setattr(tiers, "REPOSITORY", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tools/test.py", "fast"])
    assert tiers.main() == ends_with
    printed = capfd.readouterr().out
    words = ["1 failed, 3 unstable", "1 passed"] if broken else ["3 unstable", "1 passed"]
    assert f" {', '.join(words)} in " in printed.splitlines()[-1]
    assert (
        "AssertionError: is not alone"
        in printed.partition("---- tests/test_one.py::TestOfAClass")[2]
    )
    assert "UNSTABLE tests/test_one.py::TestOfAClass::test_disturbed_too[c/d]\n" in printed
    assert ("FAILED tests/test_one.py::test_bad\n" in printed) == broken


def test_many_failures_are_no_accident(
    tiers: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for number in range(tiers.AGAIN + 1):
        (tests / f"test_{number}.py").write_text(FAILS_UNTIL_ALONE)
    monkeypatch.setattr(tiers, "REPOSITORY", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tools/test.py", "fast"])
    assert tiers.main() == 1
    assert (
        f" {3 * (tiers.AGAIN + 1)} failed, {tiers.AGAIN + 1} passed in " in capfd.readouterr().out
    )


@pytest.mark.parametrize(
    "words", [["long"], ["fast", "tests/test_one.py"], ["fast", "-x"], ["fast", "-k", "bad"]]
)
def test_long_tests_and_named_ones_run_once(
    words: list[str],
    tiers: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A failure with random input may not repeat, and a user who names tests wants to see it."""

    def run(part: Any, file: Path, arguments: Sequence[str]) -> int:
        assert "alone" not in part.name
        file.write_text(JUNIT)
        return 1

    monkeypatch.setattr(tiers, "run", run)
    monkeypatch.setattr(sys, "argv", ["tools/test.py", *words])
    assert tiers.main() == 1
    assert "FAILED tests/run/test_x.py::test_bad" in capsys.readouterr().out


def test_a_part_without_a_report_fails(tiers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be sudo that refuses, which also exits with 1."""

    def run(part: Any, file: Path, arguments: Sequence[str]) -> int:
        if part.name == "test: root":
            return 1
        file.write_text(JUNIT.replace("failure", "system-out"))
        return 0

    monkeypatch.setattr(tiers, "run", run)
    monkeypatch.setattr(sys, "argv", ["tools/test.py", "test"])
    assert tiers.main() == 1


def test_what_is_no_tier_runs_nothing(tiers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tools/test.py", "slowly"])
    assert tiers.main() == 2
