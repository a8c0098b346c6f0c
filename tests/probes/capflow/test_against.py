"""Compares capflow with tshark, with tcptrace and with the sender's own kernel, on real TCP in the
lab.

If one of them reports another number, the test computes the difference from its definition, which
is in probes/capflow/README.md.
"""

import asyncio
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ccmix.lab import GuestSpec, run_guest
from ccmix.tools import find_kernel
from probes.capflow.others import FIN, SYN, Model, Packet, missing, tcptrace, tshark
from probes.capflow.tool import Capflow
from probes.capflow.traffic import SCENARIOS
from support.commands import assert_has

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}"),
]

EVERY = [f"{name}-{end}" for name in SCENARIOS for end in ("sender", "receiver")]
LOSSES = ["loss", "heavy-loss", "loss-v6", "replies", "super-loss"]
DIRECTIONS = ("a2b", "b2a")


SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 10))]


@pytest.fixture(scope="session", params=SEEDS)
def captures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the captures of all scenarios, made in one guest of the lab."""
    folder = tmp_path_factory.mktemp("traffic")
    argv = ("/usr/bin/python3", "-B", str(Path(__file__).with_name("traffic.py")), *SCENARIOS)
    spec = GuestSpec(argv=argv, job_dir=folder, memory_bytes=1 << 30, seed=request.param)
    result = asyncio.run(run_guest(find_kernel(), spec))
    assert result.exit_status == 0, result.console
    return folder


def test_traffic_has_what_it_should(captures: Path, capflow: Capflow) -> None:
    """Makes sure that equal numbers aren't all zero."""

    def of(name: str, number: str, direction: str = "a2b") -> int:
        return int(capflow.connection(captures / f"{name}.pcap")[direction][number])

    assert sum(of(f"{name}-sender", "retransmitted_packets") for name in LOSSES) > 50
    assert sum(of(f"{name}-receiver", "out_of_order_packets") for name in LOSSES) > 50
    assert sum(of(f"{name}-sender", "duplicate_acks") for name in LOSSES) > 50
    assert sum(of(f"{name}-sender", "sack_packets", "b2a") for name in LOSSES) > 50
    assert of("reorder-receiver", "out_of_order_packets") > 5
    assert of("duplicate-receiver", "retransmitted_packets") > 5
    assert of("ecn-receiver", "ce_packets") > 5
    assert of("ecn-sender", "ece_packets", "b2a") > 5
    assert of("ecn-sender", "cwr_packets") > 2
    assert of("super-sender", "segment_max_bytes") > 50_000
    assert of("zero-window-sender", "zero_window_probes") > 2
    assert of("zero-window-sender", "zero_windows", "b2a") > 2
    assert of("replies-sender", "payload_bytes", "b2a") >= 300_000


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_senders_kernel_says_the_same(name: str, captures: Path, capflow: Capflow) -> None:
    """The capture has every byte and packet that its TCP sent, because netem comes after it."""
    truth = json.loads((captures / f"{name}.json").read_text())
    side = capflow.connection(captures / f"{name}-sender.pcap")["a2b"]
    scenario = SCENARIOS[name]
    assert side["payload_bytes"] == truth["bytes_sent"]
    assert_has(
        side,
        unique_bytes=scenario.size,
        acked_bytes=scenario.size,
        stream_length_bytes=scenario.size,
    )
    assert side["retransmitted_bytes"] == truth["bytes_retrans"]
    assert_has(side, missed_bytes=0, holes_forgotten=0, segments_untimed=0, stray_packets=0)
    if scenario.offloads:  # the kernel counts what the network card is to make of a super-packet
        assert side["retransmitted_packets"] <= truth["total_retrans"]
        assert side["data_packets"] < truth["data_segs_out"]
    else:
        assert side["retransmitted_packets"] == truth["total_retrans"]
        assert side["data_packets"] == truth["data_segs_out"]
    if name != "reorder":  # there the kernel takes RTTs from SACK blocks too
        assert side["ack_rtt_min_s"] == pytest.approx(truth["min_rtt_us"] / 1e6, abs=5e-5)


