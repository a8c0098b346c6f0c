"""Tests how estimates are written for people."""

from ccmix.twin import estimate_text
from ccmix.twin.estimate import Estimate, cannot_be_told


def test_an_mtu_is_written_to_the_byte_and_a_buffer_is_not() -> None:
    assert estimate_text.value(Estimate("MTU", "bytes", 1500.0, 1500.0, 1500.0)) == "1500 B"
    assert estimate_text.value(Estimate("buffer", "bytes", 125e3, 111e3, 143e3)) == "125 kB"
    assert estimate_text.interval(Estimate("buffer", "bytes", 125e3, 111e3, 143e3)) == "111 kB to 143 kB"


def test_a_bound_is_no_value() -> None:
    assert estimate_text.value(cannot_be_told("buffer", "bytes", "it was not full", low=1e6)) == "at least 1 MB"
    assert estimate_text.value(cannot_be_told("buffer", "bytes", "it was not full")) == "cannot be told"
