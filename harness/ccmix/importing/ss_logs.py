"""Makes runs from logs of ss(8): a test is the flows to one host that overlap in time.

A log repeats the output of ss, each time after a line with the time (times.TIME_LINE has the forms
of these lines), or has the time before each line, as ts(1) writes it:

    # 1628535057.690097
    State  Recv-Q  Send-Q  Local Address:Port  Peer Address:Port
    ESTAB  0       0       10.0.0.1:44010      10.0.0.2:5201
             cubic wscale:10,10 rto:204 rtt:0.029/0.018 ...

The values of a socket's line and their units are those of ss -ti, as in ccmix.probes.sockets. This
module reads whole columns at once.
"""

import io
import re
import socket
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from ccmix.analysis.counters import FlowCounters, count_flows
from ccmix.analysis.iperf3_tables import FLOW, INTERVAL_COLUMNS
from ccmix.analysis.measured import increase
from ccmix.analysis.series import IPV4_IN_IPV6, NEEDED, SRC, Series, earlier
from ccmix.analysis.tables import (
    LEAST_SHARE_OF_A_FLOW,
    NO_DATA_BYTES,
    RunTables,
    flows_of_sockets,
    intervals_of_sockets,
)
from ccmix.importing import times
from ccmix.importing.times import LEAST_CLOCK_S, MOST_CLOCK_S
from ccmix.importing.values import (
    MOST_COUNT,
    MOST_RATE_BPS,
    MOST_TIME_S,
    ForeignRun,
    LeftOut,
    SourceError,
    opened,
)
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.probes.sockets import BBR_NO_MIN_RTT

CHUNK_BYTES = 2**25
MOST_CHUNK_BYTES = 2**28  # between two lines with the time
BLOCK_BYTES = 2**16  # in which the last line with the time is looked for, from the end
LEAST_LINE_BYTES = 8  # the mean length of lines in a log; shorter ones are mostly empty
# The usual form of a line with the time, which is read for whole columns at once; lines with other
# forms are read one by one
_TIME = r"^(?:# )?([0-9]{9,10}\.[0-9]{1,9})\s*$"
_IS_TIME = re.compile(times.TIME_LINE, re.MULTILINE)
# A line with the time, or a line of a socket that has the time before it: some number before the
# lengths of its queues. States may have a number, too
_TIME_LINE = re.compile(
    times.TIME_LINE.encode()
    + rb"|^(?!(?:tcp[ \t]+)?[A-Z]{3})[ -~]{0,60}?[0-9](?:[ -~]{0,20}?[!-~])?[ \t]+(?:tcp[ \t]+)?"
    rb"(?:[A-Z][A-Z0-9-]{4,}[ \t]+)?[0-9]+[ \t]+[0-9]+[ \t]+[!-~]+:",
    re.MULTILINE,
)
# A port may be the name of a service. polars takes twice as long for the spaces, words and digits
# of all scripts
_PORT = r"([0-9A-Za-z][0-9A-Za-z_.+-]*)"
_SOCKET = (
    r"^(?:([!-~](?:[ -~]*?[!-~])?)[ \t]+)??(?:tcp[ \t]+)?(?:([A-Z][A-Z0-9-]{4,})[ \t]+)?"
    r"([0-9]+)[ \t]+([0-9]+)"
    rf"[ \t]+([!-~]+):{_PORT}[ \t]+([!-~]+):{_PORT}(?:[ \t\r]|$)"
)
_IS_SOCKET = re.compile(_SOCKET, re.MULTILINE)
MOST_PORT = 65535
DAY_S = 86400.0
_NUMBER = r"([0-9.]+)"
_COUNT = r"([0-9]+)"
_RATE = r"([0-9.]+[KMGT]?)bps"
_SUFFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

