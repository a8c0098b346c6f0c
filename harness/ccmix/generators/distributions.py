"""Describes flow sizes by their cumulative distribution, and draws random flows from it."""

import itertools
import math
import random
from collections.abc import Iterator

Points = tuple[
    tuple[float, float], ...
]  # bytes, and the share of flows up to that size; both only grow

_PACKET_BYTES = 1460


def _points_in_bytes(*points: tuple[float, float]) -> Points:
    """Turns points (size of a flow, share of flows up to this size) from packets of 1460 bytes into
    bytes.
    """
    return tuple((packets * _PACKET_BYTES, share) for packets, share in points)


NAMED: dict[str, Points] = {
    # Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4; in the points of the
    # simulations of Alizadeh et al., "pFabric", SIGCOMM 2013, section 5, which count packets of
    # 1460 bytes: a mean of 1.67 MB
    "web-search": _points_in_bytes(
        (6, 0.0),
        (6, 0.15),
        (13, 0.2),
        (19, 0.3),
        (33, 0.4),
        (53, 0.53),
        (133, 0.6),
        (667, 0.7),
        (1333, 0.8),
        (3333, 0.9),
        (6667, 0.97),
        (20000, 1.0),
    ),
    # Greenberg et al., "VL2", SIGCOMM 2009, figure 2; in the points of the same simulations: a mean
    # of 7.5 MB
    "data-mining": _points_in_bytes(
        (1, 0.0),
        (1, 0.5),
        (2, 0.6),
        (3, 0.7),
        (7, 0.8),
        (267, 0.9),
        (2107, 0.95),
        (66667, 0.99),
        (666667, 1.0),
    ),
}


def read_points(text: str) -> Points:
    """Reads a distribution of flow sizes: lines 'BYTES SHARE' ('10000 0.5': half of the flows have
    at most 10 kB) and # comments. Raises ValueError with the mistake.
    """
    points: list[tuple[float, float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            size, share = map(float, words)
        except ValueError:
            raise ValueError(
                f"line {number} is not BYTES SHARE: write for instance 10000 0.5"
            ) from None
        if not (math.isfinite(size) and size >= 1 and 0 <= share <= 1):
            raise ValueError(f"line {number}: sizes are at least 1 byte, shares from 0 to 1")
        if points and (size < points[-1][0] or share < points[-1][1]):
            raise ValueError(f"line {number}: sizes and shares only grow")
        points.append((size, share))
    if not points or points[-1][1] != 1:
        raise ValueError("the last line must have the share 1, such as 1000000 1")
    return tuple(points)


def mean_bytes(points: Points) -> float:
    """Returns the mean size of the flows of a distribution. Flows below its first point have that
    point's size; between two points, all sizes are equally likely.
    """
    first_size, first_share = points[0]
    pairs = itertools.pairwise(points)
    return first_size * first_share + sum(
        (low + high) / 2 * (to_share - from_share) for (low, from_share), (high, to_share) in pairs
    )


def size_at(points: Points, share: float) -> int:
    """Returns a quantile of the flow sizes: the size in bytes that is not exceeded by this share of
    all flows, at least 1. Sizes between two points are interpolated.
    """
    low, low_share = points[0]
    for high, high_share in points:
        if share <= high_share:
            return max(
                1,
                round(
                    high
                    if high_share == low_share
                    else low + (high - low) * (share - low_share) / (high_share - low_share)
                ),
            )
        low, low_share = high, high_share
    return max(1, round(low))


def arrivals(
    points: Points, offered_bps: float, seconds: float, seed: str
) -> Iterator[tuple[float, int]]:
    """Yields random flows: the start time in seconds and the size in bytes of each. The starts are
    a Poisson process, and the flows offer the rate `offered_bps` in the mean. The same seed gives
    the same flows.

    points: the distribution of sizes
    seconds: the time in which flows start
    """
    drawn = random.Random(seed)
    rate_hz = offered_bps / 8 / mean_bytes(points)
    at_s = drawn.expovariate(rate_hz)
    while at_s < seconds:
        yield at_s, size_at(points, drawn.random())
        at_s += drawn.expovariate(rate_hz)
