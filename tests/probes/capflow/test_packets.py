"""Tests the way from frames to segments: link layers, IP, cut packets, and the formats
of captures.
"""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from probes.capflow import frames
from probes.capflow.frames import Talk, ethernet, extension, ip4, ip6, pcap, pcapng, tcp, vlan
from probes.capflow.tool import Capflow
from support.commands import assert_has

PORTS = (40000, 5201)
HERE, THERE = "10.0.0.1", "10.0.0.2"
HERE6, THERE6 = "fd00::1", "fd00::2"


def a_talk(version: int = 4, wrap: Callable[[bytes], bytes] = ethernet) -> Talk:
    talk = Talk(version=version, wrap=wrap)
    talk.handshake(options=frames.mss(1460))
    talk.a(1, 1, 1000)
    talk.a(1001, 1, 500, flags="PA")
    talk.b(1, 1501)
    talk.a(1001, 1, 500)
    return talk


def check(connection: Any) -> None:
    assert connection["b2a"]["packets"] == 2
    assert_has(
        connection["a2b"],
        packets=5,
        payload_bytes=2000,
        unique_bytes=1500,
        retransmitted_bytes=500,
        pushed_packets=1,
    )
    assert connection["a2b"]["mss_bytes"] == connection["b2a"]["mss_bytes"] == 1460
    assert (connection["a_port"], connection["b_port"]) == PORTS


def kind(packet: bytes) -> bytes:
    return b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"


def loopback(order: str, family6: int = 30) -> Callable[[bytes], bytes]:
    return lambda packet: struct.pack(order + "I", 2 if packet[0] >> 4 == 4 else family6) + packet


LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (frames.ETHERNET, ethernet),
    "vlan": (frames.ETHERNET, lambda packet: vlan(packet, 0x8100)),
    "qinq": (frames.ETHERNET, lambda packet: vlan(packet, 0x88A8, 0x8100)),
    "qinq-old": (frames.ETHERNET, lambda packet: vlan(packet, 0x9100, 0x8100)),
    "cooked": (frames.SLL, lambda packet: bytes(14) + kind(packet) + packet),
    "cooked-vlan": (frames.SLL, lambda packet: bytes(14) + b"\x81\0\0\7" + kind(packet) + packet),
    "cooked2": (frames.SLL2, lambda packet: kind(packet) + bytes(18) + packet),
    "raw": (frames.RAW, lambda packet: packet),
    "null-little": (frames.NULL, loopback("<")),
    "null-big": (frames.NULL, loopback(">", 24)),
    "loop": (frames.LOOP, loopback(">", 28)),
}


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link", LINKS)
def test_every_link_type_gives_the_same(link: str, version: int, capflow: Capflow) -> None:
    number, wrap = LINKS[link]
    connection = capflow.connection(pcap(a_talk(version, wrap).frames, number))
    check(connection)
    assert (connection["a_address"], connection["b_address"]) == (
        (HERE, THERE) if version == 4 else (HERE6, THERE6)
    )


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda talk: pcap(talk, nano=True), id="nanoseconds"),
        pytest.param(lambda talk: pcap(talk, order=">"), id="big endian"),
        pytest.param(lambda talk: pcap(talk, order=">", nano=True), id="big endian nanoseconds"),
        pytest.param(pcapng, id="pcapng"),
    ],
)
def test_every_format_gives_the_same(
    write: Callable[[list[frames.Frame]], bytes], capflow: Capflow
) -> None:
    talk = a_talk()
    check(capflow.connection(write(talk.frames)))
    talk.frames[-1].time_ns += 123
    seen = capflow.connection(write(talk.frames))["last_time_s"]
    nano = 123e-9 if write(talk.frames)[:4] not in {pcap([])[:4], pcap([], order=">")[:4]} else 0
    raw = f"{(talk.frames[-1].time_ns - 123) / 1e9:.6f}"
    assert abs(seen - float(raw) - nano) < 5e-7  # a double holds no nanoseconds since 1970


def test_nanoseconds_are_kept(capflow: Capflow) -> None:
    talk = Talk(step_ms=0)
    talk.handshake()
    talk.a(1, 1, 100)
    talk.wait(0.000_789)
    talk.b(1, 101)
    for capture in (pcap(talk.frames, nano=True), pcapng(talk.frames)):
        assert capflow.connection(capture)["a2b"]["ack_rtt_max_s"] == 789e-9


