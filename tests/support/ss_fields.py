"""A line of `ss -tinmoOH` and a row of the probe's table, field by field."""

import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

Row = Mapping[str, Any]

_MULTIPLIERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SKMEM = {
    "r": "receive_memory_bytes",
    "rb": "receive_buffer_bytes",
    "t": "send_memory_bytes",
    "tb": "send_buffer_bytes",
    "f": "forward_memory_bytes",
    "w": "send_queue_memory_bytes",
    "o": "option_memory_bytes",
    "bl": "backlog_memory_bytes",
    "d": "socket_drops",
}
_FLAGS = {
    "ts": "timestamps",
    "usec_ts": "microsecond_timestamps",
    "sack": "sack",
    "ecn": "ecn",
    "ecnseen": "ecn_seen",
    "fastopen": "syn_data",
    "app_limited": "app_limited",
}
_STATES = {"ESTAB": "established"}  # the others differ in their letters' case

_PAIRS = {
    "wscale": ("wscale.send", "wscale.receive"),
    "rtt": ("rtt", "rttvar"),
    "retrans": ("retrans.now", "retrans.all"),
}
_TIMERS = {
    "on": 1.0,
    "keepalive": 2.0,
    "timewait": 3.0,
    "persist": 4.0,
    "unknown": 5.0,
}  # 5 came after ss 6.1


def _times(column: str, factor: float) -> Callable[[Row], float]:
    return lambda row: row[column] * factor


# What ss prints as NAME:VALUE, from the row in ss's unit.
_VALUES: dict[str, Callable[[Row], Any]] = {
    **{f"skmem.{name}": itemgetter(column) for name, column in _SKMEM.items()},
    "rto": _times("rto_s", 1e3),
    "rtt": _times("rtt_s", 1e3),
    "rttvar": _times("rttvar_s", 1e3),
    "ato": _times("ato_s", 1e3),
    "minrtt": _times("min_rtt_s", 1e3),
    "rcv_rtt": _times("receive_rtt_s", 1e3),
    "lastsnd": _times("last_data_sent_s", 1e3),
    "lastrcv": _times("last_data_received_s", 1e3),
    "lastack": _times("last_ack_received_s", 1e3),
    "busy": _times("busy_s", 1e3),
    "rwnd_limited": _times("receiver_window_limited_s", 1e3),
    "sndbuf_limited": _times("send_buffer_limited_s", 1e3),
    "pacing_rate": _times("pacing_rate_bps", 1),
    "max_pacing_rate": _times("max_pacing_rate_bps", 1),
    "delivery_rate": _times("delivery_rate_bps", 1),
    # ss uses Vegas's last RTT for this, if there is one
    "send": lambda row: row["cwnd_packets"] * row["mss_bytes"] * 8 / _vegas_or_own_rtt_s(row),
    "bbr.bw": _times("bbr_bandwidth_bps", 1),
    "bbr.mrtt": _times("bbr_min_rtt_s", 1e3),
    "bbr.pacing_gain": _times("bbr_pacing_gain", 1),
    "bbr.cwnd_gain": _times("bbr_cwnd_gain", 1),
    "dctcp.enabled": _times("dctcp_enabled", 1),
    "dctcp.ce_state": _times("dctcp_ce_state", 1),
    "dctcp.alpha": _times("dctcp_alpha", 1024),
    "dctcp.ab_ecn": _times("dctcp_acked_ecn_bytes", 1),
    "dctcp.ab_tot": _times("dctcp_acked_bytes", 1),
    "wscale.send": _times("send_window_scale", 1),
    "wscale.receive": _times("receive_window_scale", 1),
    "timer": _times("timer", 1),
    "timer_retransmits": _times("timer_retransmits", 1),
    "retrans.now": _times("retransmitted_unacked", 1),
    "retrans.all": _times("retransmits", 1),
    **{
        name: _times(column, 1)
        for name, column in {
            "backoff": "backoff",
            "mss": "mss_bytes",
            "pmtu": "path_mtu_bytes",
            "rcvmss": "receive_mss_bytes",
            "advmss": "advertised_mss_bytes",
            "cwnd": "cwnd_packets",
            "ssthresh": "ssthresh_packets",
            "bytes_sent": "bytes_sent",
            "bytes_retrans": "bytes_retransmitted",
            "bytes_acked": "bytes_acked",
            "bytes_received": "bytes_received",
            "segs_out": "segs_out",
            "segs_in": "segs_in",
            "data_segs_out": "data_segs_out",
            "data_segs_in": "data_segs_in",
            "delivered": "delivered",
            "delivered_ce": "delivered_ce",
            "unacked": "unacked",
            "lost": "lost",
            "sacked": "sacked",
            "dsack_dups": "dsack_duplicates",
            "fackets": "fackets",
            "reordering": "reordering_packets",
            "reord_seen": "reorderings_seen",
            "rcv_space": "receive_space_bytes",
            "rcv_ssthresh": "receive_ssthresh_bytes",
            "notsent": "unsent_bytes",
            "rcv_ooopack": "out_of_order_received",
            "snd_wnd": "send_window_bytes",
            "rcv_wnd": "receive_window_bytes",
            "rehash": "rehashes",
            "retransmits": "timeouts_in_row",
        }.items()
    },
}


