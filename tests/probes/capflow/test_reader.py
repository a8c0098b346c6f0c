"""Tests the tables that the harness makes of a capture."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from ccmix.model import ConversionLimits
from ccmix.probes.capflow import ENDS, SERIES, CaptureError, Connections, convert, read_connections, read_packets
from probes.capflow.frames import Talk, one_packet_each, pcap
from probes.capflow.tool import Capflow


@pytest.fixture(autouse=True)
def _this_capflow(capflow: Capflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCMIX_CAPFLOW", capflow.binary)


def a_capture() -> bytes:
    talk_4, talk_6 = Talk(), Talk(version=6, ports=(40001, 5201))
    for talk in (talk_4, talk_6):
        talk.handshake()
        for place in (0, 1, 2, 1):
            talk.wait(10)
            talk.a(1 + place * 100, 1, 100)
        talk.b(1, 301)
    frames = sorted(talk_4.frames + talk_6.frames, key=lambda frame: frame.time_ns)
    return pcap(frames)


def test_tables(tmp_path: Path) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(a_capture())
    packets, connections = convert(file, interval_s=0.01)
    assert packets.schema == {**ENDS, **SERIES}
    assert connections.problem is None
    assert connections.capture.tcp_packets == 16
    assert connections.table.height == 4
    assert connections.table.get_column("connection").to_list() == [1, 1, 2, 2]
    assert connections.table.schema["stream_length_bytes"] == pl.Int64  # though no connection has a value
    key = ("connection", "direction", "time_s")
    assert packets.select(key).equals(packets.select(key).sort(key))
    sums = packets.group_by("source_port", maintain_order=True).agg(
        pl.sum("payload_bytes"), pl.sum("retransmitted_bytes")
    )
    assert {row[0]: row[1:] for row in sums.rows()} == {40000: (400, 100), 40001: (400, 100), 5201: (0, 0)}
    assert set(packets.filter(source_port=40001).get_column("source_address")) == {"fd00::1"}
    packets.write_parquet(tmp_path / "packets.parquet")
    connections.table.write_parquet(tmp_path / "connections.parquet")
    assert pl.read_parquet(tmp_path / "packets.parquet").equals(packets)


def test_an_empty_capture(tmp_path: Path) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(pcap([]))
    packets, connections = convert(file)
    assert packets.schema == {**ENDS, **SERIES}
    assert packets.height == connections.table.height == 0


def test_a_cut_capture_counts_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(a_capture()[:-5])
    packets, connections = convert(file)
    assert packets.get_column("packets").sum() == 15
    assert connections.problem is not None
    assert "cut or damaged after 15 packets" in connections.problem


@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
def test_a_compressed_capture(tmp_path: Path) -> None:
    file, compressed = tmp_path / "capture.pcap", tmp_path / "capture.pcap.zst"
    file.write_bytes(a_capture())
    subprocess.run(["zstd", "-q", str(file)], check=True)
    packets, connections = convert(compressed)
    assert connections.problem is None
    assert packets.equals(convert(file)[0])
    compressed.write_bytes(compressed.read_bytes()[:-20])
    with pytest.raises(CaptureError, match="zst"):
        convert(compressed)  # so short that nothing of it is left
    with pytest.raises(CaptureError, match="missing"):
        convert(tmp_path / "missing.zst")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        convert(tmp_path / "missing")
    version, end = '{"version": 2}\n', '{"capture": {}, "others": {}}\n'
    for content in ("", "{", "[]\n", '{"version": 1}\n', version, version + end, version + "{}\n" + end, "[" * 10**5):
        (tmp_path / "summary").write_text(content)
        with pytest.raises(CaptureError):
            read_connections(tmp_path / "summary")


def test_connections_beyond_the_most_are_one_row(
    capflow: Capflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = tmp_path / "capflow"
    limited.write_text(f'#!/bin/sh\nexec {capflow.binary} --connections=3 "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setenv("CCMIX_CAPFLOW", str(limited))
    file = tmp_path / "capture.pcap"
    with file.open("wb") as out:
        out.writelines(one_packet_each(clients=2, ports=10))
    packets, connections = convert(file)
    *own, others = connections.table.iter_rows(named=True)
    assert [row["connection"] for row in own] == [1, 1, 2, 2, 3, 3]
    assert {name for name, value in others.items() if value is not None} == {
        "direction", "packets", "syn_packets", "payload_bytes", "first_time_s", "last_time_s",
    }  # fmt: skip
    assert (others["direction"], others["packets"]) == ("others", 17)
    assert packets.get_column("connection").unique().sort().to_list() == [1, 2, 3]
    (sentence,) = connections.shortened
    assert sentence == "17 packets belong to connections beyond the first 3, and are counted together"


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Path]:
    """Yields a pipe with a capture that begins and never ends."""
    pipe = tmp_path / "endless.pcap"
    os.mkfifo(pipe)
    with pipe.open("r+b", buffering=0) as writer:
        writer.write(a_capture())
        yield pipe


def test_a_conversion_ends_at_its_time_and_what_was_read_counts(endless: Path) -> None:
    packets, connections = convert(endless, limits=ConversionLimits(within_s=5.0))
    (sentence,) = connections.shortened
    assert sentence == "making them took longer than 5 s (tcpdump-convert-time)"
    assert connections.problem is None
    assert packets.get_column("packets").sum() == connections.capture.packets


def test_a_conversion_ends_at_its_size_and_what_was_read_counts(tmp_path: Path) -> None:
    """Its series is larger than any buffer, so that some of it is written before the capture ends."""
    pipe = tmp_path / "endless.pcap"
    os.mkfifo(pipe)
    content = b"".join(one_packet_each(clients=1, ports=2000, times=3))
    with pipe.open("r+b", buffering=0) as writer:
        writing = threading.Thread(target=writer.write, args=(content,), daemon=True)
        writing.start()
        packets, connections = convert(pipe, limits=ConversionLimits(most_bytes=1000))
        writing.join()
    (sentence,) = connections.shortened
    assert sentence == "its series are larger than 1 kB (tcpdump-convert-size)"
    assert packets.height > 0


@pytest.mark.deep
def test_memory_and_size_are_bounded_however_many_connections_there_are(tmp_path: Path) -> None:
    """40 x 65,535 connections of a packet each: 5 MB compressed, of which 9.6 GB of JSON was made before."""
    file = tmp_path / "capture.pcap"
    with file.open("wb") as out:
        out.writelines(one_packet_each(clients=40, ports=65_535))
    subprocess.run(["zstd", "-q", "--rm", str(file)], check=True)
    code = f"""
