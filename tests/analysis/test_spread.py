"""Tests the values that a run draws from its seed, and the places that show them."""

from dataclasses import replace

import pytest

from ccmix.analysis import path_text
from ccmix.analysis.path_text import DELAY_SHARE, TICK_S, draw_spread
from ccmix.conditions.layout import layout
from ccmix.model import (
    CommandSource,
    DelayChange,
    Group,
    Iperf3Source,
    RunSpread,
    Sender,
    Topology,
    Traffic,
)
from support.model import TOPOLOGY, iperf3_traffic, with_senders

SEEDS = range(400)
LONG = replace(with_senders(TOPOLOGY, delay_s=0.044), spread=True)
TWO = iperf3_traffic((Group("cubic"), Group("bbr")), 2, 10.0, 0.0, 0.5)


def drawn(path: Topology = LONG, traffic: Traffic = TWO) -> list[RunSpread]:
    return [draw_spread(path, traffic, seed) for seed in SEEDS]


def spread_over(values: list[float], low: float, high: float) -> bool:
    """Returns whether values fill an interval: all are inside, and each tenth of it has some."""
    tenths = {int((value - low) / (high - low) * 10) for value in values}
    return min(values) >= low and max(values) < high and tenths == set(range(10))


def test_the_same_seed_draws_the_same_and_another_seed_something_else() -> None:
    assert drawn() == drawn()
    assert len(set(drawn())) == len(SEEDS)


def test_streams_start_within_a_base_rtt_the_first_of_them_at_once_and_no_group_ahead() -> None:
    starts = [spread.starts_s[0] for spread in drawn()]
    assert all(min(streams) == 0 for streams in starts)
    later = [max(streams) for streams in starts]
    assert spread_over(later, 0.0, 0.088)
    first = sum(streams[0] == 0 for streams in starts)
    assert 0.4 < first / len(SEEDS) < 0.6, (
        "the group that comes first in the list must not start first"
    )


def test_the_phase_is_anywhere_in_a_tick_and_delays_are_around_the_configured_one() -> None:
    assert spread_over([spread.phase_s for spread in drawn()], 0.0, TICK_S)
    delays_s = [spread.delays_s[0] for spread in drawn()]
    most_s = 0.088 * DELAY_SHARE
    assert spread_over(delays_s, -most_s, most_s + 1e-6)
    assert abs(sum(delays_s)) / len(SEEDS) < 5 * most_s / len(SEEDS) ** 0.5


@pytest.mark.parametrize(
    "sender",
    [Sender("h1", 0.0009), Sender("h1", 0.0, ack_delay_s=0.03)],
    ids=["short path", "only ACKs are delayed"],
)
def test_a_delay_never_varies_by_more_than_its_share_and_is_never_negative(sender: Sender) -> None:
    assert {spread.delays_s for spread in drawn(replace(LONG, senders=(sender,)))} == {(0.0,)}


def test_a_flow_alone_begins_with_the_measured_time() -> None:
    one = iperf3_traffic((Group("bbr"),), 1, 10.0, 0.0, 0.5)
    assert {spread.starts_s for spread in drawn(traffic=one)} == {((0.0,),)}


def test_each_sender_has_its_own_rtt_and_other_sources_start_as_a_whole() -> None:
    path = replace(LONG, senders=(Sender("h1", 0.005), Sender("h2", 0.05)))
    sources = (
        Iperf3Source("a", "h1", (Group("bbr"),), 3),
        Iperf3Source("b", "h2", (Group("bbr"),), 2),
    )
    command = CommandSource("c", "receiver", "x")
    traffic = replace(TWO, sources=(*sources, command))
    spreads = drawn(path, traffic)
    assert {tuple(map(len, spread.starts_s)) for spread in spreads} == {(3, 2, 1)}
    a, b, c = ([start for spread in spreads for start in spread.starts_s[at]] for at in range(3))
    assert max(a) < 0.01
    assert 0.09 < max(b) < 0.1
    assert 0.09 < max(c) < 0.1


def test_the_delay_reaches_netem_for_data_alone_and_stays_through_changes() -> None:
    later = replace(LONG, changes=(DelayChange(1.0, None, 0.02), DelayChange(2.0, None, 0.0)))
    path = RunSpread(0.0, (-30e-6,), ((0.0,),)).applied_to(later)
    delays = [
        [pair.data_delay.arguments[0][4], pair.ack_delay.arguments[0][4]]
        for _, phase in path.phases
        for pair in layout(phase).pairs
    ]
    assert delays == [["43970us", "44000us"], ["19970us", "20000us"], ["0us", "0us"]]
    assert path.buffer_bytes == LONG.buffer_bytes


def test_the_plan_says_how_far() -> None:
    assert path_text.spread(LONG) == "starts within 88 ms, delay of data ± 44 us"
    several = replace(LONG, senders=(Sender("h1", 0.005), Sender("h2", 0.05)))
    assert (
        path_text.spread(several) == "starts within 10 ms to 100 ms, delay of data ± 5 us to 50 us"
    )
