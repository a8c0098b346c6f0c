"""Tests sizes and arrivals of workloads."""

import statistics

import pytest

from ccmix.generators.distributions import NAMED, arrivals, mean_bytes, read_points, size_at

TWO = ((1000.0, 0.0), (1000.0, 0.5), (3000.0, 1.0))


def test_between_two_points_sizes_lie_on_a_line() -> None:
    assert [size_at(TWO, share) for share in (0.0, 0.3, 0.5, 0.75, 1.0)] == [
        1000,
        1000,
        1000,
        2000,
        3000,
    ]
    assert mean_bytes(TWO) == 0.5 * 1000 + 0.5 * 2000


@pytest.mark.parametrize(("name", "packets"), [("web-search", 1141), ("data-mining", 5117)])
def test_the_means_of_the_published_ones(name: str, packets: int) -> None:
    """Expects 1138 and 5116 packets, as in simulations that used these distributions, with their
    own sums over the same points.
    """
    assert mean_bytes(NAMED[name]) / 1460 == pytest.approx(packets, abs=1)


@pytest.mark.parametrize("name", NAMED)
def test_drawn_sizes_and_arrivals_are_those_asked_for(name: str) -> None:
    """Draws 20000 flows. With the distribution's own spread, their mean is known to 2 or 5%, and
    their number to 0.7%.
    """
    points = NAMED[name]
    seconds = 20_000 * mean_bytes(points) * 8 / 1e9
    drawn = list(arrivals(points, 1e9, seconds, "seed"))
    assert len(drawn) == pytest.approx(20_000, rel=0.03)
    assert statistics.fmean(size for _, size in drawn) == pytest.approx(
        mean_bytes(points), rel=0.15
    )
    assert statistics.median(size for _, size in drawn) == pytest.approx(
        size_at(points, 0.5), rel=0.15
    )
    assert drawn == list(arrivals(points, 1e9, seconds, "seed"))
    assert drawn != list(arrivals(points, 1e9, seconds, "another"))
    moments = [at_s for at_s, _ in drawn]
    assert moments == sorted(moments)
    assert moments[-1] < seconds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the last line must have the share 1"),
        ("1000 0.5", "the last line must have the share 1"),
        ("1000", "line 1 is not BYTES SHARE"),
        ("1000 0.5\nx 1", "line 2 is not BYTES SHARE"),
        ("0 0.5\n1 1", "line 1: sizes are at least 1"),
        ("10 0.5\n5 1", "line 2: sizes and shares only grow"),
        ("10 0.5\n20 0.4\n30 1", "line 2: sizes and shares only grow"),
        ("10 2", "line 1: sizes are at least 1"),
        ("nan 1", "line 1: sizes are at least 1"),
    ],
)
def test_a_wrong_distribution_is_reported(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_points(text)
