"""Tests that an emulated path is the configured path, measured from outside the emulation.

The lab's purpose sets the tolerances: base RTT 0.1 ms, rate 0.5%, loss within its binomial
interval, buffer one packet. docs/explanation/lab.md has the measured values.
"""

import itertools
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy.special import bdtr, bdtrc

from ccmix.model.emulated import BUCKET_PACKETS
from ccmix.tools import find_iperf3
from support.commands import REPOSITORY, Ccmix, long

pytestmark = pytest.mark.lab

SCRIPT = Path(__file__).with_name("calibration_point.py")
POINTS_A_GUEST = 8
PING_BYTES = 8 + 56 + 20 + 14  # ICMP, IP and Ethernet
RTT_S, RATE, P_VALUE = 0.1e-3, 0.005, 1e-6
LOSSES = 800  # as in calibration_point.py
Point = Mapping[str, Any]


def point(
    rate_bps: float,
    rtt_s: float,
    loss: float = 0.01,
    buffer: tuple[float, str] = (50, "packet"),
    mtu: int = 1500,
    queue: str = "bfifo",
    shaper: str = "tbf",
    offloads: bool = False,
) -> Point:
    return {
        "rate_bps": rate_bps,
        "rtt_s": rtt_s,
        "loss": loss,
        "buffer": buffer,
        "mtu": mtu,
        "queue": queue,
        "shaper": shaper,
        "offloads": offloads,
        "protocol": "udp",
    }


FEW = [
    point(1e8, 0.02, 0.1, (1, "bdp"), queue="pfifo"),
    point(1e9, 0.2, 0.0, (100_000, "byte"), shaper="htb"),
]
SMALL = [
    point(1e7, 0.001),
    point(1e7, 0.2, 0.001, queue="pfifo", shaper="htb"),
    point(1e8, 0.02, 0.0, (100_000, "byte")),
    point(1e9, 0.001, 0.01, (1, "bdp")),
    point(1e9, 0.2, shaper="htb"),
    point(1e9, 0.02, 0.0, (1, "bdp"), offloads=True),
]
LARGE = [
    *(
        point(rate_bps, rtt_s, loss, mtu=mtu, shaper=shaper)
        for (rate_bps, mtu), (rtt_s, loss), shaper in itertools.product(
            [(1e7, 1500), (1e8, 1500), (1e9, 1500), (1e10, 9000)],
            [(0.001, 0.001), (0.005, 0.0), (0.02, 0.01), (0.08, 0.1), (0.2, 0.0001)],
            ["tbf", "htb"],
        )
    ),
    *(
        point(1e8, 0.02, 0.0, buffer, queue=queue, shaper=shaper)
        for buffer, queue, shaper in itertools.product(
            [
                (1, "packet"),
                (3, "packet"),
                (1000, "packet"),
                (10_000, "byte"),
                (0.1, "bdp"),
                (4, "bdp"),
            ],
            ["bfifo", "pfifo"],
            ["tbf", "htb"],
        )
    ),
]