_COUNTERS = {
    "mss_bytes": " mss:",
    "cwnd_packets": " cwnd:",
    "ssthresh_packets": " ssthresh:",
    "bytes_sent": " bytes_sent:",
    "bytes_retransmitted": " bytes_retrans:",
    "bytes_acked": " bytes_acked:",
    "bytes_received": " bytes_received:",
    "segs_out": " segs_out:",
    "data_segs_out": " data_segs_out:",
    "retransmits": " retrans:[0-9]+/",
    "lost": " lost:",
    "unacked": " unacked:",
}
_TIMES_MS = {
    "rto_s": " rto:",
    "rtt_s": " rtt:",
    "rttvar_s": " rtt:[0-9.]+/",
    "min_rtt_s": " minrtt:",
    "bbr_min_rtt_s": "[(,]mrtt:",
    "busy_s": " busy:",
    "receiver_window_limited_s": " rwnd_limited:",
    "send_buffer_limited_s": " sndbuf_limited:",
}
_RATES = {
    "pacing_rate_bps": " pacing_rate ",
    "delivery_rate_bps": " delivery_rate ",
    "bbr_bandwidth_bps": r"[(,]bw:",
}
_GAINS = {"bbr_pacing_gain": "[(,]pacing_gain:", "bbr_cwnd_gain": "[(,]cwnd_gain:"}
# ss leaves out a counter that is 0. If the companion of a counter (its value here) appears in a
# log, kernel and ss know the counter, too, so a missing counter is 0. Otherwise it is unknown
ZERO_WITH = {
    **{name: name for name in ("bytes_sent", "bytes_acked", "segs_out", "data_segs_out", "busy_s")},
    "bytes_retransmitted": "bytes_sent",
    "bytes_received": "bytes_acked",
    "receiver_window_limited_s": "busy_s",
    "send_buffer_limited_s": "busy_s",
}
ZERO_ALWAYS = ("retransmits", "lost", "unacked")  # every Linux knows them
_SOCKET_KEY = ["local_address", "local_port", "remote_address", "remote_port"]
# Words that are in the place of the CCA if ss does not know it
_FLAGS = ("ts", "usec_ts", "sack", "ecn", "ecnseen", "fastopen")
UNSEEN = "the log of ss doesn't show all of its flows"


def is_log(head: str) -> bool:
    """Returns whether a text begins as a log of ss. Also true if the lines with the time are
    missing or in an unknown form, so that a later message can say this.
    """
    sockets = bool(_IS_SOCKET.search(head))
    return (sockets and "rto:" in head) or bool(
        _IS_TIME.search(head) and (sockets or "Recv-Q" in head)
    )


def read_samples(file: Path, name: str) -> pl.DataFrame | LeftOut:
    """Reads a log of ss as a table with a row for each established socket at each time: time_s
    since 1970, and the columns of probes.sockets.Socket.

    A value that this version of ss never shows is null. But ss also leaves out counters that are 0;
    these are 0 in the table (ZERO_WITH explains how the two cases are told apart). Returns LeftOut
    for a log with sockets but without any time. Raises SourceError and OSError.
    """
    chunks = [_read_chunk(text) for text in _chunks(file, name)]
    table = pl.concat([_read_chunk(b""), *chunks])
    if table.is_empty() and any(b" rto:" in text for text in _chunks(file, name)):
        return LeftOut(
            name,
            "no line before its sockets has a time in a known form, so their duration is unknown: "
            "write such a line before each output of ss, for instance with: date '+# %s.%N'",
        )
    columns_with_values = {
        column for column in table.columns if table[column].null_count() < table.height
    }
    zero_columns = [
        *ZERO_ALWAYS,
        *(column for column, companion in ZERO_WITH.items() if companion in columns_with_values),
    ]
    clock_s = pl.col("time_s")
    is_next_day = (clock_s.diff() < -DAY_S / 2) & (clock_s.max() < DAY_S)  # of a time of the day
    return table.with_columns(
        pl.col(zero_columns).fill_null(0), clock_s + is_next_day.cum_sum().fill_null(0) * DAY_S
    )


def _chunks(file: Path, name: str) -> Iterator[bytes]:
    """Yields the log in parts of about 32 MiB that begin with a line with the time, because large
    logs do not fit into memory at once.
    """
    with opened(file, name) as log:
        rest = b""
        while block := log.read(CHUNK_BYTES):
            if block.count(b"\n") * LEAST_LINE_BYTES > len(block):
                raise SourceError(f"{name}: has too many empty lines for a log of ss: leave it out")
            chunk = rest + block
            cut = _last_time_line(chunk, len(rest))
            if cut:
                yield chunk[:cut]
            elif len(chunk) > MOST_CHUNK_BYTES:
                raise SourceError(
                    f"{name}: has no line with the time for {len(chunk) >> 20} MiB, such as '# "
                    "1628535057.6'"
                )
            rest = chunk[cut:]
    yield rest[: rest.rfind(b"\n") + 1]  # a line that was cut off has too few values


def _last_time_line(chunk: bytes, since: int) -> int:
    """Returns the position of the last line with the time after the position `since`; 0 if there is
    none.
    """
    end = len(chunk)
    while end > since:
        begin = max(since, end - BLOCK_BYTES)
        begins = [
            match.start()
            for match in _TIME_LINE.finditer(chunk, max(begin - times.MOST_LINE_BYTES, 1), end)
        ]
        if begins:
            return begins[-1]
        end = begin
    return 0


