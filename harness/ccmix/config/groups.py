"""Reads the congestion control algorithms of an entry, in the group grammar of the patched iperf3."""

import re
from collections.abc import Iterable

from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA, GroupGrammarError, parse_groups
from ccmix.terms import BPF_CCAS, CCAS

_NAME = re.compile(r"[a-z0-9_]{1,15}", re.ASCII)  # that lab/build takes for a CCA


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
    check_name(group.cca)
    return group


def check_name(cca: str) -> None:
    """Raises ValueError for a name that no CCA can have: neither a known one, nor one that somebody adds to the lab."""
    if not _NAME.fullmatch(cca):
        check_known([cca])


def check_known(ccas: Iterable[str]) -> None:
    """Raises ValueError for a CCA that is not in Linux, nor one of the BBR versions."""
    for cca in ccas:
        if cca not in (DEFAULT_CCA, *CCAS):
            raise ValueError(f"has the unknown CCA {quoted(cca)}" + nearest(cca, CCAS))


def _read_loaded(text: str) -> tuple[str, ...]:
    """Reads the CCAs that are to be loaded as BPF programs."""
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in BPF_CCAS:
            raise ValueError(f"has {quoted(name)}, which ccmix-cca can't load: write {' or '.join(BPF_CCAS)}, or both")
    if len(set(names)) < len(names):
        raise ValueError("names a CCA twice")
    return tuple(names)


GROUPS = Kind("groups", "rates: K, M, G, T bit/s; delays: ms, s", _read_groups)
LOADED = Kind("list of CCAs", f"of {', '.join(BPF_CCAS)}", _read_loaded)
