"""Tests lists of cores, as mpstat takes them."""

import pytest

from ccmix.probes.sampler import chosen_cores, parse_proc_stat


def test_lists_of_cores() -> None:
    assert chosen_cores("0,4-6, 9") == {0, 4, 5, 6, 9}


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "0-999999", "²"])
def test_what_is_no_list_of_cores(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of cores"):
        chosen_cores(text)


def test_a_core_has_eight_times_or_more_and_no_other_line_is_one() -> None:
    """A host may invent cores, each of which takes much more memory than a short line."""
    right = "cpu4 1 2 3 4 5 6 7 8 9 10\n"
    lines = [
        "cpu5 1\n",
        "cpu99999 1 2 3 4 5 6 7 8 9 10\n",
        f"cpu6 {'1' * 30} 2 3 4 5 6 7 8 9 10\n",
        "cpu  1 2 3\n",
    ]
    assert list(parse_proc_stat(right + "".join(lines), None)) == [4]