def _read_chunk(text: bytes) -> pl.DataFrame:
    """Returns a row for each socket at each time in a part of a log, if it is established or still
    carries data in another state. A value that ss does not show is null.

    A socket has one line, or also a second line with its details.
    """
    lines = pl.read_csv(
        io.BytesIO(text or b"\n"),
        separator="\x01",
        quote_char=None,
        has_header=False,
        schema={"line": pl.String},
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )
    line = pl.col("line")
    lines = lines.with_columns(
        time_s=_times(lines["line"]).forward_fill(),
        is_socket=line.str.contains(_SOCKET),
        has_details=line.str.contains(r"\brto:"),
    )
    next_has_details = (pl.col("has_details") & ~pl.col("is_socket")).shift(-1, fill_value=False)
    sockets = (
        lines.with_columns(info=pl.when(next_has_details).then(line.shift(-1)).otherwise("line"))
        .filter(pl.col("is_socket"), pl.col("has_details") | next_has_details)
        .with_columns(line.str.extract_groups(_SOCKET).alias("fields"))
        .unnest("fields")
    )
    ports = {name: _port(name) for name in pl.concat([sockets["6"], sockets["8"]]).unique()}
    samples = sockets.select(
        state="2",
        time_s=pl.coalesce(_times(sockets["1"].str.strip_chars("[]()|: ")), "time_s"),
        recv_queue_bytes=pl.col("3").cast(pl.Int64, strict=False),
        send_queue_bytes=pl.col("4").cast(pl.Int64, strict=False),
        local_address=_address_column(pl.col("5")),
        local_port=pl.col("6").replace_strict(ports, default=None, return_dtype=pl.Int64),
        remote_address=_address_column(pl.col("7")),
        remote_port=pl.col("8").replace_strict(ports, default=None, return_dtype=pl.Int64),
        cca=_cca_column(),
        **{
            column: _number_column(before + _COUNT, pl.Int64, MOST_COUNT)
            for column, before in _COUNTERS.items()
        },
        **{
            column: _number_column(before + _NUMBER, pl.Float64, MOST_TIME_S) / 1e3
            for column, before in _TIMES_MS.items()
        },
        **{column: _rate_column(before) for column, before in _RATES.items()},
        **{
            column: _number_column(before + _NUMBER, pl.Float64, MOST_COUNT)
            for column, before in _GAINS.items()
        },
    )
    known_min_rtt = pl.col("bbr_min_rtt_s") < float(BBR_NO_MIN_RTT) / 1e3 * (1 - 1e-5)
    carries_data = pl.col("bytes_acked").diff().over(_SOCKET_KEY) > 0
    return (
        samples.filter(
            pl.col("time_s").is_between(0, MOST_CLOCK_S),
            (pl.col("state").fill_null("ESTAB") == "ESTAB") | carries_data,
        )
        .drop("state")
        .with_columns(bbr_min_rtt_s=pl.when(known_min_rtt).then("bbr_min_rtt_s"))
    )


def _port(name: str) -> int:
    """Returns the number of a port. A name that this host does not know gets a number that no port
    has.
    """
    if name.isdecimal() and len(name) <= len(str(MOST_PORT)):
        return int(name)
    try:
        return socket.getservbyname(name, "tcp")
    except OSError:
        return MOST_PORT + 1 + zlib.crc32(name.encode()) % MOST_PORT


def _times(lines: pl.Series) -> pl.Series:
    """Returns the time of each text that is a time; null for all other texts. Other forms than
    '# 1628535057.690097' are read one by one, which is slower.
    """
    line = pl.col("line")
    usual = line.str.extract(_TIME, 1)
    other = pl.when(line.str.len_bytes() <= times.MOST_LINE_BYTES, usual.is_null()).then(
        pl.coalesce(line.str.extract(times.TIME_LINE, group) for group in (1, 2))
    )
    found = lines.to_frame("line").select(usual=usual.cast(pl.Float64, strict=False), text=other)
    texts = found["text"]
    time_by_text = {text: times.time_line_s(text) for text in texts.drop_nulls().unique()}
    others = texts.replace_strict(time_by_text, default=None, return_dtype=pl.Float64)
    return found.select(pl.coalesce("usual", others)).to_series()


def _cca_column() -> pl.Expr:
    """Returns the CCA of each socket: ss writes it before wscale or rto, without a name."""
    word = pl.col("info").str.extract(r"(?:^|[ \t])([a-z][a-z0-9_-]+) (?:wscale:[0-9,]+ )?rto:", 1)
    return pl.when(~word.is_in(_FLAGS)).then(word)


