"""Statements and published numbers are about runs that their experiments make."""

from collections.abc import Collection
from dataclasses import replace
from functools import cache

import pytest

from ccmix.analysis.cost import cost
from ccmix.config import load
from ccmix.model import Run
from ccmix.papers import forms
from ccmix.papers.experiment import ALTERNATIVES, Experiment, RunNumber
from ccmix.papers.forms import form
from ccmix.papers.measuring import needed
from ccmix.papers.reading import EXPERIMENTS, ini_of, of_series, read_published
from ccmix.plan import make_plan

LEAST_FOR_INTERVAL = 3
each_experiment = pytest.mark.parametrize(
    "experiment", EXPERIMENTS, ids=lambda experiment: experiment.name
)


@cache
def planned(name: str, *, full: bool) -> tuple[Run, ...]:
    return make_plan(load(ini_of(name), form(name, full=full)).entries, 1)


def about(number: RunNumber, name: str, *, full: bool) -> list[Run]:
    """Returns the runs of a number."""
    return needed([number], planned(name, full=full))


@each_experiment
def test_each_number_of_a_statement_is_measured_in_the_full_form(experiment: Experiment) -> None:
    for statement in experiment.statements:
        for number in statement.numbers:
            assert len(about(number, experiment.name, full=True)) >= LEAST_FOR_INTERVAL, (
                f"{statement.name}: {number}"
            )


@each_experiment
def test_what_was_tried_for_a_statement_is_measured_in_both_forms(experiment: Experiment) -> None:
    """At least one of its numbers is measured. Entries that only explain are made with --tried, and
    those that statements need also without it.
    """
    for statement in experiment.statements:
        for tried in statement.tried:
            moved = [
                each
                for each in replace(statement, tried=(tried,)).tried_numbers
                if is_of(each, tried.names)
            ]
            for full in (True, False):
                most = max(len(about(each, experiment.name, full=full)) for each in moved)
                assert most >= LEAST_FOR_INTERVAL, f"{statement.name}: {tried}, full: {full}"


def is_of(number: RunNumber, entries: Collection[str]) -> bool:
    return not set(number.entry.split(ALTERNATIVES)).isdisjoint(entries)


@each_experiment
def test_what_was_tried_is_left_out_unless_it_is_asked_for(experiment: Experiment) -> None:
    for full in (True, False):
        everything = forms.planned(experiment.name, 1, full=full)
        judging = forms.planned(experiment.name, 1, full=full, tried=False)
        assert judging == tuple(run for run in everything if run.entry not in experiment.tried)


def test_what_was_tried_is_made_with_tried_alone_where_it_stands_beside_published_numbers_without_a_criterion() -> (
    None
):
    names = {run.entry for run in forms.planned("tierney-table2", 1, full=False, tried=False)}
    assert "one-stream" in names
    assert "one-stream-fast-card-all" not in names
    assert "shallow-fq" in {
        run.entry for run in forms.planned("datta-fig2", 1, full=False, tried=False)
    }


@each_experiment
def test_what_was_tried_for_published_cells_has_such_cells(experiment: Experiment) -> None:
    numbers = read_published(experiment.name)
    for comparison in experiment.comparisons:
        for tried in comparison.tried:
            assert any(
                about(
                    tried.number(
                        RunNumber(comparison.quantity, comparison.entry, number.cca, at=number.at)
                    ),
                    experiment.name,
                    full=True,
                )
                for number in of_series(numbers, comparison)
            ), f"{comparison.series}: {tried}"


@each_experiment
def test_statements_can_be_judged_in_the_reduced_form_unless_it_leaves_out_their_entry(
    experiment: Experiment,
) -> None:
    """At least in part: one of their numbers has an interval."""
    entries = {run.entry for run in planned(experiment.name, full=False)}
    for statement in experiment.statements:
        numbers = [
            number
            for number in statement.numbers
            if entries & set(number.entry.split(ALTERNATIVES))
        ]
        if numbers:
            most = max(len(about(number, experiment.name, full=False)) for number in numbers)
            assert most >= LEAST_FOR_INTERVAL, statement.name


@each_experiment
def test_each_entry_is_measured_for_something(experiment: Experiment) -> None:
    """For a statement, for published numbers, or to find out why one of these differs."""
    used = {number.entry for statement in experiment.statements for number in statement.numbers}
    used |= {comparison.entry for comparison in experiment.comparisons}
    used |= experiment.tried
    entries = {run.entry for full in (True, False) for run in planned(experiment.name, full=full)}
    assert {entry for entries_used in used for entry in entries_used.split(ALTERNATIVES)} == entries


@each_experiment
def test_runs_settle_or_the_experiment_says_why_they_need_not(experiment: Experiment) -> None:
    for full in (True, False):
        settle = all(run.traffic.at_most_s for run in planned(experiment.name, full=full))
        assert settle or experiment.unsettled, f"full: {full}"


@each_experiment
def test_names_of_statements_differ(experiment: Experiment) -> None:
    names = [statement.name for statement in experiment.statements]
    assert len(set(names)) == len(names)


@each_experiment
def test_each_published_number_has_a_cell_in_the_full_form(experiment: Experiment) -> None:
    numbers = read_published(experiment.name)
    compared = set()
    for comparison in experiment.comparisons:
        for number in of_series(numbers, comparison):
            compared.add(id(number))
            of = RunNumber(comparison.quantity, comparison.entry, number.cca, at=number.at)
            assert about(of, experiment.name, full=True), number
    assert len(compared) == len(numbers)


def test_with_what_was_tried_they_take_at_most_an_hour_and_a_half() -> None:
    assert (
        sum(cost(planned(experiment.name, full=False), 2).real_s for experiment in EXPERIMENTS)
        <= 5400
    )
