"""Captures in other formats: compressed, pcapng of several interfaces, and those that are refused."""

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from probes.capflow.frames import (
    ETHERNET,
    NULL,
    RAW,
    SLL,
    Frame,
    Talk,
    pcap,
    pcapng,
    pcapng_of_interfaces,
)
from probes.capflow.tool import Capflow

USB = 220


def a_talk() -> Talk:
    talk = Talk()
    talk.handshake()
    for place in range(20):
        talk.wait(10)
        talk.a(1 + place * 100, 1, 100)
    talk.b(1, 2001)
    return talk


def with_link(frame: Frame, link: int) -> Frame:
    """The same IP packet behind the header of another link type."""
    packet = frame.data[14:]
    header = {
        ETHERNET: frame.data[:14],
        RAW: b"",
        NULL: struct.pack("<I", 2),
        SLL: bytes(14) + b"\x08\x00",
        USB: bytes(64),
    }
    return Frame(frame.time_ns, header[link] + packet, max(frame.wire, len(frame.data)))


def of_file(capflow: Capflow, file: Path) -> Any:
    done = capflow.run("--summary-json", file)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return done.stdout


def compressed(file: Path, program: str) -> Path:
    made = file.with_name(f"{file.name}.{program}")
    if program == "zstd":
        subprocess.run([program, "-q", str(file), "-o", str(made)], check=True)
    else:
        compress = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}[program]
        made.write_bytes(compress(file.read_bytes()))
    return made


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("program", ["gzip", "zstd", "xz", "bzip2"])
def test_compressed(program: str, write: Any, capflow: Capflow, tmp_path: Path) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    file = tmp_path / "capture"
    file.write_bytes(write(a_talk().frames))
    made = compressed(file, program)
    assert of_file(capflow, made) == of_file(capflow, file)
    with made.open("rb") as stdin:
        done = subprocess.run(
            [capflow.binary, "--summary-json", "-"], stdin=stdin, capture_output=True, check=True
        )
    assert done.stdout == of_file(capflow, file)
    made.write_bytes(made.read_bytes()[:-8])
    done = capflow.run("--summary-json", made)
    assert done.returncode in {1, 2}
    assert f"{program} can't decompress it to its end" in done.stderr.decode()


def test_a_compressed_pipe_is_named(capflow: Capflow) -> None:
    done = capflow.run("-", stdin=gzip.compress(pcap(a_talk().frames)))
    assert done.returncode == 2
    assert b"standard input: a pipe with a capture that gzip has compressed" in done.stderr


def test_a_program_that_is_missing_is_named(
    capflow: Capflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "capture.gz"
    file.write_bytes(gzip.compress(pcap(a_talk().frames)))
    monkeypatch.setenv("PATH", str(tmp_path))
    done = capflow.run(file)
    assert (done.returncode, b"install the package gzip" in done.stderr) == (2, True)


def test_a_damaged_capture_in_a_large_compressed_file_ends(
    capflow: Capflow, tmp_path: Path
) -> None:
    file = tmp_path / "capture.gz"
    damaged = pcap(a_talk().frames) + b"\xff" * 2**22
    file.write_bytes(gzip.compress(damaged))
    assert capflow.run("--summary-json", file).returncode == 1


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [2, 6])
@pytest.mark.parametrize("resolution", [6, 10, 128 | 33])
def test_interfaces_that_differ(order: str, kind: int, resolution: int, capflow: Capflow) -> None:
    frames = a_talk().frames
    links = (ETHERNET, RAW, SLL, NULL)
    spread = [
        (number % len(links), with_link(frame, links[number % len(links)]))
        for number, frame in enumerate(frames)
    ]
    interfaces = list(zip(links, (262144, 200, 0, 128), strict=True))
    capture = pcapng_of_interfaces(
        interfaces, spread, order=order, resolution=resolution, kind=kind
    )
    found, right = (capflow.summary(each) for each in (capture, pcap(frames, nano=True)))
    for summary in (found, right):
        summary["connections"][0]["a2b"].pop("cut_packets")
        summary["connections"][0]["a2b"].pop("cut_bytes")
    assert rounded(found) == rounded(right)


def rounded(value: Any) -> Any:
    """The value with six digits and no times below a microsecond, which not every resolution has."""
    if isinstance(value, dict):
        return {name: rounded(below) for name, below in value.items()}
    if isinstance(value, list):
        return [rounded(below) for below in value]
    return float(f"{round(value, 6):.5g}") if isinstance(value, float) else value


def test_sections_of_both_byte_orders(capflow: Capflow) -> None:
    frames = a_talk().frames
    first = pcapng_of_interfaces([(ETHERNET, 0)], [(0, frame) for frame in frames[:9]])
    raw = [(0, with_link(frame, RAW)) for frame in frames[9:]]
    second = pcapng_of_interfaces([(RAW, 100)], raw, order=">")
    assert capflow.summary(first + second)["capture"]["tcp_packets"] == len(frames)


def test_simple_packets_are_cut_to_the_snap_length(capflow: Capflow) -> None:
    frames = a_talk().frames
    capture = pcapng_of_interfaces([(ETHERNET, 60)], [])
    for frame in frames:
        data = frame.data[:60]
        body = struct.pack("<I", len(frame.data)) + data + bytes(-len(data) % 4)
        total = struct.pack("<I", len(body) + 12)
        capture += struct.pack("<I", 3) + total + body + total
    connection = capflow.connection(capture)
    assert connection["a2b"]["payload_bytes"] == 2000


def test_link_types_that_are_not_read(capflow: Capflow) -> None:
    frames = a_talk().frames
    mixed = [(0, frame) for frame in frames] + [(1, with_link(frames[0], USB))] * 2
    capture = pcapng_of_interfaces([(ETHERNET, 0), (USB, 0)], mixed)
    done = capflow.run("--summary-json", "-", stdin=capture)
    assert done.returncode == 0
    assert b"2 packets of link types that can't be read, such as USB" in done.stderr
    only = pcapng_of_interfaces([(ETHERNET, 0), (USB, 0)], mixed[-2:])
    done = capflow.run("--summary-json", "-", stdin=only)
    assert done.returncode == 2
    assert b"packets of the link type USB" in done.stderr
    assert b"damaged" not in done.stderr


@pytest.mark.parametrize(
    ("begin", "name"),
    [
        (b"snoop\0\0\0" + struct.pack(">II", 2, 4), "snoop"),
        (b"GMBU" + bytes(100), "Microsoft Network Monitor"),
        (b"iptrace 2.0" + bytes(100), "iptrace"),
    ],
)
def test_other_formats_are_named(begin: bytes, name: str, capflow: Capflow) -> None:
    for content in (begin, begin + bytes(10_000)):
        done = capflow.run("-", stdin=content)
        assert done.returncode == 2
        assert f"a capture in the format of {name}, which is not supported" in done.stderr.decode()


@pytest.mark.skipif(not shutil.which("mergecap"), reason="mergecap is not installed")
def test_a_capture_that_mergecap_wrote(capflow: Capflow, tmp_path: Path) -> None:
    frames = a_talk().frames
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap", tmp_path / "merged.pcapng"]
    files[0].write_bytes(pcap(frames[::2], snap=200))
    files[1].write_bytes(pcap([with_link(frame, RAW) for frame in frames[1::2]], link=RAW))
    subprocess.run(["mergecap", "-w", files[2], *files[:2]], check=True)
    assert capflow.summary(files[2])["capture"]["tcp_packets"] == len(frames)
