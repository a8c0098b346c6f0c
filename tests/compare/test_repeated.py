"""Tests the comparison of a run with its repetition: here a copy, of which a part was changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import Campaign
from ccmix.cli.archive import _plan_now, _problems_of_plan
from ccmix.compare.repeated import Repetition, compare_run
from support.published_archives import DEMO

RUN = "mixed/delay=5ms,loss=0%/receiver/001"
NAME = "mixed delay=5ms,loss=0% #1"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A campaign with the files of one run, some of them raw."""
    folder = tmp_path / "original"
    shutil.copytree(DEMO / RUN, folder / RUN)
    shutil.copy(DEMO / "campaign.json", folder)
    (folder / RUN / "logs").mkdir()
    (folder / RUN / "logs/run.log").write_text("raw\n")
    return folder


@pytest.fixture
def repeated(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "repeated")


def compared(original: Path, repeated: Path) -> Repetition:
    run = next(run for run in Campaign.load(original).runs if run.name == NAME)
    return compare_run(run, original, repeated)


def edit(file: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def test_a_copy_is_the_same(original: Path, repeated: Path) -> None:
    outcome = compared(original, repeated)
    assert outcome.same
    assert outcome.compared == sum(file.is_file() for file in (original / RUN).rglob("*"))


@pytest.mark.parametrize("name", ["intervals.parquet", "sockets.parquet", "facts.json"])
def test_a_missing_file_is_named(name: str, original: Path, repeated: Path) -> None:
    (original / RUN / name).unlink()
    outcome = compared(original, repeated)
    assert (outcome.missing, outcome.same) == ((name,), False)


def test_missing_series_are_all_named(original: Path, repeated: Path) -> None:
    names = sorted(file.name for file in (original / RUN).glob("*.parquet"))
    for name in names:
        (original / RUN / name).unlink()
    assert compared(original, repeated).missing == tuple(names)


def test_an_extra_file_is_named(original: Path, repeated: Path) -> None:
    (original / RUN / "more.parquet").write_text("x")
    outcome = compared(original, repeated)
    assert (outcome.extra, outcome.same) == (("more.parquet",), False)


def test_raw_files_that_the_archive_lacks_are_counted(original: Path, repeated: Path) -> None:
    shutil.rmtree(original / RUN / "logs")
    outcome = compared(original, repeated)
    assert (outcome.unchecked, outcome.same) == (("logs/run.log",), True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda facts: facts.update(began_s=facts["began_s"] + 1), "facts.json: began_s"),
        (lambda facts: facts["ping_rtt_s"].update(h1=[9.0]), "facts.json: ping_rtt_s"),
        (lambda facts: facts["facts"]["sysctls"].clear(), "facts.json: facts"),
        (lambda facts: facts["facts"].update(kernel="forged"), "facts.json: facts"),
        (lambda facts: facts["facts"]["lab_programs"].clear(), "facts.json: facts"),
        (lambda facts: facts.clear(), "facts.json"),
        (lambda facts: facts.update(more=1), "facts.json"),
    ],
)
def test_forged_facts_are_named(
    change: Callable[[Any], object], named: str, original: Path, repeated: Path
) -> None:
    edit(original / RUN / "facts.json", change)
    assert compared(original, repeated).differing == (named,)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda run: run["metrics"].update(goodput_bps=1e6), "run.json: metrics"),
        (lambda run: run["facts"]["sysctls"].clear(), "run.json: facts"),
        (lambda run: run["verdict"].update(status="unknown"), "run.json: verdict"),
        (lambda run: run.update(ended_s=1.0), "run.json: ended_s"),
    ],
)
def test_forged_results_are_named(
    change: Callable[[Any], object], named: str, original: Path, repeated: Path
) -> None:
    edit(original / RUN / "run.json", change)
    assert compared(original, repeated).differing == (named,)


def test_other_tools_may_give_the_same_bytes(original: Path, repeated: Path) -> None:
    for file in ("run.json", "facts.json"):
        edit(repeated / RUN / file, lambda content: content["facts"].update(kernel="9.9"))
    assert compared(original, repeated).same


def test_the_plan_is_compared_with_the_text_of_the_archive(original: Path) -> None:
    def problems(**changes: object) -> list[str]:
        edit(original / "campaign.json", lambda plan: plan.update(changes))
        campaign = Campaign.load(original)
        return _problems_of_plan(campaign, _plan_now(campaign))

    plan = json.loads((original / "campaign.json").read_text())
    missing = [f"{run.name}: is missing in the archive" for run in Campaign.load(original).runs]
    missing.remove(f"{NAME}: is missing in the archive")
    assert problems() == missing
    for name, forged in (
        ("title", "forged"),
        ("unknown", {"mixed": ["loss"]}),
        ("file_order", list(range(len(plan["runs"])))[::-1]),
    ):
        assert problems(**{name: forged}) == [
            f"campaign.json: {name}: differs from its INI text",
            *missing,
        ]
        edit(original / "campaign.json", lambda changed: (changed.clear(), changed.update(plan)))