from pathlib import Path
from ccmix.probes.capflow import convert
packets, connections = convert(Path({str(file) + ".zst"!r}))
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(connections.table.height, connections.others.packets, packets.height, int(status["VmHWM"].split()[0]) // 1024)
"""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@"', "sh", sys.executable, "-c", code], check=True, stdout=subprocess.PIPE
    )
    rows, others, series, megabytes = map(int, done.stdout.split())
    assert (rows, others, series) == (200_001, 40 * 65_535 - 100_000, 200_000)
    assert megabytes < 1000


def test_a_series_cut_anywhere_is_read_to_its_last_whole_line(capflow: Capflow, tmp_path: Path) -> None:
    capture, series, summary = tmp_path / "capture", tmp_path / "series", tmp_path / "summary"
    capture.write_bytes(a_capture())
    assert capflow.run(f"--series={series}", f"--summary-json={summary}", "--interval=10ms", capture).returncode == 0
    connections: Connections = read_connections(summary)
    text = series.read_bytes()
    header = text.index(b"\n")
    for length in range(0, len(text) + 1, 7):
        series.write_bytes(text[:length])
        if length <= header:
            with pytest.raises(CaptureError, match="not the columns"):
                read_packets(series, connections)
        else:
            assert read_packets(series, connections).height == text[:length].count(b"\n") - 1
    series.write_bytes(text.replace(b",a2b,", b",a2b,x", 1))
    with pytest.raises(CaptureError, match="not a series"):
        read_packets(series, connections)