def _vegas_or_own_rtt_s(row: Row) -> float:
    return float((row["vegas_enabled"] and row["vegas_rtt_s"]) or row["rtt_s"])


def values_of(line: str) -> dict[str, Any]:
    """Every word of the line, under a name; raises AssertionError for an unknown word."""
    state, recv_queue, send_queue, local, remote, *words = line.split()
    found: dict[str, Any] = {"state": state, "recv": int(recv_queue), "send_queue": int(send_queue)}
    found |= {"local": local, "remote": remote}
    while words:
        word = words.pop(0)
        name, colon, value = word.partition(":")
        if word in _FLAGS:
            found[word] = True
        elif word in ("send", "pacing_rate", "delivery_rate"):
            rate, slash, most = words.pop(0).partition("/")
            found[word] = _rate(rate)
            if slash:
                found["max_pacing_rate"] = _rate(most)
        elif not colon:
            assert "cca" not in found, f"ss says {word!r}, which is not known here: {line}"
            found["cca"] = word
        elif name == "skmem":
            found |= {
                f"skmem.{key}": float(number) for key, number in re.findall(r"([a-z]+)(\d+)", value)
            }
        elif name == "timer":
            kind, _, retransmits = value.strip("()").split(",")
            found["timer"], found["timer_retransmits"] = _TIMERS[kind], float(retransmits)
        elif value == "fallback_mode":
            found["dctcp.enabled"] = 0.0
        elif value.startswith("("):
            pairs = (pair.split(":", 1) for pair in value.strip("()").split(",") if ":" in pair)
            found |= {
                f"{name}.{key}": _rate(text) if key == "bw" else float(text) for key, text in pairs
            }
        elif name in _PAIRS:
            found |= zip(_PAIRS[name], map(float, re.split("[,/]", value)), strict=True)
        else:
            found[name] = float(re.sub(r"(ms)?(\(.*\))?$", "", value))
    return found


def _rate(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)([KMGT]?)bps", text)
    assert match, text
    return float(match[1]) * _MULTIPLIERS[match[2]]


def _address(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return re.sub(r"[\[\]]", "", address), int(port)


def differences(before: str, row: Row, after: str, clock_ms: float = 0.0) -> list[str]:
    """What ss prints and the row has otherwise. Of a value that moved, the row's must lie between
    both lines'.

    `clock_ms` is how much time may have gone by although both lines are the same.
    """
    first, last = values_of(before), values_of(after)
    assert first.keys() == last.keys(), (before, after)
    wrong = []

    def check(name: str, seen: object, expected: object) -> None:
        if seen != expected:
            wrong.append(f"{name}: {seen!r} instead of {expected!r}")

    state = first.pop("state")
    check("state", row["state"], _STATES.get(state, state.lower()))
    check("recv", row["recv_queue_bytes"], first.pop("recv"))
    check("send_queue", row["send_queue_bytes"], first.pop("send_queue"))
    check("local", (row["local_address"], row["local_port"]), _address(first.pop("local")))
    check("remote", (row["remote_address"], row["remote_port"]), _address(first.pop("remote")))
    check("cca", row["cca"], first.pop("cca"))
    for name, column in _FLAGS.items():
        check(name, row[column], first.pop(name, False))
    for name, value in first.items():
        assert name in _VALUES, f"ss says {name}, which is not known here: {before}"
        low, high = sorted((value, last[name]))
        seen = _VALUES[name](row)
        # ss rounds to six digits, and these times down to milliseconds
        slack = 1.0 if name in ("busy", "rwnd_limited", "sndbuf_limited") else 0.0
        slack += (
            clock_ms if name in ("busy", "rwnd_limited", "lastsnd", "lastrcv", "lastack") else 0.0
        )
        if not low * (1 - 1e-5) <= seen <= high * (1 + 1e-5) + slack:
            wrong.append(f"{name}: {seen} instead of {low} to {high}")
    return wrong
