#!/usr/bin/env python3
"""Measure ccmix-capflow against tshark and tcptrace on the same capture, and its memory on short
and long ones.

    bench/capflow.py [--packets N] [--long N] [--rounds N] [--flows N]

The capture is made here: flows of 1448-byte segments with time stamps, an ACK for every second one,
and one segment in a thousand lost, with duplicate ACKs, SACK blocks and its retransmission; cut to
96 bytes a packet, as tcpdump -s 96 does. Each round runs each tool once; rates are packets per
second of processor time, user and system, which neighbours on the machine disturb less than time on
the clock. tshark prints per packet what capflow's series are made of. Then capflow reads streams of
--flows flows, of few and of --long packets, from a pipe: its memory must be the same.
"""

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "probes" / "capflow" / "build"
SNAP = 96
SEGMENT = 1448
LOSS_EVERY = 1000  # segments of a flow
AGAIN_AFTER = 12

TSHARK_FIELDS = (
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.window_size",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.bytes_in_flight",
    "tcp.options.sack.count",
    "ip.dsfield.ecn",
    "tcp.flags.ece",
    "tcp.flags.cwr",
)


class Flow:
    """The packets of one connection as its sender's capture shows them."""

    def __init__(self, number: int) -> None:
        self._port = 10_000 + number
        self._ends = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
        self._packets = self._run()

    def next(self, time_us: int) -> bytes:
        self._time_ms = time_us // 1000 % 2**32
        return next(self._packets)

    def _frame(
        self, forward: bool, seq: int, ack: int, length: int, flags: int = 16, options: bytes = b""
    ) -> bytes:
        source, destination = self._ends if forward else self._ends[::-1]
        ports = (self._port, 5201) if forward else (5201, self._port)
        options = b"\1\1\x08\x0a" + struct.pack(">II", self._time_ms, self._time_ms) + options
        head = 20 + len(options)
        tcp = struct.pack(
            ">HHIIBBHHH", *ports, seq % 2**32, ack % 2**32, head // 4 << 4, flags, 4000, 0, 0
        )
        ip = (
            struct.pack(">BBHHHBBH", 0x45, 2, 20 + head + length, 0, 0, 64, 6, 0)
            + source
            + destination
        )
        frame = bytes(12) + b"\x08\x00" + ip + tcp + options
        wire = len(frame) + length
        frame += bytes(min(length, max(0, SNAP - len(frame))))
        return struct.pack("<II", min(len(frame), SNAP), wire) + frame[:SNAP]

    def _run(self) -> Iterator[bytes]:
        yield self._frame(True, 0, 0, 0, 2)
        yield self._frame(False, 0, 1, 0, 18)
        yield self._frame(True, 1, 1, 0)
        place = 0  # of the segment to send
        while True:
            hole = place % LOSS_EVERY == LOSS_EVERY // 2
            yield self._frame(True, 1 + place * SEGMENT, 1, SEGMENT)
            place += 1
            if not hole:
                if place % 2 == 0:
                    yield self._frame(False, 1, 1 + place * SEGMENT, 0)
                continue
            lost = 1 + (place - 1) * SEGMENT
            for _ in range(AGAIN_AFTER):
                yield self._frame(True, 1 + place * SEGMENT, 1, SEGMENT)
                place += 1
                block = struct.pack(
                    ">BBBBII", 1, 1, 5, 10, (lost + SEGMENT) % 2**32, (1 + place * SEGMENT) % 2**32
                )
                yield self._frame(False, 1, lost, 0, options=block)
            yield self._frame(True, lost, 1, SEGMENT)
            yield self._frame(False, 1, 1 + place * SEGMENT, 0)


def capture(packets: int, flow_count: int) -> Iterator[bytes]:
    """The bytes of a pcap file, in blocks."""
    flows = [Flow(number) for number in range(flow_count)]
    block = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, 1)]
    for number in range(packets):
        time_us = 1_700_000_000_000_000 + number
        flow = flows[number // 4 % flow_count]  # bursts of 4 packets of a flow
        block.append(struct.pack("<II", time_us // 10**6, time_us % 10**6) + flow.next(time_us))
        if len(block) == 10_000:
            yield b"".join(block)
            block = []
    yield b"".join(block)


def processor_s(argv: list[str]) -> float:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench/capflow.py: {argv[0]} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def memory_kb(argv: list[str], packets: int, flow_count: int) -> int:
    """Peak resident set of a tool that packets come to through a pipe."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    for block in capture(packets, flow_count):
        process.stdin.write(block)
    process.stdin.flush()
    # not that of wait4(2), in which this process counts until it has become the tool
    status = Path(f"/proc/{process.pid}/status").read_text()
    process.stdin.close()
    if process.wait() != 0:
        raise SystemExit(f"bench/capflow.py: {argv[0]} ended with status {process.returncode}")
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--long", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flows", type=int, default=64)
    arguments = parser.parse_args()
    binary = subprocess.run([BUILD], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        file = Path(folder, "capture.pcap")
        with file.open("wb") as out:
            out.writelines(capture(arguments.packets, arguments.flows))
        fields = [word for name in TSHARK_FIELDS for word in ("-e", name)]
        outputs = [f"--series={folder}/series.csv", f"--summary-json={folder}/summary.json"]
        tools = {
            "capflow": [binary, *outputs, "--interval=10ms", str(file)],
            "capflow, series of 100 ms": [binary, *outputs, str(file)],
            "tshark": ["tshark", "-r", str(file), "-T", "fields", "-E", "occurrence=f", *fields],
            "tcptrace": ["tcptrace", "-l", "-r", "-n", str(file)],
        }
        tools = {name: argv for name, argv in tools.items() if shutil.which(argv[0])}
        taken: dict[str, list[float]] = {name: [] for name in tools}
        for _ in range(arguments.rounds):
            for name, argv in tools.items():
                taken[name].append(processor_s(argv))
    print(
        f"| {arguments.packets:,} packets of {arguments.flows} flows | processor time (s) | "
        "packets/s | relative |"
    )
    print("|---|---|---|---|")
    first = statistics.median(taken["capflow"])
    for name, times in taken.items():
        median = statistics.median(times)
        print(
            f"| {name} | {median:.2f} | {arguments.packets / median:,.0f} | {first / median:.3f} |"
        )
    print()
    print("| packets through a pipe | capflow's peak memory (kB) |")
    print("|---|---|")
    for packets in (100_000, arguments.long):
        argv = [binary, "--series=/dev/null", "--summary-json=/dev/null", "-"]
        print(f"| {packets:,} | {memory_kb(argv, packets, arguments.flows):,} |", flush=True)


if __name__ == "__main__":
    main()
