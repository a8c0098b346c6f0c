"""Tests the tables that the harness makes of a capture."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from ccmix.archive.parquet import Parts
from ccmix.model import ConversionLimits
from ccmix.probes import capflow as capflow_module
from ccmix.probes.capflow import (
    ENDS,
    SERIES,
    CaptureError,
    Connections,
    write_connections,
    write_packets,
)
from probes.capflow.frames import Talk, one_packet_each, pcap
from probes.capflow.tool import Capflow

MOST_BYTES = 400e6  # of a process's memory, whatever a host captured; 230 to 320 MB were measured
INTERVALS = 100_000


@pytest.fixture(autouse=True)
def _this_capflow(capflow: Capflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCMIX_CAPFLOW", capflow.binary)


@dataclass(frozen=True)
class Converted:
    """Holds both tables of a capture, and the description of its connections."""

    packets: pl.DataFrame
    connections: pl.DataFrame
    described: Connections


def convert(
    capture: Path, interval_s: float = 0.1, limits: ConversionLimits | None = None
) -> Converted:
    with tempfile.TemporaryDirectory() as folder:
        packets, connections = Path(folder, "packets.parquet"), Path(folder, "connections.parquet")
        described = capflow_module.convert(capture, packets, connections, interval_s, limits)
        return Converted(pl.read_parquet(packets), pl.read_parquet(connections), described)


def written(folder: Path, capture: bytes) -> Path:
    file = folder / "capture.pcap"
    file.write_bytes(capture)
    return file


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
    converted = convert(written(tmp_path, a_capture()), interval_s=0.01)
    packets, connections = converted.packets, converted.connections
    assert packets.schema == {**ENDS, **SERIES}
    assert converted.described.problem is None
    assert converted.described.capture.tcp_packets == 16
    assert connections.get_column("connection").to_list() == [1, 1, 2, 2]
    assert connections.schema["stream_length_bytes"] == pl.Int64  # though no connection has a value
    key = ("connection", "direction", "time_s")
    assert packets.select(key).equals(packets.select(key).sort(key))
    sums = packets.group_by("source_port", maintain_order=True).agg(
        pl.sum("payload_bytes"), pl.sum("retransmitted_bytes")
    )
    assert {row[0]: row[1:] for row in sums.rows()} == {
        40000: (400, 100),
        40001: (400, 100),
        5201: (0, 0),
    }
    assert set(packets.filter(source_port=40001).get_column("source_address")) == {"fd00::1"}


def test_an_empty_capture(tmp_path: Path) -> None:
    converted = convert(written(tmp_path, pcap([])))
    assert converted.packets.schema == {**ENDS, **SERIES}
    assert converted.packets.height == converted.connections.height == 0


def test_a_cut_capture_counts_and_says_so(tmp_path: Path) -> None:
    converted = convert(written(tmp_path, a_capture()[:-5]))
    assert converted.packets.get_column("packets").sum() == 15
    assert converted.described.problem is not None
    assert "cut or damaged after 15 packets" in converted.described.problem


@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
def test_a_compressed_capture(tmp_path: Path) -> None:
    file, compressed = written(tmp_path, a_capture()), tmp_path / "capture.pcap.zst"
    subprocess.run(["zstd", "-q", str(file)], check=True)
    converted = convert(compressed)
    assert converted.described.problem is None
    assert converted.packets.equals(convert(file).packets)
    compressed.write_bytes(compressed.read_bytes()[:-20])
    with pytest.raises(CaptureError, match="zst"):
        convert(compressed)  # so short that nothing of it is left
    with pytest.raises(CaptureError, match="missing"):
        convert(tmp_path / "missing.zst")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        convert(tmp_path / "missing")
    version, end = '{"version": 2}\n', '{"capture": {}, "others": {}}\n'
    for content in (
        "",
        "{",
        "[]\n",
        '{"version": 1}\n',
        version,
        version + end,
        version + "{}\n" + end,
        "[" * 10**5,
    ):
        (tmp_path / "summary").write_text(content)
        with pytest.raises(CaptureError):
            write_connections(
                tmp_path / "summary", Parts(tmp_path, "part"), tmp_path / "connections.parquet"
            )


def test_connections_beyond_the_most_are_one_row(
    capflow: Capflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = tmp_path / "capflow"
    limited.write_text(f'#!/bin/sh\nexec {capflow.binary} --connections=3 "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setenv("CCMIX_CAPFLOW", str(limited))
    capture = b"".join(one_packet_each(clients=2, ports=10))
    converted = convert(written(tmp_path, capture))
    *own, others = converted.connections.iter_rows(named=True)
    assert [row["connection"] for row in own] == [1, 1, 2, 2, 3, 3]
    assert {name for name, value in others.items() if value is not None} == {
        "direction",
        "packets",
        "syn_packets",
        "payload_bytes",
        "first_time_s",
        "last_time_s",
    }
    assert (others["direction"], others["packets"]) == ("others", 17)
    assert converted.packets.get_column("connection").unique().sort().to_list() == [1, 2, 3]
    (sentence,) = converted.described.shortened
    assert (
        sentence == "17 packets belong to connections beyond the first 3, and are counted together"
    )


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Path]:
    """Yields a pipe with a capture that begins and never ends."""
    pipe = tmp_path / "endless.pcap"
    os.mkfifo(pipe)
    with pipe.open("r+b", buffering=0) as writer:
        writer.write(a_capture())
        yield pipe


def test_a_conversion_ends_at_its_time_and_what_was_read_counts(endless: Path) -> None:
    converted = convert(endless, limits=ConversionLimits(within_s=5.0))
    (sentence,) = converted.described.shortened
    assert sentence == "making them took longer than 5 s (tcpdump-convert-time)"
    assert converted.described.problem is None
    assert converted.packets.get_column("packets").sum() == converted.described.capture.packets


def test_a_conversion_ends_at_its_size_and_what_was_read_counts(tmp_path: Path) -> None:
    """Its series is larger than any buffer, so that some of it is written before the
    capture ends.
    """
    pipe, capture = tmp_path / "endless.pcap", tmp_path / "capture.pcap"
    os.mkfifo(pipe)
    capture.write_bytes(b"".join(one_packet_each(clients=1, ports=2000, times=3)))
    with (
        pipe.open("r+b", buffering=0) as writer,
        subprocess.Popen(["tail", "-f", "-c", "+1", capture], stdout=writer) as writing,
    ):
        try:
            converted = convert(pipe, limits=ConversionLimits(most_bytes=1000))
        finally:
            writing.kill()
    (sentence,) = converted.described.shortened
    assert sentence == "its series are larger than 1 kB (tcpdump-convert-size)"
    assert converted.packets.height > 0


@pytest.mark.deep
@pytest.mark.parametrize(
    ("made", "rows"),
    [
        # 5 MB compressed, of which 9.6 GB of JSON was made before
        ({"clients": 40, "ports": 65_535}, [200_000, 200_001, 40 * 65_535 - 100_000]),
        # it took 700 MB before, and a longer one any amount
        ({"clients": 1, "ports": 4, "times": INTERVALS}, [8 * INTERVALS, 8, 0]),
    ],
    ids=["connections", "intervals"],
)
def test_memory_and_size_are_bounded(made: dict[str, int], rows: list[int], tmp_path: Path) -> None:
    file = tmp_path / "capture.pcap"
    with file.open("wb") as out:
        out.writelines(one_packet_each(**made))
    subprocess.run(["zstd", "-q", "--rm", str(file)], check=True)
    *found, peak_bytes = converted_elsewhere(Path(f"{file}.zst"))
    assert found == rows
    assert peak_bytes < MOST_BYTES


def converted_elsewhere(capture: Path) -> list[int]:
    """Converts in another process, and returns the rows of packets and connections, the packets of
    other connections, and the peak memory.
    """
    code = f"""
