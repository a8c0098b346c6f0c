"""Raw files to tables: two streams of an iperf3 test of 1 s omitted and 2 s measured, written by hand."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.tables import read_tables
from ccmix.generators.results import GeneratorError
from ccmix.model import Buffer, Facts, Group, Measurement, Run, SeriesNames
from support import iperf3_traffic, one_sender

# file descriptor, client's port
STREAMS = {5: 40000, 7: 40002}
BEGIN_S = 1000.0


@pytest.fixture
def run() -> Run:
    topology = one_sender(
        rate_bps=1e9, delay_s=0.005, loss=None, buffer=Buffer(1.0, "bdp"), mtu_bytes=1500, offloads=False
    )
    traffic = iperf3_traffic((Group("cubic"), Group("bbr")), streams=2, duration_s=2.0, omit_s=1.0, interval_s=1.0)
    return Run("one", {}, "receiver", 1, 7, traffic, topology)


def interval(end_s: float, omitted: bool, megabytes: tuple[float, float], retransmits: bool) -> dict[str, Any]:
    """`seconds` and the rates are wrong on purpose, as iperf3's are after the omitted time."""
    streams = [
        {"socket": fd, "end": end_s, "seconds": 99.0, "bytes": int(size * 1e6), "bits_per_second": 1.0}
        | ({"retransmits": 3} if retransmits else {})
        for fd, size in zip(STREAMS, megabytes, strict=True)
    ]
    return {"streams": streams, "sum": {"end": end_s, "omitted": omitted, "seconds": 99.0}}


def iperf3_json(retransmits: bool) -> dict[str, Any]:
    # in the server's JSON, the flow's port is the remote one
    near, far = ("local", "remote") if retransmits else ("remote", "local")
    ends = {f"{near}_host": "10.0.1.1", f"{far}_host": "10.0.3.2", f"{far}_port": 5201}
    return {
        "start": {"connected": [{"socket": fd, f"{near}_port": port} | ends for fd, port in STREAMS.items()]},
        "intervals": [
            interval(1.0, True, (1, 1), retransmits),
            interval(1.0, False, (10, 20), retransmits),
            interval(2.002, False, (12.525, 25), retransmits),
            interval(2.01, False, (0, 0), retransmits),  # a splinter
        ],
        "end": {
            "streams": [
                {
                    "sender": {"socket": fd, "bits_per_second": port * 2, "retransmits": 6, "congestion": cca},
                    "receiver": {"socket": fd, "bits_per_second": port},
                    "group": group,
                }
                for group, ((fd, port), cca) in enumerate(zip(STREAMS.items(), ("cubic", "bbr"), strict=True), 1)
            ]
        },
    }


def sample(seconds: float, output: str) -> str:
    return json.dumps({"time_s": BEGIN_S + seconds, "seconds": 0.01, "output": output}) + "\n"


def ss(port: int, cca: str, segments: int) -> str:
    """After `segments` of data; of none, it has sent iperf3's cookie."""
    end = f"bytes_sent:{37 + segments * 8948} data_segs_out:{1 + segments} retrans:0/2"
    return f"0 0 10.0.1.1:{port} 10.0.3.2:5201 {cca} rtt:10/1 {end}\n"


def queue(size: int) -> str:
    return json.dumps(
        [
            {
                "kind": "tbf",
                "root": True,
                "handle": "1:",
                "bytes": size,
                "packets": 2,
                "drops": 1,
                "overlimits": 4,
                "requeues": 3,
                "backlog": 5,
                "qlen": 6,
            }
        ]
    )


MEASUREMENT = Measurement(
    facts=Facts("7"), started_s=0.0, ended_s=0.0, ping_rtt_s={}, series=SeriesNames(senders={"10.0.1.1": "h1"})
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "generators").mkdir()
    (tmp_path / "logs").mkdir()
    for end, retransmits in (("client", True), ("server", False)):
        (tmp_path / "generators" / f"h1-iperf3-{end}.json").write_text(json.dumps(iperf3_json(retransmits)))
    control = "0 0 10.0.1.1:39998 10.0.3.2:5201 cubic data_segs_out:2\n"
    (tmp_path / "logs" / "sockets.jsonl").write_text(
        sample(0.5, control.replace("data_segs_out:2", ""))
        + sample(1.5, control + ss(40000, "cubic", 0) + ss(40002, "bbr", 0))
        + sample(2.5, control + ss(40000, "cubic", 100) + ss(40002, "bbr", 7))
        + sample(3.5, control + ss(40000, "cubic", 200) + ss(40002, "bbr", 8))
    )
    (tmp_path / "logs" / "queues.jsonl").write_text(sample(2.5, queue(100)) + sample(4.5, queue(300)))
    return tmp_path