def _address_column(text: pl.Expr) -> pl.Expr:
    """Turns '[::ffff:10.0.0.1]%eth0' into '::ffff:10.0.0.1%eth0'."""
    return text.str.strip_chars_start("[").str.replace("]", "", literal=True)


def _number_column(pattern: str, dtype: type[pl.Int64 | pl.Float64], most: float) -> pl.Expr:
    """Returns a number from each socket's line, the first group of the regular expression
    `pattern`; null if the line does not match or the number is more than `most`.
    """
    value = pl.col("info").str.extract(pattern, 1).cast(dtype, strict=False)
    return pl.when(value <= most).then(value)


def _rate_column(before: str) -> pl.Expr:
    """Returns the rate such as '12.5Mbps' after the text `before` in each socket's line, in bits
    per second.
    """
    text = pl.col("info").str.extract(before + _RATE, 1)
    factor = text.str.slice(-1).replace_strict(_SUFFIXES, default=1.0, return_dtype=pl.Float64)
    rate = text.str.strip_chars_end("KMGT").cast(pl.Float64, strict=False) * factor
    return pl.when(rate <= MOST_RATE_BPS).then(rate)


def read_log(file: Path, name: str) -> Iterator[ForeignRun | LeftOut]:
    """Yields the tests in a log, and the reason if there is none. Raises SourceError and
    OSError.
    """
    yield from tests_in(read_samples(file, name), name)


def tests_in(samples: pl.DataFrame | LeftOut, name: str) -> Iterator[ForeignRun | LeftOut]:
    """Yields a run for each test in the samples of read_samples(), or the reason why there is none.
    `name` is the log's name for messages.
    """
    if isinstance(samples, LeftOut):
        yield samples
        return
    if samples.is_empty():
        yield LeftOut(name, "no socket was there")
        return
    if samples["bytes_acked"].null_count():
        yield LeftOut(name, "this ss shows no bytes_acked: the bytes that arrived are unknown")
        return
    tests = list(_split_tests(samples))
    if not tests:
        yield LeftOut(name, "no socket sent data")
    for number, test in enumerate(tests, 1):
        yield _foreign_run(test, f"{name} #{number}" if len(tests) > 1 else name)


