"""Reads what ping prints."""

import math

from ccmix.generators.results import GeneratorError


def rtts_s(output: str, host: str) -> tuple[float, ...]:
    """Returns the round-trip times of the answers, in seconds. Raises GeneratorError if one is no time."""
    return tuple(_rtt_s(word, host) for word in output.split() if word.startswith("time="))


def _rtt_s(word: str, host: str) -> float:
    try:
        rtt_s = float(word.removeprefix("time=")) / 1e3
    except ValueError:
        rtt_s = math.nan
    if not 0 <= rtt_s < math.inf:
        raise GeneratorError(f"ping on {host} printed {word!r:.40}, which is no time: mend that host's ping")
    return rtt_s
