"""Builds packets and captures by hand: a small writer of pcap and pcapng, with any mistake that a
test needs.
"""

import ipaddress
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ETHERNET, NULL, LOOP, RAW, SLL, SLL2 = 1, 0, 108, 101, 113, 276
FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "C": 128}
MAC = bytes(12)
TCP = 6


def tcp(
    ports: tuple[int, int],
    seq: int,
    ack: int,
    flags: str,
    window: int = 1000,
    options: bytes = b"",
    payload: bytes = b"",
) -> bytes:
    options += bytes(-len(options) % 4)
    bits = sum(FLAGS[flag] for flag in flags)
    offset = (20 + len(options)) // 4 << 4
    header = struct.pack(">HHIIBBHHH", *ports, seq % 2**32, ack % 2**32, offset, bits, window, 0, 0)
    return header + options + payload


def mss(value: int) -> bytes:
    return struct.pack(">BBH", 2, 4, value)


def window_scale(shift: int) -> bytes:
    return bytes([1, 3, 3, shift])


SACK_PERMITTED = bytes([1, 1, 4, 2])


def sack(*blocks: tuple[int, int]) -> bytes:
    return bytes([1, 1, 5, 2 + 8 * len(blocks)]) + b"".join(
        struct.pack(">II", left % 2**32, right % 2**32) for left, right in blocks
    )


def timestamps(value: int, echo: int) -> bytes:
    return bytes([1, 1, 8, 10]) + struct.pack(">II", value % 2**32, echo % 2**32)


