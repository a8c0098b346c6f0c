"""Reads round-trip times from the output of ping(8)."""

import math
from itertools import islice

from ccmix.generators.results import GeneratorError

MOST_TIMES = 1000  # ccmix sends a few pings


def rtts_s(output: str, host: str) -> tuple[float, ...]:
    """Returns the round-trip times in the output of ping, in seconds; empty if there was no answer.
    Raises GeneratorError, whose message names the host, if a time is not valid, or if there are
    more than 1000 times.
    """
    times = (word for word in output.split() if word.startswith("time="))
    rtts_s = tuple(_rtt_s(word, host) for word in islice(times, MOST_TIMES + 1))
    if len(rtts_s) > MOST_TIMES:
        raise GeneratorError(
            f"ping on {host} printed more than {MOST_TIMES} times: fix the ping of that host"
        )
    return rtts_s


def _rtt_s(word: str, host: str) -> float:
    """Reads a word such as 'time=12.3', in milliseconds, and returns seconds. Raises
    GeneratorError, whose message names the host, if it is not a time.
    """
    try:
        rtt_s = float(word.removeprefix("time=")) / 1e3
    except ValueError:
        rtt_s = math.nan
    if not 0 <= rtt_s < math.inf:
        raise GeneratorError(
            f"ping on {host} printed {word!r:.40}, which is not a time: fix the ping of that host"
        )
    return rtt_s
