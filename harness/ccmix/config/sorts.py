"""The sorts of entries, by where their runs go and what makes the traffic."""

from dataclasses import dataclass

from ccmix.config.keys import (
    DECIDED_BY_COMMAND,
    DONE_BY_PSCHEDULER,
    EVERY_ENTRY,
    HOST_ENTRY,
    PSCHEDULER_ENTRY,
    TOPOLOGY_ENTRY,
    KeyTable,
)


@dataclass(frozen=True)
class Sort:
    """A sort of entry: the keys that it knows, and in words what makes it so."""

    keys: KeyTable
    named: str


ON_TOPOLOGY = Sort(KeyTable({**EVERY_ENTRY, **TOPOLOGY_ENTRY}), "with a topology")
OWN_IPERF3 = Sort(KeyTable({**EVERY_ENTRY, **HOST_ENTRY}), "with dst")
COMMAND = Sort(
    KeyTable({name: key for name, key in OWN_IPERF3.keys.items() if name not in DECIDED_BY_COMMAND}), "with src-cmd"
)
PSCHEDULER = Sort(
    KeyTable(
        {name: key for name, key in OWN_IPERF3.keys.items() if name not in DONE_BY_PSCHEDULER} | dict(PSCHEDULER_ENTRY)
    ),
    "of type perfSONAR",
)