def _split_tests(samples: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yields the samples of the flows of each test, in the order of time. A test is all flows
    between two hosts that overlap in time; flows that carried almost nothing, such as control
    connections, are left out.
    """
    last_samples = _last_life_of_sockets(samples.sort("time_s"))
    flows = (
        last_samples.group_by(_SOCKET_KEY, maintain_order=True)
        .agg(
            acked=increase("bytes_acked"),
            begin_s=pl.col("time_s").first(),
            end_s=pl.col("time_s").last(),
        )
        .filter(
            pl.col("acked") > LEAST_SHARE_OF_A_FLOW * pl.col("acked").max(),
            pl.col("end_s") > pl.col("begin_s"),
        )
    )
    for (_, *_), flows_to_host in flows.sort("begin_s").group_by(
        "local_address", "remote_address", maintain_order=True
    ):
        earlier_ended_s = pl.col("end_s").cum_max().shift(1, fill_value=float("inf"))
        numbered = flows_to_host.with_columns(test=(pl.col("begin_s") > earlier_ended_s).cum_sum())
        for _, test_flows in numbered.group_by("test", maintain_order=True):
            yield last_samples.join(
                test_flows.select(_SOCKET_KEY), on=_SOCKET_KEY, how="semi", maintain_order="left"
            )


def _last_life_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """Drops the samples before a socket's counters restarted, because they belong to an earlier
    socket with the same ports. Keeps only one sample of a socket at each time.
    """
    samples = samples.unique([*_SOCKET_KEY, "time_s"], keep="last", maintain_order=True)
    life = (pl.col("bytes_acked").diff() < 0).fill_null(value=False).cum_sum().over(_SOCKET_KEY)
    return (
        samples.with_columns(life=life)
        .filter(pl.col("life") == pl.col("life").max().over(_SOCKET_KEY))
        .drop("life")
    )


def with_sockets(run: ForeignRun, samples: pl.DataFrame) -> ForeignRun:
    """Adds the samples of ss to a run of iperf3, whose flows have the same ports. If a flow has no
    samples, returns the run with a note that they are missing.
    """
    if (
        not isinstance(run.results, RunTables)
        or samples.is_empty()
        or samples["data_segs_out"].null_count()
    ):
        return replace(run, missing=(*run.missing, UNSEEN))
    results, flows = run.results, run.results.flows
    table = _with_series_columns(_last_life_of_sockets(samples.sort("time_s")))
    table = _with_groups(table, flows)
    sending = table.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    if sending["port"].n_unique() < flows.height:
        return replace(run, missing=(*run.missing, UNSEEN))
    first_sent_s = sending["time_s"].min()
    began_s = first_sent_s if isinstance(first_sent_s, float) else 0.0
    table = earlier({"sockets": table}, began_s)["sockets"]
    return replace(
        run,
        results=replace(
            results,
            series=Series(sockets=table.select(_series_columns(table))),
            counters=_sender_counters(table),
            reported=None,
            recorded=lambda: [{"sockets": table}],
        ),
        began_s=began_s,
        ended_s=began_s + run.omit_s + run.duration_s,
    )


def _with_series_columns(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns the samples with the further columns that the socket table of a measured run has."""
    return samples.with_columns(
        bytes_sent=pl.coalesce("bytes_sent", "bytes_acked"),
        final=pl.lit(value=False),
        state=pl.lit("established"),
        end=pl.lit("sender"),
        host=pl.lit(SRC),
        port="local_port",
    )


def _with_groups(table: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Adds the group of each sample's flow to the samples."""
    return table.join(flows.select(*FLOW, "group"), on=FLOW, maintain_order="left")


def _series_columns(table: pl.DataFrame) -> list[str]:
    """Returns the names of those columns in the table that ccmix's analysis reads."""
    return [column for column in NEEDED["sockets"] if column in table.columns]


def _sender_counters(table: pl.DataFrame) -> FlowCounters:
    """Returns the counters of the sending sockets. They have no goodput, because the run keeps the
    goodput that its source reports.
    """
    return FlowCounters(
        samples=count_flows(table, pl.DataFrame(schema=INTERVAL_COLUMNS), {}).samples
    )


def _foreign_run(samples: pl.DataFrame, source: str) -> ForeignRun:
    """Makes a run of the samples of one test. Its begin is the first sample with sent data."""
    table = _with_series_columns(samples)
    first_sent_s = table.filter(pl.col("bytes_sent") > NO_DATA_BYTES)["time_s"].min()
    began_s = float(first_sent_s if isinstance(first_sent_s, float) else table["time_s"][0])
    whole_time = {
        name: pl.lit(None, pl.Float64) for name in ("begin_s", "end_s")
    }  # rates are over the time of all samples
    flows = flows_of_sockets(table).with_columns(
        pl.col("group").fill_null(DEFAULT_CCA), **whole_time
    )
    table = _with_groups(table, flows)
    table = earlier({"sockets": table}, began_s)["sockets"]
    missing = ["only the sender's sockets were observed"]
    if samples["bytes_sent"].null_count():
        flows = flows.with_columns(
            throughput_bps=pl.lit(None, pl.Float64), bytes_sent=pl.lit(None, pl.Int64)
        )
        missing.append("this ss shows no bytes_sent")
    longest = max(table.partition_by(_SOCKET_KEY), key=len)  # ts may tell sockets' times apart
    interval_s = times.sampling_interval_s(longest["time_s"].sort().diff().drop_nulls().to_list())
    ccas = [cca or DEFAULT_CCA for cca in dict.fromkeys(flows["cca_used"])]
    src, address = (
        str(table[end][0]).partition("%")[0].removeprefix(IPV4_IN_IPV6)
        for end in ("local_address", "remote_address")
    )
    base_rtt = table["min_rtt_s"].min()
    last_s = table["time_s"].max()
    duration_s = float(last_s if isinstance(last_s, float) else 0.0)
    return ForeignRun(
        kind="ss",
        source=source,
        results=RunTables(
            flows=flows,
            intervals=intervals_of_sockets(table),
            series=Series(sockets=table.select(_series_columns(table))),
            began_s=began_s,
            counters=_sender_counters(table),
            recorded=lambda: [{"sockets": table}],
        ),
        groups=tuple(map(Group, ccas)),
        streams=flows.height,
        src=src,
        dst=address,
        dst_address=address,
        duration_s=times.sampled_duration_s(duration_s, interval_s),
        interval_s=interval_s,
        began_s=began_s if began_s >= LEAST_CLOCK_S else None,
        ended_s=began_s + duration_s if began_s >= LEAST_CLOCK_S else None,
        base_rtt_s=base_rtt if isinstance(base_rtt, float) else None,
        missing=tuple(missing),
        estimated=("base_rtt_s",),
    )
