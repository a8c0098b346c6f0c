"""The forms of an experiment: the reduced INI file, and what each form costs."""

import pytest

from ccmix.analysis.cost import cost
from ccmix.config import load
from ccmix.papers import forms
from ccmix.papers.forms import FULL, REDUCED, TRIED, costs, planned
from ccmix.papers.reading import EXPERIMENTS, FOLDER, by_name, ini_of, published_of
from ccmix.plan import make_plan
from paper_pages.page import real_s

NAMES = [experiment.name for experiment in EXPERIMENTS]


def test_a_comment_replaces_the_value_of_its_section_only() -> None:
    text = "[a]\nrate = 1gbit\n# Reduced: rate = 1mbit\n\n[b]\nrate = 2gbit\n"
    assert forms.reduced(text) == "[a]\n# Full: rate = 1gbit\nrate = 1mbit\n\n[b]\nrate = 2gbit\n"


def test_all_lines_of_a_value_are_replaced() -> None:
    text = "[a]\nsweep.cca =\n    cubic\n    bbr\n# Reduced: sweep.cca = cubic\nrate = 1gbit\n"
    assert forms.reduced(text) == (
        "[a]\n# Full: sweep.cca =\n#           cubic\n#           bbr\nsweep.cca = cubic\nrate = "
        "1gbit\n"
    )


def test_a_reduced_value_may_have_several_lines() -> None:
    text = (
        "[a]\nsweep.cca =\n    cubic\n# Reduced: sweep.cca =\n#     cubic,bbr\n#     bbr\n# "
        "Ours\nrate = 1gbit\n"
    )
    assert forms.reduced(text) == (
        "[a]\n# Full: sweep.cca =\n#           cubic\nsweep.cca =\n     cubic,bbr\n     bbr\n# "
        "Ours\nrate = 1gbit\n"
    )


def test_a_key_of_the_default_may_be_reduced_in_a_section() -> None:
    text = "[DEFAULT]\niterations = 5\n[a]\n# Reduced: iterations = 3\n"
    assert forms.reduced(text) == "[DEFAULT]\niterations = 5\n[a]\niterations = 3\n"


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_can_be_planned_and_the_reduced_one_takes_less(name: str) -> None:
    seconds = {}
    for full in (True, False):
        entries = load(ini_of(name), forms.form(name, full=full)).entries
        seconds[full] = sum(run.seconds or 0.0 for run in make_plan(entries, 1))
    assert 0 < seconds[False] < seconds[True]


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_has_a_source(name: str) -> None:
    """A comment with the source is above each key, above the first of several keys, or above the
    section's header.
    """
    said = False
    for line in ini_of(name).read_text().splitlines():
        if not line.strip():
            said = False
        elif line.startswith("#") and not line.startswith("# Reduced:"):
            said = said or any(
                word in line for word in ("Section", "Figure", "Table", "Slide", "Listing", "Ours")
            )
        elif not line.startswith((" ", "#", "[", "title", "type", "topology")):
            assert said, f"{name}: {line}"


def test_each_file_belongs_to_an_experiment() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.ini")) == sorted(NAMES)
    assert sorted(file.stem for file in FOLDER.glob("*.toml")) == sorted([*NAMES, "papers"])
    tables = [file.stem for file in (FOLDER / "published").glob("*.csv")]
    assert sorted(tables) == sorted(
        experiment.name for experiment in EXPERIMENTS if experiment.comparisons
    )
    assert all(published_of(name).exists() for name in tables)


def test_what_was_tried_costs_more_than_the_reduced_form_alone() -> None:
    by_form = costs(by_name()["gomez-fig7"], 1, 2)
    assert list(by_form) == [REDUCED, TRIED, FULL]
    assert by_form[REDUCED].real_s < by_form[TRIED].real_s
    assert by_form[FULL] == cost(planned("gomez-fig7", 1, full=True, tried=False), 2)


def test_where_nothing_was_tried_the_reduced_form_stands_for_it_in_a_sum() -> None:
    both = [costs(by_name()[name], 1, 2) for name in ("dai-fig1", "gomez-fig7")]
    assert TRIED not in both[0]
    assert real_s(both, TRIED) == pytest.approx(both[0][REDUCED].real_s + both[1][TRIED].real_s)
