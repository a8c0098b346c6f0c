"""Tests the base RTT of probes, pings and sockets, against series whose truth is known."""

import numpy as np
import polars as pl
import pytest

from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.way import base_rtt
from support.synthetic_path import covers

BASE_S = 0.02
IDLE = PathStep("idle", 0.0, 9.0, 0, None)


def observed(rtts_s: np.ndarray) -> PathRun:
    times = np.arange(len(rtts_s)) * 0.01
    return PathRun(
        "a run", (IDLE,), pl.DataFrame({"time_s": times, "rtt_s": rtts_s}), pl.DataFrame()
    )


def waiting(drawn: np.random.Generator) -> np.ndarray:
    """Half of the packets wait for cross traffic."""
    return BASE_S + np.where(drawn.random(800) < 0.5, 0.0, drawn.random(800) * 5e-3)


def overtaking(drawn: np.random.Generator) -> np.ndarray:
    """One packet in a hundred takes no delay on its way."""
    return np.where(drawn.random(800) < 0.01, BASE_S / 2, BASE_S)


def jittering(drawn: np.random.Generator) -> np.ndarray:
    """Both directions vary alike to both sides."""
    return BASE_S + drawn.uniform(-1e-4, 1e-4, 800) + drawn.uniform(-1e-4, 1e-4, 800)


@pytest.mark.parametrize("series", [waiting, overtaking, jittering])
def test_the_interval_covers_the_base_rtt_whatever_disturbs_the_probe(series: object) -> None:
    for seed in range(20):
        estimate, noise = base_rtt(observed(series(np.random.default_rng(seed))))  # type: ignore[operator]
        assert estimate.value == pytest.approx(BASE_S, abs=0.2e-3)
        assert covers(estimate, BASE_S)
        assert noise.value is not None


def test_lost_answers_do_not_count() -> None:
    rtts_s = pl.Series("rtt_s", [BASE_S, None] * 100)
    seen = PathRun(
        "a run",
        (IDLE,),
        pl.DataFrame({"time_s": np.arange(200) * 0.01, "rtt_s": rtts_s}),
        pl.DataFrame(),
    )
    assert base_rtt(seen)[0].value == pytest.approx(BASE_S)


def test_without_a_probe_the_smallest_of_pings_and_sockets_counts() -> None:
    sockets = pl.DataFrame({"min_rtt_s": [0.03, 0.021]})
    estimate, noise = base_rtt(
        PathRun("a run", (), pl.DataFrame(), sockets, pings_s=(0.022, 0.025))
    )
    assert estimate.value == 0.021
    assert "sockets" in estimate.origin
    assert noise.unknown


def test_nothing_is_said_where_nothing_was_seen() -> None:
    estimate, _ = base_rtt(PathRun("a run", (), pl.DataFrame(), pl.DataFrame()))
    assert estimate.value is estimate.low is estimate.high is None
    assert estimate.unknown
