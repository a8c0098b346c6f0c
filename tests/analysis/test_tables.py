"""Tests tables of raw files: two streams of an iperf3 test with 1 s omitted and 2 s measured,
hand-made.

The traffic begins at 1001.5 s, the time of the first sample of its sockets.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.raw_files import read_tables
from ccmix.generators.results import GeneratorError
from ccmix.model import Buffer, Facts, Group, Measurement, Run, SeriesNames
from support.model import iperf3_traffic, one_sender

# file descriptor, client's port
STREAMS = {5: 40000, 7: 40002}
BEGIN_S = 1000.0
TRAFFIC_S = 1001.5


@pytest.fixture
def run() -> Run:
    topology = one_sender(
        rate_bps=1e9,
        delay_s=0.005,
        loss=None,
        buffer=Buffer(1.0, "bdp"),
        mtu_bytes=1500,
        offloads=False,
    )
    traffic = iperf3_traffic(
        (Group("cubic"), Group("bbr")), streams=2, duration_s=2.0, omit_s=1.0, interval_s=1.0
    )
    return Run("one", {}, "receiver", 1, 7, traffic, topology)


def interval(
    end_s: float, omitted: bool, megabytes: tuple[float, float], retransmits: bool
) -> dict[str, Any]:
    """Returns an interval whose `seconds` and rates are wrong on purpose, as iperf3's are after the
    omitted time.
    """
    streams = [
        {"socket": fd, "end": end_s, "seconds": 99.0, "bytes": int(size * 1e6)}
        | ({"retransmits": 3} if retransmits else {})
        for fd, size in zip(STREAMS, megabytes, strict=True)
    ]
    return {"streams": streams, "sum": {"end": end_s, "omitted": omitted, "seconds": 99.0}}


def iperf3_json(retransmits: bool) -> dict[str, Any]:
    # in the server's JSON, the flow's port is the remote one
    near, far = ("local", "remote") if retransmits else ("remote", "local")
    ends = {f"{near}_host": "10.0.1.1", f"{far}_host": "10.0.3.2", f"{far}_port": 5201}
    return {
        "start": {
            "connected": [
                {"socket": fd, f"{near}_port": port} | ends for fd, port in STREAMS.items()
            ]
        },
        "intervals": [
            interval(1.0, True, (1, 1), retransmits),
            interval(1.0, False, (10, 20), retransmits),
            interval(2.002, False, (12.525, 25), retransmits),
            interval(2.01, False, (0, 0), retransmits),  # a splinter
        ],
        "end": {
            "streams": [
                {
                    "sender": {
                        "socket": fd,
                        "bits_per_second": port * 2,
                        "retransmits": 6,
                        "congestion": cca,
                    },
                    "receiver": {"socket": fd, "bits_per_second": port},
                    "group": group,
                }
                for group, ((fd, port), cca) in enumerate(
                    zip(STREAMS.items(), ("cubic", "bbr"), strict=True), 1
                )
            ]
        },
    }


def sample(seconds: float, output: str) -> str:
    return json.dumps({"time_s": BEGIN_S + seconds, "seconds": 0.01, "output": output}) + "\n"


def ss(port: int, cca: str, segments: int) -> str:
    """Returns a line of ss after `segments` of data; with 0 segments, the socket has sent iperf3's
    cookie. Nine of ten segments are acknowledged.
    """
    sent, acked = (37 + count * 8948 for count in (segments, segments * 9 // 10))
    end = f"bytes_sent:{sent} bytes_acked:{acked} data_segs_out:{1 + segments} retrans:0/2"
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
    facts=Facts("7"),
    started_s=0.0,
    began_s=TRAFFIC_S,
    ended_s=0.0,
    ping_rtt_s={},
    series=SeriesNames(senders={"10.0.1.1": "h1"}),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "generators").mkdir()
    (tmp_path / "logs").mkdir()
    for end, retransmits in (("client", True), ("server", False)):
        (tmp_path / "generators" / f"h1-iperf3-{end}.json").write_text(
            json.dumps(iperf3_json(retransmits))
        )
    control = "0 0 10.0.1.1:39998 10.0.3.2:5201 cubic data_segs_out:2\n"
    (tmp_path / "logs" / "sockets.jsonl").write_text(
        sample(0.5, control.replace("data_segs_out:2", ""))
        + sample(1.0, control + ss(40000, "cubic", 0) + ss(40002, "bbr", 0))
        + sample(1.5, control + ss(40000, "cubic", 0) + ss(40002, "bbr", 0))
        + sample(2.5, control + ss(40000, "cubic", 100) + ss(40002, "bbr", 10))
        + sample(3.5, control + ss(40000, "cubic", 200) + ss(40002, "bbr", 10))
        + sample(4.0, control + ss(40000, "cubic", 250) + ss(40002, "bbr", 20))
    )
    (tmp_path / "logs" / "queues.jsonl").write_text(
        sample(2.5, queue(100)) + sample(4.5, queue(300))
    )
    return tmp_path


def test_flows(run: Run, folder: Path) -> None:
    assert read_tables(run, folder, MEASUREMENT).flows.to_dicts() == [
        {
            "host": "h1",
            "port": port,
            "stream": number,
            "group": cca,
            "cca_asked": cca,
            "cca_used": cca,
            "goodput_bps": port,
            "throughput_bps": 2 * port,
            "retransmits": 6,
            "bytes_sent": 0,
            "begin_s": 0.0,
            "end_s": None,
            "reverse": False,
            "udp": False,
        }
        for number, (port, cca) in enumerate(((40000, "cubic"), (40002, "bbr")))
    ]


def test_goodput_per_interval_is_what_the_sockets_counted(run: Run, folder: Path) -> None:
    """The receivers' sockets were not sampled, so goodput is the acknowledged data: 90 of 100
    segments of 8948 bytes in the omitted second, and 90 in the next. In the first half of the last
    second it is 45, and there is no later sample.
    """
    every = read_tables(run, folder, MEASUREMENT).intervals
    intervals = every.filter(pl.col("port") == 40000)
    assert intervals["time_s"].to_list() == [1.0, 2.0, 3.0]
    assert intervals["omitted"].to_list() == [True, False, False]
    assert intervals["seconds"].to_list() == [1.0, 1.0, 1.0]
    assert intervals["goodput_bps"].to_list() == pytest.approx(
        [90 * 8948 * 8, 90 * 8948 * 8, 45 * 8948 * 8]
    )
    assert intervals["retransmits"].to_list() == [0, 0, 0], "both were before the traffic began"
    assert intervals["group"].to_list() == ["cubic"] * 3
    assert intervals["counted_by"].to_list() == ["sender"] * 3
    of_other = every.filter(pl.col("port") == 40002)["goodput_bps"]
    assert of_other.to_list() == pytest.approx([9 * 8948 * 8, 0, 9 * 8948 * 8])


def test_where_no_socket_was_sampled_intervals_are_iperf3_s(run: Run, folder: Path) -> None:
    """They use its bytes and ends, because its rates are wrong after the omitted time."""
    (folder / "logs" / "sockets.jsonl").write_text("")
    every = read_tables(run, folder, MEASUREMENT).intervals
    intervals = every.filter(pl.col("port") == 40000).sort("time_s", "omitted")
    assert intervals["omitted"].to_list() == [True, False, False]
    assert intervals["time_s"].to_list() == pytest.approx([1.0, 2.0, 3.002])
    assert intervals["seconds"].to_list() == pytest.approx([1.0, 1.0, 1.002])
    assert intervals["goodput_bps"].to_list() == pytest.approx(
        [8e6, 80e6, 100e6]
    )  # 12.525 MB in 1.002 s
    assert intervals["retransmits"].to_list() == [3, 3, 3]
    assert intervals["group"].to_list() == ["cubic"] * 3


def test_iperf3_says_when_its_test_began(run: Run, folder: Path) -> None:
    """It began 0.3 s later than planned, so all of its counts are later, too."""
    client = iperf3_json(retransmits=True)
    client["start"]["test_start"] = {
        "start_time": TRAFFIC_S + 0.3,
        "protocol": "TCP",
        "num_streams": 2,
        "duration": 2,
        "omit": 1,
    }
    (folder / "generators" / "h1-iperf3-client.json").write_text(json.dumps(client))
    tables = read_tables(run, folder, MEASUREMENT)
    assert tables.began_s == TRAFFIC_S + 0.3
    assert tables.bottleneck["time_s"].to_list() == pytest.approx([0.7, 2.7])
    (folder / "logs" / "sockets.jsonl").write_text("")
    alone = read_tables(run, folder, MEASUREMENT).intervals
    assert alone.filter(pl.col("port") == 40000)["time_s"].to_list() == pytest.approx(
        [1.0, 2.0, 3.002]
    )
    early = replace(
        MEASUREMENT, began_s=TRAFFIC_S + 0.5
    )  # by the jitter of its timer, or of the other clock
    assert read_tables(run, folder, early).began_s == TRAFFIC_S + 0.5


def test_sockets_without_the_control_connection(run: Run, folder: Path) -> None:
    sockets = read_tables(run, folder, MEASUREMENT).sockets
    assert sorted(sockets["port"].unique().to_list()) == [40000, 40002]
    assert sockets.filter(pl.col("port") == 40002).select(
        "time_s", "group", "cca", "data_segs_out"
    ).rows() == [
        (-0.5, "bbr", "bbr", 1),
        (0.0, "bbr", "bbr", 1),
        (1.0, "bbr", "bbr", 11),
        (2.0, "bbr", "bbr", 11),
        (2.5, "bbr", "bbr", 21),
    ]


def test_queues(run: Run, folder: Path) -> None:
    tables = read_tables(run, folder, MEASUREMENT)
    assert tables.bottleneck.select("time_s", "bytes", "backlog_bytes").rows() == [
        (1.0, 100, 5),
        (3.0, 300, 5),
    ]
    tables.write(folder)
    assert pl.read_parquet(folder / "queues.parquet").to_dicts() == [
        {
            "time_s": time_s,
            "took_s": 0.01,
            "kind": "tbf",
            "handle": "1:",
            "parent": "root",
            "bytes": size,
            "packets": 2,
            "drops": 1,
            "overlimits": 4,
            "requeues": 3,
            "backlog_bytes": 5,
            "backlog_packets": 6,
            "least_backlog_bytes": None,
            "place": "bottleneck",
        }
        for time_s, size in ((1.0, 100), (3.0, 300))
    ]


def test_series_are_written_as_parquet(run: Run, folder: Path) -> None:
    tables = read_tables(run, folder, MEASUREMENT)
    tables.write(folder)
    assert sorted(file.name for file in folder.glob("*.parquet")) == [
        "intervals.parquet",
        "queues.parquet",
        "sockets.parquet",
    ]
    written = pl.read_parquet(folder / "sockets.parquet")
    assert written.select(tables.sockets.columns).equals(tables.sockets)
    assert written["local_address"].unique().to_list() == ["10.0.1.1"]


@pytest.mark.parametrize(
    ("file", "text", "error", "sentence"),
    [
        (
            "generators/h1-iperf3-client.json",
            "",
            GeneratorError,
            "left no result in h1-iperf3-client.json",
        ),
        ("generators/h1-iperf3-client.json", "{}", KeyError, "start"),
        ("logs/sockets.jsonl", sample(1, "nonsense\n"), ValueError, "printed a line"),
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


def test_facts_that_do_not_say_when_the_traffic_began(run: Run, folder: Path) -> None:
    with pytest.raises(ValueError, match="when the traffic began"):
        read_tables(run, folder, replace(MEASUREMENT, began_s=None))
