"""Reads TCP sockets from the output of ss(8), for hosts that can't run ccmix-sockmon.

The command is `ss -tinHO`: one line per socket, IPv4 and IPv6, any port.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ccmix.hosts.output_text import output_lines

# -e would add the socket's cookie. Listening sockets carry nothing, so only established ones are
# listed.
COMMAND: Sequence[str] = ("ss", "-t", "-i", "-n", "-H", "-O", "state", "established")


def command_to(addresses: Sequence[str]) -> list[str]:
    """Returns COMMAND for only those sockets whose other end has one of the numeric addresses."""
    ends = [f"dst [{address}]" if ":" in address else f"dst {address}" for address in addresses]
    return [*COMMAND, " or ".join(ends)]


LONGEST_LINE = 10_000  # characters; ss writes 700
# 2**32-1 us, the kernel's value for "none", which ss prints as a time
BBR_NO_MIN_RTT = "4.29497e+06"
_MULTIPLIERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATE = re.compile(r"(?P<number>[\d.]+)(?P<prefix>[KMGT]?)bps")


@dataclass(frozen=True)
class Socket:
    """Holds one sample of one socket.

    ss leaves out fields that are zero, so they are 0 here. A field is None if the kernel has no
    value for it: the state of a CCA that the socket does not use, or the minimum RTT before the
    first sample.

    Fields are those of `struct tcp_info` (include/uapi/linux/tcp.h) in SI units; bbr_* those of
    `struct tcp_bbr_info` (include/uapi/linux/inet_diag.h).
    """

    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    recv_queue_bytes: int
    send_queue_bytes: int
    cca: str
    rto_s: float | None
    rtt_s: float | None
    rttvar_s: float | None
    min_rtt_s: float | None
    mss_bytes: int
    cwnd_packets: int
    ssthresh_packets: int | None
    bytes_sent: int
    bytes_retransmitted: int
    bytes_acked: int
    bytes_received: int
    segs_out: int
    data_segs_out: int
    retransmits: int
    lost: int
    unacked: int
    pacing_rate_bps: float | None
    delivery_rate_bps: float | None
    busy_s: float
    receiver_window_limited_s: float
    send_buffer_limited_s: float
    bbr_bandwidth_bps: float | None
    bbr_min_rtt_s: float | None
    bbr_pacing_gain: float | None
    bbr_cwnd_gain: float | None


def parse(text: str, known_ccas: Sequence[str]) -> list[Socket]:
    """Returns the sockets in the output of COMMAND.

    A CCA is only recognised if it is one of `known_ccas`. Raises ValueError on a line that ss does
    not write.
    """
    return [_parse_socket(line, known_ccas) for line in output_lines(text) if line.strip()]


def _parse_socket(line: str, known_ccas: Sequence[str]) -> Socket:
    """Reads a socket from a line of ss: queues, ends, and words such as 'cwnd:10'.

    Raises ValueError if it is not such a line.
    """
    if len(line) > LONGEST_LINE:
        raise ValueError(f"a line of ss has more than {LONGEST_LINE} characters")
    # The filter "state established" leaves the state column out.
    try:
        recv_queue, send_queue, local, remote, *information = line.split()
        recv_queue_bytes, send_queue_bytes = int(recv_queue), int(send_queue)
        local_address, local_port = _address_and_port(local)
        remote_address, remote_port = _address_and_port(remote)
    except ValueError as error:
        raise ValueError(
            f"'ss -tinHO state established' printed a line that ccmix can't read: {line!r}"
        ) from error
    cca = next((word for word in information if word in known_ccas), "")
    values = dict(
        word.split(":", 1)
        for word in information
        if ":" in word and not word.startswith(cca + ":(")
    )
    bbr = _cca_state(information, cca)
    # "pacing_rate 1.2Gbps" and "send 3.1Gbps" have a blank between name and value
    pairs = dict(itertools.pairwise(information))
    rtt, _, rttvar = values.get("rtt", "").partition("/")
    retransmits = values.get("retrans", "0/0").partition("/")[2]
    return Socket(
        local_address=local_address,
        local_port=local_port,
        remote_address=remote_address,
        remote_port=remote_port,
        recv_queue_bytes=recv_queue_bytes,
        send_queue_bytes=send_queue_bytes,
        cca=cca,
        rto_s=_seconds(values.get("rto")),
        rtt_s=_seconds(rtt),
        rttvar_s=_seconds(rttvar),
        min_rtt_s=_seconds(values.get("minrtt")),
        mss_bytes=int(values.get("mss", 0)),
        cwnd_packets=int(values.get("cwnd", 0)),
        ssthresh_packets=int(values["ssthresh"]) if "ssthresh" in values else None,
        bytes_sent=int(values.get("bytes_sent", 0)),
        bytes_retransmitted=int(values.get("bytes_retrans", 0)),
        bytes_acked=int(values.get("bytes_acked", 0)),
        bytes_received=int(values.get("bytes_received", 0)),
        segs_out=int(values.get("segs_out", 0)),
        data_segs_out=int(values.get("data_segs_out", 0)),
        retransmits=int(retransmits),
        lost=int(values.get("lost", 0)),
        unacked=int(values.get("unacked", 0)),
        pacing_rate_bps=_bits_per_s(pairs.get("pacing_rate")),
        delivery_rate_bps=_bits_per_s(pairs.get("delivery_rate")),
        busy_s=_limited_s(values.get("busy")),
        receiver_window_limited_s=_limited_s(values.get("rwnd_limited")),
        send_buffer_limited_s=_limited_s(values.get("sndbuf_limited")),
        bbr_bandwidth_bps=_bits_per_s(bbr.get("bw")),
        bbr_min_rtt_s=None if bbr.get("mrtt") == BBR_NO_MIN_RTT else _seconds(bbr.get("mrtt")),
        bbr_pacing_gain=float(bbr["pacing_gain"]) if "pacing_gain" in bbr else None,
        bbr_cwnd_gain=float(bbr["cwnd_gain"]) if "cwnd_gain" in bbr else None,
    )


def _cca_state(information: Sequence[str], cca: str) -> dict[str, str]:
    """Returns the state that BBR reports in a line of ss, as {name: text}; {} for other CCAs.

    Its form is 'bbr:(bw:94Mbps,mrtt:10,pacing_gain:1.25,cwnd_gain:2)'.
    """
    if not cca.startswith("bbr"):
        return {}
    opening = f"{cca}:("
    text = next((word[len(opening) : -1] for word in information if word.startswith(opening)), "")
    return dict(item.split(":", 1) for item in text.split(",") if ":" in item)


def _address_and_port(text: str) -> tuple[str, int]:
    """Splits '10.0.0.1:5201', '[fe80::1]%eth0:5201' or '[::ffff:10.0.0.1]:5201'."""
    address, _, port = text.rpartition(":")
    return address.replace("[", "").replace("]", ""), int(port)


def _seconds(text: str | None) -> float | None:
    return float(text) / 1e3 if text else None


def _bits_per_s(text: str | None) -> float | None:
    """Converts '1.2Gbps', '94371840bps' or '8000000bps/8000000bps' to bits per second.

    The prefixes of ss are decimal. The second rate, after the slash, is the socket's
    SO_MAX_PACING_RATE, and is ignored. Returns None if the text has no rate.
    """
    match = _RATE.fullmatch((text or "").partition("/")[0])
    return float(match["number"]) * _MULTIPLIERS[match["prefix"]] if match else None


def _limited_s(text: str | None) -> float:
    """Converts '120ms(3.4%)' or '120ms' to seconds."""
    return float(text.partition("ms")[0]) / 1e3 if text else 0.0
