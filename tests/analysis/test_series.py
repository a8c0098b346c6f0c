"""Tests how hand-made streams of ccmix-sockmon become a run's series."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ccmix.analysis.series import (
    Part,
    Series,
    earlier,
    read_series,
    recorded,
    sampled,
    write_tables,
)
from ccmix.analysis.tables import bytes_sampled
from ccmix.model import Facts, Measurement, ProbeReport, SeriesNames
from ccmix.probes.sockmon import errors_of
from ccmix.probes.stream.reader import stream_parts
from support.sockmon_stream import (
    CLOSED,
    CPU,
    NOTE,
    QUEUE,
    QUEUES,
    REPORT,
    header,
    record,
    sample,
    socket_identity,
    socket_row,
    sockets,
)

TEXT = b"ticks_per_s=100\npage_bytes=4096\nsockets.0=near\ndevice.0=r/east\ndevice.1=near/eth0\n"
ROLES = SeriesNames({"near": "sender"}, {"r/east": "bottleneck", "near/eth0": "sender-queue"})
GOOD = dict.fromkeys(("lost_replies", "lost_events", "truncated"), 0) | {
    "samples": 3,
    "missed": 1,
    "longest_delay_ns": 2_000_000,
}


def report(**values: int) -> bytes:
    return record(
        REPORT, "".join(f"{name}={value}\n" for name, value in (GOOD | values).items()).encode()
    )


def queue_row(number: int, size: int) -> bytes:
    return struct.pack("<IIQQIIIIII", number, 0, size, 6, 2, 3000, 5, 4, 3, 0) + bytes(160)


STREAM = b"".join(
    [
        header(TEXT),
        socket_identity(0),
        record(QUEUE, struct.pack("<IIII16s", 0, 0, 0x80010000, 0xFFFFFFFF, b"tbf")),
        record(QUEUE, struct.pack("<IIII16s", 1, 0, 0x10000, 0x80010001, b"bfifo")),
        record(QUEUE, struct.pack("<IIII16s", 2, 1, 0x80020000, 0xFFFFFFFF, b"fq")),
        sockets([socket_row(0, bytes_sent=5000)]),
        sample(QUEUES, [queue_row(0, 111), queue_row(1, 222), queue_row(2, 333)]),
        sample(CPU, [struct.pack("<II10Q", 4, 0, *range(100, 1100, 100))]),
        record(NOTE, b"no destroy events"),
        sockets([socket_row(0, bytes_sent=9000)], CLOSED, at=8),
    ]
)


NOTHING_KNOWN = Measurement(facts=Facts("6.1.0"), started_s=0.0, ended_s=0.0, ping_rtt_s={})


def parts(
    folder: Path, stream: bytes, clocks_s: dict[str, float] | None = None, name: str = "run"
) -> list[Part]:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / f"{name}.sockmon").write_bytes(stream)
    measurement = replace(NOTHING_KNOWN, series=ROLES, clocks_s=clocks_s or {})
    return list(recorded(folder / "logs", measurement, ("src", "dst"), None))


def series(
    folder: Path, stream: bytes, clocks_s: dict[str, float] | None = None, name: str = "run"
) -> Series:
    return read_series(parts(folder, stream, clocks_s, name))


def test_a_final_row_is_kept_and_is_no_sample(tmp_path: Path) -> None:
    found = series(tmp_path, STREAM + report())
    assert found.sockets.select("end", "port", "final", "bytes_sent").rows() == [
        ("sender", 40000, False, 5000),
        ("sender", 40000, True, 9000),
    ]
    assert sampled(found.sockets)["bytes_sent"].to_list() == [5000]
    assert bytes_sampled(tmp_path) == 9000


def test_sockets_of_the_other_end_have_the_sender_s_port(tmp_path: Path) -> None:
    there = STREAM.replace(b"sockets.0=near", b"sockets.0=over")
    [found] = parts(tmp_path, there + report())
    assert found.tables["sockets"].select("netns", "end", "port").unique().rows() == [
        ("over", None, 5201)
    ]
    assert sampled(found.tables["sockets"]).is_empty()


def test_queues_of_places_with_their_children(tmp_path: Path) -> None:
    [found] = parts(tmp_path, STREAM + report())
    assert found.tables["queues"].select("place", "parent", "kind", "bytes").rows() == [
        ("bottleneck", "root", "tbf", 111),
        ("bottleneck", "8001:1", "bfifo", 222),
        ("sender-queue", "root", "fq", 333),
    ]


def test_the_clock_of_each_host(tmp_path: Path) -> None:
    clocks = {"src": 0.5, "dst": -2.0}
    series(tmp_path, STREAM + report(), clocks)
    found = series(tmp_path, STREAM + report(), clocks, name="dst")
    assert found.sockets["time_s"].to_list()[:2] == [1001.5, 1002.5]
    assert found.cpu.select("host", "time_s", "core").rows() == [
        ("src", 1001.5, 4),
        ("dst", 1004.0, 4),
    ]


def test_how_a_probe_did(tmp_path: Path) -> None:
    found = series(tmp_path, STREAM + report())
    assert found.probes == {
        "sockmon-src": ProbeReport(3, 1, longest_delay_s=0.002),
    }
    assert found.diagnostics == ("sockmon-src: no destroy events",)


@pytest.mark.parametrize(
    ("end", "failed"),
    [
        (b"", "it ended before its time: ccmix-sockmon: no memory for 9 bytes"),
        (report()[:-8], "it ended before its time: ccmix-sockmon: no memory for 9 bytes"),
        (report(lost_replies=2), "lost replies: 2"),
        (report(lost_events=3, truncated=4), "lost events: 3, truncated: 4"),
    ],
)
def test_a_probe_that_failed(tmp_path: Path, end: bytes, failed: str) -> None:
    (tmp_path / "logs").mkdir()
    errors_of(tmp_path / "logs" / "run.sockmon").write_text(
        "ccmix-sockmon: no memory for 9 bytes\n"
    )
    found = series(tmp_path, STREAM + end).probes["sockmon-src"]
    assert found.failed == failed
    assert (found.samples is None) == ("before its time" in failed), (
        "without its report nobody knows how many"
    )


def test_a_probe_that_could_not_begin(tmp_path: Path) -> None:
    found = series(tmp_path, b"")
    assert found.probes["sockmon-src"].failed == "it ended before its time"
    assert found.sockets.is_empty()


def test_questions_about_the_rtt(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rtt.csv").write_text("time_s,sequence,rtt_s\n1002.5,0,0.25\n1003.5,2,\n")
    found = series(tmp_path, STREAM + report(), {"src": 0.5})
    assert found.rtt.rows() == [(1002.0, 0.25), (1003.0, None)]
    assert found.probes["rtt"] == ProbeReport(2, 1)
    (tmp_path / "logs" / "rtt.csv").write_text("")
    (tmp_path / "logs" / "rtt.log").write_text("ccmix-rtt: no socket\n")
    found = series(tmp_path, STREAM + report())
    assert (found.rtt.is_empty(), found.probes["rtt"].failed) == (True, "ccmix-rtt: no socket")


def test_ss_and_tc_say_less_in_the_same_columns(tmp_path: Path) -> None:
    [by_probe] = parts(tmp_path, STREAM + report())
    (tmp_path / "logs" / "run.sockmon").unlink()
    line = "0 7 10.0.0.1:40000 10.0.0.2:5201 bbr rto:204 rtt:1.5/0.75 bytes_sent:5000 retrans:0/2\n"
    tc = json.dumps(
        [
            {
                "kind": "tbf",
                "handle": "8001:",
                "root": True,
                "bytes": 111,
                "packets": 6,
                "drops": 5,
                "overlimits": 3,
                "requeues": 4,
                "backlog": 3000,
                "qlen": 2,
            }
        ]
    )
    outputs = {"sockets": line, "queues": tc, "processors-src": "cpu4 1 2 3 4 5 6 7 8 9 10\n"}
    for name, output in outputs.items():
        text = json.dumps({"time_s": 1002.0, "seconds": 0.01, "output": output}) + "\n"
        (tmp_path / "logs" / f"{name}.jsonl").write_text(text)
    by_others = list(recorded(tmp_path / "logs", NOTHING_KNOWN, ("src",), None))
    for part in by_others:
        [(name, table)] = part.tables.items()
        assert dict(table.schema).items() <= dict(by_probe.tables[name].schema).items(), name
        assert table.height == 1
    together = read_series(by_others)
    assert sampled(by_others[0].tables["sockets"]).select("port", "rtt_s", "bytes_sent").rows() == [
        (40000, 0.0015, 5000)
    ]
    assert together.cpu["idle_s"].to_list() == [0.04]
    assert bytes_sampled(tmp_path) == 5000


def test_a_stream_in_parts_is_the_same_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts are hardly larger than a record, and are written and read again."""
    more = b"".join(sockets([socket_row(0, bytes_sent=size)], at=size) for size in range(9, 99))
    [whole] = parts(tmp_path, STREAM + more + report())
    data = (tmp_path / "logs" / "run.sockmon").read_bytes()
    monkeypatch.setattr("ccmix.analysis.series.stream_parts", lambda file: stream_parts(file, 1000))
    found = parts(tmp_path, data)
    assert len(found) > 20
    assert read_series(found).probes == whole.probes
    assert read_series(found).diagnostics == whole.diagnostics
    write_tables((earlier(part.tables, 1000) for part in found), tmp_path)
    for name, table in whole.tables.items():
        written = tmp_path / f"{name}.parquet"
        assert written.exists() != table.is_empty()
        if not table.is_empty():
            assert pl.read_parquet(written).equals(earlier({name: table}, 1000)[name]), name
    assert not [file for file in tmp_path.iterdir() if file.is_dir() and file.name != "logs"]
