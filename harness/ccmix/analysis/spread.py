"""Draws from a run's seed what makes iterations observations of their own, also where nothing is lost at random.

Flows that start in step, over a path of a constant delay, may stay in step (Floyd and Jacobson 1992, "On traffic phase
effects in packet-switched gateways"). This is no part of `model`, since a guest imports all of that, and each module
more would move its traffic by microseconds.
"""

import math
import random

from ccmix.model import Iperf3Source, RunSpread, Sender, Topology, Traffic, TrafficSource

TICK_S = 0.001  # of the lab's kernel (CONFIG_HZ_1000 of lab/kernel.config), in which TCP's timers count
DELAY_SHARE = 0.0005  # of the base RTT, at most: no goodput that falls as 1 / RTT then changes by more
MICROSECONDS = 1_000_000  # in a second; tc takes no smaller unit for netem, and iperf3 none for a start


def draw_spread(path: Topology, traffic: Traffic, seed: int) -> RunSpread:
    """Returns what a run with this seed draws, each value from a uniform distribution."""
    drawn = random.Random(f"{seed} spread")
    phase_us = drawn.randrange(round(TICK_S * MICROSECONDS))
    delays_us = [drawn.randint(-most_us, most_us) for most_us in map(most_drawn_delay_us, path.senders)]
    rtts_us = {sender.name: round(sender.base_rtt_s * MICROSECONDS) for sender in path.senders}
    longest_us = max(rtts_us.values())
    starts_us = [
        [drawn.randrange(max(1, rtts_us.get(source.host, longest_us))) for _ in range(_starts(source))]
        for source in traffic.sources
    ]
    first_us = min(min(of_source) for of_source in starts_us)
    return RunSpread(
        phase_us / MICROSECONDS,
        tuple(delay_us / MICROSECONDS for delay_us in delays_us),
        tuple(tuple((start_us - first_us) / MICROSECONDS for start_us in of_source) for of_source in starts_us),
    )


def most_drawn_delay_us(sender: Sender) -> int:
    """Returns how many microseconds a sender's delay of data may differ from the configured one.

    That is 0 below an RTT of 2 ms, and where data is not delayed.
    """
    most_s = min(sender.base_rtt_s * DELAY_SHARE, sender.delay_s)
    return math.floor(most_s * MICROSECONDS + 1e-6)


def _starts(source: TrafficSource) -> int:
    return source.streams if isinstance(source, Iperf3Source) else 1
