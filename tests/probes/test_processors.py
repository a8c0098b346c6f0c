"""Tests lists of cores, as mpstat takes them."""

import pytest

from ccmix.probes.processors import chosen_cores


def test_lists_of_cores() -> None:
    assert chosen_cores("0,4-6, 9") == {0, 4, 5, 6, 9}


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "0-999999", "²"])
def test_what_is_no_list_of_cores(text: str) -> None:
    with pytest.raises(ValueError, match="is no list of cores"):
        chosen_cores(text)
