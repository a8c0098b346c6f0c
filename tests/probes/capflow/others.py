"""Reads the output of tshark and tcptrace. Also has a plain model of TCP that counts each byte
separately.
"""

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FIN, SYN = 1, 2
LONGEST = 12_000_000  # bytes of a stream


def missing() -> list[str]:
    return [name for name in ("tshark", "tcptrace", "tcpdump") if not shutil.which(name)]


@dataclass(frozen=True)
class Packet:
    """Holds a line of tshark; `analyses` has names of tcp.analysis."""

    number: int
    time_s: float
    port: int  # of the sender
    seq: int
    ack: int
    length: int
    flags: int
    analyses: frozenset[str]
    rtt_s: float | None
    acks_frame: int | None
    ce: bool
    window: int
    in_flight: int | None  # bytes; SACK blocks change what tshark means by it

    @property
    def interval(self) -> int:
        """Returns the interval of 10 ms that it is in; the captures' stamps are whole
        microseconds.
        """
        return round(self.time_s * 1e6) // 10_000


ANALYSES = (
    "retransmission",
    "fast_retransmission",
    "spurious_retransmission",
    "out_of_order",
    "duplicate_ack",
    "keep_alive",
    "zero_window_probe",
    "lost_segment",
)


@cache
def tshark(capture: Path) -> list[Packet]:
    """Returns all TCP packets of a capture, with sequence numbers from 0."""
    plain = (
        "frame.number",
        "frame.time_epoch",
        "tcp.srcport",
        "tcp.seq",
        "tcp.ack",
        "tcp.len",
        "tcp.flags",
        "tcp.analysis.ack_rtt",
        "tcp.analysis.acks_frame",
        "ip.dsfield.ecn",
        "ipv6.tclass.ecn",
        "tcp.window_size_value",
        "tcp.analysis.bytes_in_flight",
    )
    names = [*plain, *(f"tcp.analysis.{name}" for name in ANALYSES)]
    fields = [word for name in names for word in ("-e", name)]
    argv = [
        "tshark",
        "-r",
        str(capture),
        "-Y",
        "tcp",
        "-T",
        "fields",
        "-E",
        "occurrence=f",
        *fields,
    ]
    output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    packets = []
    for line in output.splitlines():
        (
            number,
            time_s,
            port,
            seq,
            ack,
            length,
            flags,
            rtt,
            frame,
            ecn4,
            ecn6,
            window,
            flight,
            *values,
        ) = line.split("\t")
        packets.append(
            Packet(
                int(number),
                float(time_s),
                int(port),
                int(seq),
                int(ack or 0),
                int(length),
                int(flags, 16),
                frozenset(name for name, value in zip(ANALYSES, values, strict=True) if value),
                float(rtt) if rtt else None,
                int(frame) if frame else None,
                "3" in {ecn4, ecn6},
                int(window),
                int(flight) if flight else None,
            )
        )
    return packets


@dataclass
class Counts:
    packets: int = 0
    payload_bytes: int = 0
    unique_bytes: int = 0
    retransmitted_packets: int = 0
    retransmitted_bytes: int = 0
    retransmitted_syn_fin_packets: int = 0
    out_of_order_packets: int = 0
    out_of_order_bytes: int = 0
    ce_packets: int = 0
    # of tshark
    again_or_late: int = 0
    duplicate_acks: int = 0


class Model:
    """Marks every byte of a stream in a bytearray: seen or not."""

    def __init__(self, packets: Iterable[Packet]) -> None:
        self.counts: dict[int, Counts] = defaultdict(Counts)
        self.intervals: dict[tuple[int, int], Counts] = defaultdict(Counts)
        self.flights: dict[
            tuple[int, int], int
        ] = {}  # most bytes in flight, after any packet of an interval
        self.repeats: dict[int, list[int]] = defaultdict(
            list
        )  # numbers of packets with old bytes, or into holes
        self._seen: dict[int, bytearray] = defaultdict(lambda: bytearray(LONGEST))
        self._highest: dict[int, int] = defaultdict(int)
        self._acked: dict[int, int] = {}  # by who acknowledges
        self._marks: dict[tuple[int, str], int] = {}
        for packet in packets:
            self._add(packet)

    def _add(self, packet: Packet) -> None:
        now = Counts(packets=1, payload_bytes=packet.length, ce_packets=packet.ce)
        end = packet.seq + packet.length
        seen, highest = self._seen[packet.port], self._highest[packet.port]
        if (
            "keep_alive" not in packet.analyses
            and "zero_window_probe" not in packet.analyses
            and packet.length
        ):
            new = seen.count(0, packet.seq, end)
            above = max(0, end - max(packet.seq, highest))
            now.unique_bytes, now.retransmitted_bytes = new, packet.length - new
            now.out_of_order_bytes = new - above
            now.retransmitted_packets = new < packet.length
            now.out_of_order_packets = new > above
            seen[packet.seq : end] = b"\1" * packet.length
            self._highest[packet.port] = max(highest, end)
        for flag, name in ((SYN, "syn"), (FIN, "fin")):
            if packet.flags & flag:
                now.retransmitted_syn_fin_packets += (
                    packet.port,
                    name,
                ) in self._marks and not packet.length
                self._marks[packet.port, name] = packet.number
        now.again_or_late = bool(packet.analyses & {"retransmission", "out_of_order"})
        if (
            now.retransmitted_packets
            or now.out_of_order_packets
            or now.retransmitted_syn_fin_packets
        ):
            self.repeats[packet.port].append(packet.number)
        if "duplicate_ack" in packet.analyses:
            other = next((self._highest[port] for port in self._highest if port != packet.port), 0)
            now.duplicate_acks = packet.ack < other  # RFC 5681: something is outstanding
        self._acked[packet.port] = max(self._acked.get(packet.port, 0), packet.ack)
        for port, highest in self._highest.items():
            acked = [ack for other, ack in self._acked.items() if other != port]
            if highest and acked:
                flight = max(0, highest - max(acked[0], 1))
                key = port, packet.interval
                self.flights[key] = max(self.flights.get(key, 0), flight)
        for counts in (self.counts[packet.port], self.intervals[packet.port, packet.interval]):
            for name, value in vars(now).items():
                setattr(counts, name, getattr(counts, name) + value)


LINE = re.compile(r"\s+([^:]+?):\s+(\S+)(?:\s[a-zA-Z]+)?\s+([^:]+?):\s+(\S+)(?:\s[a-zA-Z]+)?\s*")


def tcptrace(capture: Path) -> Sequence[dict[str, str]]:
    """Returns tcptrace's numbers for the two directions of a capture's only connection."""
    argv = ["tcptrace", "-l", "-r", "-n", str(capture)]
    output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert "1 TCP connection traced" in output
    a2b: dict[str, str] = {}
    b2a: dict[str, str] = {}
    for line in output.partition("a->b:")[2].splitlines():
        if match := LINE.fullmatch(line):
            unit = "" if match[1] not in a2b else " pkts"  # "initial window" is there twice
            a2b[match[1] + unit], b2a[match[3] + unit] = match[2], match[4]
    return a2b, b2a