@pytest.mark.parametrize("name", SCENARIOS)
def test_rtts_are_those_of_netem(name: str, captures: Path, capflow: Capflow) -> None:
    """10 ms in each direction, except for packets that netem reorders by sending them at once."""
    sender = capflow.connection(captures / f"{name}-sender.pcap")["a2b"]
    receiver = capflow.connection(captures / f"{name}-receiver.pcap")
    least_s = 0.01 if "reorder" in SCENARIOS[name].netem else 0.02
    for kind in ("ack_rtt", "timestamp_rtt"):
        assert least_s <= sender[f"{kind}_min_s"] < 0.0205
    assert receiver["a2b"]["ack_rtt_min_s"] < 1e-4  # the receiver answers at once
    handshake_s = receiver["b2a"]["handshake_rtt_s"]
    assert handshake_s is None or least_s <= handshake_s < 0.0205


@pytest.mark.parametrize("name", EVERY)
def test_tshark(name: str, captures: Path, capflow: Capflow) -> None:
    capture = captures / f"{name}.pcap"
    connection = capflow.connection(capture)
    packets = tshark(capture)
    model = Model(packets)
    for direction, port in zip(
        DIRECTIONS, (connection["a_port"], connection["b_port"]), strict=True
    ):
        side, expected = connection[direction], model.counts[port]
        for number in (
            "packets",
            "payload_bytes",
            "unique_bytes",
            "retransmitted_packets",
            "retransmitted_bytes",
            "retransmitted_syn_fin_packets",
            "out_of_order_packets",
            "out_of_order_bytes",
            "ce_packets",
        ):
            assert side[number] == getattr(expected, number), (direction, number)
        # tshark tells retransmitted from out of order by how much time has passed; together they
        # are the same packets
        ours = (
            side["retransmitted_packets"]
            + side["out_of_order_packets"]
            + side["retransmitted_syn_fin_packets"]
        )
        assert ours == expected.again_or_late, direction
        # tshark also counts ACKs that repeat while nothing is outstanding
        other = connection["a2b" if direction == "b2a" else "b2a"]
        assert other["duplicate_acks"] == expected.duplicate_acks, direction
        probes = sum(
            bool(p.analyses & {"keep_alive", "zero_window_probe"})
            for p in packets
            if p.port == port
        )
        assert side["keep_alives"] + side["zero_window_probes"] == probes


COUNTED = (
    "packets",
    "payload_bytes",
    "retransmitted_packets",
    "retransmitted_bytes",
    "out_of_order_packets",
    "out_of_order_bytes",
    "ce_packets",
)


@pytest.mark.parametrize("name", EVERY)
def test_every_interval_of_the_series(name: str, captures: Path, capflow: Capflow) -> None:
    """Compares packets, bytes and bytes in flight of each 10 ms; until the first SACK block they
    are tshark's, too.
    """
    capture = captures / f"{name}.pcap"
    connection = capflow.connection(capture)
    packets = tshark(capture)
    model = Model(packets)
    ports = dict(zip(DIRECTIONS, (connection["a_port"], connection["b_port"]), strict=True))
    counts, flights = {}, {}
    for row in capflow.series(capture, "--interval=10ms"):
        key = ports[row["direction"]], round(float(row["time_s"]) * 100)
        counts[key] = {number: int(row[number]) for number in COUNTED}
        if row["in_flight_max_bytes"] not in {"", "0"}:
            flights[key] = int(row["in_flight_max_bytes"])
    expected = {
        key: {number: getattr(interval, number) for number in COUNTED}
        for key, interval in model.intervals.items()
    }
    assert {key: count for key, count in counts.items() if count["packets"]} == expected
    assert len(expected) > 5
    assert flights == {key: flight for key, flight in model.flights.items() if flight}
    for direction, port in ports.items():
        if not connection["b2a" if direction == "a2b" else "a2b"]["sack_packets"]:
            theirs = max(
                (packet.in_flight or 0 for packet in packets if packet.port == port), default=0
            )
            assert (connection[direction]["in_flight_max_bytes"] or 0) == theirs


