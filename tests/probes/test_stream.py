"""Tests the reader of ccmix-sockmon's stream on bytes that a test wrote, and on damaged ones."""

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccmix.probes.sockets import Socket
from ccmix.probes.stream.reader import Stream, StreamTail, parse_stream, read_stream, stream_parts
from support.commands import assert_has
from support.sockmon_stream import (
    BBR,
    BBR_INFO,
    COUNTERS,
    CPU,
    INFO,
    LINKS,
    PROCESSES,
    QUEUES,
    REPORT,
    SECOND,
    SOCKET,
    SOCKETS,
    bbr_info_row,
    bbr_row,
    header,
    record,
    sample,
    socket_identity,
    socket_row,
    sockets,
    whole,
)


def test_everything() -> None:
    stream = parse_stream(whole())
    assert stream.start_s == 1000
    assert stream.header["sockets.0"] == "h1"
    assert stream.notes == ["no destroy events"]
    assert stream.report == {"samples": 2, "missed": 1}
    assert stream.sockets["rtt_s"].to_list() == [0.0015, 0.0025, None]
    assert stream.sockets["final"].to_list() == [False, False, True]
    assert stream.sockets["time_s"].to_list() == [1002, 1002, 1003]
    assert stream.sockets["monotonic_s"].to_list() == [7, 7, 8]
    assert stream.sockets["took_s"].to_list() == [1.5e-6] * 3
    assert stream.sockets["bytes_sent"][2] == 2**40
    assert stream.sockets.row(1, named=True) | {
        "netns": "h1",
        "local_address": "::1",
        "remote_address": "::2",
        "local_port": 50000,
        "remote_port": 5201,
        "cca": "cubic",
        "cookie": 78,
        "uid": 1000,
        "state": "established",
        "recv_queue_bytes": 11,
        "send_queue_bytes": 22,
    } == stream.sockets.row(1, named=True)
    [queue] = stream.queues.rows(named=True)
    assert (
        queue
        | {
            "netns": "r",
            "device": "eth0",
            "kind": "fq_codel",
            "handle": "8001:",
            "parent": "root",
            "bytes": 9000,
            "packets": 6,
            "backlog_packets": 2,
            "backlog_bytes": 3000,
            "drops": 5,
            "requeues": 4,
            "overlimits": 3,
            "ecn_marks": 12,
            "overlimit_drops": 8,
            "ce_threshold_marks": 28,
            "flow_limit_drops": None,
            "early_drops": None,
        }
        == queue
    )
    [link] = stream.links.rows(named=True)
    assert_has(
        link,
        netns="",
        device="lo",
        rx_packets=0,
        tx_dropped=7,
        rx_nohandler=23,
        rx_otherhost_dropped=None,
    )
    assert stream.counters.select("name", "core", "value").rows() == [
        ("Tcp.RetransSegs", None, 12),
        ("Softnet.dropped", 3, 2**63),
    ]
    [core] = stream.cpu.rows(named=True)
    assert_has(core, core=4, frequency_hz=2.5e9, user_s=1.0, steal_s=8.0)
    [process] = stream.processes.rows(named=True)
    assert (
        process
        | {
            "pid": 4242,
            "parent_pid": 1,
            "name": "iperf3 (x)",
            "started_s": 123.0,
            "threads": 3,
            "user_s": 1.5,
            "system_s": 2.5,
            "memory_bytes": 40960,
        }
        == process
    )


def test_the_columns_of_ss_are_all_there_under_the_same_names() -> None:
    names = set(parse_stream(whole()).sockets.columns)
    assert set(Socket.__dataclass_fields__) <= names


def one_row(
    has: int = 0, words: tuple[int, ...] = (0,) * 5, info: int = INFO, **fields: int
) -> dict[str, Any]:
    row = socket_row(0, has, words, info, **fields)
    return parse_stream(header() + socket_identity(0) + sockets([row], info=info)).sockets.row(
        0, named=True
    )


