"""Reads the congestion control algorithms of an entry, in the group grammar of the patched iperf3."""

from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA, GroupGrammarError, parse_groups
from ccmix.terms import CCAS


def _read_groups(text: str) -> tuple[Group, ...]:
    """Reads groups that may have spaces around them, which iperf3 does not take."""
    return tuple(_read_group(part.strip()) for part in text.split(","))


def _read_group(text: str) -> Group:
    try:
        (group,) = parse_groups(text)
    except GroupGrammarError as error:
        raise ValueError(
            f"has {quoted(text)}, which is no CCA[:WEIGHT][@RATE][+DELAY], such as bbr:4@2.4G+10s: {error.reason}"
        ) from None
    if group.cca not in (DEFAULT_CCA, *CCAS):
        raise ValueError(f"has the unknown CCA {quoted(group.cca)}" + nearest(group.cca, CCAS))
    return group


GROUPS = Kind("groups", "rates: K, M, G, T bit/s; delays: ms, s", _read_groups)
