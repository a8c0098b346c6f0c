"""Defines the entry types, by where their runs go and what makes the traffic."""

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
class EntryType:
    """Describes an entry type: the keys that it knows, and the phrase that says by what one recognises it."""

    keys: KeyTable
    named: str


ON_TOPOLOGY = EntryType(KeyTable({**EVERY_ENTRY, **TOPOLOGY_ENTRY}), "with a topology")
OWN_IPERF3 = EntryType(KeyTable({**EVERY_ENTRY, **HOST_ENTRY}), "with dst")
COMMAND = EntryType(
    KeyTable({name: key for name, key in OWN_IPERF3.keys.items() if name not in DECIDED_BY_COMMAND}), "with src-cmd"
)
PSCHEDULER = EntryType(
    KeyTable(
        {name: key for name, key in OWN_IPERF3.keys.items() if name not in DONE_BY_PSCHEDULER} | dict(PSCHEDULER_ENTRY)
    ),
    "of type perfSONAR",
)
