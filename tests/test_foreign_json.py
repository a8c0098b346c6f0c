"""Tests third-party JSON: numbers that are not finite and deep nesting are errors of the text, not
of ccmix.
"""

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
        with pytest.raises(foreign_json.NotFiniteError, match=f"{number} is not a finite number"):
            read(f"[{number}]")


def test_deep_nesting_is_a_wrong_value() -> None:
    for read in (foreign_json.loads, lambda text: foreign_json.first(text, 0)):
        with pytest.raises(ValueError, match="nested too deeply"):
            read(DEEP)


def test_nesting_that_could_be_read_and_not_written_is_refused() -> None:
    levels = foreign_json.MOST_LEVELS
    assert foreign_json.loads("[" * levels + "]" * levels)
    with pytest.raises(ValueError, match="nested too deeply"):
        foreign_json.loads('{"a":' * (levels + 1) + "1" + "}" * (levels + 1))


@pytest.mark.parametrize("number", [str(2**64), str(-(2**63) - 1), "9" * 100_000])
def test_numbers_of_more_than_64_bits_are_refused(number: str) -> None:
    with pytest.raises(foreign_json.NotFiniteError, match="has more than 64 bits") as caught:
        foreign_json.loads(f"[{number}]")
    assert len(str(caught.value)) < 100
    assert foreign_json.loads(f"[{2**64 - 1}, {-(2**63)}]") == [2**64 - 1, -(2**63)]


def test_an_object_is_asked_for() -> None:
    assert foreign_json.load_object('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="it is not a JSON object"):
        foreign_json.load_object("[]")
