"""Tests JSON of others: numbers that are not finite and deep nesting are errors of the text, not of ccmix."""

import json

import pytest

from ccmix import foreign_json

DEEP = "[" * 200_000 + "]" * 200_000


def test_values_are_those_of_json() -> None:
    text = '{"a": [1, -2.5, 1e3, true, null, "NaN"]}'
    assert foreign_json.loads(text) == json.loads(text)
    assert foreign_json.first(f"iperf3 -J\n{text}\nmore", 10) == json.loads(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(number: str) -> None:
    for read in (foreign_json.loads, lambda text: foreign_json.first(text, 0)):
        with pytest.raises(foreign_json.NotFiniteError, match=f"{number} is no finite number"):
            read(f"[{number}]")


def test_deep_nesting_is_a_wrong_value() -> None:
    for read in (foreign_json.loads, lambda text: foreign_json.first(text, 0)):
        with pytest.raises(ValueError, match="nested too deeply"):
            read(DEEP)
