"""Tests how quantities are read and written."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccmix import units
from ccmix.config.keys import TOPOLOGY_KEYS

parse_buffer = TOPOLOGY_KEYS["buffer"].read
PARSERS = [units.parse_rate, units.parse_time, units.parse_percent, parse_buffer]


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("2.4gbit", 2.4e9),
        ("100 Mbit", 1e8),
        (" 1tbit ", 1e12),
        ("+1.5kbit", 1500),
        ("1.kbit", 1000),
        (".5Mbit", 5e5),
    ],
)
def test_rates(text: str, rate_bps: float) -> None:
    assert units.parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("44ms", 0.044), ("10us", 1e-5), ("2m", 120), ("2min", 120), ("1.5h", 5400), ("0s", 0)],
)
def test_times(text: str, seconds: float) -> None:
    assert units.parse_time(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("1bdp", "bdp", 1),
        ("0.5 BDP", "bdp", 0.5),
        ("1000p", "packet", 1000),
        ("100kb", "byte", 1e5),
        ("1KiB", "byte", 1024),
        ("2mib", "byte", 2**21),
        ("7b", "byte", 7),
    ],
)
def test_buffers(text: str, kind: str, amount: float) -> None:
    buffer = parse_buffer(text)
    assert (buffer.kind, buffer.amount) == (kind, amount)


def test_a_percentage_is_a_fraction() -> None:
    assert units.parse_percent("0.1%") == 0.001
    assert units.parse_percent("100%") == 1
    with pytest.raises(ValueError, match="more than 100%"):
        units.parse_percent("100.1%")


def test_tc_s_bytes_per_second_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown unit 'mbps'"):
        units.parse_rate("10mbps")


@pytest.mark.parametrize("text", ["0gbit", "0.0001bit", "1001tbit"])
def test_rates_that_no_path_has(text: str) -> None:
    with pytest.raises(ValueError, match="not a rate from 1kbit to 1000tbit"):
        units.parse_rate(text)


NUMBERS = [
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e3",
    "٣",
    "9" * 400,
    "",
    "-1",
    "-0",
    "+-1",
    "1_0",
    "0x1",
    "1,5",
    ".",
]


@pytest.mark.parametrize("parse", PARSERS, ids=["rate", "time", "percent", "buffer"])
@pytest.mark.parametrize("unit", ["gbit", "s", "%", "gb", "bdp", "p", ""])
@pytest.mark.parametrize("number", NUMBERS, ids=[number[:6] for number in NUMBERS])
def test_numbers_that_are_none_are_refused_with_a_sentence(
    parse: Callable[[str], object], unit: str, number: str
) -> None:
    with pytest.raises(ValueError, match=r"^(is|has) .*(write|use one of)"):
        parse(number + unit)


AMOUNTS = st.floats(1e-3, 1e6).map(lambda number: f"{number:.6f}")


@given(AMOUNTS, st.sampled_from(sorted(units.TIME_S)))
def test_a_negative_time_is_refused(amount: str, unit: str) -> None:
    with pytest.raises(ValueError, match="is negative"):
        units.parse_time(f"-{amount}{unit}")


@given(AMOUNTS, st.sampled_from(sorted(units.SIZE_BYTES)))
def test_a_size_is_its_number_times_its_unit(amount: str, unit: str) -> None:
    assert math.isclose(
        parse_buffer(f"{amount}{unit.upper()}").amount, float(amount) * units.SIZE_BYTES[unit]
    )


@given(st.floats(1e3, 9e14))
def test_a_formatted_rate_reads_back_to_three_digits(rate_bps: float) -> None:
    text = units.format_rate(rate_bps).removesuffix("/s")
    assert math.isclose(units.parse_rate(text), rate_bps, rel_tol=0.006)
    assert "e+" not in text


@given(st.floats(1e-6, 1e5))
def test_a_formatted_time_reads_back(seconds: float) -> None:
    assert math.isclose(units.parse_time(units.format_time(seconds)), seconds, rel_tol=1e-5)


@given(st.floats(1e-6, 1))
def test_a_formatted_fraction_reads_back(fraction: float) -> None:
    assert math.isclose(
        units.parse_percent(units.format_percent(fraction)), fraction, rel_tol=0.006
    )


@given(st.integers(1, 10**13))
def test_a_formatted_size_reads_back(size_bytes: int) -> None:
    assert math.isclose(
        parse_buffer(units.format_bytes(size_bytes)).amount, size_bytes, rel_tol=0.006
    )


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [
        (961.4e6, "961 Mbit/s"),
        (9.954e8, "995 Mbit/s"),
        (999.6e6, "1.00 Gbit/s"),
        (2.4e9, "2.40 Gbit/s"),
    ],
)
def test_rates_for_people(rate_bps: float, text: str) -> None:
    assert units.format_rate(rate_bps) == text


def test_times_and_sizes_for_people() -> None:
    assert [units.format_time(seconds) for seconds in (0, 10, 0.088, 0.0002)] == [
        "0 s",
        "10 s",
        "88 ms",
        "200 us",
    ]
    assert [units.format_bytes(size) for size in (0, 999, 1.25e6, 999_700, 2e12)] == [
        "0 B",
        "999 B",
        "1.25 MB",
        "1 MB",
        "2000 GB",
    ]