@pytest.mark.parametrize(
    ("fields", "column", "value"),
    [
        ({"min_rtt": 2**32 - 1}, "min_rtt_s", None),
        ({"min_rtt": 44_000}, "min_rtt_s", 0.044),
        ({"pacing_rate": 2**64 - 1}, "pacing_rate_bps", None),
        ({"pacing_rate": 2**33}, "pacing_rate_bps", 2.0**36),
        ({"delivery_rate": 0}, "delivery_rate_bps", None),
        ({"snd_ssthresh": 0x7FFFFFFF}, "ssthresh_packets", None),
        ({"snd_ssthresh": 40}, "ssthresh_packets", 40),
        ({"busy_time": 2_500_000}, "busy_s", 2.5),
        ({"rwnd_limited": 1}, "receiver_window_limited_s", 1e-6),
        ({"sndbuf_limited": 7000}, "send_buffer_limited_s", 0.007),
        ({"wscale": 0x7A}, "send_window_scale", 10),
        ({"wscale": 0x7A}, "receive_window_scale", 7),
        ({"options": 0b101010}, "sack", True),
        ({"options": 0b101010}, "timestamps", False),
        ({"options": 1 << 6}, "microsecond_timestamps", True),
        ({"flags": 0b101}, "app_limited", True),
        ({"flags": 0b101}, "fastopen_client_failure", 2),
        ({"ca_state": 3}, "ca_state", "recovery"),
        ({"ca_state": 77}, "ca_state", "unknown"),
        ({"last_data_sent": 1234}, "last_data_sent_s", 1.234),
        ({"total_rto": 3}, "timeouts", 3),
        ({"segs_out": 2**32 - 1}, "segs_out", 2**32 - 1),
        ({}, "received_ce", None),  # not with 248 bytes
    ],
)
def test_values(fields: dict[str, int], column: str, value: object) -> None:
    assert one_row(**fields)[column] == value


def test_memory_and_the_state_of_ccas() -> None:
    assert one_row()["receive_memory_bytes"] is None
    assert [
        one_row(has=1)[name]
        for name in ("receive_memory_bytes", "send_buffer_bytes", "socket_drops")
    ] == [
        100,
        103,
        108,
    ]
    bbr = one_row(has=8, words=(5, 1, 2**32 - 1, 739, 512))
    assert_has(
        bbr,
        bbr_bandwidth_bps=(2**32 + 5) * 8,
        bbr_min_rtt_s=None,
        bbr_pacing_gain=739 / 256,
        bbr_cwnd_gain=2,
        vegas_rtt_s=None,
        dctcp_alpha=None,
    )
    dctcp = one_row(has=4, words=(1 | 1 << 16, 256, 3000, 4000, 0))
    assert [
        dctcp[f"dctcp_{name}"]
        for name in ("enabled", "ce_state", "alpha", "acked_ecn_bytes", "acked_bytes")
    ] == [
        True,
        1,
        0.25,
        3000,
        4000,
    ]
    fallback = one_row(has=4, words=(0, 256, 0, 0, 0))
    assert (fallback["dctcp_enabled"], fallback["dctcp_alpha"]) == (False, None)
    vegas = one_row(has=2, words=(1, 9, 11000, 0x7FFFFFFF, 0))
    assert [vegas[f"vegas_{name}"] for name in ("enabled", "rtts", "rtt_s", "min_rtt_s")] == [
        True,
        9,
        0.011,
        None,
    ]


BBR_STATE = [
    "bbr_phase",
    "bbr_cycle",
    "bbr_bw_lo_bps",
    "bbr_inflight_hi_packets",
    "bbr_inflight_lo_packets",
]


def test_the_state_of_bbr_s_later_versions() -> None:
    """A state belongs to its socket in the previous sample of sockets; rows without a state have
    null.
    """
    assert parse_stream(whole()).sockets.select(BBR_STATE).rows() == [
        ("probe_bw_up", 3, 8e6, 20, 10),
        (None,) * 5,
        (None,) * 5,
    ]
    numbers = range(4)
    data = header() + b"".join(
        socket_identity(number, b"bbr3", port=40000 + number) for number in numbers
    )
    data += sockets([socket_row(number) for number in numbers], at=7)
    data += sample(BBR, [bbr_row(2, 1), bbr_row(0, 0, hi=0)], at=7)
    data += sample(BBR, [bbr_row(3, 6, 0, 1, 2, 2**32 - 1)], at=7)  # of another namespace
    data += sockets([socket_row(number) for number in (3, 1)], at=8)
    data += sample(BBR, [bbr_row(1, 3), bbr_row(1, 4), bbr_row(2, 4)], at=8)  # no row of 2
    data += sockets([socket_row(2)], at=9)
    assert parse_stream(data).sockets.select("socket", *BBR_STATE).rows() == [
        (0, "startup", 0, None, 0, None),
        (1, *(None,) * 5),
        (2, "drain", 0, None, None, None),
        (3, "probe_rtt", 2**32 - 1, 0, 1, 2),
        (3, *(None,) * 5),
        (1, "probe_bw_cruise", 0, None, None, None),
        (2, *(None,) * 5),
    ]


