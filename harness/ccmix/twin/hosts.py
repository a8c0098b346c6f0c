"""Estimates a path's MTU, its use of ECN, and limits by the hosts: receive window, send buffer."""

import polars as pl

from ccmix.twin.estimate import ECN, MTU, SEND_BUFFER, WINDOW, Estimate, cannot_be_told
from ccmix.twin.observed import PathRun

NOT_REPORTED = "the sender's sockets were not sampled, or its kernel does not report it"
LIMITED = 0.1  # of the time in which a flow had data to send
TIMESTAMPS_BYTES, HEADERS_BYTES = 12, 40
# error of a window that limits: it is announced before it is used
WINDOW_SHARE = 0.1


def window(observed: PathRun) -> Estimate:
    """Returns the receiver's window in bytes: the largest that it advertised. The window is only a
    lower bound unless it limited the flows.

    It limited the flows of a step if they waited for it in more than 10% of the time in which they
    had data to send, as the kernel counts it (tcp_info's rwnd_limited). `observed` is one run over
    the path.
    """
    share_and_step = _limited_share(observed, "receiver_window_limited_s")
    if share_and_step is None or "send_window_bytes" not in observed.sockets.columns:
        return cannot_be_told(WINDOW, NOT_REPORTED)
    largest = _largest_value(observed.sockets, "send_window_bytes")
    share, step = share_and_step
    if share > LIMITED:
        low, high = largest * (1 - WINDOW_SHARE), largest * (1 + WINDOW_SHARE)
        origin = f"{step}: it limited {share:.0%} of the busy time"
        return Estimate(WINDOW, float(largest), low, high, origin=origin)
    because = "it did not limit the flows"
    return cannot_be_told(
        WINDOW,
        because,
        low=float(largest),
        origin="the largest window that the receiver advertised",
    )


def send_buffer(observed: PathRun) -> Estimate:
    """Returns whether the sender's buffer limited the flows of a run: 'limits' if the flows of a
    step waited for space in it in more than 10% of the time in which they had data to send
    (tcp_info's sndbuf_limited), and otherwise 'does not limit'.
    """
    share_and_step = _limited_share(observed, "send_buffer_limited_s")
    if share_and_step is None:
        return cannot_be_told(SEND_BUFFER, NOT_REPORTED)
    share, step = share_and_step
    word = "limits" if share > LIMITED else "does not limit"
    return Estimate(SEND_BUFFER, word=word, origin=f"{step}: {share:.1%} of the busy time")


def mtu(observed: PathRun) -> Estimate:
    """Returns the path's MTU in bytes as the sender's TCP reports it. If the kernel does not report
    it, the MTU is calculated as MSS + 40 bytes of headers + 12 bytes of timestamps.
    """
    columns = {
        "path_mtu_bytes": (0, "the sockets' path MTU"),
        "mss_bytes": (HEADERS_BYTES + TIMESTAMPS_BYTES, "the sockets' MSS, with timestamps"),
    }
    for column, (more_bytes, origin) in columns.items():
        if size_bytes := _largest_value(observed.sockets, column):
            value = float(size_bytes + more_bytes)
            return Estimate(MTU, value, value, value, origin=origin)
    return cannot_be_told(MTU, "the sender's sockets were not sampled")


def ecn(observed: PathRun) -> Estimate:
    """Returns whether the sender and the receiver negotiated ECN, and whether the path marked any
    packet: 'not negotiated', 'negotiated, no marks' or 'marks'.
    """
    if "ecn" not in observed.sockets.columns or observed.sockets.is_empty():
        return cannot_be_told(ECN, NOT_REPORTED)
    if not observed.sockets["ecn"].any():
        return Estimate(ECN, word="not negotiated", origin="the sockets")
    marked = _largest_value(observed.sockets, "delivered_ce") > 0
    return Estimate(ECN, word="marks" if marked else "negotiated, no marks", origin="the sockets")


def _limited_share(observed: PathRun, column: str) -> tuple[float, str] | None:
    """Returns the step in which something, such as the receiver's window, limited the flows most,
    as a pair: the limited share of their busy time (in which they had data to send), and the step's
    name. Returns None if the kernel did not report it.

    column: the counter of limited seconds in the sockets' samples, such as
        receiver_window_limited_s
    """
    if not {column, "busy_s"} <= set(observed.sockets.columns):
        return None
    shares = []
    for step in observed.tcp_steps:
        grown = observed.counter_growth(step, column, "busy_s")
        if grown.height:
            busy_s = float(grown["busy_s"].sum())
            shares.append((float(grown[column].sum()) / busy_s if busy_s else 0.0, step.name))
    return max(shares, default=None)


def _largest_value(samples: pl.DataFrame, column: str) -> int:
    """Returns the largest number in a column; 0 if there is none, or no such column."""
    largest = samples[column].max() if column in samples.columns else None
    return int(largest) if isinstance(largest, int | float) else 0
