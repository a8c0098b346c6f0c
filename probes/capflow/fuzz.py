#!/usr/bin/env python3
"""Fuzz ccmix-capflow with libFuzzer: whole captures, and frames of every link type, with the
sanitizers on.

    probes/capflow/fuzz.py [--seconds N] [--corpus DIRECTORY]

Needs clang and its run-time library: tools/setup --fuzz. The seeds are hand-built packets of
tests/probes/capflow/frames.py. What fuzz.c checks must hold for every input: no crash, no undefined
behaviour, sums that agree, bounds that are kept. Exit status: 0 nothing found, 1 something was
found (the input's path is printed), or 2 the fuzzer can't be built.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from probes.capflow import frames
from probes.capflow.frames import (
    Frame,
    Talk,
    ethernet,
    extension,
    ip4,
    ip6,
    pcap,
    pcapng,
    tcp,
    vlan,
)

HERE = Path(__file__).resolve().parent

# As in fuzz.c: the number of a link type, from which the first byte of an input is made
LINKS = {
    frames.ETHERNET: 0,
    frames.RAW: 1,
    frames.SLL: 2,
    frames.SLL2: 3,
    frames.NULL: 4,
    frames.LOOP: 5,
}


def talks() -> Iterator[Talk]:
    for version in (4, 6):
        for isn in (0, 2**32 - 1500):
            talk = Talk(version=version)
            talk.handshake(
                isn, isn, options=frames.mss(1460) + frames.window_scale(7) + frames.SACK_PERMITTED
            )
            for number, place in enumerate((0, 1, 3, 2, 2, 5, 1)):
                stamps = frames.timestamps(number, number)
                talk.a(isn + 1 + place * 100, isn + 1, 100, tos=number & 3, options=stamps)
                blocks = ((isn + 301, isn + 401), (isn + 501, isn + 601))
                talk.b(
                    isn + 1,
                    isn + 101,
                    options=frames.sack(*blocks[: number % 3]),
                    window=number % 2 * 1000,
                )
            talk.a(isn + 601, isn + 1, flags="FA")
            talk.b(isn + 1, isn + 602, flags="FA")
            talk.handshake(77, 99)
            talk.b(5, 5, flags="RA")
            yield talk
    talk = Talk()  # rings that grow after they have begun to move
    for place in range(40):
        talk.a(1 + place, 1, 1, options=frames.timestamps(place, 0))
        if place % 4 == 3:
            talk.b(1, 2 + place // 4, options=frames.timestamps(0, place // 4))
    talk.frames[-1].time_ns = 2**64 - 1
    yield talk
    talk = Talk(wrap=lambda packet: vlan(packet, 0x88A8, 0x8100))
    segment = tcp(talk.ports, 1, 1, "A", payload=bytes(50))
    talk.add(
        ip4("10.0.0.1", "10.0.0.2", segment, length=0, options=bytes([1] * 8)), wire_more=60_000
    )
    talk.add(ip4("10.0.0.1", "10.0.0.2", segment, fragment=0x2000))
    talk.add(
        ip6(
            "fd00::1",
            "fd00::2",
            extension(43) + extension(44) + bytes([6, *bytes(7)]) + segment,
            next_header=0,
        )
    )
    jumbo = bytes([6, 0, 0xC2, 4]) + (28 + 70_000).to_bytes(4, "big")
    talk.add(ip6("fd00::1", "fd00::2", jumbo + segment, length=0, next_header=0), wire_more=70_000)
    yield talk


def frame_input(link: int, packets: list[Frame]) -> bytes:
    parts = [bytes([LINKS[link] << 1])]
    for frame in packets:
        data = frame.data[:255]
        length = min(max(frame.wire, len(frame.data)), 65535)
        parts.append(bytes([len(data), length >> 8, length & 255, 17, 20, 0, 0, 0]) + data)
    return b"".join(parts)


def seeds() -> Iterator[bytes]:
    for talk in talks():
        for write in (pcap, pcapng):
            yield b"\1" + write(talk.frames)
        yield b"\x81" + pcap(talk.frames, nano=True, snap=70, order=">")
        yield frame_input(frames.ETHERNET, talk.frames)
        if talk.wrap is ethernet:
            bare = [Frame(frame.time_ns, frame.data[14:]) for frame in talk.frames]
            yield frame_input(frames.RAW, bare)
            for link, header in ((frames.SLL, bytes(14)), (frames.SLL2, b""), (frames.NULL, None)):
                kind = talk.frames[0].data[12:14]
                start = (
                    bytes([2 if kind == b"\x08\0" else 30, 0, 0, 0])
                    if header is None
                    else header + kind
                )
                start += bytes(18) if link == frames.SLL2 else b""
                yield frame_input(
                    link, [Frame(frame.time_ns, start + frame.data) for frame in bare]
                )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument(
        "--corpus", type=Path, help="kept between runs; by default a temporary folder"
    )
    arguments = parser.parse_args()
    built = subprocess.run(
        [HERE / "build", "--fuzz"], stdout=subprocess.PIPE, text=True, check=False
    )
    if built.returncode != 0:
        return 2
    with tempfile.TemporaryDirectory(prefix="ccmix-fuzz-") as folder:
        corpus = arguments.corpus or Path(folder)
        corpus.mkdir(exist_ok=True)
        for number, seed in enumerate(seeds()):
            (corpus / f"seed-{number}").write_bytes(seed)
        artifacts = Path(tempfile.gettempdir()) / "ccmix-capflow-found-"
        argv = [
            built.stdout.strip(),
            f"-max_total_time={arguments.seconds}",
            "-max_len=8192",
            "-timeout=20",
        ]
        done = subprocess.run(
            [*argv, "-print_final_stats=1", f"-artifact_prefix={artifacts}", corpus], check=False
        )
    return 0 if done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
