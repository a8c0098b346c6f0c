"""Reads logs of ss(8), its output again and again after lines with the time, into a table of samples of sockets.

    # 1628535057.690097
    State  Recv-Q  Send-Q  Local Address:Port  Peer Address:Port
    ESTAB  0       0       10.0.0.1:44010      10.0.0.2:5201
             cubic wscale:10,10 rto:204 rtt:0.029/0.018 ...

time_lines has the forms of the time. What a line of a socket has, and the units, are those of ss -ti as in
ccmix.probes.sockets; here whole columns are read at once.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from ccmix.importing import time_lines
from ccmix.importing.foreign_run import SourceError
from ccmix.importing.numbers import MOST_CLOCK_S, MOST_COUNT, MOST_RATE_BPS, MOST_TIME_S
from ccmix.probes.sockets import BBR_NO_MIN_RTT

CHUNK_BYTES = 2**25
MOST_CHUNK_BYTES = 2**28  # between two lines with the time
BLOCK_BYTES = 2**16  # in which the last line with the time is looked for, from the end
LEAST_LINE_BYTES = 8  # in the mean
_TIME = r"^(?:# )?([0-9]{9,10}\.[0-9]{1,9})\s*$"  # which columns at once are read of; others line by line
_IS_TIME = re.compile(time_lines.LINE, re.MULTILINE)
_TIME_LINE = re.compile(time_lines.LINE.encode(), re.MULTILINE)
_IS_SOCKET = re.compile(r"^(?:ESTAB +)?\d+ +\d+ +\S+:\d+ +\S+:\d+", re.MULTILINE)
_SOCKET = (  # polars takes twice as long for the spaces, words and digits of all scripts
    r"^(?:([A-Z][A-Z0-9-]+)[ \t]+)?([0-9]+)[ \t]+([0-9]+)[ \t]+([!-~]+):([0-9]+)[ \t]+([!-~]+):([0-9]+)(?:[ \t\r]|$)"
)
_NUMBER = r"([0-9.]+)"
_COUNT = r"([0-9]+)"
_RATE = r"([0-9.]+[KMGT]?)bps"
_SUFFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

_COUNTERS = {
    "mss_bytes": " mss:", "cwnd_packets": " cwnd:", "ssthresh_packets": " ssthresh:", "bytes_sent": " bytes_sent:",
    "bytes_retransmitted": " bytes_retrans:", "bytes_acked": " bytes_acked:", "bytes_received": " bytes_received:",
    "segs_out": " segs_out:", "data_segs_out": " data_segs_out:", "retransmits": " retrans:[0-9]+/",
    "lost": " lost:", "unacked": " unacked:",
}  # fmt: skip
_TIMES_MS = {
    "rto_s": " rto:", "rtt_s": " rtt:", "rttvar_s": " rtt:[0-9.]+/", "min_rtt_s": " minrtt:",
    "bbr_min_rtt_s": "[(,]mrtt:",
}  # fmt: skip
_LIMITED_MS = {
    "busy_s": " busy:", "receiver_window_limited_s": " rwnd_limited:", "send_buffer_limited_s": " sndbuf_limited:",
}  # fmt: skip
_RATES = {"pacing_rate_bps": " pacing_rate ", "delivery_rate_bps": " delivery_rate ", "bbr_bandwidth_bps": r"\(bw:"}
_GAINS = {"bbr_pacing_gain": "[(,]pacing_gain:", "bbr_cwnd_gain": "[(,]cwnd_gain:"}
# ss leaves a counter out where it is 0; but a kernel or ss that doesn't know it never shows it, nor its companion here
ZERO_WITH = {
    **{name: name for name in ("bytes_sent", "bytes_acked", "segs_out", "data_segs_out", "busy_s")},
    "bytes_retransmitted": "bytes_sent",
    "bytes_received": "bytes_acked",
    "receiver_window_limited_s": "busy_s",
    "send_buffer_limited_s": "busy_s",
}
ZERO_ALWAYS = ("retransmits", "lost", "unacked")  # which every Linux knows
_FLAGS = ("ts", "sack", "ecn", "ecnseen", "fastopen")  # words that stand where the CCA would, if ss didn't know it


class NoTimesError(SourceError):
    """Says that a log of ss has sockets, and no line with the time before them."""


def is_log(head: str) -> bool:
    """Returns whether a log of ss begins, also one whose lines with the time are missing or of an unknown form."""
    sockets = bool(_IS_SOCKET.search(head))
    return (sockets and " rto:" in head) or bool(_IS_TIME.search(head) and (sockets or "Recv-Q" in head))


def read_samples(file: Path, name: str) -> pl.DataFrame:
    """Returns a row for each established socket at each time: time_s since 1970, and the columns of
    probes.sockets.Socket.

    A column that ss never shows is null. Raises SourceError, NoTimesError if sockets are there without any time, and
    OSError.
    """
    parts = [_samples(text) for text in _chunks(file, name)]
    table = pl.concat([_samples(b""), *parts])
    if table.is_empty() and any(b" rto:" in text for text in _chunks(file, name)):
        raise NoTimesError(
            f"{name}: no line before its sockets has a time that is understood, so nobody knows how long they took: "
            "write one before each output of ss, such as by: date '+# %s.%N'"
        )
    shown = {column for column in table.columns if table[column].null_count() < table.height}
    zeros = [*ZERO_ALWAYS, *(column for column, companion in ZERO_WITH.items() if companion in shown)]
    return table.with_columns(pl.col(zeros).fill_null(0))


def _chunks(file: Path, name: str) -> Iterator[bytes]:
    """Yields the file in parts that begin with a line with the time."""
    with file.open("rb") as opened:
        kept = b""
        while more := opened.read(CHUNK_BYTES):
            if more.count(b"\n") * LEAST_LINE_BYTES > len(more):
                raise SourceError(f"{name}: has far too many empty lines for a log of ss: leave it out")
            chunk = kept + more
            cut = _last_time(chunk, len(kept))
            if cut:
                yield chunk[:cut]
            elif len(chunk) > MOST_CHUNK_BYTES:
                raise SourceError(
                    f"{name}: has no line with the time for {len(chunk) >> 20} MiB, such as '# 1628535057.6'"
                )
            kept = chunk[cut:]
    yield kept[: kept.rfind(b"\n") + 1]  # a line that was cut off says too little


def _last_time(chunk: bytes, since: int) -> int:
    """Returns the begin of the last line with the time if that is after `since`; 0 if there is none."""
    end = len(chunk)
    while end > since:
        begin = max(since, end - BLOCK_BYTES)
        begins = [match.start() for match in _TIME_LINE.finditer(chunk, max(begin - time_lines.MOST_BYTES, 1), end)]
        if begins:
            return begins[-1]
        end = begin
    return 0


def _samples(text: bytes) -> pl.DataFrame:
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
    follows = pl.col("next").str.contains(r"^[ \t]+[!-~]").fill_null(value=False)
    seconds = line.str.extract(_TIME, 1).cast(pl.Float64, strict=False)
    sockets = (
        lines.with_columns(next=line.shift(-1), time_s=pl.coalesce(seconds, _other_times(lines)).forward_fill())
        .filter(pl.col("time_s").is_between(0, MOST_CLOCK_S), line.str.contains(_SOCKET))
        .select("time_s", "line", info=pl.when(follows).then("next").otherwise("line"))
        .filter(pl.col("info").str.contains("rto:", literal=True))
        .filter(
            ~pl.col("line").str.contains(r"^[A-DF-Z]")
        )  # of states, those that carry data: ESTAB, or no state is there
    )
    ends = pl.col("line").str.extract_groups(_SOCKET).struct
    return sockets.select(
        "time_s",
        recv_queue_bytes=ends.field("2").cast(pl.Int64, strict=False),
        send_queue_bytes=ends.field("3").cast(pl.Int64, strict=False),
        local_address=_address(ends.field("4")),
        local_port=ends.field("5").cast(pl.Int64, strict=False),
        remote_address=_address(ends.field("6")),
        remote_port=ends.field("7").cast(pl.Int64, strict=False),
        cca=_cca(),
        **{column: _value(before + _COUNT, pl.Int64, MOST_COUNT) for column, before in _COUNTERS.items()},
        **{column: _value(before + _NUMBER, pl.Float64, MOST_TIME_S) / 1e3 for column, before in _TIMES_MS.items()},
        **{column: _value(before + _NUMBER, pl.Float64, MOST_TIME_S) / 1e3 for column, before in _LIMITED_MS.items()},
        **{column: _rate(before) for column, before in _RATES.items()},
        **{column: _value(before + _NUMBER, pl.Float64, MOST_COUNT) for column, before in _GAINS.items()},
    ).with_columns(
        bbr_min_rtt_s=pl.when(pl.col("bbr_min_rtt_s") < float(BBR_NO_MIN_RTT) / 1e3 * (1 - 1e-5)).then("bbr_min_rtt_s")
    )  # fmt: skip


def _other_times(lines: pl.DataFrame) -> pl.Series:
    """Returns the times of lines that have one in any form, null for others."""
    short = pl.when(pl.col("line").str.len_bytes() <= time_lines.MOST_BYTES, ~pl.col("line").str.contains(_TIME))
    found = short.then(pl.coalesce(pl.col("line").str.extract(time_lines.LINE, group) for group in (1, 2)))
    texts = lines.select(found.alias("text"))["text"]
    known = {text: time_lines.seconds(text) for text in texts.drop_nulls().unique()}
    return texts.replace_strict(known, default=None, return_dtype=pl.Float64)


def _cca() -> pl.Expr:
    """Returns the word before wscale or rto."""
    word = pl.col("info").str.extract(r"(?:^|[ \t])([a-z][a-z0-9_-]+) (?:wscale:[0-9,]+ )?rto:", 1)
    return pl.when(~word.is_in(_FLAGS)).then(word)


def _address(text: pl.Expr) -> pl.Expr:
    """Turns '[::ffff:10.0.0.1]%eth0' into '::ffff:10.0.0.1%eth0'."""
    return text.str.strip_chars_start("[").str.replace("]", "", literal=True)


def _value(pattern: str, kind: type[pl.Int64 | pl.Float64], most: float) -> pl.Expr:
    value = pl.col("info").str.extract(pattern, 1).cast(kind, strict=False)
    return pl.when(value <= most).then(value)


def _rate(before: str) -> pl.Expr:
    text = pl.col("info").str.extract(before + _RATE, 1)
    factor = text.str.slice(-1).replace_strict(_SUFFIXES, default=1.0, return_dtype=pl.Float64)
    rate = text.str.strip_chars_end("KMGT").cast(pl.Float64, strict=False) * factor
    return pl.when(rate <= MOST_RATE_BPS).then(rate)
