"""Tests how estimates are written for people."""

from ccmix.twin.estimate import Estimate, cannot_be_told, interval, value


def test_an_mtu_is_written_to_the_byte_and_a_buffer_is_not() -> None:
    assert value(Estimate("MTU", 1500.0, 1500.0, 1500.0)) == "1500 B"
    assert value(Estimate("buffer", 125e3, 111e3, 143e3)) == "125 kB"
    assert interval(Estimate("buffer", 125e3, 111e3, 143e3)) == "111 kB to 143 kB"


def test_a_bound_is_no_value() -> None:
    assert value(cannot_be_told("buffer", "it was not full", low=1e6)) == "at least 1 MB"
    assert value(cannot_be_told("buffer", "it was not full")) == "cannot be told"
