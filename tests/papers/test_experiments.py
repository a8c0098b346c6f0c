"""Statements and published numbers are about runs that their experiments make."""

from dataclasses import replace
from functools import cache

import pytest

from ccmix.analysis.cost import cost
from ccmix.config import load
from ccmix.model import Run
from ccmix.papers.experiment import Bound, Experiment, Of, Statement
from ccmix.papers.experiments_folder import ini_of
from ccmix.papers.ini_text import form
from ccmix.papers.measured import needed, numbers_of
from ccmix.papers.published import of_series, read_published
from ccmix.papers.registry import EXPERIMENTS
from ccmix.plan import make_plan

LEAST_FOR_INTERVAL = 3
each_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)


@cache
def planned(name: str, *, full: bool) -> tuple[Run, ...]:
    return make_plan(load(ini_of(name), form(name, full=full)).entries, 1)


def about(number: Of, name: str, *, full: bool) -> list[Run]:
    """Returns the runs that a number is of."""
    return needed(Statement("", "", "", (Bound(number),)), planned(name, full=full))


@each_experiment
def test_each_number_of_a_statement_is_measured_in_the_full_form(experiment: Experiment) -> None:
    for statement in experiment.statements:
        for number in numbers_of(statement):
            assert len(about(number, experiment.name, full=True)) >= LEAST_FOR_INTERVAL, f"{statement.name}: {number}"


@each_experiment
def test_what_was_tried_for_a_statement_is_measured_in_both_forms(experiment: Experiment) -> None:
    """In the full form each bound, as that of the statement's own entry, which is a single one."""
    for statement in experiment.statements:
        for tried in statement.tried:
            assert len({number.entry for number in numbers_of(statement)}) == 1
            bounds = tuple(map(tried.instead_of, statement.bounds))
            moved = [number for number in numbers_of(replace(statement, bounds=bounds)) if number.entry == tried.entry]
            counts = {full: [len(about(each, experiment.name, full=full)) for each in moved] for full in (True, False)}
            assert min(counts[True]) >= LEAST_FOR_INTERVAL, f"{statement.name}: {tried}"
            assert max(counts[False]) >= LEAST_FOR_INTERVAL, f"{statement.name}: {tried}"


@each_experiment
def test_what_was_tried_for_published_cells_has_such_cells(experiment: Experiment) -> None:
    numbers = read_published(experiment.name)
    for comparison in experiment.comparisons:
        for tried in comparison.tried:
            assert any(
                about(
                    tried.number(Of(comparison.quantity, comparison.entry, number.cca, at=number.at)),
                    experiment.name,
                    full=True,
                )
                for number in of_series(numbers, comparison)
            ), f"{comparison.series}: {tried}"


@each_experiment
def test_most_statements_can_be_judged_in_the_reduced_form(experiment: Experiment) -> None:
    judged = [
        statement.name
        for statement in experiment.statements
        if any(
            len(about(number, experiment.name, full=False)) >= LEAST_FOR_INTERVAL for number in numbers_of(statement)
        )
    ]
    assert len(judged) >= len(experiment.statements) / 2


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
            of = Of(comparison.quantity, comparison.entry, number.cca, at=number.at)
            assert about(of, experiment.name, full=True), number
    assert len(compared) == len(numbers)


def test_all_reduced_forms_take_at_most_an_hour_on_two_cores() -> None:
    assert sum(cost(planned(experiment.name, full=False), 2).real_s for experiment in EXPERIMENTS) <= 3600