@pytest.mark.parametrize("name", SCENARIOS)
def test_tsharks_rtts(name: str, captures: Path, capflow: Capflow) -> None:
    """Returns the samples of tshark that time a packet sent once, whose ACK waited for nothing that
    was sent again.

    At the sender only: tshark leaves out RTTs of 0, which a receiver's capture has.
    """
    capture = captures / f"{name}-sender.pcap"
    connection = capflow.connection(capture)
    packets = tshark(capture)
    by_number = {packet.number: packet for packet in packets}
    repeats = [by_number[number] for number in Model(packets).repeats[connection["a_port"]]]
    samples = []
    acknowledged = 0  # before the packet
    for packet in packets:
        if packet.port == connection["a_port"]:
            continue
        if packet.rtt_s is not None and packet.acks_frame is not None:
            waited = any(
                packet.acks_frame <= again.number < packet.number
                and again.seq < packet.ack
                and again.seq + again.length + bool(again.flags & (SYN | FIN)) > acknowledged
                for again in repeats
            )
            if not waited and by_number[packet.acks_frame] not in repeats:
                samples.append(packet.rtt_s)
        acknowledged = max(acknowledged, packet.ack)
    side = connection["a2b"]
    assert_has(
        side,
        ack_rtt_samples=len(samples),
        ack_rtt_min_s=pytest.approx(min(samples), abs=1e-9),
        ack_rtt_max_s=pytest.approx(max(samples), abs=1e-9),
        ack_rtt_mean_s=pytest.approx(statistics.mean(samples), abs=1e-9),
    )


# Of tcptrace's names, ours.
SAME = {
    "total packets": "packets",
    "ack pkts sent": "ack_packets",
    "pure acks sent": "pure_acks",
    "sack pkts sent": "sack_packets",
    "dsack pkts sent": "dsack_packets",
    "max sack blks/ack": "sack_blocks_max",
    "unique bytes sent": "unique_bytes",
    "actual data pkts": "data_packets",
    "actual data bytes": "payload_bytes",
    "outoforder pkts": "out_of_order_packets",
    "pushed data pkts": "pushed_packets",
    "urgent data pkts": "urgent_packets",
    "mss requested": "mss_bytes",
    "max segm size": "segment_max_bytes",
    "min segm size": "segment_min_bytes",
    "max win adv": "window_max_bytes",
    "min win adv": "window_min_bytes",
    "avg win adv": "window_mean_bytes",
    "zero win adv": "zero_windows",
    "initial window": "initial_window_bytes",
    "initial window pkts": "initial_window_packets",
    "ttl stream length": "stream_length_bytes",
    "missed data": "missed_bytes",
    "truncated data": "cut_bytes",
    "truncated packets": "cut_packets",
    "data xmit time": "data_transmit_time_s",
    "idletime max": "idle_max_s",
    "throughput": "throughput_bytes_per_s",
    "RTT samples": "ack_rtt_samples",
    "RTT min": "ack_rtt_min_s",
    "RTT max": "ack_rtt_max_s",
    "RTT avg": "ack_rtt_mean_s",
    "RTT stdev": "ack_rtt_stdev_s",
    "RTT from 3WHS": "handshake_rtt_s",
    "max # retrans": "retransmissions_of_a_segment_max",
    "min retr time": "retransmission_time_min_s",
    "max retr time": "retransmission_time_max_s",
    "avg retr time": "retransmission_time_mean_s",
    "duplicate acks": "duplicate_acks",
    "triple dupacks": "triple_duplicate_acks",
    "adv wind scale": "window_scale",
}


TIMES = {label for label in SAME if label.startswith("RTT") or label.endswith("retr time")}
UNITS_S = {"RTT": 1e-3, "retr time": 1e-3, "idletime": 1e-3}  # of tcptrace, by a part of the name


def near(theirs: str, ours: float, unit: float) -> bool:
    """Compares as many digits as tcptrace prints; it cuts some and rounds others."""
    digits = len(theirs.partition(".")[2])
    return (
        abs(float(theirs) * unit - ours) <= 1.001 * unit * 10**-digits
        if unit != 1 or "." in str(ours)
        else (float(theirs) == ours)
    )


def zero_taken_for_none(label: str, ours: float) -> bool:
    """tcptrace treats a minimum of 0 as missing, so a later time replaces it."""
    return label == "min retr time" and ours == 0


