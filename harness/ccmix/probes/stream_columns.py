"""The rows of ccmix-sockmon's stream, and what becomes of their fields: names with SI units, null for no value.

The order is the tables'; what each column means, and where the kernel has it from, stands in probes/sockmon/README.md.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

Numbers = npt.NDArray[Any]

_NO_U32, _NO_U64 = 2**32 - 1, 2**64 - 1
_INFINITE_SSTHRESH = 0x7FFFFFFF
_VEGAS_NO_RTT = 0x7FFFFFFF
_BBR_UNIT = 256  # gains are fixed-point numbers of this many parts
_DCTCP_UNIT = 1024  # and DCTCP's alpha of so many

_HAS_MEMORY, _HAS_VEGAS, _HAS_DCTCP, _HAS_BBR = 1, 2, 4, 8

# struct row_socket without the counters that follow it
SOCKET_BYTES = 80
_SOCKET_FIELDS = {
    "id": (0, "<u4"),
    "row_state": (4, "u1"),
    "row_timer": (5, "u1"),
    "row_timer_retransmits": (6, "u1"),
    "row_has": (7, "u1"),
    "row_timer_expires_ms": (8, "<u4"),
    "row_recv_queue": (12, "<u4"),
    "row_send_queue": (16, "<u4"),
    **{f"row_memory_{number}": (20 + 4 * number, "<u4") for number in range(9)},
    **{f"row_cca_{number}": (56 + 4 * number, "<u4") for number in range(5)},
}

# struct tcp_info (include/uapi/linux/tcp.h). It only ever grows at its end: an old kernel has fewer of these.
_TCP_INFO = (
    "state:B ca_state:B retransmits:B probes:B backoff:B options:B wscale:B flags:B rto:I ato:I snd_mss:I rcv_mss:I "
    "unacked:I sacked:I lost:I retrans:I fackets:I last_data_sent:I last_ack_sent:I last_data_recv:I last_ack_recv:I "
    "pmtu:I rcv_ssthresh:I rtt:I rttvar:I snd_ssthresh:I snd_cwnd:I advmss:I reordering:I rcv_rtt:I rcv_space:I "
    "total_retrans:I pacing_rate:Q max_pacing_rate:Q bytes_acked:Q bytes_received:Q segs_out:I segs_in:I "
    "notsent_bytes:I min_rtt:I data_segs_in:I data_segs_out:I delivery_rate:Q busy_time:Q rwnd_limited:Q "
    "sndbuf_limited:Q delivered:I delivered_ce:I bytes_sent:Q bytes_retrans:Q dsack_dups:I reord_seen:I rcv_ooopack:I "
    "snd_wnd:I rcv_wnd:I rehash:I total_rto:H total_rto_recoveries:H total_rto_time:I received_ce:I "
    "delivered_e1_bytes:I delivered_e0_bytes:I delivered_ce_bytes:I received_e1_bytes:I received_e0_bytes:I "
    "received_ce_bytes:I accecn:I"
)
_DTYPES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8"}


def _tcp_info_fields() -> dict[str, tuple[int, str]]:
    """Offset and type of each; all are naturally aligned, without gaps."""
    fields, offset = {}, 0
    for word in _TCP_INFO.split():
        name, _, code = word.partition(":")
        fields[name] = (offset, _DTYPES[code])
        offset += np.dtype(_DTYPES[code]).itemsize
    return fields


TCP_INFO_FIELDS = _tcp_info_fields()
LEAST_INFO_BYTES = 104  # up to total_retrans, which Linux 2.6 had
MOST_INFO_BYTES = 512


def socket_layout(info_bytes: int) -> np.dtype[Any]:
    """A socket's row, with the fields of tcp_info that the kernel had."""
    fields = dict(_SOCKET_FIELDS)
    for name, (offset, dtype) in TCP_INFO_FIELDS.items():
        if offset + np.dtype(dtype).itemsize <= info_bytes:
            fields[name] = (SOCKET_BYTES + offset, dtype)
    return np.dtype(
        {
            "names": list(fields),
            "offsets": [offset for offset, _ in fields.values()],
            "formats": [dtype for _, dtype in fields.values()],
            "itemsize": SOCKET_BYTES + info_bytes,
        }
    )