BBR_INFO_COLUMNS = ["bbr_bandwidth_bps", "bbr_min_rtt_s", "bbr_pacing_gain", "bbr_cwnd_gain"]
UNKNOWN_RTT = 2**32 - 1


def test_the_estimates_and_gains_of_bbr_as_a_bpf_program() -> None:
    """They are in records after the sample of sockets, and are used if the kernel has sent no state
    of a CCA.
    """
    data = header() + b"".join(
        socket_identity(number, b"bbr3", port=40000 + number) for number in range(4)
    )
    rows = [
        socket_row(0),
        socket_row(1),
        socket_row(2, has=8, words=(1000, 0, 3000, 256, 512)),
        socket_row(3, has=2),
    ]
    data += sockets(rows, at=7) + sample(BBR, [bbr_row(0), bbr_row(1)], at=7)
    infos = [
        bbr_info_row(1, 5, 1, UNKNOWN_RTT, 739, 512),
        bbr_info_row(0, 125_000, 0, 44_000, 320, 576),
    ]
    data += sample(BBR_INFO, [*infos, bbr_info_row(2, *range(5)), bbr_info_row(3, *range(5))], at=7)
    data += sockets([socket_row(1), socket_row(0)], at=8) + sample(
        BBR_INFO, [bbr_info_row(0, 8, 0, 1, 256, 256)], at=8
    )
    table = parse_stream(data).sockets
    assert table.select("socket", *BBR_INFO_COLUMNS).rows() == [
        (0, 1e6, 0.044, 1.25, 2.25),
        (1, (2**32 + 5) * 8, None, 739 / 256, 2),
        (2, 8000, 0.003, 1, 2),
        (3, *(None,) * 4),
        (1, *(None,) * 4),
        (0, 64, 1e-6, 1, 1),
    ]
    assert table["bbr_phase"].to_list() == ["startup", "startup", *(None,) * 4]


def test_states_of_bbr_that_no_sample_of_sockets_precedes() -> None:
    data = header() + socket_identity(0) + sample(BBR, [bbr_row(0)]) + sockets([socket_row(0)])
    assert parse_stream(data).sockets["bbr_phase"].to_list() == [None]


@pytest.mark.parametrize("phase", [7, 2**32 - 1])
def test_a_phase_of_a_later_version(phase: int) -> None:
    data = (
        header() + socket_identity(0) + sockets([socket_row(0)]) + sample(BBR, [bbr_row(0, phase)])
    )
    assert parse_stream(data).sockets["bbr_phase"].to_list() == ["unknown"]


@pytest.mark.parametrize(("rows", "records"), [(0, 3000), (1000, 600)])
def test_states_without_end_are_no_part_without_end(
    rows: int, records: int, tmp_path: Path
) -> None:
    """A lying host may send only states. Both their number and their size limit a part."""
    file = tmp_path / "stream"
    states = sample(BBR, [bbr_row(0)] * rows, row_bytes=32)
    file.write_bytes(header() + socket_identity(0) + states * records)
    assert len(list(stream_parts(file, most_bytes=1000, most_records=100))) > 2


@pytest.mark.parametrize("most_bytes", [1, 300, 1000])
def test_parts_keep_states_with_their_sockets(most_bytes: int, tmp_path: Path) -> None:
    file = tmp_path / "stream"
    data = header() + socket_identity(0)
    for moment in range(20):
        data += sockets([socket_row(0)], at=moment) + sample(
            BBR, [bbr_row(0, cycle=moment)], at=moment
        )
        data += sample(BBR_INFO, [bbr_info_row(0, moment, 0, 0, 0, 0)], at=moment)
    file.write_bytes(data)
    parts = [part.sockets for part in stream_parts(file, most_bytes)]
    assert len(parts) > 5
    table = pl.concat(parts)
    assert table["bbr_cycle"].to_list() == list(range(20))
    assert table["bbr_bandwidth_bps"].to_list() == [8 * moment for moment in range(20)]