def measured(points: list[Point], folder: Path) -> Iterator[tuple[Point, dict[str, Any]]]:
    done = Ccmix(folder)(
        "lab",
        "exec",
        "--host-root",
        "--memory",
        2000,
        "--",
        sys.executable,
        SCRIPT,
        REPOSITORY / "harness",
        find_iperf3(),
        json.dumps(points),
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield from zip(points, map(json.loads, done.stdout.splitlines()), strict=True)


def check_rtt(asked: Point, values: Mapping[str, Any]) -> None:
    expected_s = (
        asked["rtt_s"] + PING_BYTES * 8 / asked["rate_bps"]
    )  # of which the bucket lets a lone packet go at once
    answered = values["pings_s"]
    assert len(answered) > (1 - 2 * asked["loss"]) * 20 - 5, "pings are lost as anything else is"
    assert all(abs(rtt_s - expected_s) <= RTT_S for rtt_s in answered), (
        asked,
        min(answered),
        max(answered),
    )


def check_rate(asked: Point, values: Mapping[str, Any]) -> None:
    (begin_s, begin_bytes, *_), *_, (end_s, end_bytes, *_) = values["samples"]
    passed_bps = (end_bytes - begin_bytes) * 8 / (end_s - begin_s)
    assert passed_bps == pytest.approx(asked["rate_bps"], rel=RATE), asked


def check_loss(asked: Point, values: Mapping[str, Any]) -> None:
    """Compares the packets that were sent but did not come to the bottleneck: UDP, and some packets
    of iperf3's control connection.
    """
    sent = values["grown"]["sender-queue"]["packets"]
    assert sent == pytest.approx(values["sent_packets"], abs=60)
    arrived = values["grown"]["bottleneck"]["packets"] + values["grown"]["bottleneck"]["drops"]
    lost = sent - arrived
    if asked["loss"]:
        small = values["small"]
        for lost_of, sent_of in ((lost, sent), (small["sent"] - small["arrived"], small["sent"])):
            assert as_asked(lost_of, sent_of, asked["loss"]), (asked, lost_of, sent_of)
        assert small["sent"] * asked["loss"] == pytest.approx(LOSSES, rel=0.01)
    else:
        assert lost == 0


def as_asked(lost: int, sent: int, loss: float) -> bool:
    return bool(bdtr(lost, sent, loss) > P_VALUE / 2 and bdtrc(lost - 1, sent, loss) > P_VALUE / 2)


@pytest.mark.parametrize("loss", [1e-4, 1e-3, 0.01, 0.1])
@pytest.mark.parametrize("wrong", [0.75, 1.25])
def test_so_many_losses_tell_a_quarter_more_or_less(loss: float, wrong: float) -> None:
    """Adds up the probabilities of all accepted counts of losses, if a quarter more or less were
    lost.
    """
    sent = round(LOSSES / loss)
    accepted = [lost for lost in range(LOSSES // 2, 2 * LOSSES) if as_asked(lost, sent, loss)]
    missed = bdtr(accepted[-1], sent, wrong * loss) - bdtr(accepted[0] - 1, sent, wrong * loss)
    assert missed < 0.05
    false_alarms = 1 - (bdtr(accepted[-1], sent, loss) - bdtr(accepted[0] - 1, sent, loss))
    assert false_alarms < P_VALUE * 1.01


def check_buffer(asked: Point, values: Mapping[str, Any]) -> None:
    """Checks that the part of an instantaneous burst that fits into the buffer passes, and the
    bucket's part at once.
    """
    queued_bytes = (values["burst_packets"] - values["bucket_packets"]) * values["packet_bytes"]
    assert abs(queued_bytes - values["buffer_bytes"]) <= values["packet_bytes"], asked


def check(points: list[Point], folder: Path) -> None:
    """Measures some points in each guest: no point leaves anything for the next, and failures
    come early.
    """
    for begin in range(0, len(points), POINTS_A_GUEST):
        for asked, values in measured(points[begin : begin + POINTS_A_GUEST], folder):
            check_rtt(asked, values)
            check_rate(asked, values)
            check_loss(asked, values)
            check_buffer(asked, values)


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("points", [FEW, long(SMALL)], ids=["few", "small"])
def test_the_path_is_the_one_asked_for(points: list[Point], tmp_path: Path) -> None:
    check(points, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_the_path_is_the_one_asked_for_from_10_mbit_to_10_gbit_and_1_to_200_ms(
    tmp_path: Path,
) -> None:
    check(LARGE, tmp_path)


def test_a_packet_is_one_packet_unless_offloads_are_asked_for(tmp_path: Path) -> None:
    """Expects packets of the largest size at most, at the netem that loses and behind the
    bottleneck; else many packets joined.
    """
    tcp = dict(point(1e9, 0.02, 0.0, (1, "bdp")), protocol="tcp")
    (_, apart), (_, joined) = measured([tcp, dict(tcp, offloads=True)], tmp_path)
    for where in ("delay", "bottleneck"):
        assert 1400 < apart["bytes_a_packet"][where] <= 1514
        assert joined["bytes_a_packet"][where] > 10 * 1514


def test_jitter_reordering_mtu_and_a_host_s_rate_are_what_was_asked_for(tmp_path: Path) -> None:
    """Expects an RTT's jitter to be the sum of two uniform ones, one in each direction. Reordered
    packets have no delay.
    """
    asked = dict(point(1e9, 0.04, 0.0, (1000, "packet")), protocol="pings")
    plain, jitter, reorder, slow = (
        values
        for _, values in measured(
            [
                asked,
                dict(asked, jitter_s=0.005),
                dict(asked, reorder=0.02, mtu=9000),
                dict(asked, host_rate_bps=1e8, mtu=2000),
            ],
            tmp_path,
        )
    )
    for values in (plain, jitter, reorder, slow):
        assert values["passes"] == [True, False], (
            "what is as large as the MTU passes, and not a byte more"
        )
        assert sorted(values["order"]) == list(range(5000))

    assert max(plain["pings_s"]) - min(plain["pings_s"]) < RTT_S
    assert plain["order"] == sorted(plain["order"])

    rtts_s = jitter["pings_s"]
    assert 0.040 - 0.010 <= min(rtts_s) < 0.040 - 0.008
    assert 0.040 + 0.008 < max(rtts_s) <= 0.040 + 0.010 + RTT_S
    assert statistics.fmean(rtts_s) == pytest.approx(
        0.040, abs=4 * 0.005 * math.sqrt(2 / 3 / len(rtts_s))
    )
    assert statistics.stdev(rtts_s) == pytest.approx(0.005 * math.sqrt(2 / 3), rel=0.1)

    early = sum(not before < number for before, number in itertools.pairwise(reorder["order"]))
    overtaking = 5000 * 0.02
    assert early == pytest.approx(overtaking, abs=5 * math.sqrt(overtaking))
    assert min(reorder["pings_s"]) == pytest.approx(0.020, abs=RTT_S), (
        "a ping that has no delay on its way"
    )
    assert statistics.median(reorder["pings_s"]) == pytest.approx(0.040, abs=RTT_S)

    came_s = slow["came_s"][BUCKET_PACKETS:]
    passed_bps = (len(came_s) - 1) * 2014 * 8 / (came_s[-1] - came_s[0])
    assert passed_bps == pytest.approx(1e8, rel=RATE)