class Turned:
    """Rows with each word of 8 bytes in an array of its own, so that a field's values lie side by side.

    Taking a hundred fields out of rows as they come costs a hundred walks through all of the memory.
    """

    def __init__(self, layout: np.dtype[Any], most: int) -> None:
        self._layout = layout
        self._words = np.empty((layout.itemsize // 8, most), "<u8")
        self.count = 0  # rows that are in it

    @property
    def full(self) -> bool:
        return self.count == self._words.shape[1]

    def add(self, rows: bytes) -> None:
        block = np.frombuffer(rows, "<u8").reshape(-1, len(self._words))
        self._words[:, self.count : self.count + len(block)] = block.T
        self.count += len(block)

    def __getitem__(self, field: str) -> Numbers:
        """The values of a field; a view."""
        assert self._layout.fields
        dtype, offset = self._layout.fields[field][:2]
        parts = self._words[offset // 8, : self.count].view(dtype)
        return parts[offset % 8 // dtype.itemsize :: 8 // dtype.itemsize]


@dataclass(frozen=True)
class Column:
    """A field times `times`, or over `per`; null where it is one of `none`, or where row_has lacks the bit `needs`."""

    field: str
    type: Literal["int", "float", "bool"] = "int"
    times: float = 1.0
    per: float = 1.0
    none: tuple[int, ...] = ()
    needs: int = 0
    bits: tuple[int, int] | None = None  # shift and mask

    @property
    def dtype(self) -> Any:
        """Whole numbers stay as wide as the kernel's: half the memory, and half the time to write them."""
        if self.type == "int":
            return np.dtype("u1" if self.bits else (_SOCKET_FIELDS | TCP_INFO_FIELDS)[self.field][1])
        return np.dtype(np.float64 if self.type == "float" else np.bool_)

    @property
    def nullable(self) -> bool:
        return bool(self.none or self.needs)

    def fill(self, rows: Turned, into: Numbers) -> None:
        raw = rows[self.field]
        if self.bits:
            raw = raw >> self.bits[0] & self.bits[1]
        if self.type == "float" and self.per != 1.0:
            np.divide(raw, self.per, out=into)  # and not times 1e-6, which is no exact number
        elif self.type == "float":
            np.multiply(raw, self.times, out=into)
        else:
            into[:] = raw

    def fill_there(self, rows: Turned, into: Numbers) -> None:
        """Where there is a value."""
        into[:] = rows["row_has"] & self.needs if self.needs else True
        for none in self.none:
            into &= rows[self.field] != none


def _seconds(field: str, per_s: float, *none: int) -> Column:
    return Column(field, "float", per=per_s, none=none)


def _rate(field: str, *none: int) -> Column:
    return Column(field, "float", times=8, none=none)


def _bit(field: str, shift: int, mask: int = 1) -> Column:
    return Column(field, "bool" if mask == 1 else "int", bits=(shift, mask))


def _memory(number: int) -> Column:
    return Column(f"row_memory_{number}", needs=_HAS_MEMORY)


STATES = {
    1: "established", 2: "syn-sent", 3: "syn-recv", 4: "fin-wait-1", 5: "fin-wait-2", 6: "time-wait", 7: "close",
    8: "close-wait", 9: "last-ack", 10: "listen", 11: "closing", 12: "new-syn-recv",
}  # fmt: skip
CA_STATES = {0: "open", 1: "disorder", 2: "cwr", 3: "recovery", 4: "loss"}

SOCKET_COLUMNS: dict[str, Column] = {
    "recv_queue_bytes": Column("row_recv_queue"),
    "send_queue_bytes": Column("row_send_queue"),
    "rto_s": _seconds("rto", 1e6, 0),
    "rtt_s": _seconds("rtt", 1e6, 0),
    "rttvar_s": _seconds("rttvar", 1e6, 0),
    "min_rtt_s": _seconds("min_rtt", 1e6, 0, _NO_U32),
    "mss_bytes": Column("snd_mss"),
    "cwnd_packets": Column("snd_cwnd"),
    "ssthresh_packets": Column("snd_ssthresh", none=(_INFINITE_SSTHRESH,)),
    "bytes_sent": Column("bytes_sent"),
    "bytes_retransmitted": Column("bytes_retrans"),
    "bytes_acked": Column("bytes_acked"),
    "bytes_received": Column("bytes_received"),
    "segs_out": Column("segs_out"),
    "data_segs_out": Column("data_segs_out"),
    "retransmits": Column("total_retrans"),
    "lost": Column("lost"),
    "unacked": Column("unacked"),
    "pacing_rate_bps": _rate("pacing_rate", 0, _NO_U64),
    "delivery_rate_bps": _rate("delivery_rate", 0),
    "busy_s": _seconds("busy_time", 1e6),
    "receiver_window_limited_s": _seconds("rwnd_limited", 1e6),
    "send_buffer_limited_s": _seconds("sndbuf_limited", 1e6),
    # what ss's table had not
    "segs_in": Column("segs_in"),
    "data_segs_in": Column("data_segs_in"),
    "timeouts_in_row": Column("retransmits"),
    "probes": Column("probes"),
    "backoff": Column("backoff"),
    "timestamps": _bit("options", 0),
    "sack": _bit("options", 1),
    "window_scaling": _bit("options", 2),
    "ecn": _bit("options", 3),
    "ecn_seen": _bit("options", 4),
    "syn_data": _bit("options", 5),
    "send_window_scale": _bit("wscale", 0, 15),
    "receive_window_scale": _bit("wscale", 4, 15),
    "app_limited": _bit("flags", 0),
    "fastopen_client_failure": _bit("flags", 1, 3),
    "ato_s": _seconds("ato", 1e6),
    "receive_mss_bytes": Column("rcv_mss"),
    "sacked": Column("sacked"),
    "retransmitted_unacked": Column("retrans"),
    "fackets": Column("fackets"),
    "last_data_sent_s": _seconds("last_data_sent", 1e3),
    "last_data_received_s": _seconds("last_data_recv", 1e3),
    "last_ack_received_s": _seconds("last_ack_recv", 1e3),
    "path_mtu_bytes": Column("pmtu"),
    "receive_ssthresh_bytes": Column("rcv_ssthresh"),
    "advertised_mss_bytes": Column("advmss"),
    "reordering_packets": Column("reordering"),
    "receive_rtt_s": _seconds("rcv_rtt", 1e6, 0),
    "receive_space_bytes": Column("rcv_space"),
    "max_pacing_rate_bps": _rate("max_pacing_rate", _NO_U64),
    "unsent_bytes": Column("notsent_bytes"),
    "delivered": Column("delivered"),
    "delivered_ce": Column("delivered_ce"),
    "dsack_duplicates": Column("dsack_dups"),
    "reorderings_seen": Column("reord_seen"),
    "out_of_order_received": Column("rcv_ooopack"),
    "send_window_bytes": Column("snd_wnd"),
    "receive_window_bytes": Column("rcv_wnd"),
    "rehashes": Column("rehash"),
    "timeouts": Column("total_rto"),
    "timeout_recoveries": Column("total_rto_recoveries"),
    "timeout_recovery_s": _seconds("total_rto_time", 1e3),
    "received_ce": Column("received_ce"),
    "delivered_ect1_bytes": Column("delivered_e1_bytes"),
    "delivered_ect0_bytes": Column("delivered_e0_bytes"),
    "delivered_ce_bytes": Column("delivered_ce_bytes"),
    "received_ect1_bytes": Column("received_e1_bytes"),
    "received_ect0_bytes": Column("received_e0_bytes"),
    "received_ce_bytes": Column("received_ce_bytes"),
    "accecn_word": Column("accecn"),
    "timer": Column("row_timer"),
    "timer_s": _seconds("row_timer_expires_ms", 1e3),
    "timer_retransmits": Column("row_timer_retransmits"),
    "receive_memory_bytes": _memory(0),
    "receive_buffer_bytes": _memory(1),
    "send_memory_bytes": _memory(2),
    "send_buffer_bytes": _memory(3),
    "forward_memory_bytes": _memory(4),
    "send_queue_memory_bytes": _memory(5),
    "option_memory_bytes": _memory(6),
    "backlog_memory_bytes": _memory(7),
    "socket_drops": _memory(8),
}


_WORDS = [f"row_cca_{number}" for number in range(5)]

# What is taken as it is: identities, names, and what several columns are made of.
RAW_FIELDS = ("id", "row_state", "ca_state", "row_has", *_WORDS)


def cca_columns() -> dict[str, pl.Expr]:
    """The CCAs' own state, of which a row has at most one kind, from row_has and row_cca_0 to row_cca_4."""
    has, words = pl.col("row_has"), [pl.col(word) for word in _WORDS]
    bbr, dctcp, vegas = ((has & bit) != 0 for bit in (_HAS_BBR, _HAS_DCTCP, _HAS_VEGAS))
    bandwidth = words[0].cast(pl.Float64) + words[1].cast(pl.Float64) * 2.0**32
    running = dctcp & (words[0] % 2**16 != 0)  # else it fell back to Reno, and has no state
    return {
        "bbr_bandwidth_bps": pl.when(bbr).then(bandwidth * 8),
        "bbr_min_rtt_s": pl.when(bbr, words[2] != _NO_U32).then(words[2] / 1e6),
        "bbr_pacing_gain": pl.when(bbr).then(words[3] / _BBR_UNIT),
        "bbr_cwnd_gain": pl.when(bbr).then(words[4] / _BBR_UNIT),
        "dctcp_enabled": pl.when(dctcp).then(words[0] % 2**16 != 0),
        "dctcp_ce_state": pl.when(running).then((words[0] // 2**16).cast(pl.Int64)),
        "dctcp_alpha": pl.when(running).then(words[1] / _DCTCP_UNIT),
        "dctcp_acked_ecn_bytes": pl.when(running).then(words[2].cast(pl.Int64)),
        "dctcp_acked_bytes": pl.when(running).then(words[3].cast(pl.Int64)),
        "vegas_enabled": pl.when(vegas).then(words[0] != 0),
        "vegas_rtts": pl.when(vegas).then(words[1].cast(pl.Int64)),
        "vegas_rtt_s": pl.when(vegas, words[2] != _VEGAS_NO_RTT).then(words[2] / 1e6),
        "vegas_min_rtt_s": pl.when(vegas, words[3] != _VEGAS_NO_RTT).then(words[3] / 1e6),
    }


QUEUE_COUNTERS = ("bytes", "packets", "drops", "overlimits", "requeues", "backlog_bytes", "backlog_packets")
QUEUE = np.dtype(
    [
        ("id", "<u4"),
        ("xstats_bytes", "<u4"),
        ("bytes", "<u8"),
        ("packets", "<u8"),
        ("backlog_packets", "<u4"),
        ("backlog_bytes", "<u4"),
        ("drops", "<u4"),
        ("requeues", "<u4"),
        ("overlimits", "<u4"),
        ("reserved", "<u4"),
        ("xstats", "u1", 160),
    ]
)

# Where a kind of qdisc counts what only it counts (include/uapi/linux/pkt_sched.h).
XSTATS_COLUMNS = ("ecn_marks", "ce_threshold_marks", "early_drops", "overlimit_drops", "flow_limit_drops")
XSTATS = {
    "fq_codel": {"ecn_marks": (12, "<u4"), "ce_threshold_marks": (28, "<u4"), "overlimit_drops": (8, "<u4")},
    "codel": {"ecn_marks": (24, "<u4"), "ce_threshold_marks": (32, "<u4"), "overlimit_drops": (20, "<u4")},
    "red": {"ecn_marks": (12, "<u4"), "early_drops": (0, "<u4"), "overlimit_drops": (4, "<u4")},
    "pie": {"ecn_marks": (36, "<u4"), "early_drops": (24, "<u4"), "overlimit_drops": (28, "<u4")},
    "fq": {"ce_threshold_marks": (80, "<u8"), "flow_limit_drops": (32, "<u8")},
}

# struct rtnl_link_stats64
LINK_COUNTERS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "multicast", "collisions", "rx_length_errors", "rx_over_errors", "rx_crc_errors", "rx_frame_errors",
    "rx_fifo_errors", "rx_missed_errors", "tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors",
    "tx_heartbeat_errors", "tx_window_errors", "rx_compressed", "tx_compressed", "rx_nohandler", "rx_otherhost_dropped",
)  # fmt: skip
LINK = np.dtype([("device", "<u4"), ("known", "<u4"), ("counters", "<u8", len(LINK_COUNTERS))])

COUNTER = np.dtype([("id", "<u4"), ("reserved", "<u4"), ("value", "<u8")])

CPU_TIMES = (
    "user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s", "guest_s", "guest_nice_s",
)  # fmt: skip
CPU = np.dtype([("core", "<u4"), ("frequency_khz", "<u4"), ("ticks", "<u8", len(CPU_TIMES))])

PROCESS = np.dtype(
    [("id", "<u4"), ("threads", "<u4"), ("user_ticks", "<u8"), ("system_ticks", "<u8"), ("memory_pages", "<u8")]
)
