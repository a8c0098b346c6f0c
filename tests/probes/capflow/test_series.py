"""Tests the interval of each packet in the series, and that the series' sums are the summary's
numbers.
"""

from probes.capflow import frames
from probes.capflow.frames import Talk, pcap
from probes.capflow.tool import Capflow

SUMS = [
    "packets",
    "data_packets",
    "payload_bytes",
    "retransmitted_packets",
    "retransmitted_bytes",
    "out_of_order_packets",
    "out_of_order_bytes",
    "ect_packets",
    "ce_packets",
    "cwr_packets",
    "acked_bytes",
    "duplicate_acks",
    "ack_rtt_samples",
    "timestamp_rtt_samples",
]


def test_a_row_per_direction_and_interval_with_packets(capflow: Capflow) -> None:
    talk = Talk(time_ns=1_700_000_000_095_000_000, step_ms=2)
    talk.handshake()  # at 95, 97 and 99 ms
    for place in range(3):
        talk.a(1 + place * 1000, 1, 1000)  # at 101, 103 and 105 ms
    talk.wait(500)
    talk.b(1, 3001)  # at 607 ms
    rows = capflow.series(pcap(talk.frames))
    assert [
        (row["direction"], row["time_s"], row["packets"], row["payload_bytes"]) for row in rows
    ] == [
        ("a2b", "1700000000.000000000", "2", "0"),
        ("b2a", "1700000000.000000000", "1", "0"),
        ("a2b", "1700000000.100000000", "3", "3000"),
        ("b2a", "1700000000.100000000", "0", "0"),
        ("a2b", "1700000000.600000000", "0", "0"),
        ("b2a", "1700000000.600000000", "1", "0"),
    ]
    assert rows[4]["acked_bytes"] == "3000"
    assert rows[4]["ack_rtt_max_s"] == "0.502000000"
    assert rows[2]["receive_window_last_bytes"] == ""  # nothing came back


def test_rtts_of_one_long_interval_are_the_summarys(capflow: Capflow) -> None:
    talk = Talk(step_ms=2)
    for number in range(5):
        talk.a(1 + number * 10, 1, 10, options=frames.timestamps(number // 2, 0))
        talk.wait(number)
        talk.b(1, 11 + number * 10, options=frames.timestamps(0, number // 2))
    side = capflow.connection(pcap(talk.frames))["a2b"]
    (row, back) = capflow.series(pcap(talk.frames), "--interval=1d")
    for kind, samples in (("ack_rtt", 5), ("timestamp_rtt", 3)):
        assert side[f"{kind}_samples"] == int(row[f"{kind}_samples"]) == samples
        for name in ("min_s", "mean_s", "max_s"):
            assert side[f"{kind}_{name}"] == float(row[f"{kind}_{name}"])
            assert back[f"{kind}_{name}"] == ""
    assert side["ack_rtt_min_s"] < side["ack_rtt_mean_s"] < side["ack_rtt_max_s"]
    assert side["timestamp_rtt_min_s"] < side["timestamp_rtt_mean_s"] < side["timestamp_rtt_max_s"]


def test_interval(capflow: Capflow) -> None:
    talk = Talk(step_ms=1)
    for place in range(100):
        talk.a(1 + place * 10, 1, 10)
    for interval, lines in (
        ("1ms", 200),
        ("10ms", 20),
        ("25ms", 8),
        ("0.05s", 4),
        ("1m", 2),
        ("1d", 2),
    ):
        assert len(capflow.series(pcap(talk.frames), f"--interval={interval}")) == lines


def test_sums_are_the_summarys(capflow: Capflow) -> None:
    talk = Talk(step_ms=3)
    talk.handshake()
    for place in (0, 1, 3, 2, 2, 5, 4, 6, 1):
        talk.a(1 + place * 1000, 1, 1000, tos=2)
        talk.b(1, 1 + min(place, 2) * 1000)
    talk.b(1, 7001)
    connection = capflow.connection(pcap(talk.frames))
    rows = capflow.series(pcap(talk.frames), "--interval=10ms")
    for direction in ("a2b", "b2a"):
        for name in SUMS:
            total = sum(int(row[name]) for row in rows if row["direction"] == direction)
            assert total == (connection[direction][name] or 0), (direction, name)
    assert (
        connection["a2b"]["retransmitted_bytes"] == 2000
    )  # so that sums of nothing but 0 don't pass
    assert connection["a2b"]["out_of_order_bytes"] == 2000
    assert connection["a2b"]["duplicate_acks"] == 5


def test_times_that_go_back_a_little_stay_in_the_open_interval(capflow: Capflow) -> None:
    talk = Talk(time_ns=1_700_000_000_100_000_000)
    talk.a(1, 1, 10)
    talk.wait(-2)
    talk.a(11, 1, 10)  # at 99 ms
    talk.wait(-60_000)
    talk.a(21, 1, 10)  # a minute before
    summary = capflow.summary(pcap(talk.frames))
    assert summary["capture"]["backwards_packets"] == 2
    rows = [row for row in capflow.series(pcap(talk.frames)) if row["direction"] == "a2b"]
    assert [(row["time_s"], row["packets"]) for row in rows] == [
        ("1700000000.100000000", "2"),
        ("1699999940.100000000", "1"),
    ]


def test_a_capture_without_packets_has_columns(capflow: Capflow) -> None:
    done = capflow.run("--series", "-", stdin=pcap([]))
    assert done.returncode == 0
    assert done.stdout.startswith(b"connection,direction,time_s,packets,")
    assert done.stdout.count(b"\n") == 1
    summary = capflow.summary(pcap([]))
    assert summary["connections"] == []
    assert summary["capture"]["first_time_s"] is None
