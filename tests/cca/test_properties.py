"""Tests properties that must hold for any ACKs, with sanitizers in the core."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.cca_core import INFINITE, Core, State

U32 = st.integers(0, INFINITE)
SMALL = st.integers(0, 5000)
ACK = st.fixed_dictionaries(
    {
        "after_us": st.sampled_from([0, 1, 100, 20_000, 3_100_000, 11_000_000]),
        "acked": st.integers(0, 3000),
        "lost": st.sampled_from([0, 0, 0, 1, 50, 100_000]),
        "ce": st.sampled_from([0, 0, 1, 500]),
        "new_round": st.booleans(),
        "rs_delivered": st.one_of(SMALL, st.integers(0, 2**31 - 1)),
        "interval_us": st.one_of(st.integers(0, 1_000_000), st.integers(0, 2**31 - 1)),
        "rtt_us": st.one_of(st.just(INFINITE), st.integers(0, 2**31 - 1)),
        "inflight": st.one_of(SMALL, U32),
        "prior_inflight": st.one_of(SMALL, U32),
        "snd_nxt": U32,
        "last_end_seq": U32,
        "mss": st.integers(1, 65535),
        "srtt_us": st.one_of(st.just(0), U32),
        "pacing_queue_us": st.integers(0, 1_000_000),
        "is_app_limited": st.booleans(),
        "is_cwnd_limited": st.booleans(),
        "has_sack": st.booleans(),
        "is_retransmission": st.booleans(),
        "is_ack_delayed": st.booleans(),
        "recovery": st.integers(0, 2),
    }
)
WATCHED = ("state", "cwnd", "pacing_rate", "tx_in_flight", "rs_lost")
WRONG = {
    "loss_thresh": 256,
    "beta": 0,
    "full_bw_cnt": 0,
    "up": 15,
    "refill": 2049,
    "bw_probe_rand_us": 0,
    "extra_acked_win_rtts": 1,
    "pacing_margin_percent": 51,
}
EVENT = st.sampled_from(["recovery", "spurious", "idle"])


def check(state: State) -> None:
    assert state["pacing_rate"] > 0
    assert state["cwnd"] >= 1
    assert 16 <= state["pacing_gain"] <= 2048
    assert 16 <= state["cwnd_gain"] <= 2048
    assert state["send_quantum"] >= 1
    assert state["bw"] <= state["max_bw"]
    assert state["bw_lo"] > 0
    assert state["inflight_hi"] > 0
    assert state["min_rtt_us"] > 0
    assert 0 <= state["state"] <= 6
    assert state["full_bw_reached"] or state["state"] in (0, 6), (
        "no PROBE_BW before the pipe was full"
    )


@pytest.mark.parametrize("which", ["deployed", "draft", "v3"])
@pytest.mark.parametrize("ecn", [0, 1])
def test_no_acks_lead_out_of_bounds(driver: Path, which: str, ecn: int) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.one_of(ACK, EVENT), max_size=60), U32, U32)
    def run(events: list[dict[str, int] | str], delivered: int, lost: int) -> None:
        core.init(which, settings={"ecn_enable": ecn}, delivered=delivered, lost=lost)
        for event in events:
            check(core.event(event) if isinstance(event, str) else core.ack(**event))  # type: ignore[arg-type]

    with subprocess.Popen(
        [driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        core = Core(process)
        run()
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("which", ["deployed", "draft", "v3"])
def test_counters_wrap_around(core: Core, which: str) -> None:
    """A flow whose counters begin just below 2^32 passes through the same states as one that
    begins at 0.
    """

    def states(first: int) -> list[tuple[int, ...]]:
        core.init(which, delivered=first, lost=first)
        found = []
        for number in range(120):
            state = core.ack(
                rate_mbps=100,
                new_round=number % 5 == 0,
                rtt_us=20_000,
                inflight=150,
                after_us=40_000,
                lost=int(number % 37 == 36),
            )
            found.append(tuple(state[name] for name in WATCHED))
        return found

    assert states(2**32 - 100) == states(0)


def test_settings_out_of_bounds_are_refused(core: Core) -> None:
    for name, value in WRONG.items():
        wrong = core.settings("v3", **{name: value})["wrong"]
        assert wrong == ("pacing_gain" if name in ("up", "refill") else name)
    assert core.settings("v3", loss_thresh=255, up=2048)["wrong"] == ""
