"""The sorts of entries, by where their runs go and what makes the traffic."""

from collections.abc import Mapping
from dataclasses import dataclass

from ccmix.config.keys import DECIDED_BY_COMMAND, EVERY_ENTRY, HOST_ENTRY, TOPOLOGY_ENTRY, Key


@dataclass(frozen=True)
class Sort:
    """A sort of entry: the keys that it knows, and in words what makes it so."""

    keys: Mapping[str, Key]
    named: str


ON_TOPOLOGY = Sort({**EVERY_ENTRY, **TOPOLOGY_ENTRY}, "with a topology")
OWN_IPERF3 = Sort({**EVERY_ENTRY, **HOST_ENTRY}, "with dst")
COMMAND = Sort({name: key for name, key in OWN_IPERF3.keys.items() if name not in DECIDED_BY_COMMAND}, "with src-cmd")