@pytest.mark.parametrize("info", [104, 192, 232, 280, 512])
def test_kernels_of_other_lengths(info: int) -> None:
    row = one_row(info=info, rtt=3000)
    assert row["rtt_s"] == 0.003
    assert (row["bytes_sent"] is None) == (info < 208)
    assert (row["received_ce"] is None) == (info < 252)
    assert row.keys() == one_row().keys()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "offset 0: 0 bytes"),
        (b"\x28\xb5\x2f\xfd" * 20, "offset 0: this is not a stream"),
        (header(magic=b"CCMIXMOO"), "offset 0"),
        (header(order=0x04030201), "offset 8: .* byte order"),
        (header(version=2), "offset 12: the stream has version 2, and this reader knows 1"),
        (header()[:50], "offset 40: the stream ends in its header"),
        (header(b"page_bytes=4096\n"), "ticks_per_s is ''"),
        (header(b"page_bytes=4096\nticks_per_s=0\n"), "ticks_per_s is '0'"),
        (header() + struct.pack("<II", 0, 99), r"offset 128: a record can't be 0 bytes"),
        (header() + struct.pack("<IIQ", 12, 99, 0), "offset 128: a record can't be 12 bytes"),
        (
            header() + struct.pack("<II", 2**31, 99),
            "offset 128: a record can't be 2147483648 bytes",
        ),
        (
            header() + record(SOCKET, bytes(32)),
            "offset 128: an identity of type 1 can't be 40 bytes",
        ),
        (header() + socket_identity(1), "offset 128: an identity has number 1 instead of 0"),
        (header() + record(SOCKETS, bytes(8)), "offset 128: a sample can't be 16 bytes"),
        (
            header() + sample(CPU, [bytes(80)]),
            "offset 128: rows of 80 bytes, 0 of them tcp_info, where 88",
        ),
        (
            header() + sample(QUEUES, [bytes(100)], row_bytes=208),
            "offset 128: 1 rows of 208 bytes do not fill",
        ),
        (
            header() + record(CPU, struct.pack("<QQIIII", 0, 0, 0, 2**32 - 1, 88, 0)),
            "offset 128: 4294967295 rows",
        ),
        (header() + sockets([bytes(80 + 96)], info=96), "tcp_info can't be 96 bytes"),
        (header() + sockets([bytes(80 + 1024)], info=1024), "tcp_info can't be 1024 bytes"),
        (header() + sockets([bytes(88 + INFO)]), "a socket's row can't be 336 bytes"),
        (
            header() + sockets([socket_row(0)]),
            "offset 128: a row of socket 0, which the stream does not introduce",
        ),
        (
            header()
            + socket_identity(0)
            + sockets([socket_row(0)]) * 2
            + sockets([socket_row(0), socket_row(5)]),
            "offset 968: a row of socket 5",
        ),
        (header() + sample(QUEUES, [bytes(208)]), "row of queue 0"),
        (header() + sample(COUNTERS, [bytes(16)]), "row of counter 0"),
        (header() + sample(PROCESSES, [bytes(32)]), "row of process 0"),
        (
            header() + sample(BBR, [bbr_row(0)]),
            "offset 128: a row of socket 0, which the stream does not introduce",
        ),
        (
            header() + sample(BBR_INFO, [bbr_info_row(0, *range(5))]),
            "offset 128: a row of socket 0, which the stream",
        ),
        (header() + sample(LINKS, [struct.pack("<II25Q", 7, 25, *range(25))]), "names no device.7"),
        (
            header(b"ticks_per_s=1\npage_bytes=1\n")
            + socket_identity(0)
            + sockets([socket_row(0)]),
            "names no sockets.0",
        ),
        (
            header() + record(REPORT, b"samples=many\n"),
            "offset 128: the report's samples is 'many'",
        ),
        (header() + record(REPORT, b"samples=" + b"9" * 5000), "offset 128: the report's samples"),
    ],
)
def test_what_the_probe_does_not_write(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_stream(data)


def test_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.sockmon").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"x.sockmon: offset 0"):
        read_stream(tmp_path / "x.sockmon")


@pytest.mark.parametrize("step_bytes", [pytest.param(1, marks=pytest.mark.long), 13])
def test_an_end_anywhere_loses_the_last_record_only(step_bytes: int) -> None:
    data = whole()
    full = parse_stream(data)
    for end in range(len(header()), len(data), step_bytes):
        stream = parse_stream(data[:end])
        assert stream.report is None
        for name in ("sockets", "queues", "links", "counters", "cpu", "processes"):
            rows: pl.DataFrame = getattr(stream, name)
            expected: pl.DataFrame = getattr(full, name).head(rows.height)
            if (
                name == "sockets"
                and rows["bbr_phase"].null_count() > expected["bbr_phase"].null_count()
            ):
                rows, expected = (
                    rows.drop(BBR_STATE),
                    expected.drop(BBR_STATE),
                )  # which the record behind the row has
            assert rows.equals(expected, null_equal=True)
    assert parse_stream(data[: -len(record(REPORT, b"samples=2\nmissed=1\n"))]).sockets.equals(
        full.sockets
    )


def test_samples_of_any_length_keep_their_rows_in_order() -> None:
    """Some samples are longer than the block that the reader takes at once."""
    data, number, expected = header() + socket_identity(0) + socket_identity(1), 0, []
    for moment, count in enumerate([3, 511, 512, 513, 1, 9000, 7, 20_000, 8192]):
        numbers = range(number, number := number + count)
        rows = [socket_row(n % 2, rtt=n % 5, bytes_sent=2**33 + n, segs_out=n) for n in numbers]
        data += sockets(rows, at=moment)
        expected += [(float(moment), n % 2, 2**33 + n, n, n % 5 / 1e6 or None) for n in numbers]
    rows_read = parse_stream(data).sockets.select(
        "monotonic_s", "socket", "bytes_sent", "segs_out", "rtt_s"
    )
    assert rows_read.rows() == expected


def test_few_rows_need_little_memory() -> None:
    data = header() + socket_identity(0) + sockets([socket_row(0)], at=1)
    parse_stream(data)  # loads what is loaded once
    tracemalloc.start()
    try:
        parse_stream(data)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**20


def reads(data: bytes) -> Stream | None:
    """For any bytes, the reader gives tables, or a ValueError that names an offset."""
    try:
        return parse_stream(data)
    except ValueError as error:
        if not str(error).startswith("offset "):
            raise
        return None


WHOLE = whole()
LONG = int(os.environ.get("CCMIX_FUZZ_EXAMPLES", "5000"))


def damages(check: Callable[[bytes], object]) -> Callable[[], None]:
    """Overwrites, removes or inserts bytes of a whole stream, anywhere."""

    @given(
        st.lists(
            st.tuples(
                st.integers(0, len(WHOLE)),
                st.integers(0, 12),
                st.one_of(
                    st.binary(max_size=8),
                    st.sampled_from([b"\xff" * 4, bytes(4), b"\0\0\0\x80", b"\x08\0\0"]),
                ),
            ),
            min_size=1,
            max_size=4,
        )
    )
    @example([(40, 0, b"")])
    def damaged(changes: list[tuple[int, int, bytes]]) -> None:
        data = WHOLE
        for place, taken, put in changes:
            data = data[:place] + put + data[place + taken :]
        check(data)

    return damaged


test_damaged_streams = settings(max_examples=150, deadline=None)(damages(reads))
test_damaged_streams_for_long = pytest.mark.long(
    settings(max_examples=LONG, deadline=None)(damages(reads))
)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_records(body: bytes) -> None:
    reads(body)
    reads(header() + body)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True), max_size=20))
