"""Estimates the limits of the hosts (the receiver's window, the sender's buffer), the MTU, and the
use of ECN.
"""

import polars as pl

from ccmix.twin.estimate import ECN, MTU, SEND_BUFFER, WINDOW, Estimate, cannot_be_told
from ccmix.twin.observed import PathRun

NOT_REPORTED = "the sender's sockets were not sampled, or its kernel does not report it"
LIMITED = 0.1  # of the time in which a flow had data to send
TIMESTAMPS_BYTES, HEADERS_BYTES = 12, 40
# error of a window that limits: it is announced before it is used
WINDOW_SHARE = 0.1


def window(observed: PathRun) -> Estimate:
    """Returns the largest window that the receiver advertised; if it did not limit flows, this is
    only a lower bound.

    The kernel counts how long a flow waits for it (tcp_info's rwnd_limited).
    """
    limited = _limited(observed, "receiver_window_limited_s")
    if limited is None or "send_window_bytes" not in observed.sockets.columns:
        return cannot_be_told(WINDOW, NOT_REPORTED)
    largest = _largest(observed.sockets, "send_window_bytes")
    share, step = limited
    if share > LIMITED:
        low, high = largest * (1 - WINDOW_SHARE), largest * (1 + WINDOW_SHARE)
        origin = f"{step}: it limited {share:.0%} of the busy time"
        return Estimate(WINDOW, float(largest), low, high, origin=origin)
    because = "it did not limit the flows"
    return cannot_be_told(
        WINDOW, because, low=float(largest), origin="the largest that the receiver advertised"
    )


def send_buffer(observed: PathRun) -> Estimate:
    """Returns whether the sender's buffer limited flows."""
    limited = _limited(observed, "send_buffer_limited_s")
    if limited is None:
        return cannot_be_told(SEND_BUFFER, NOT_REPORTED)
    share, step = limited
    word = "limits" if share > LIMITED else "does not limit"
    return Estimate(SEND_BUFFER, word=word, origin=f"{step}: {share:.1%} of the busy time")


def mtu(observed: PathRun) -> Estimate:
    """Returns the path's MTU as TCP at the sender has it."""
    if "path_mtu_bytes" in observed.sockets.columns and observed.sockets.height:
        value = float(_largest(observed.sockets, "path_mtu_bytes"))
        if value:
            return Estimate(MTU, value, value, value, origin="the sockets' path MTU")
    if "mss_bytes" in observed.sockets.columns and observed.sockets.height:
        value = float(_largest(observed.sockets, "mss_bytes") + HEADERS_BYTES + TIMESTAMPS_BYTES)
        return Estimate(MTU, value, value, value, origin="the sockets' MSS, with timestamps")
    return cannot_be_told(MTU, "the sender's sockets were not sampled")


def ecn(observed: PathRun) -> Estimate:
    """Returns whether the ends negotiated ECN, and whether anything was marked."""
    if "ecn" not in observed.sockets.columns or observed.sockets.is_empty():
        return cannot_be_told(ECN, NOT_REPORTED)
    if not observed.sockets["ecn"].any():
        return Estimate(ECN, word="not negotiated", origin="the sockets")
    marked = (
        "delivered_ce" in observed.sockets.columns
        and _largest(observed.sockets, "delivered_ce") > 0
    )
    return Estimate(ECN, word="marks" if marked else "negotiated, no marks", origin="the sockets")


def _limited(observed: PathRun, column: str) -> tuple[float, str] | None:
    """Returns the largest share of the busy time in which flows of a step were limited, and the
    step's name.
    """
    if not {column, "busy_s"} <= set(observed.sockets.columns):
        return None
    shares = []
    for step in observed.tcp_steps:
        grown = observed.grown(step, column, "busy_s")
        if grown.height:
            busy_s = float(grown["busy_s"].sum())
            shares.append((float(grown[column].sum()) / busy_s if busy_s else 0.0, step.name))
    return max(shares, default=None)


def _largest(samples: pl.DataFrame, column: str) -> int:
    most = samples[column].max()
    return int(most) if isinstance(most, int | float) else 0