@pytest.mark.parametrize("snap", [64, 68, 96])
def test_short_snap_lengths_change_no_number(snap: int, capflow: Capflow) -> None:
    talk = a_talk()
    whole, cut = (
        capflow.connection(pcap(talk.frames)),
        capflow.connection(pcap(talk.frames, snap=snap)),
    )
    check(cut)
    assert cut["a2b"].pop("cut_packets") == 3
    assert cut["a2b"].pop("cut_bytes") == 2000 - 3 * (snap - 54)
    assert whole["a2b"].pop("cut_packets") == whole["a2b"].pop("cut_bytes") == 0
    assert cut == whole


def test_a_snap_length_that_cuts_options_or_headers(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(1, 1, 100, options=frames.timestamps(1, 1))
    talk.b(1, 101)
    options_cut = capflow.summary(pcap(talk.frames, snap=60))
    assert options_cut["connections"][0]["a2b"]["payload_bytes"] == 100
    assert options_cut["connections"][0]["a2b"]["cut_bytes"] == 100
    assert options_cut["connections"][0]["a2b"]["timestamps"] is False
    header_cut = capflow.summary(pcap(talk.frames, snap=50))
    assert header_cut["connections"] == []
    assert header_cut["capture"]["header_cut_packets"] == 2


def one(packet: bytes, capflow: Capflow, wire_more: int = 0) -> Any:
    talk = Talk()
    talk.add(packet, wire_more)
    return capflow.summary(pcap(talk.frames))


def test_ip_options_and_padding_are_no_payload(capflow: Capflow) -> None:
    packet = ip4(HERE, THERE, tcp(PORTS, 1, 1, "A", payload=bytes(7)), options=bytes([1] * 12))
    summary = one(packet + bytes(6), capflow)  # Ethernet's padding
    assert summary["connections"][0]["a2b"]["payload_bytes"] == 7


@pytest.mark.parametrize(
    "headers",
    [
        extension(6),
        extension(60, 2) + extension(6),
        extension(43) + extension(60) + extension(44, 1) + bytes([6, 0, 0, 0, 0, 0, 0, 9]),
        extension(51)
        + bytes([6, 4, 0, 0])
        + bytes(20),  # an authentication header counts in words of 4 bytes
        extension(135) + extension(139, 3) + extension(140) + extension(6),
    ],
)
def test_ipv6_extension_headers(headers: bytes, capflow: Capflow) -> None:
    packet = ip6(HERE6, THERE6, headers + tcp(PORTS, 1, 1, "A", payload=bytes(321)), next_header=0)
    assert one(packet, capflow)["connections"][0]["a2b"]["payload_bytes"] == 321


@pytest.mark.parametrize("fragment", [0x2000, 0x2001, 0x00B9])
def test_fragments_are_counted_and_left_out(fragment: int, capflow: Capflow) -> None:
    segment = tcp(PORTS, 1, 1, "A", payload=bytes(80))
    summary = one(ip4(HERE, THERE, segment, fragment=fragment), capflow)
    assert summary["connections"] == []
    assert summary["capture"]["fragments"] == 1
    header = bytes([6, 0]) + struct.pack(">H", (fragment & 0x1FFF) << 3 | fragment >> 13) + bytes(4)
    summary = one(ip6(HERE6, THERE6, header + segment, next_header=44), capflow)
    assert summary["connections"] == []
    assert summary["capture"]["fragments"] == 1
    assert (
        one(ip4(HERE, THERE, segment, fragment=0x4000), capflow)["capture"]["fragments"] == 0
    )  # don't fragment


def test_other_packets_are_counted(capflow: Capflow) -> None:
    talk = Talk()
    talk.add(ip4(HERE, THERE, bytes(20), protocol=17))
    talk.add(ip4(HERE, THERE, bytes(20), protocol=17, fragment=0x2000))
    talk.add(ip6(HERE6, THERE6, bytes(20), next_header=59))
    talk.frames.append(frames.Frame(0, bytes(12) + b"\x08\x06" + bytes(28)))  # ARP
    assert capflow.summary(pcap(talk.frames))["capture"] == {
        "packets": 4,
        "tcp_packets": 0,
        "other_packets": 4,
        "fragments": 0,
        "header_cut_packets": 0,
        "malformed_packets": 0,
        "filtered_packets": 0,
        "backwards_packets": 1,
        "connections": 0,
        "first_time_s": 0,
        "last_time_s": 1_700_000_000.002,
    }


@pytest.mark.parametrize(
    "packet",
    [
        ip4(HERE, THERE, tcp(PORTS, 1, 1, "A"), length=19),
        ip4(HERE, THERE, tcp(PORTS, 1, 1, "A"), length=39),
        b"\x44" + ip4(HERE, THERE, tcp(PORTS, 1, 1, "A"))[1:],
        ip4(HERE, THERE, tcp(PORTS, 1, 1, "A")[:12] + b"\x40" + bytes(7)),
        ip4(HERE, THERE, tcp(PORTS, 1, 1, "A")[:12] + b"\xf0" + bytes(7)),
        ip6(HERE6, THERE6, extension(6, 9)[:8] + bytes(16), next_header=0),
        ip6(HERE6, THERE6, tcp(PORTS, 1, 1, "A"), length=19),
    ],
)
def test_contradictions_are_counted_and_left_out(packet: bytes, capflow: Capflow) -> None:
    summary = one(packet, capflow)
    assert summary["connections"] == []
    assert summary["capture"]["malformed_packets"] == 1


def test_super_packets(capflow: Capflow) -> None:
    """A sender's own capture with TSO has packets of 64 kB, of which the snap length keeps only a
    small part.
    """
    talk = Talk()
    talk.add(ip4(HERE, THERE, tcp(PORTS, 1, 1, "A"), length=65535), wire_more=65495)
    talk.add(ip4(HERE, THERE, tcp(PORTS, 65496, 1, "A"), length=0), wire_more=65496)
    # BIG TCP: beyond what the length can say, both as IPv4 and, since Linux 7, as IPv6 without a
    # jumbo option
    talk.add(ip4(HERE, THERE, tcp(PORTS, 130992, 1, "A"), length=0), wire_more=180_000)
    side = capflow.connection(pcap(talk.frames, snap=96))["a2b"]
    assert_has(
        side,
        segment_max_bytes=180_000,
        payload_bytes=65495 + 65496 + 180_000,
        unique_bytes=65495 + 65496 + 180_000,
        out_of_order_packets=0,
    )
    talk = Talk()
    talk.add(ip6(HERE6, THERE6, tcp(PORTS, 1, 1, "A"), length=0), wire_more=200_000)
    jumbo = bytes([6, 0, 0xC2, 4]) + struct.pack(">I", 8 + 20 + 300_000)
    talk.add(
        ip6(HERE6, THERE6, jumbo + tcp(PORTS, 200_001, 1, "A"), length=0, next_header=0),
        wire_more=300_006,
    )
    side = capflow.connection(pcap(talk.frames))["a2b"]
    assert side["payload_bytes"] == side["unique_bytes"] == 500_000


def test_options_that_lie(capflow: Capflow) -> None:
    """A length of 0 or beyond the header ends the options; those before it count."""
    for tail in (
        bytes([8, 0]),
        bytes([8, 40, 1, 1]),
        bytes([5, 10, 1, 1]),
        bytes([2, 3, 1, 1]),
        bytes([253]),
    ):
        talk = Talk()
        talk.a(1, 1, 10, options=frames.mss(1234) + tail, flags="S")
        side = capflow.connection(pcap(talk.frames))["a2b"]
        assert (side["mss_bytes"], side["payload_bytes"]) == (1234, 10)


def test_host_and_port_filters(capflow: Capflow) -> None:
    talk = Talk()
    talk.a(1, 1, 10)
    talk.b(1, 11)
    other = Talk(version=6, ports=(40001, 443))
    other.a(1, 1, 20)
    capture = pcap(talk.frames + other.frames)

    def ports_and_filtered(*arguments: str) -> tuple[list[int], int]:
        summary = capflow.summary(capture, *arguments)
        return [c["a_port"] for c in summary["connections"]], summary["capture"]["filtered_packets"]

    assert ports_and_filtered() == ([40000, 40001], 0)
    assert ports_and_filtered("--port", "5201") == ([40000], 1)
    assert ports_and_filtered("--port", "40001") == ([40001], 2)
    assert ports_and_filtered("--host", THERE) == ([40000], 1)
    assert ports_and_filtered("--host", "fd00:0::1") == ([40001], 2)
    assert ports_and_filtered("--host", "10.0.0.3") == ([], 3)
    assert ports_and_filtered("--host", HERE, "--port", "443") == ([], 3)