def taken_of_a_reset(theirs: Mapping[str, str], side: Mapping[str, Any]) -> set[str]:
    """Returns the numbers that tcptrace computes with an RST, which it counts as a window of 0, and
    after a FIN as one more byte.
    """
    resets = side["rst_packets"]
    if not resets:
        return set()
    others = side["packets"] - side["syn_packets"] - resets
    assert near(
        theirs["avg win adv"], int(side["window_mean_bytes"] * others / (others + resets)), 1
    )
    assert int(theirs["ttl stream length"]) == side["stream_length_bytes"] + side["fin_packets"]
    assert int(theirs["missed data"]) == side["missed_bytes"] + side["fin_packets"]
    return {"avg win adv", "ttl stream length", "missed data"}


@pytest.mark.parametrize("name", EVERY)
def test_tcptrace(name: str, captures: Path, capflow: Capflow) -> None:
    capture = captures / f"{name}.pcap"
    connection = capflow.connection(capture)
    packets = tshark(capture)
    different = set()
    for direction, theirs in zip(DIRECTIONS, tcptrace(capture), strict=True):
        side = connection[direction]
        assert set(SAME) <= set(theirs)
        for label, number in SAME.items():
            unit = next(
                (
                    unit
                    for part, unit in UNITS_S.items()
                    if part in label and "samples" not in label
                ),
                1,
            )
            if side[number] is None:  # they write 0, or NA
                assert theirs[label] in {"0", "0.0", "0.000", "NA"}, (direction, label)
            elif not near(theirs[label], side[number], unit) and not zero_taken_for_none(
                label, side[number]
            ):
                different.add((direction, label))
        # They count a SYN or FIN sent again as a packet, and as a byte
        again = side["retransmitted_packets"] + side["retransmitted_syn_fin_packets"]
        assert int(theirs["rexmt data pkts"]) == again
        syn, fin = theirs["SYN/FIN pkts sent"].split("/")
        assert (int(syn), int(fin)) == (side["syn_packets"], side["fin_packets"])
        repeats = max(0, side["syn_packets"] - 1) + max(0, side["fin_packets"] - 1)
        assert int(theirs["rexmt data bytes"]) == side["retransmitted_bytes"] + repeats
        # They leave zero windows out of the minimum
        if side["zero_windows"]:
            different.discard((direction, "min win adv"))
            assert side["window_min_bytes"] == 0
        different -= {(direction, label) for label in taken_of_a_reset(theirs, side)}
        # They also time late segments, which may be first transmissions or not; and of ACKs that
        # come after anything at all was sent again they time none, while we leave out those only
        # that waited for it
        if side["out_of_order_packets"] or side["retransmitted_packets"]:
            if not side["retransmitted_packets"]:
                assert int(theirs["RTT samples"]) >= side["ack_rtt_samples"]
            if not side["out_of_order_packets"]:
                assert int(theirs["RTT samples"]) <= side["ack_rtt_samples"]
            for label in ("samples", "min", "max", "avg", "stdev"):
                different.discard((direction, f"RTT {label}"))
        if side["ack_rtt_samples"] <= 2:  # for which they say 0
            different.discard((direction, "RTT stdev"))
        # They also count ACKs that repeat while nothing is outstanding, and with a FIN; so other
        # ones are the third
        port = connection["a_port" if direction == "a2b" else "b_port"]
        theirs_again = repeated_acks([packet for packet in packets if packet.port != port])
        unsure = sum(
            max(0, connection[way][f"{kind}_packets"] - 1)
            for kind in ("syn", "fin")
            for way in DIRECTIONS
        )
        assert 0 <= abs(int(theirs["duplicate acks"]) - theirs_again) <= unsure
        assert theirs_again >= side["duplicate_acks"]
        if int(theirs["duplicate acks"]) != side["duplicate_acks"]:
            different -= {(direction, "duplicate acks"), (direction, "triple dupacks")}
        # They time no SYN or FIN that is sent again
        if side["retransmitted_syn_fin_packets"]:
            different = {
                (way, label) for way, label in different if way != direction or label not in TIMES
            }
    assert not different


def repeated_acks(packets: Sequence[Packet]) -> int:
    """Counts packets without data whose ACK and window are those of the packet before, but no SYN
    or FIN sent again.
    """
    return sum(
        packet.length == 0
        and (packet.ack, packet.window) == (before.ack, before.window)
        and not packet.flags & SYN
        and not packet.flags & before.flags & FIN
        for before, packet in itertools.pairwise(packets)
    )