def ip4(
    source: str,
    destination: str,
    payload: bytes,
    *,
    tos: int = 0,
    length: int | None = None,
    options: bytes = b"",
    fragment: int = 0,
    protocol: int = TCP,
) -> bytes:
    """Builds an IPv6 packet; with `length`, the header has this wrong length."""
    header = 20 + len(options)
    total = header + len(payload) if length is None else length
    start = struct.pack(">BBHHHBBH", 0x40 | header // 4, tos, total, 0, fragment, 64, protocol, 0)
    return (
        start
        + ipaddress.ip_address(source).packed
        + ipaddress.ip_address(destination).packed
        + options
        + payload
    )


def ip6(
    source: str,
    destination: str,
    payload: bytes,
    *,
    tos: int = 0,
    length: int | None = None,
    next_header: int = TCP,
) -> bytes:
    length_field = len(payload) if length is None else length
    start = struct.pack(">IHBB", 6 << 28 | tos << 20, length_field, next_header, 64)
    return (
        start
        + ipaddress.ip_address(source).packed
        + ipaddress.ip_address(destination).packed
        + payload
    )


def extension(next_header: int, words: int = 0) -> bytes:
    """Builds an IPv6 extension header of 8 + 8 * words bytes, filled with PadN."""
    return bytes([next_header, words, 1, 4 + 8 * words]) + bytes(4 + 8 * words)


def ethernet(packet: bytes) -> bytes:
    return MAC + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


def vlan(packet: bytes, *tags: int) -> bytes:
    frame = ethernet(packet)
    return frame[:12] + b"".join(struct.pack(">HH", tag, 100) for tag in tags) + frame[12:]


@dataclass
class Frame:
    time_ns: int
    data: bytes
    wire: int = 0  # bytes on the wire, where more than were captured


@dataclass
class Talk:
    """Writes a connection between a and b; each call of a() or b() is a packet, `step_ms` after
    the one before.
    """

    version: int = 4
    ports: tuple[int, int] = (40000, 5201)
    wrap: Callable[[bytes], bytes] = ethernet
    time_ns: int = 1_700_000_000_000_000_000
    step_ms: float = 1
    frames: list[Frame] = field(default_factory=list)

    def wait(self, ms: float) -> None:
        self.time_ns += round(ms * 1e6)

    def add(self, packet: bytes, wire_more: int = 0) -> None:
        data = self.wrap(packet)
        self.frames.append(Frame(self.time_ns, data, len(data) + wire_more))
        self.wait(self.step_ms)

    def _send(
        self, a_to_b: bool, seq: int, ack: int, length: int, flags: str, tos: int, **more: object
    ) -> None:
        addresses = ("10.0.0.1", "10.0.0.2") if self.version == 4 else ("fd00::1", "fd00::2")
        ports = self.ports if a_to_b else self.ports[::-1]
        source, destination = addresses if a_to_b else addresses[::-1]
        segment = tcp(ports, seq, ack, flags, payload=bytes(length), **more)  # type: ignore[arg-type]
        self.add((ip4 if self.version == 4 else ip6)(source, destination, segment, tos=tos))

    def a(
        self,
        seq: int,
        ack: int = 1,
        length: int = 0,
        flags: str = "A",
        tos: int = 0,
        **more: object,
    ) -> None:
        self._send(True, seq, ack, length, flags, tos, **more)

    def b(
        self,
        seq: int,
        ack: int = 1,
        length: int = 0,
        flags: str = "A",
        tos: int = 0,
        **more: object,
    ) -> None:
        self._send(False, seq, ack, length, flags, tos, **more)

    def handshake(self, a_isn: int = 0, b_isn: int = 0, options: bytes = b"") -> None:
        self.a(a_isn, 0, flags="S", options=options)
        self.b(b_isn, a_isn + 1, flags="SA", options=options)
        self.a(a_isn + 1, b_isn + 1)


def pcap(
    frames: Sequence[Frame],
    link: int = ETHERNET,
    snap: int = 262144,
    nano: bool = False,
    order: str = "<",
) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for frame in frames:
        data = frame.data[:snap]
        seconds, rest = divmod(frame.time_ns, 10**9)
        stamp = (seconds % 2**32, rest if nano else rest // 1000)
        parts.append(
            struct.pack(order + "IIII", *stamp, len(data), max(frame.wire, len(frame.data))) + data
        )
    return b"".join(parts)


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def pcapng_of_interfaces(
    interfaces: Sequence[tuple[int, int]],
    frames: Sequence[tuple[int, Frame]],
    *,
    order: str = "<",
    resolution: int = 9,
    kind: int = 6,
) -> bytes:
    """Writes a capture of interfaces, each with a link type and a snap length. Each frame has the
    number of its interface. `kind` is the type of the blocks: 6, or 2, the obsolete one.
    """

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        total = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + total + body + total

    parts = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    options = struct.pack(order + "HHB3xHH", 9, 1, resolution, 0, 0)
    parts += [
        block(1, struct.pack(order + "HHI", link, 0, snap) + options) for link, snap in interfaces
    ]
    parts.append(block(5, bytes(12)))  # statistics, which are skipped
    for number, frame in frames:
        data = frame.data[: interfaces[number][1] or None]
        units = frame.time_ns * (2 ** (resolution & 127) if resolution & 128 else 10**resolution)
        high, low = divmod(units // 10**9, 2**32)
        which = struct.pack(order + ("I" if kind == 6 else "H2x"), number)
        lengths = (high, low, len(data), max(frame.wire, len(frame.data)))
        parts.append(block(kind, which + struct.pack(order + "IIII", *lengths) + data))
    return b"".join(parts)


def pcapng(frames: Sequence[Frame], link: int = ETHERNET, snap: int = 262144) -> bytes:
    """Writes a capture with stamps in nanoseconds (if_tsresol 9)."""
    resolution = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    parts = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", link, 0, snap) + resolution),
    ]
    for frame in frames:
        data = frame.data[:snap]
        high, low = divmod(frame.time_ns, 2**32)
        wire = max(frame.wire, len(frame.data))
        parts.append(_block(6, struct.pack("<IIIII", 0, high, low, len(data), wire) + data))
    return b"".join(parts)


def one_packet_each(clients: int, ports: int, times: int = 1) -> Iterator[bytes]:
    """Yields a capture of clients x ports connections that have a SYN each, again in each of
    `times` seconds.
    """
    yield pcap([])
    for time in range(times):
        for client in range(clients):
            address = f"10.0.{client // 256}.{client % 256}"
            head = ethernet(ip4(address, "10.1.0.1", b"", length=40))
            block = []
            for port in range(1, ports + 1):
                data = head + tcp((port, 5201), 1, 0, "S")
                stamp = (1_700_000_000 + time, client * ports + port)
                block.append(struct.pack("<IIII", *stamp, len(data), len(data)) + data)
            yield b"".join(block)


def write(folder: Path, talk: Talk, link: int = ETHERNET) -> Path:
    file = folder / "capture.pcap"
    file.write_bytes(pcap(talk.frames, link))
    return file
