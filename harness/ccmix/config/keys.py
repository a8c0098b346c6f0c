"""Defines all keys of an INI file with their values, meanings and defaults, from keys.toml."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.config import flows, host_paths, host_values, queues, senders, values
from ccmix.config.values import Kind, choice, whole_number

PATH_TYPE = "path"
GENERATORS = ("iperf3", PATH_TYPE)
KINDS = {  # by the names of the constants, which keys.toml uses
    name: kind
    for module in (flows, host_paths, host_values, queues, senders, values)
    for name, kind in vars(module).items()
    if isinstance(kind, Kind)
}
MEMBERS = {
    "at.TIME": senders.read_moment,
    "flows.NAME": flows.read_name,
    "host.NAME": senders.read_host_names,
    "spec.NAME": host_paths.read_field,
}


@dataclass(frozen=True)
class Key:
    """Describes a key of an INI file. `meaning` and `example` are for people, `kind` reads its
    values.

    A key that is not given has its `default`; if that is None, it is unset, or missing if it is
    `required`. A required key may be left out if one of the keys `unless`, or of their families, is
    given. A family, such as host.NAME, means all keys that begin with the part before the dot;
    `member` reads the rest. `obsolete` says why a key of the original ESnet harness has no effect
    any more.
    """

    name: str
    kind: Kind
    meaning: str
    example: str
    default: str | None = None
    required: bool = False
    sweepable: bool = True
    obsolete: str | None = None
    unless: tuple[str, ...] = ()
    member: Callable[[str], Any] | None = None

    @property
    def read(self) -> Callable[[str], Any]:
        """Reads a value. Raises ValueError with a sentence that says how to correct it."""
        return self.kind.read


@dataclass(frozen=True)
class Member:
    """Holds the value of a key of a family, such as host.h1, and `name`: the part of the key after
    the dot, as the family reads it.
    """

    name: Any
    value: Any


class KeyTable(dict[str, Key]):
    """Maps names to keys. A key of a family, such as host.h1, finds the family host.NAME, but
    iteration lists only the family.
    """

    def __contains__(self, name: object) -> bool:
        """Returns whether there is such a key, or a family to which it belongs."""
        return super().__contains__(name) or (
            isinstance(name, str) and self._family(name) is not None
        )

    def __missing__(self, name: str) -> Key:
        """Returns the family to which a key such as host.h1 belongs."""
        family = self._family(name)
        if family is None:
            raise KeyError(name)
        return family

    def _family(self, name: str) -> Key | None:
        """Returns the family of a key, such as host.NAME for 'host.h1'; None if it belongs
        to none.
        """
        prefix, dot, _ = name.partition(".")
        return next(
            (
                key
                for key in self.values()
                if dot and key.member and key.name.startswith(prefix + dot)
            ),
            None,
        )


def _kind(row: dict[str, Any]) -> Kind:
    """Returns how the values of a key are read, as its row of keys.toml says: with choices, a range
    of whole numbers, or the name of a Kind. Removes these fields from the row.
    """
    if "choices" in row:
        return choice(*row.pop("choices"))
    if "whole" in row:
        least, most = row.pop("whole")
        return whole_number(least, most, row.pop("unit", ""))
    return KINDS[row.pop("kind")]


def _key(name: str, row: dict[str, Any]) -> Key:
    """Makes a key from its row of keys.toml."""
    unless = tuple(row.pop("unless", ()))
    return Key(name, _kind(row), unless=unless, member=MEMBERS.get(name), **row)


ROWS = tomllib.loads(Path(__file__).with_name("keys.toml").read_text(encoding="utf-8"))
TOPOLOGY_KEYS, EVERY_ENTRY, TOPOLOGY_ENTRY, HOST_ENTRY, PSCHEDULER_ENTRY = (
    KeyTable({name: _key(name, row) for name, row in ROWS[section].items()})
    for section in (
        "topology",
        "entry",
        "entry-on-a-topology",
        "entry-between-hosts",
        "entry-of-pscheduler",
    )
)
ENTRY_KEYS = KeyTable({**EVERY_ENTRY, **TOPOLOGY_ENTRY, **HOST_ENTRY, **PSCHEDULER_ENTRY})
ALL_KEYS = KeyTable({**ENTRY_KEYS, **TOPOLOGY_KEYS})

# The original harness's own sweeps, and the keys that they sweep
SWEEPS = {"lat-sweep": "netem-lat", "limit-sweep": "netem-limit"}
# These have no effect with src-cmd, because the command decides them
DECIDED_BY_COMMAND = ("cca", "streams", "omit", "server", "port")
# Entries of type path: keys that the steps decide, and defaults that differ from those of other
# entries
DECIDED_BY_STEPS = ("cca", "streams", "omit", "pacing")
DEFAULTS_OF_STEPS = {"duration": "90s", "interval": "100ms", "rtt-probe": "icmp@97"}
# Keys of entries between real hosts for tasks that pScheduler does itself
DONE_BY_PSCHEDULER = ("server", "port", "src-cmd", "dst-cmd", "src-cmd-once", "dst-cmd-once")


@dataclass(frozen=True)
class EntryType:
    """Describes a type of entries: the keys that such an entry may have, and the phrase that names
    the type in messages.
    """

    keys: KeyTable
    named: str


ON_TOPOLOGY = EntryType(KeyTable({**EVERY_ENTRY, **TOPOLOGY_ENTRY}), "with a topology")
OWN_IPERF3 = EntryType(KeyTable({**EVERY_ENTRY, **HOST_ENTRY}), "with dst")
COMMAND = EntryType(
    KeyTable(
        {name: key for name, key in OWN_IPERF3.keys.items() if name not in DECIDED_BY_COMMAND}
    ),
    "with src-cmd",
)
PSCHEDULER = EntryType(
    KeyTable(
        {name: key for name, key in OWN_IPERF3.keys.items() if name not in DONE_BY_PSCHEDULER}
        | dict(PSCHEDULER_ENTRY)
    ),
    "of type perfSONAR",
)
