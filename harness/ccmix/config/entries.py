"""Reads a section of an INI file as an entry: a measurement to run. Reports all of its mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ccmix.config import host_paths, ini
from ccmix.config.conditions import (
    MOST_NAME_BYTES,
    TEST_KEYS,
    Condition,
    Conditions,
    EntryValues,
)
from ccmix.config.host_paths import PathDefaults
from ccmix.config.keys import (
    COMMAND,
    DECIDED_BY_COMMAND,
    DECIDED_BY_STEPS,
    DEFAULTS_OF_STEPS,
    ENTRY_KEYS,
    GENERATORS,
    HOST_ENTRY,
    ON_TOPOLOGY,
    OWN_IPERF3,
    PATH_TYPE,
    PSCHEDULER,
    PSCHEDULER_ENTRY,
    TOPOLOGY_ENTRY,
    TOPOLOGY_KEYS,
    EntryType,
    Key,
    KeyTable,
)
from ccmix.config.problems import nearest, quoted
from ccmix.config.sections import (
    SWEEP_PREFIX,
    FileValues,
    Setting,
    Settings,
    hint_for_key,
    hint_for_synonym,
    read_sweeps,
    value_of,
)

LOADS_NOTHING = (
    "belongs to an entry with dst: remove it. The lab's kernel has bbr2 and bbr3 built in; to load "
    "them for emulated paths on this machine, run: ccmix cca load"
)
# Files in OUTDIR, which also has a folder for each entry
RESERVED_NAMES = ("campaign.json", "report-charts", "report.html")
_KEY_OWNERS = (
    (HOST_ENTRY, "with dst"),
    (TOPOLOGY_ENTRY, "with a topology"),
    (PSCHEDULER_ENTRY, "of type perfSONAR, without src-cmd"),
)


@dataclass(frozen=True)
class Entry:
    """Describes an enabled section of the INI file: one experiment, which runs each of its
    `conditions` `iterations` times.
    """

    name: str
    iterations: int
    repeat_order: str
    accept_limits: tuple[str, ...]
    conditions: tuple[Condition, ...]
    unknown: tuple[str, ...] = ()  # swept keys whose values cover unknown properties of the path
    index: str | None = None  # URL of an Elasticsearch
    title: str = ""  # of the report


class EntryReader:
    """Reads one section as an entry. Its mistakes are added to the diagnostics of the file."""

    def __init__(self, section: ini.Section, file: FileValues) -> None:
        """Reads the section's own keys and sweeps; read() checks them. `file` has the values that
        all entries of the file share.
        """
        self._section = section
        self._file = file
        self._diagnostics = file.diagnostics
        self._problems_before = len(self._diagnostics.problems)
        self._check_name()
        self._type = self._entry_type()
        self._given = file.with_default(section, self._read_own_keys())
        swept_keys = TOPOLOGY_KEYS if self._type is ON_TOPOLOGY else {}
        self._sweeps = read_sweeps(
            self._diagnostics, section, KeyTable({**self._type.keys, **swept_keys}), self._given
        )

    def read(self) -> Entry | None:
        """Returns the entry, with its sweeps expanded into conditions. Returns None if it is not
        enabled, or has mistakes, which are reported.
        """
        self._check_kept_commands()
        self._check_unknown()
        profiles = self._file.read_profiles(
            None if self._type is ON_TOPOLOGY else self._given_value("profile-file")
        )
        values = self._values()
        if values is None or profiles is None or self._has_problems():
            return None
        self._check_type(values["type"])
        self._check_steps()
        if self._has_problems():
            return None
        entry_values = EntryValues(
            self._section,
            self._type,
            values,
            self._sweeps,
            PathDefaults(self._file.nic, self._file.netem_at, profiles),
        )
        conditions = tuple(Conditions(self._file, entry_values).expand_sweeps())
        if not values["enabled"] or self._has_problems():
            return None
        shuffled = values["repeat-order"] == "shuffled"
        if self._type is PSCHEDULER and len(conditions) > 1 and shuffled and "repeat" in values:
            self._problem(
                "repeat",
                "keeps pScheduler's order in all iterations: remove repeat-order = shuffled",
            )
            return None
        self._notice_without_effect()
        return Entry(
            name=self._section.name,
            iterations=values["iterations"],
            repeat_order=values["repeat-order"],
            accept_limits=values["accept-limits"],
            conditions=conditions,
            unknown=values["unknown"],
            index=values.get("index"),
            title=values.get("title") or "",
        )

    def _problem(self, key: str | None, message: str) -> None:
        """Adds a mistake; with key None, it is about the entry as a whole."""
        self._diagnostics.problem(self._section, key, message)

    def _notice(self, key: str, message: str) -> None:
        """Adds a notice about a key that has no effect."""
        self._diagnostics.notice(self._section, key, message)

    def _has_problems(self) -> bool:
        """Returns whether a mistake was found since the reading of this entry began."""
        return len(self._diagnostics.problems) > self._problems_before

    def _given_value(self, key: str) -> Any:
        """Returns the value of a key that the entry or [DEFAULT] has, otherwise None."""
        return value_of(self._given, key)

    def _is_path_type(self) -> bool:
        """Returns whether the entry has type = path: it measures a path instead of comparing
        CCAs.
        """
        return str(self._given_value("type") or "").lower() == PATH_TYPE

    def _check_name(self) -> None:
        """Reports a name that can't be the name of a folder of results."""
        name = self._section.name
        if not name.isprintable():
            reason = "has characters that can't be printed"
        elif name in RESERVED_NAMES:
            reason = "is taken by a file of the results"
        elif len(name.encode()) > MOST_NAME_BYTES:
            reason = "is too long"
        else:
            return
        self._problem(
            None,
            f"an entry's name becomes a folder's name, and this one {reason}: choose another",
        )

    def _entry_type(self) -> EntryType:
        """Returns the type of the entry, which decides what keys it may have. An entry is on an
        emulated path (it has a topology), or between real hosts (it has a dst): with src-cmd,
        through pScheduler, or with ccmix's own iperf3.

        The entry's own topology or dst overrides that of [DEFAULT], which overrides a list of
        hosts.
        """
        own = self._section.own
        texts = {key: text for key, text in (self._section.inherited | own).items() if text}
        named_here = [key for key in ("topology", "dst") if own.get(key)]
        named = named_here or [key for key in ("topology", "dst") if key in texts]
        if len(named) > 1:
            self._problem(
                "topology" if named_here else None,
                "topology and dst are both set, but topology = NAME is an emulated path and "
                "dst = HOST a real one: remove one",
            )
        elif not named and self._file.hosts is None:
            self._problem(
                None,
                "has no path: write topology = NAME for an emulated one, or dst = HOST for a real "
                "one, or give a list of hosts with -H",
            )
        if "topology" in named:
            return ON_TOPOLOGY
        if "src-cmd" in texts or f"{SWEEP_PREFIX}src-cmd" in texts:
            return COMMAND
        return PSCHEDULER if texts.get("type", "").lower() == host_paths.TYPE else OWN_IPERF3

    def _read_own_keys(self) -> Settings:
        """Returns the settings that the entry's section itself has, without sweeps. Reports keys
        that its type can't have, with a hint at the right key or section.
        """
        settings: Settings = {}
        known = self._type.keys
        for key, text in self._section.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key in known or (self._type is COMMAND and key in DECIDED_BY_COMMAND):
                if text:
                    settings[key] = self._diagnostics.read(self._section, key, text)
            elif key in TOPOLOGY_KEYS:
                hint = (
                    f"; to vary it here, write sweep.{key}"
                    if self._type is ON_TOPOLOGY
                    else ", and this entry has "
                    f"none{hint_for_synonym(key, known, in_topology=False)}"
                )
                self._problem(key, f"belongs to a [topology NAME] section{hint}")
            elif key == "cca-load" and self._type is ON_TOPOLOGY:
                if text:
                    self._problem(key, LOADS_NOTHING)
            elif key in ENTRY_KEYS:
                owner = next(named for table, named in _KEY_OWNERS if key in table)
                if text and key not in ("topology", "dst"):
                    self._problem(
                        key,
                        f"belongs to an entry {owner}, but this is an entry {self._type.named}",
                    )
            else:
                hint = hint_for_key(key, known, in_topology=self._type is ON_TOPOLOGY)
                self._problem(key, f"is an unknown key{hint}")
        return settings

    def _check_type(self, text: str) -> None:
        """Reports a value of the key type that is not one of ccmix's traffic generators. With
        src-cmd any text is allowed, because it is only a label.
        """
        if self._type in (COMMAND, PSCHEDULER) or text.lower() in GENERATORS:
            return
        if text.lower() == host_paths.TYPE:
            message = "perfSONAR tests real paths: write dst = HOST instead of topology"
        elif self._type is ON_TOPOLOGY or len(text.split()) == 1:
            message = f"{quoted(text)} is unknown{nearest(text, GENERATORS)}"
        else:
            message = (
                f"{quoted(text)} is a label, but the entry does not say how to make traffic: "
                "add src-cmd"
            )
        self._problem("type", message)

    def _check_steps(self) -> None:
        """Checks the keys of an entry of type path, which measures a path by a fixed sequence of
        steps: it needs load-cap, and must not have keys that the steps decide. Other entries must
        not have load-cap.
        """
        own, sweeps = self._section.own, self._sweeps
        if not self._is_path_type() or self._type is COMMAND:
            if own.get("load-cap") or "load-cap" in sweeps:
                self._problem("load-cap", "belongs to an entry of type path: remove it")
            return
        if "load-cap" not in self._given and "load-cap" not in sweeps:
            self._report_missing(self._section, ENTRY_KEYS["load-cap"])
        for name in DECIDED_BY_STEPS:
            if own.get(name) or name in sweeps:
                self._problem(
                    f"{SWEEP_PREFIX}{name}" if name in sweeps else name,
                    "has no effect in an entry of type path, whose steps decide it: remove it",
                )

    def _check_kept_commands(self) -> None:
        """Reports a command that is swept although src-cmd-once or dst-cmd-once keeps it running
        for all runs.
        """
        for key in ("src-cmd", "dst-cmd"):
            if key in self._sweeps and self._given_value(f"{key}-once"):
                self._problem(
                    f"{key}-once",
                    f"keeps one {key} for all runs, but sweep.{key} has several: remove one key",
                )

    def _check_unknown(self) -> None:
        """Checks the key unknown, which lists swept keys whose true value on the path the user does
        not know: each must be swept, and describe the path instead of the traffic.
        """
        for name in self._given_value("unknown") or ():
            if name in TEST_KEYS:
                message = f"{quoted(name)} describes the traffic and not the path: remove it"
            elif name in self._sweeps:
                continue
            else:
                hint = (
                    nearest(name, self._sweeps) if self._sweeps else f": write sweep.{name} = A, B"
                )
                message = f"{quoted(name)} is not swept in [{self._section.name}]{hint}"
            self._problem("unknown", message)

    def _notice_without_effect(self) -> None:
        """Adds notices about settings of an entry between real hosts that have no effect."""
        if self._type is ON_TOPOLOGY:
            return
        own = self._section.own
        for key in HOST_ENTRY.values():
            # the original harness had these two on by default
            was_default = key.name in ("ss", "instrument")
            is_set = key.name in self._given and (was_default or self._given_value(key.name))
            if key.obsolete and is_set:
                self._notice(key.name, f"has no effect any more: {key.obsolete}")
        if self._type is COMMAND:
            for name in DECIDED_BY_COMMAND:
                if own.get(name):
                    self._notice(name, "has no effect with src-cmd: the command decides")
        if self._file.hosts is not None:
            for name in ("dst", "dst-host", "alias"):
                if own.get(name):
                    self._notice(name, "has no effect with -H: the list names the destinations")
        records_packets = self._given_value("tcpdump") or "tcpdump" in self._sweeps
        if own.get("tcpdump-filt") and not records_packets:
            self._notice("tcpdump-filt", "has no effect without tcpdump = on")
        if self._given_value("src-cmd-once") and "duration" not in self._given:
            self._notice(
                "src-cmd-once",
                "has no effect without duration (the length of a run): src-cmd runs to its end "
                "in each run",
            )

    def _values(self) -> dict[str, Any] | None:
        """Returns the value of each key of the entry and of its topology: from its section, from
        [DEFAULT], or the key's default. Swept keys may be missing, because each condition has its
        own value.

        Returns None if a needed value is missing or was wrong, which is reported.
        """
        settings = self._with_key_defaults(self._section, self._type.keys, self._given)
        if self._type is COMMAND:
            settings |= _defaults(DECIDED_BY_COMMAND)
            if "duration" not in self._given:
                settings.pop("duration")  # it follows from the command
        if self._type is ON_TOPOLOGY:
            name = value_of(settings, "topology")
            topology = self._file.topologies.get(name)
            if topology is None:
                if name:
                    hint = (
                        nearest(name, self._file.topologies)
                        if self._file.topologies
                        else ", which has no topology"
                    )
                    self._problem("topology", f"no section [topology {name}] in this file{hint}")
                return None
            settings |= self._with_key_defaults(topology.section, TOPOLOGY_KEYS, topology.settings)
        if self._is_path_type():
            settings |= _defaults(DECIDED_BY_STEPS)
        values = {key: setting.value for key, setting in settings.items() if setting}
        return values if len(values) == len(settings) else None

    def _with_key_defaults(self, section: ini.Section, keys: KeyTable, given: Settings) -> Settings:
        """Returns the `given` settings of the keys in `keys`, and the defaults of those that are
        neither given nor swept. Reports required keys that are missing, which belong to `section`.
        For a family in `keys`, such as host.NAME, the result has the given members (host.h1).
        """
        settings: Settings = {}
        step_defaults = DEFAULTS_OF_STEPS if self._is_path_type() else {}
        for key in keys.values():
            default = step_defaults.get(key.name, key.default)
            if key.name in given:
                settings[key.name] = given[key.name]
            elif default is not None:
                settings[key.name] = Setting(default, key.read(default))
            elif (
                key.required
                and key.name not in self._sweeps
                and not _any_given((*given, *self._sweeps), key.unless)
            ):
                self._report_missing(section, key)
        family_members = {
            name: setting
            for name, setting in given.items()
            if keys.get(name) is None and name in keys
        }
        return settings | family_members

    def _report_missing(self, section: ini.Section, key: Key) -> None:
        """Reports that a section lacks a key that it needs."""
        self._diagnostics.problem(
            section,
            key.name,
            f"is missing: {key.meaning}, for instance {key.name} = {key.example}",
        )


def _defaults(names: Sequence[str]) -> Settings:
    """Returns the defaults of these keys of entries, which all have one."""
    return {
        name: Setting(default, ENTRY_KEYS[name].read(default))
        for name in names
        if (default := ENTRY_KEYS[name].default) is not None
    }


def _any_given(given: Iterable[str], names: Iterable[str]) -> bool:
    """Returns whether one of `names` is among the keys that are `given`. The name of a family, such
    as host.NAME, stands for all keys of the family, such as host.h1.
    """
    families = tuple(name.partition(".")[0] + "." for name in names if "." in name)
    return any(key in names or key.startswith(families) for key in given)