import sys
from pathlib import Path
from ccmix.probes.capflow import convert
packets, connections = Path({str(capture.parent)!r}, "packets"), Path({str(capture.parent)!r}, "connections")
described = convert(Path({str(capture)!r}), packets, connections)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
import polars as pl
heights = [pl.scan_parquet(file).select(pl.len()).collect().item() for file in (packets, connections)]
print(*heights, described.others.packets, int(status["VmHWM"].split()[0]) * 1024)
"""
    argv = ["sh", "-c", 'exec "$@"', "sh", sys.executable, "-c", code]
    return [*map(int, subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout.split())]


def test_a_series_cut_anywhere_is_read_to_its_last_whole_line(
    capflow: Capflow, tmp_path: Path
) -> None:
    capture, series, summary = tmp_path / "capture", tmp_path / "series", tmp_path / "summary"
    capture.write_bytes(a_capture())
    assert (
        capflow.run(
            f"--series={series}", f"--summary-json={summary}", "--interval=10ms", capture
        ).returncode
        == 0
    )
    ends = write_connections(
        summary, Parts(tmp_path, "connections"), tmp_path / "connections.parquet"
    ).ends
    packets = tmp_path / "packets.parquet"
    text = series.read_bytes()
    header = text.index(b"\n")
    for length in range(0, len(text) + 1, 29):
        series.write_bytes(text[:length])
        if length <= header:
            with pytest.raises(CaptureError, match="not the columns"):
                write_packets(series, ends, Parts(tmp_path, "packets"), packets)
        else:
            write_packets(series, ends, Parts(tmp_path, "packets"), packets)
            assert pl.read_parquet(packets).height == text[:length].count(b"\n") - 1
    series.write_bytes(text.replace(b",a2b,", b",a2b,x", 1))
    with pytest.raises(CaptureError, match="not a series"):
        write_packets(series, ends, Parts(tmp_path, "packets"), packets)