def test_flows(run: Run, folder: Path) -> None:
    assert read_tables(run, folder, MEASUREMENT).flows.to_dicts() == [
        {
            "host": "h1", "port": 40000, "stream": 0, "group": "cubic", "cca_asked": "cubic", "cca_used": "cubic",
            "goodput_bps": 40000.0, "throughput_bps": 80000.0, "retransmits": 6,
            "bytes_sent": 0,
        },
        {
            "host": "h1", "port": 40002, "stream": 1, "group": "bbr", "cca_asked": "bbr", "cca_used": "bbr",
            "goodput_bps": 40002.0, "throughput_bps": 80004.0, "retransmits": 6,
            "bytes_sent": 0,
        },
    ]  # fmt: skip


def test_goodput_per_interval_is_of_bytes_and_ends(run: Run, folder: Path) -> None:
    every = read_tables(run, folder, MEASUREMENT).intervals
    intervals = every.filter(pl.col("port") == 40000).sort("time_s", "omitted")
    assert intervals["omitted"].to_list() == [True, False, False]
    assert intervals["time_s"].to_list() == pytest.approx([1.0, 2.0, 3.002])
    assert intervals["seconds"].to_list() == pytest.approx([1.0, 1.0, 1.002])
    assert intervals["goodput_bps"].to_list() == pytest.approx([8e6, 80e6, 100e6])  # 12.525 MB in 1.002 s
    assert intervals["retransmits"].to_list() == [3, 3, 3]
    assert intervals["group"].to_list() == ["cubic"] * 3


def test_sockets_without_the_control_connection_from_the_first_data(run: Run, folder: Path) -> None:
    sockets = read_tables(run, folder, MEASUREMENT).sockets
    assert sorted(sockets["port"].unique().to_list()) == [40000, 40002]
    assert sockets.filter(pl.col("port") == 40002).select("time_s", "group", "cca", "data_segs_out").rows() == [
        (-1.0, "bbr", "bbr", 1), (0.0, "bbr", "bbr", 8), (1.0, "bbr", "bbr", 9),
    ]  # fmt: skip


def test_queues(run: Run, folder: Path) -> None:
    tables = read_tables(run, folder, MEASUREMENT)
    assert tables.bottleneck.select("time_s", "bytes", "backlog_bytes").rows() == [(0.0, 100, 5), (2.0, 300, 5)]
    tables.write(folder)
    assert pl.read_parquet(folder / "queues.parquet").to_dicts() == [
        {"time_s": time_s, "took_s": 0.01, "kind": "tbf", "handle": "1:", "parent": "root", "bytes": size, "packets": 2,
         "drops": 1, "overlimits": 4, "requeues": 3, "backlog_bytes": 5, "backlog_packets": 6, "place": "bottleneck"}
        for time_s, size in ((0.0, 100), (2.0, 300))
    ]  # fmt: skip


def test_series_are_written_as_parquet(run: Run, folder: Path) -> None:
    tables = read_tables(run, folder, MEASUREMENT)
    tables.write(folder)
    assert sorted(file.name for file in folder.glob("*.parquet")) == [
        "intervals.parquet", "queues.parquet", "sockets.parquet",
    ]  # fmt: skip
    written = pl.read_parquet(folder / "sockets.parquet")
    assert written.select(tables.sockets.columns).equals(tables.sockets)
    assert written["local_address"].unique().to_list() == ["10.0.1.1"]


@pytest.mark.parametrize(
    ("file", "text", "error", "sentence"),
    [
        ("generators/h1-iperf3-client.json", "", GeneratorError, "left no result in h1-iperf3-client.json"),
        ("generators/h1-iperf3-client.json", "{}", KeyError, "start"),
        ("logs/sockets.jsonl", "", ValueError, "no sample of a socket"),
        ("logs/sockets.jsonl", sample(1, ""), ValueError, "no sample of a socket"),
        ("logs/sockets.jsonl", sample(1, ss(40000, "cubic", 0)), ValueError, "no sample of a socket that sent data"),
        ("logs/sockets.jsonl", sample(1, "nonsense\n"), ValueError, "not a line of ss"),
        ("logs/queues.jsonl", "", ValueError, "no sample of the bottleneck's queue"),
        ("logs/queues.jsonl", sample(1, "[]"), ValueError, "no sample of the bottleneck's queue"),
    ],
)
def test_raw_files_that_cannot_be_understood(
    run: Run, folder: Path, file: str, text: str, error: type[Exception], sentence: str
) -> None:
    (folder / file).write_text(text)
    with pytest.raises(error, match=sentence):
        read_tables(run, folder, MEASUREMENT)
