"""Congestion control algorithms as an entry names them: the group grammar of the patched iperf3."""

import re

from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind
from ccmix.model import Group
from ccmix.model.traffic import DEFAULT_CCA
from ccmix.terms import CCAS
from ccmix.units import LEAST_RATE_BPS, MOST_RATE_BPS

# The grammar and its limits (src/iperf_congestion.c of the patched iperf3)
GROUP_RATE_BPS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
MOST_WEIGHT, MOST_GROUP_DELAY_S = 1000, 86400
_GROUP = re.compile(
    r"(?P<cca>-|[A-Za-z0-9_-]{1,15})(?::(?P<weight>\d{1,6}))?"
    r"(?:@(?P<rate>\d{1,15}(?:\.\d{1,9})?)(?P<rate_unit>[KMGTkmgt]?))?"
    r"(?:\+(?P<delay>\d{1,9}(?:\.\d{1,9})?)(?P<delay_unit>ms|s)?)?",
    re.ASCII,
)


def _groups(text: str) -> tuple[Group, ...]:
    """The group grammar of the patched iperf3 (iperf3-patch/README.md)."""
    return tuple(_group(part.strip()) for part in text.split(","))


def _group(text: str) -> Group:
    match = _GROUP.fullmatch(text)
    if not match:
        raise ValueError(f"has {quoted(text)}, which is no CCA[:WEIGHT][@RATE][+DELAY], such as bbr:4@2.4G+10s")
    cca = match["cca"]
    if cca not in (DEFAULT_CCA, *CCAS):
        raise ValueError(f"has the unknown CCA {quoted(cca)}" + nearest(cca, CCAS))
    weight = int(match["weight"] or 1)
    if not 1 <= weight <= MOST_WEIGHT:
        raise ValueError(f"has the weight {weight}: a weight is a whole number from 1 to {MOST_WEIGHT}")
    rate, delay = match["rate"], match["delay"]
    pacing_bps = float(rate) * GROUP_RATE_BPS[(match["rate_unit"] or "").upper()] if rate else None
    if pacing_bps is not None and not LEAST_RATE_BPS <= pacing_bps <= MOST_RATE_BPS:
        raise ValueError(f"has the rate {rate}{match['rate_unit'] or ''}: a rate is from 1K to 1000T")
    delay_s = float(delay or 0) * (1e-3 if match["delay_unit"] == "ms" else 1.0)
    if delay_s > MOST_GROUP_DELAY_S:
        raise ValueError(f"has the delay {delay}: a group starts within a day")
    return Group(cca, weight, pacing_bps, delay_s)


GROUPS = Kind("groups", "rates: K, M, G, T bit/s; delays: ms, s", _groups)
