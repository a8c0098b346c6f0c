"""Tests the numbers of a connection on hand-made packets, for which the right numbers are known."""

import statistics
from typing import Any

import pytest

from probes.capflow import frames
from probes.capflow.frames import Talk, pcap
from probes.capflow.tool import Capflow
from support.commands import assert_has

MSS = 1000
RANGES_MAX = 1024  # probes/capflow/ranges.h
SEGMENTS_MAX = 32768  # probes/capflow/outstanding.h


def data(talk: Talk, *segments: int, begin: int = 1) -> None:
    """Makes segments of MSS bytes by their place in the stream, counted from 0."""
    for segment in segments:
        talk.a(begin + segment * MSS, 1, MSS)


def a2b(capflow: Capflow, talk: Talk) -> Any:
    return capflow.connection(pcap(talk.frames))["a2b"]


def test_retransmission_is_what_was_seen_before(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 1, 2, 1, 3, 1)
    talk.a(3501, 1, 1000)  # half old, half new
    side = a2b(capflow, talk)
    assert_has(
        side,
        payload_bytes=7000,
        unique_bytes=4500,
        retransmitted_packets=3,
        retransmitted_bytes=2500,
        retransmissions_of_a_segment_max=2,
        out_of_order_packets=0,
        retransmission_time_samples=3,
        retransmission_time_min_s=0.002,
    )


def test_out_of_order_is_new_below_the_highest(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 2, 4, 1, 3, 3)
    side = a2b(capflow, talk)
    assert_has(
        side,
        unique_bytes=5000,
        out_of_order_packets=2,
        out_of_order_bytes=2000,
        retransmitted_packets=1,
        retransmitted_bytes=1000,
    )


def test_one_packet_over_holes_and_known_data(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 2, 4)
    talk.a(1, 1, 6000)  # known 3000; 2000 into holes; 1000 above all
    side = a2b(capflow, talk)
    assert_has(side, unique_bytes=6000, retransmitted_bytes=3000, out_of_order_bytes=2000)


