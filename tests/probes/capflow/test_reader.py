"""Tests the tables that the harness makes of a capture."""

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from ccmix.probes.capflow import ENDS, SERIES, CaptureError, Connections, convert, read_connections, read_packets
from probes.capflow.frames import Talk, pcap
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
    for content in ("", "{", "[]", json.dumps({"version": 2, "connections": [], "capture": {}}), '{"version": 1}'):
        (tmp_path / "summary").write_text(content)
        with pytest.raises(CaptureError):
            read_connections(tmp_path / "summary")


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
