"""The reduced form of an experiment's INI file."""

import pytest

from ccmix.config import load
from ccmix.papers import ini_text
from ccmix.papers.experiments_folder import FOLDER, ini_of, published_of
from ccmix.papers.registry import EXPERIMENTS
from ccmix.plan import make_plan

NAMES = [experiment.name for experiment in EXPERIMENTS]


def test_a_comment_replaces_the_value_of_its_section_only() -> None:
    text = "[a]\nrate = 1gbit\n# Reduced: rate = 1mbit\n\n[b]\nrate = 2gbit\n"
    assert ini_text.reduced(text) == "[a]\n# Full: rate = 1gbit\nrate = 1mbit\n\n[b]\nrate = 2gbit\n"


def test_all_lines_of_a_value_are_replaced() -> None:
    text = "[a]\nsweep.cca =\n    cubic\n    bbr\n# Reduced: sweep.cca = cubic\nrate = 1gbit\n"
    assert ini_text.reduced(text) == (
        "[a]\n# Full: sweep.cca =\n#           cubic\n#           bbr\nsweep.cca = cubic\nrate = 1gbit\n"
    )


def test_a_reduced_value_may_have_several_lines() -> None:
    text = "[a]\nsweep.cca =\n    cubic\n# Reduced: sweep.cca =\n#     cubic,bbr\n#     bbr\n# Ours\nrate = 1gbit\n"
    assert ini_text.reduced(text) == (
        "[a]\n# Full: sweep.cca =\n#           cubic\nsweep.cca =\n     cubic,bbr\n     bbr\n# Ours\nrate = 1gbit\n"
    )


def test_a_key_of_the_default_may_be_reduced_in_a_section() -> None:
    text = "[DEFAULT]\niterations = 5\n[a]\n# Reduced: iterations = 3\n"
    assert ini_text.reduced(text) == "[DEFAULT]\niterations = 5\n[a]\niterations = 3\n"


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_can_be_planned_and_the_reduced_one_takes_less(name: str) -> None:
    seconds = {}
    for full in (True, False):
        entries = load(ini_of(name), ini_text.form(name, full=full)).entries
        seconds[full] = sum(run.seconds or 0.0 for run in make_plan(entries, 1))
    assert 0 < seconds[False] < seconds[True]


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_has_a_source(name: str) -> None:
    """Above each key, or above the first of several, or of the section's header, stands where it is from."""
    said = False
    for line in ini_of(name).read_text().splitlines():
        if not line.strip():
            said = False
        elif line.startswith("#") and not line.startswith("# Reduced:"):
            said = said or any(word in line for word in ("Section", "Figure", "Table", "Slide", "Listing", "Ours"))
        elif not line.startswith((" ", "#", "[", "title", "type", "topology")):
            assert said, f"{name}: {line}"


def test_each_file_belongs_to_an_experiment() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.ini")) == sorted(NAMES)
    tables = [file.stem for file in (FOLDER / "published").glob("*.csv")]
    assert sorted(tables) == sorted(experiment.name for experiment in EXPERIMENTS if experiment.comparisons)
    assert all(published_of(name).exists() for name in tables)
