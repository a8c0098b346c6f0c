"""Tells which parameters of Random Early Detection tc and the kernel refuse, so that a plan refuses them, too.

The defaults and the formulas are those of iproute2 6.1 (tc/q_red.c, q_choke.c, q_sfq.c, tc_red.c) and of
red_check_params() in Linux's include/net/red.h.
"""

from collections.abc import Mapping

from ccmix.model import Queue

LIMIT_OF: Mapping[str, str] = {"red": "limit", "choke": "limit", "sfq": "redflowlimit"}
USUAL_PACKET_BYTES = 1000  # of choke, which counts packets, and of sfq
LIKELY_PROBABILITY = 0.02  # of a drop at the largest average
MOST_HALVINGS = 32  # of the weight of a queue's length in its average
MOST_BITS = 32  # of a threshold, and of the weight's exponent together
OF_RED = ("min", "max", "avpkt", "burst", "probability", "ecn", "harddrop")  # words of sfq that are none without RED


def red_refusal(queue: Queue, limit: int | None = None, packet_bytes: int | None = None) -> str | None:
    """Returns why tc or the kernel would refuse a queue's thresholds; None where they take them, or it has none.

    `limit` and `packet_bytes` are those of the path, where the queue itself names none.
    """
    own = _number(queue, LIMIT_OF[queue.kind]) if queue.kind in LIMIT_OF else None
    if queue.kind == "sfq" and own is None:
        word = next((word for word in OF_RED if word in queue.parameters), None)
        return word and f"has {word} without redflowlimit, which switches it on: add redflowlimit with a size"
    limit = own or limit
    if queue.kind not in LIMIT_OF or limit is None:
        return None
    least, most = _thresholds(queue, limit)
    if most > limit and queue.kind == "choke":
        return f"has a max of {most}, more than its limit of {limit}: write a smaller max"
    if least >= most:
        return (
            f"has a min of {least} and a max of {most}, as given or by default: write a smaller min or a larger limit"
        )
    packet = _number(queue, "avpkt") or (packet_bytes if queue.kind == "red" else None) or USUAL_PACKET_BYTES
    return _refused_average(queue, least, most, packet)


def _refused_average(queue: Queue, least: int, most: int, packet_bytes: int) -> str | None:
    """Returns why the average of the queue's length can't be made for these thresholds."""
    in_packets = queue.kind == "choke"
    unit, scale = (1, packet_bytes) if in_packets else (packet_bytes, 1)
    burst = _number(queue, "burst") or (2 * least + most) // (3 * unit)
    halvings = _halvings(least / unit, burst)
    if halvings is None:
        enough = least // unit + 1
        return f"has room for a burst of {burst} packets, and its min takes {enough}: write burst {enough} or more"
    probability = float(queue.parameter("probability") or LIKELY_PROBABILITY)
    if probability / ((most - least) * scale) * 2 ** (MOST_HALVINGS - 1) <= 1:
        return f"has thresholds too far apart, {least} and {most}, for its probability: write a smaller max"
    if most.bit_length() + halvings >= MOST_BITS:
        return f"has a max of {most} and a burst of {burst}, which the kernel can't count: write smaller ones"
    return None


def _number(queue: Queue, name: str) -> int | None:
    text = queue.parameter(name)
    return None if text is None else int(text)


def _thresholds(queue: Queue, limit: int) -> tuple[int, int]:
    """Returns min and max: in bytes, of choke in packets."""
    least, most = _number(queue, "min"), _number(queue, "max")
    if most is None:
        most = 3 * least if least and queue.kind != "choke" else limit // 4
    return (most // 3 if least is None else least), most


def _halvings(least_packets: float, burst: int) -> int | None:
    """Returns how often 1 is halved for the weight of the queue's length in its average, so that a burst passes; None
    where no weight does it.
    """
    room = burst + 1 - least_packets
    if room < 1:
        return None
    weights = ((number, 0.5**number) for number in range(1, MOST_HALVINGS))
    return next((number for number, weight in weights if room <= (1 - (1 - weight) ** burst) / weight), None)
