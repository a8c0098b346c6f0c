"""Reads a capture as packets, without ccmix's programs, to check the probe's counters."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FILE_HEADER, PACKET_HEADER, LINK_HEADER = (
    24,
    struct.Struct("<IIII"),
    20,
)  # pcap, and Linux's "cooked" header, version 2
NANOSECONDS = b"\x4d\x3c\xb2\xa1"
SYN, RST = 2, 4


@dataclass
class Sent:
    """Holds the packets that one end of a connection sent, as the kernel would count them, from a
    capture.
    """

    packets: int = 0
    bytes: int = 0
    again: int = 0  # packets whose first byte had been sent before
    acks: list[tuple[float, int]] = field(
        default_factory=list
    )  # when, and the number of the byte after those it covers
    rows: list[tuple[float, int, int, int]] = field(
        default_factory=list
    )  # when, `packets`, `again`, `unique_bytes`
    first: int | None = None  # the number of the first byte
    unique_bytes: int = 0

    def add(self, time_s: float, sequence: int, length: int, *, opens: bool) -> None:
        self.again += opens and self.first is not None
        if self.first is None:
            self.first = sequence
        if not length:
            return
        offset = (sequence - self.first) % 2**32
        self.packets += 1
        self.bytes += length
        self.again += offset < self.unique_bytes
        self.unique_bytes = max(self.unique_bytes, offset + length)
        self.rows.append((time_s, self.packets, self.again, self.unique_bytes))


Ends = tuple[str, int, str, int]  # address and port of the sending end, and of the other


def read_capture(file: Path) -> dict[Ends, Sent]:
    """Returns the packets that each end sent; a capture may have begun later than the
    connection.
    """
    found: dict[Ends, Sent] = {}
    for time_s, packet in _packets(file):
        begin = (packet[0] & 15) * 4
        ports = struct.unpack_from("!HH", packet, begin)
        ends = (
            socket.inet_ntoa(packet[12:16]),
            ports[0],
            socket.inet_ntoa(packet[16:20]),
            ports[1],
        )
        sequence, ack = struct.unpack_from("!II", packet, begin + 4)
        own = found.setdefault(ends, Sent())
        data = struct.unpack_from("!H", packet, 2)[0] - begin - (packet[begin + 12] >> 4) * 4
        opens = bool(packet[begin + 13] & SYN)
        own.add(time_s, sequence + opens, data, opens=opens)
        if not packet[begin + 13] & RST:
            own.acks.append((time_s, ack))
    return found


def _packets(file: Path) -> Iterator[tuple[float, bytes]]:
    """Yields the time and the bytes of each IPv4 packet of TCP."""
    data = subprocess.run(["zstd", "-dc", file], capture_output=True, check=True).stdout
    parts = 1e9 if data[:4] == NANOSECONDS else 1e6
    at = FILE_HEADER
    while at < len(data):
        seconds, fraction, kept, _ = PACKET_HEADER.unpack_from(data, at)
        at += PACKET_HEADER.size
        packet = data[at + LINK_HEADER : at + kept]
        at += kept
        if packet[9] == socket.IPPROTO_TCP:
            yield seconds + fraction / parts, packet
