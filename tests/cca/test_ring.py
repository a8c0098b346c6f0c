"""Tests the ring of packets in flight and lost at the time a packet was sent: cca/core/bbr_ring.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from support.cca_core import MSS, RATE_MBPS, Core, State

FIRST = 16
MOST = 256
IN_FLIGHT = 100  # what the flow says to be in flight, at least
PLENTY = 1 << 30  # allocations


@dataclass(frozen=True)
class Sent:
    """Holds the state at the time a packet was sent."""

    delivered: int
    lost: int
    in_flight: int
    end_seq: int


class Flow:
    """A flow that sends one packet upon each ACK; one in ten ACKs marks a packet lost."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._sent: list[Sent] = []
        self._in_flight = IN_FLIGHT
        self._snd_nxt = 0
        core.init(cwnd=1000, inflight=IN_FLIGHT)

    def send(self, count: int) -> None:
        """Sends packets upon ACKs that have no rate sample."""
        for _ in range(count):
            self._ack()

    def acknowledge(self, number: int = 0) -> tuple[Sent, State]:
        """Acknowledges a packet: 0 is the oldest one in flight."""
        packet = self._sent.pop(number)
        members = {"prior_delivered": packet.delivered, "last_end_seq": packet.end_seq}
        return packet, self._ack(RATE_MBPS, **members)

    def _ack(self, rate_mbps: float | None = None, **members: Any) -> State:
        prior = self._in_flight + 1
        self._in_flight = IN_FLIGHT + self.core.delivered % 7
        lost = int(self.core.delivered % 10 == 0)
        members |= {"inflight": self._in_flight, "prior_inflight": prior, "snd_nxt": self._snd_nxt}
        state = self.core.ack(rate_mbps=rate_mbps, acked=1, lost=lost, **members)
        self._snd_nxt += MSS
        self._sent.append(
            Sent(self.core.delivered, self.core.lost, self._in_flight + 1, self._snd_nxt)
        )
        return state


def assert_own_entry(flow: Flow, packet: Sent, state: State) -> None:
    assert state["tx_in_flight"] == packet.in_flight
    assert state["rs_lost"] == flow.core.lost - packet.lost


@pytest.mark.parametrize(
    ("in_flight", "size"), [(10, 16), (15, 16), (16, 32), (60, 64), (120, 128), (250, 256)]
)
def test_it_has_room_for_the_packets_in_flight(core: Core, in_flight: int, size: int) -> None:
    flow = Flow(core)
    assert core.state["ring_size"] == FIRST
    flow.send(in_flight)
    for _ in range(3 * MOST):
        assert_own_entry(flow, *flow.acknowledge())
    assert core.state["ring_size"] == size


def test_it_does_not_grow_beyond_its_most(core: Core) -> None:
    flow = Flow(core)
    flow.send(4 * MOST)
    assert core.state["ring_size"] == MOST


def test_an_entry_stands_for_several_acks_when_the_ring_can_not_grow(core: Core) -> None:
    """From the second flight on, entries are far enough apart for all that is in flight."""
    core.ask("memory", 0)
    flow = Flow(core)
    flow.send(IN_FLIGHT)
    for _ in range(2 * IN_FLIGHT):
        flow.acknowledge()
    for _ in range(3 * MOST):
        packet, state = flow.acknowledge()
        assert state["rs_lost"] - (flow.core.lost - packet.lost) in (0, 1, 2)
        assert abs(state["tx_in_flight"] - packet.in_flight) <= 2 * IN_FLIGHT / FIRST + 1
    assert core.state["ring_size"] == FIRST


def test_it_grows_once_there_is_memory_again(core: Core) -> None:
    core.ask("memory", 1)
    flow = Flow(core)
    flow.send(IN_FLIGHT)
    assert core.state["ring_size"] == 2 * FIRST
    core.ask("memory", PLENTY)
    for _ in range(4 * IN_FLIGHT):
        flow.acknowledge()
    assert core.state["ring_size"] == 128
    for _ in range(MOST):
        assert_own_entry(flow, *flow.acknowledge())


def test_a_late_packet_has_its_own_entry(core: Core) -> None:
    flow = Flow(core)
    flow.send(100)
    for _ in range(20):
        assert_own_entry(flow, *flow.acknowledge(5))


def test_a_packet_that_is_too_late_makes_it_grow(core: Core) -> None:
    """A small ring has overwritten the entry; the ring is then large enough for the next
    such packet.
    """
    flow = Flow(core)
    flow.send(4)
    for _ in range(2 * FIRST):
        flow.acknowledge(1)
    assert core.state["ring_size"] == FIRST
    flow.acknowledge()
    assert core.state["ring_size"] == 2 * FIRST
    for _ in range(2 * FIRST):
        flow.acknowledge()
    for _ in range(FIRST + 4):
        flow.acknowledge(1)
    assert_own_entry(flow, *flow.acknowledge())


def test_a_new_connection_begins_small(core: Core) -> None:
    Flow(core).send(MOST)
    assert core.state["ring_size"] == MOST
    Flow(core)
    assert core.state["ring_size"] == FIRST