def test_rows_are_given_to_their_sockets(samples: list[list[int]]) -> None:
    data = header() + b"".join(socket_identity(number, port=40000 + number) for number in range(5))
    for moment, numbers in enumerate(samples):
        rows = [socket_row(number, bytes_sent=1000 * moment + number) for number in numbers]
        data += sockets(rows, at=10 + moment)
    rows_read = parse_stream(data).sockets.select("monotonic_s", "local_port", "bytes_sent").rows()
    assert rows_read == [
        (10.0 + moment, 40000 + number, 1000 * moment + number)
        for moment, numbers in enumerate(samples)
        for number in numbers
    ]


def test_how_far_a_stream_has_come_that_is_being_written(tmp_path: Path) -> None:
    file, data = tmp_path / "stream", whole()
    tail = StreamTail(file)
    with pytest.raises(OSError, match="No such file"):
        tail.seconds()
    file.write_bytes(data[:10])
    with pytest.raises(ValueError, match="not a stream"):
        tail.seconds()
    seen = []
    for end in range(len(header()), len(data) + 1, 8):
        file.write_bytes(data[:end])
        seen.append(tail.seconds())
    assert seen == sorted(seen)
    assert sorted(set(seen)) == [0.0, 2.0, 3.0]
    file.write_bytes(
        data.replace(struct.pack("<Q", 5 * SECOND), struct.pack("<Q", 4 * SECOND), 1)[
            : len(header())
        ]
    )
    assert tail.seconds() == 0.0  # of another one