@pytest.mark.parametrize("isn", [0, 2**31 - 1500, 2**32 - 1, 2**32 - 1500, 2**32 - 2500])
def test_sequence_numbers_wrap(isn: int, capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake(a_isn=isn, b_isn=isn)
    ack = isn + 1
    for place in (0, 1, 2, 4, 3, 1):
        talk.a(isn + 1 + place * MSS, ack, MSS)
    talk.b(ack, isn + 1 + 5000)
    talk.a(isn + 5001, ack, flags="FA")
    talk.b(ack, isn + 5002, flags="FA")
    side = a2b(capflow, talk)
    assert_has(
        side,
        unique_bytes=5000,
        stream_length_bytes=5000,
        acked_bytes=5000,
        missed_bytes=0,
        retransmitted_bytes=1000,
        out_of_order_bytes=1000,
        in_flight_max_bytes=5000,
    )


def test_many_wraps(capflow: Capflow) -> None:
    """20 GB in packets of a gigabyte less one; the lengths are those of BIG TCP's jumbo option."""
    talk = Talk()
    size = 2**29
    for number in range(40):
        segment = frames.tcp(talk.ports, 1 + number * size, 1, "A")
        jumbo = bytes([6, 0, 0xC2, 4]) + (28 + size).to_bytes(4, "big")
        talk.add(frames.ip6("fd00::1", "fd00::2", jumbo + segment, length=0, next_header=0))
        back = frames.tcp(talk.ports[::-1], 1, 1 + (number + 1) * size, "A")
        talk.add(frames.ip6("fd00::2", "fd00::1", back))
    side = a2b(capflow, talk)
    assert side["payload_bytes"] == side["unique_bytes"] == 40 * size
    assert (
        side["acked_bytes"] == 39 * size
    )  # what the first ACK acknowledged is not known without a SYN
    assert side["ack_rtt_samples"] == 40


def test_one_direction_only(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 1, 2, 1)
    talk.b(1, 3001)
    data_only = [f for f in talk.frames if f.data[37] == 5201 & 255]
    acks_only = [f for f in talk.frames if f.data[37] != 5201 & 255]
    side = capflow.connection(pcap(data_only))["a2b"]
    assert_has(
        side,
        unique_bytes=3000,
        retransmitted_bytes=1000,
        ack_rtt_samples=0,
        timestamp_rtt_samples=0,
    )
    assert side["in_flight_max_bytes"] is None
    assert side["acked_bytes"] is None
    connection = capflow.connection(pcap(acks_only))
    assert connection["a_port"] == 5201
    assert connection["b2a"]["packets"] == 0
    assert connection["b2a"]["acked_bytes"] == 3000


def test_a_long_capture_of_one_direction_holds_no_waiting_segments(capflow: Capflow) -> None:
    talk = Talk(step_ms=0.01)
    data(talk, *range(40_000))
    side = a2b(capflow, talk)
    assert side["unique_bytes"] == 40_000_000
    assert side["segments_untimed"] == 0


def test_a_new_syn_on_the_same_ports_is_another_connection(capflow: Capflow) -> None:
    talk = Talk()
    for isn in (100, 5000, 77):
        talk.handshake(a_isn=isn)
        talk.a(isn + 1, 1, isn)
        talk.a(isn, 0, flags="S")  # late: the same SYN
    connections = capflow.summary(pcap(talk.frames))["connections"]
    assert [c["a2b"]["payload_bytes"] for c in connections] == [100, 5000, 77]
    assert [c["connection"] for c in connections] == [1, 2, 3]
    assert [c["a2b"]["syn_packets"] for c in connections] == [2, 2, 2]
    assert [c["a2b"]["retransmitted_syn_fin_packets"] for c in connections] == [1, 1, 1]


def test_ports_used_again_by_the_other_end(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    talk.a(1, 1, 10)
    talk.b(9000, 0, flags="S")
    talk.a(8000, 9001, flags="SA")
    connections = capflow.summary(pcap(talk.frames))["connections"]
    assert [(c["a_port"], c["a2b"]["packets"]) for c in connections] == [(40000, 3), (5201, 1)]


def test_a_syn_that_comes_after_its_answer_or_data_begins_no_other_connection(
    capflow: Capflow,
) -> None:
    talk = Talk()
    talk.handshake()
    talk.a(1, 1, 10)
    first, second, third, fourth = talk.frames
    for order in ((second, first, third, fourth), (second, fourth, first, third)):
        connection = capflow.connection(pcap(order))
        assert connection["a_port"] == 5201
        assert connection["b2a"]["unique_bytes"] == 10


def test_simultaneous_open(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(10, 0, flags="S")
    talk.b(20, 0, flags="S")
    talk.a(10, 21, flags="SA")
    talk.b(20, 11, flags="SA")
    talk.a(11, 21, 5)
    connection = capflow.connection(pcap(talk.frames))
    assert connection["a2b"]["unique_bytes"] == 5


def test_packets_of_many_flows_find_theirs(capflow: Capflow) -> None:
    talks = [
        Talk(ports=(10_000 + number, 5201), version=4 + 2 * (number % 2)) for number in range(3000)
    ]
    for turn in range(3):
        for number, talk in enumerate(talks):
            talk.a(1 + turn * number, 1, number)
    every = [talk.frames[turn] for turn in range(3) for talk in talks]
    connections = capflow.summary(pcap(every))["connections"]
    assert len(connections) == 3000
    for connection in connections:
        assert connection["a2b"]["packets"] == 3
        assert connection["a2b"]["unique_bytes"] == 3 * (connection["a_port"] - 10_000)
        assert ":" in connection["a_address"] or connection["a_port"] % 2 == 0


def test_ipv4_and_ipv6_addresses_of_the_same_bytes_are_apart(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(1, 1, 10)
    segment = frames.tcp(talk.ports, 11, 1, "A", payload=bytes(20))
    talk.add(frames.ip6("a00:1::", "a00:2::", segment))
    connections = capflow.summary(pcap(talk.frames))["connections"]
    assert [(c["a_address"], c["a2b"]["payload_bytes"]) for c in connections] == [
        ("10.0.0.1", 10),
        ("a00:1::", 20),
    ]


def test_sack_blocks_and_dsack(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 2, 4, 6)
    talk.b(1, 1001, options=frames.sack((2001, 3001)))
    talk.b(1, 1001, options=frames.sack((6001, 7001), (4001, 5001), (2001, 3001)))
    talk.b(1, 1001, options=frames.sack((1, 501)))  # below the ACK
    talk.b(1, 1001, options=frames.sack((4501, 5001), (4001, 5001)))  # within the second
    back = capflow.connection(pcap(talk.frames))["b2a"]
    assert_has(back, sack_packets=4, sack_blocks=7, sack_blocks_max=3, dsack_packets=2)


def test_duplicate_acks(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    talk.b(1, 1)
    talk.b(1, 1)  # nothing is outstanding
    data(talk, *range(9))
    talk.b(1, 1001)
    talk.b(1, 1001)
    talk.b(1, 1001)
    talk.b(1, 1001, window=999)  # a window update
    talk.b(1, 1001, 10, window=999)  # with data
    talk.b(11, 1001, window=999)  # the third
    talk.b(11, 1001, window=999)
    talk.b(11, 2001, window=999)
    talk.b(11, 2001, window=999)
    talk.b(11, 2001, window=999)  # two in a row, and no third
    talk.b(11, 3001, window=999)
    side = a2b(capflow, talk)
    assert side["duplicate_acks"] == 6
    assert side["triple_duplicate_acks"] == 1


def test_ecn(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(0, 0, flags="SEC")
    talk.b(0, 1, flags="SAE")
    talk.a(1, 1)
    talk.a(1, 1, MSS, tos=2)
    talk.a(1001, 1, MSS, tos=3)
    talk.a(2001, 1, MSS, tos=1)
    talk.b(1, 3001, flags="AE")
    talk.a(3001, 1, MSS, flags="AC", tos=2)
    connection = capflow.connection(pcap(talk.frames))
    assert [connection["a2b"][f"{kind}_packets"] for kind in ("ect", "ce", "cwr", "ece")] == [
        4,
        1,
        1,
        0,
    ]
    assert [connection["b2a"][f"{kind}_packets"] for kind in ("ect", "ce", "cwr", "ece")] == [
        0,
        0,
        0,
        1,
    ]
    talk6 = Talk(version=6)
    talk6.a(1, 1, MSS, tos=3)
    assert a2b(capflow, talk6)["ce_packets"] == 1
    (row, back) = capflow.series(pcap(talk.frames), "--interval=1s")
    assert [row[name] for name in ("ect_packets", "ce_packets", "cwr_packets", "ece_packets")] == [
        "4",
        "1",
        "1",
        "1",
    ]
    assert back["ece_packets"] == "0"


def test_windows(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(0, 0, flags="S", options=frames.window_scale(7), window=60000)
    talk.b(0, 1, flags="SA", options=frames.window_scale(3), window=65535)
    talk.a(1, 1, window=10)
    talk.b(1, 1, window=20)
    talk.b(1, 1, window=0)
    talk.b(1, 1, window=40)
    connection = capflow.connection(pcap(talk.frames))
    a, b = connection["a2b"], connection["b2a"]
    assert (a["window_scale"], b["window_scale"]) == (7, 3)
    assert_has(a, window_min_bytes=1280, window_max_bytes=1280, window_mean_bytes=1280)
    assert_has(b, window_min_bytes=0, window_max_bytes=320, window_mean_bytes=160)
    assert (a["zero_windows"], b["zero_windows"]) == (0, 1)
    rows = capflow.series(pcap(talk.frames), "--interval=1s")
    assert (rows[0]["receive_window_min_bytes"], rows[0]["receive_window_last_bytes"]) == (
        "0",
        "320",
    )


def test_windows_are_scaled_only_where_both_offer_it(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(0, 0, flags="S", options=frames.window_scale(7))
    talk.b(0, 1, flags="SA")
    talk.a(1, 1, window=10)
    assert a2b(capflow, talk)["window_max_bytes"] == 10
    talk = Talk()  # of one direction only, an answer with a scale says that both did
    talk.b(0, 1, flags="SA", options=frames.window_scale(20))  # more than 14 counts as 14
    talk.b(1, 1, window=10)
    assert a2b(capflow, talk)["window_max_bytes"] == 10 << 14


def test_zero_window_probes_and_keep_alives(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0)
    talk.b(1, 1001)
    talk.a(1000, 1)  # Linux asks without data
    talk.b(1, 1001)
    talk.a(1000, 1, 1)  # others with the last byte
    talk.b(1, 1001, window=0)
    talk.a(1000, 1)
    talk.b(1, 1001, window=0)
    talk.a(1001, 1, 1)  # a probe with new data
    side = a2b(capflow, talk)
    assert_has(
        side, keep_alives=2, zero_window_probes=2, retransmitted_packets=0, unique_bytes=1001
    )


def test_the_last_byte_again_is_a_retransmission_where_it_was_not_acknowledged(
    capflow: Capflow,
) -> None:
    talk = Talk()
    talk.handshake()
    talk.a(1, 1, 1)
    talk.a(1, 1, 1)
    side = a2b(capflow, talk)
    assert (side["retransmitted_packets"], side["keep_alives"]) == (1, 0)


def test_in_flight_and_acked(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 1, 2)
    talk.b(1, 2001)
    data(talk, 3)
    talk.b(1, 4001)
    talk.a(4001, 1, flags="FA")
    talk.b(1, 4002)
    side = a2b(capflow, talk)
    assert side["in_flight_max_bytes"] == 3000
    assert side["acked_bytes"] == 4000
    (row, _) = capflow.series(pcap(talk.frames), "--interval=1s")
    assert_has(row, in_flight_max_bytes="3000", in_flight_last_bytes="0", acked_bytes="4000")


def test_rtt_from_acks_leaves_out_what_is_ambiguous(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()  # RTT of the SYN: 1 ms; of the SYN/ACK: 1 ms
    data(talk, 0)
    talk.wait(9)
    talk.b(1, 1001)  # 10 ms
    data(talk, 1)
    talk.wait(200)
    data(talk, 1)
    talk.wait(9)
    talk.b(1, 2001)  # whose ACK is this?
    data(talk, 2, 3, 4)
    talk.wait(17)
    talk.b(1, 4001)  # 18 ms + 1 ms, of segment 3
    talk.b(1, 4501)  # in the middle of segment 4
    talk.b(1, 5001)  # 21 ms - the step
    connection = capflow.connection(pcap(talk.frames))
    side = connection["a2b"]
    assert_has(
        side,
        ack_rtt_samples=4,
        ack_rtt_min_s=0.001,
        ack_rtt_max_s=0.020,
        ack_rtt_mean_s=pytest.approx((1 + 10 + 19 + 20) / 4e3),
        ack_rtt_stdev_s=pytest.approx(statistics.stdev([0.001, 0.01, 0.019, 0.02])),
    )
    assert side["handshake_rtt_s"] == connection["b2a"]["handshake_rtt_s"] == 0.001


def test_rtt_from_acks_leaves_out_what_waited_for_a_hole(capflow: Capflow) -> None:
    """Segment 0 is lost. Segments 1 and 2 wait at the receiver for its retransmission, so their ACK
    measures that wait, not the path.
    """
    talk = Talk()
    talk.handshake()
    data(talk, 0, 1, 2)
    talk.wait(100)
    data(talk, 0)
    talk.b(1, 3001)
    assert a2b(capflow, talk)["ack_rtt_samples"] == 1  # the SYN
    data(talk, 3)
    talk.b(1, 4001)
    assert a2b(capflow, talk)["ack_rtt_samples"] == 2
    # As the receiver's side sees it: the first transmission never came by
    talk = Talk()
    talk.handshake()
    data(talk, 1, 2)
    talk.wait(100)
    data(talk, 0)
    talk.b(1, 3001)
    assert a2b(capflow, talk)["ack_rtt_samples"] == 1


@pytest.mark.parametrize("count", [2000, 4000])
def test_many_segments_wait_at_once(count: int, capflow: Capflow) -> None:
    """The rings of what waits grow while they turn. Of stamps, no more than 1024 can wait; then
    some aren't timed.
    """
    talk = Talk(step_ms=0)
    acked = []
    for place in range(count):
        talk.a(1 + place * 10, 1, 10, options=frames.timestamps(place, 0))
        talk.wait(1)
        if place >= 1000 or place % 4 == 3:
            acked.append(place // 4 if place < 1000 else 250 + (place - 1000) // 2)
            talk.b(1, 11 + acked[-1] * 10, options=frames.timestamps(0, acked[-1]))
    side = a2b(capflow, talk)
    assert side["ack_rtt_samples"] == len(set(acked)) == count // 2 - 250
    assert_has(side, ack_rtt_min_s=0.004, timestamp_rtt_min_s=0.004, segments_untimed=0)
    if count == 2000:
        assert side["timestamp_rtt_samples"] == side["ack_rtt_samples"]
        assert side["timestamp_rtt_max_s"] == side["ack_rtt_max_s"]
    else:
        assert 0.5 < side["timestamp_rtt_samples"] / side["ack_rtt_samples"] < 1


def test_more_segments_wait_than_are_remembered(capflow: Capflow) -> None:
    talk = Talk(step_ms=0.01)
    talk.handshake()
    data(talk, *range(SEGMENTS_MAX + 100))
    talk.b(1, 1 + 10 * MSS)
    data(talk, SEGMENTS_MAX + 100)
    side = a2b(capflow, talk)
    assert_has(
        side, segments_untimed=100, unique_bytes=(SEGMENTS_MAX + 101) * MSS, ack_rtt_samples=2
    )


def test_no_handshake_rtt_where_the_syn_was_sent_twice(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(0, 0, flags="S")
    talk.handshake()
    connection = capflow.connection(pcap(talk.frames))
    assert connection["a2b"]["handshake_rtt_s"] is None
    assert connection["b2a"]["handshake_rtt_s"] == 0.001


def test_rtt_from_time_stamps(capflow: Capflow) -> None:
    talk = Talk(step_ms=0)

    def a(seq: int, value: int, echo: int = 0) -> None:
        talk.a(seq, 1, MSS, options=frames.timestamps(value, echo))

    def b(ack: int, value: int, echo: int) -> None:
        talk.b(1, ack, options=frames.timestamps(value, echo))

    a(1, 2**32 - 1)
    talk.wait(1)
    a(1001, 0)  # the clock wraps
    a(2001, 0)  # the same tick: the first counts
    talk.wait(29)
    b(2001, 70, 2**32 - 1)  # 30 ms
    talk.wait(1)
    b(3001, 71, 0)  # 30 ms
    b(3001, 71, 0)  # again: no sample
    a(3001, 5)
    a(3001, 6)  # a retransmission has a stamp of its own: no ambiguity
    talk.wait(40)
    b(4001, 72, 6)  # 40 ms
    b(4001, 72, 5)  # older than what has come back
    b(4001, 72, 9999)  # never sent
    side = a2b(capflow, talk)
    assert_has(
        side,
        timestamp_rtt_samples=3,
        timestamp_rtt_min_s=0.03,
        timestamp_rtt_max_s=0.04,
        timestamp_rtt_mean_s=pytest.approx(0.1 / 3),
    )


def test_counts_sizes_and_times(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake(options=frames.mss(1460) + frames.SACK_PERMITTED)
    talk.a(1, 1, 1460, flags="PA")
    talk.a(1461, 1, 100, flags="UPA")
    talk.wait(500)
    talk.b(1, 1561)
    talk.a(1561, 1, 40)
    talk.a(1601, 1, flags="FA")
    talk.a(1601, 1, flags="FA")
    talk.b(1, 1602, flags="FA")
    talk.a(1602, 2)
    talk.a(1602, 2, flags="R")
    connection = capflow.connection(pcap(talk.frames))
    side = connection["a2b"]
    assert connection["complete"] is True
    expected = {
        "packets": 9,
        "ack_packets": 7,
        "pure_acks": 2,
        "syn_packets": 1,
        "fin_packets": 2,
        "rst_packets": 1,
        "pushed_packets": 2,
        "urgent_packets": 1,
        "data_packets": 3,
        "payload_bytes": 1600,
        "unique_bytes": 1600,
        "segment_max_bytes": 1460,
        "segment_min_bytes": 40,
        "initial_window_bytes": 1560,
        "initial_window_packets": 2,
        "stream_length_bytes": 1600,
        "missed_bytes": 0,
        "sack_permitted": True,
        "retransmitted_syn_fin_packets": 1,
        "retransmitted_packets": 0,
        "idle_max_s": 0.502,
        "data_transmit_time_s": 0.503,
        "stray_packets": 0,
    }
    assert {name: side[name] for name in expected} == expected
    assert side["segment_mean_bytes"] == pytest.approx(1600 / 3)
    assert side["throughput_bytes_per_s"] == pytest.approx(1600 / 0.511)


def test_missed_data(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 2, 5)
    talk.a(6001, 1, flags="FA")
    side = a2b(capflow, talk)
    assert_has(side, stream_length_bytes=6000, unique_bytes=3000, missed_bytes=3000)
    assert capflow.connection(pcap(talk.frames))["complete"] is False


def test_more_holes_than_are_remembered(capflow: Capflow) -> None:
    """The lowest holes are forgotten, and counted; late data for them counts as retransmitted."""
    talk = Talk(step_ms=0.01)
    holes = RANGES_MAX + 10
    data(talk, *range(0, 2 * holes + 1, 2))
    side = a2b(capflow, talk)
    forgotten = side["holes_forgotten"]
    assert forgotten == holes + 1 - RANGES_MAX
    assert side["unique_bytes"] == (holes + 1) * MSS
    data(talk, *range(1, 2 * holes, 2))
    side = a2b(capflow, talk)
    assert_has(
        side,
        retransmitted_packets=forgotten,
        out_of_order_packets=holes - forgotten,
        unique_bytes=(2 * holes + 1 - forgotten) * MSS,
    )


def test_one_wild_packet_does_no_harm_and_a_gap_is_got_over(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0, 1)
    talk.a(2**31, 1, MSS)  # far from all that came before
    data(talk, 2)
    side = a2b(capflow, talk)
    assert_has(
        side, stray_packets=1, unique_bytes=3000, out_of_order_packets=0, retransmitted_packets=0
    )
    talk.a(2**31, 1, MSS)  # a capture that lost 2 GB goes on here
    talk.a(2**31 + MSS, 1, MSS)
    talk.a(2**31 + 2 * MSS, 1, MSS)
    talk.b(1, 2**31 + 3 * MSS)
    side = a2b(capflow, talk)
    assert_has(
        side, stray_packets=2, unique_bytes=5000, out_of_order_packets=0, retransmitted_packets=0
    )


def test_a_reset_says_nothing_about_sequences(capflow: Capflow) -> None:
    talk = Talk()
    talk.handshake()
    data(talk, 0)
    talk.b(12345, 2**30, flags="RA", window=0)
    data(talk, 1)
    connection = capflow.connection(pcap(talk.frames))
    assert connection["b2a"]["rst_packets"] == 1
    assert connection["b2a"]["zero_windows"] == 0
    assert connection["a2b"]["acked_bytes"] == 0
