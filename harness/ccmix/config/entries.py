"""Reads sections as entries, reads each value as its key requires, and reports the mistakes of
all files together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccmix.config import host_paths, ini
from ccmix.config.conditions import MOST_NAME_BYTES, OF_TEST, Condition, Conditions
from ccmix.config.host_paths import PathDefaults
from ccmix.config.host_values import read_device, read_place
from ccmix.config.hostlist import HostRow, read_hosts
from ccmix.config.keys import (
    ALL_KEYS,
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
    KeyTable,
)
from ccmix.config.problems import ConfigError, Problem, about, nearest, quoted
from ccmix.config.sections import (
    SWEEP_PREFIX,
    Diagnostics,
    Setting,
    Sweep,
    meant_key,
    read_sweeps,
    right_key,
)
from ccmix.model import HostPath, NetemPlace

if TYPE_CHECKING:
    from ccmix.config.profiles import Profile

TOPOLOGY = "topology"
LOADS_NOTHING = (
    "belongs to an entry with dst: remove it. The lab's kernel has bbr2 and bbr3 built in; to load "
    "them for emulated paths on this machine, run: ccmix cca load"
)
RESERVED_NAMES = (
    "campaign.json",
    "report-charts",
    "report.html",
)  # files in OUTDIR, which also has a folder for each entry
Settings = dict[str, Setting | None]  # by key; None: the value can't be read
_BELONGS = (
    (HOST_ENTRY, "with dst"),
    (TOPOLOGY_ENTRY, "with a topology"),
    (PSCHEDULER_ENTRY, "of type perfSONAR, without src-cmd"),
)


@dataclass(frozen=True)
class Overrides:
    """Holds the options of the command line: `hosts` is a CSV file, `nic` the sending device, and
    `netem_at` overrides the key netem-at. None: not given.
    """

    hosts: Path | None = None
    nic: str | None = None
    netem_at: str | None = None


@dataclass(frozen=True)
class Entry:
    """Describes an enabled section that runs."""

    name: str
    iterations: int
    repeat_order: str
    accept_limits: tuple[str, ...]
    conditions: tuple[Condition, ...]
    unknown: tuple[str, ...] = ()  # swept keys whose values cover unknown properties of the path
    index: str | None = None  # URL of an Elasticsearch
    title: str = ""  # of the report


@dataclass(frozen=True)
class Config:
    """Holds the enabled entries of a file, and `notices` about settings without effect."""

    entries: tuple[Entry, ...]
    notices: tuple[Problem, ...]


def load(path: Path, text: str | None = None, overrides: Overrides | None = None) -> Config:
    """Returns the enabled entries of an INI file in its order; `text` is its text, if that was
    read already.

    Raises ConfigError with all mistakes of the file, and of files that it or the command line
    names.
    """
    file = ini.read(path, ini.read_text(path) if text is None else text)
    diagnostics = Diagnostics(file)
    entries = _Reader(file, overrides or Overrides(), diagnostics).entries()
    if diagnostics.problems:
        raise ConfigError(_in_order(diagnostics.problems, path))
    return Config(entries, tuple(_in_order(diagnostics.notices, path)))


def select(entries: Sequence[Entry], only: Sequence[str], config: Path) -> list[Entry]:
    """Returns the entries named by --only, or all entries without it. Raises ConfigError for a name
    that no enabled entry has.
    """
    names = [entry.name for entry in entries]
    if unknown := [name for name in only if name not in names]:
        raise ConfigError(
            Problem(config, f"--only {name}: no enabled entry has this name{nearest(name, names)}")
            for name in unknown
        )
    return [entry for entry in entries if not only or entry.name in only]


def _in_order(problems: Iterable[Problem], path: Path) -> list[Problem]:
    """Returns each problem once: those of the INI file first, by line."""
    return sorted(
        dict.fromkeys(problems),
        key=lambda problem: (problem.file != path, str(problem.file), problem.line or 0),
    )


def _topology_name(section: ini.Section) -> str | None:
    """Returns NAME of a section [topology NAME]; None for an entry."""
    first, *others = section.name.split(maxsplit=1) or [""]
    return "".join(others).strip() if first.lower() == TOPOLOGY else None


# Keys that make [default] an entry, and the keys of the original harness's [default]
OF_ENTRIES = frozenset({"type", "topology", "dst", "src-cmd"})
AGENT_URLS = frozenset({"profile-control-url", "traffic-control-url"})


class _Reader:
    """Reads one file and the files that it names, and collects problems and notices."""

    def __init__(self, file: ini.IniFile, overrides: Overrides, diagnostics: Diagnostics) -> None:
        self._file = file
        self._diagnostics = diagnostics
        self._problem, self._notice = diagnostics.problem, diagnostics.notice
        self._profiles: dict[Path, dict[str, Profile] | None] = {}
        self._hosts_path = overrides.hosts
        self._hosts = self._host_list(overrides.hosts)
        self._conditions = Conditions(diagnostics, self._hosts, overrides.hosts)
        self._nic: str | None = self._option("--nic", overrides.nic, read_device)
        self._netem_at: NetemPlace | None = self._option(
            "--netem-at", overrides.netem_at, read_place
        )
        self._default: Settings = {}
        self._topologies: dict[str, ini.Section] = {}
        self._topology_settings: dict[str, Settings] = {}
        for section in file.sections:
            name = _topology_name(section)
            if name == "":
                self._problem(
                    section,
                    None,
                    "has no name: write [topology NAME], and topology = NAME in entries",
                )
            if name is not None and self._topologies.setdefault(name, section) is not section:
                self._problem(section, None, f"is a second topology {name}: remove or rename it")

    def entries(self) -> tuple[Entry, ...]:
        self._read_default()
        for name, section in self._topologies.items():
            self._topology_settings[name] = self._read_topology(section)
        sections = [section for section in self._file.sections if self._is_entry(section)]
        if not sections:
            self._problem(
                self._file.default, None, "the file has no entry: add a section such as [my-entry]"
            )
        entries = [self._entry(section) for section in sections]
        enabled = tuple(entry for entry in entries if entry)
        real = any(
            isinstance(condition.path, HostPath)
            for entry in enabled
            for condition in entry.conditions
        )
        if self._hosts_path and not real:
            self._diagnostics.notices.append(
                Problem(self._hosts_path, "has no effect: no enabled entry is between real hosts")
            )
        if sections and not enabled and not self._diagnostics.problems:
            self._problem(self._file.default, None, "no entry is enabled: set enabled = on in one")
        return enabled

    def _is_entry(self, section: ini.Section) -> bool:
        """Returns whether a section is an entry: neither a topology nor the original harness's
        [default].
        """
        if _topology_name(section) is not None:
            return False
        if section.name.lower() != ini.DEFAULT.lower() or section.own.keys() & OF_ENTRIES:
            return True
        if section.own.keys() <= AGENT_URLS:
            self._notice(
                section,
                None,
                "has no effect: ccmix needs no agents, it sets profiles on src with tc",
            )
        else:
            self._problem(
                section,
                None,
                "write [DEFAULT] in capitals for defaults, or add type and dst if this is an entry",
            )
        return False

    # Other files and the command line

    def _host_list(self, path: Path | None) -> tuple[HostRow, ...] | None:
        if path is None:
            return None
        try:
            return read_hosts(path)
        except ConfigError as error:
            self._diagnostics.problems += error.problems
            return ()

    def _option(self, name: str, text: str | None, read: Any) -> Any:
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            self._diagnostics.problems.append(
                Problem(self._file.path, f"{name}: {about(text, error)}")
            )
            return None

    def _profiles_of(self, name: str | None) -> Mapping[str, Profile] | None:
        """Returns the profiles of an entry's profile-file, which is read once. Returns None if
        the file has mistakes.
        """
        if name is None:
            return {}
        from ccmix.config.profiles import read_profiles  # noqa: PLC0415  # its library is slow

        path = self._file.path.parent / name
        if path not in self._profiles:
            self._profiles[path] = None
            try:
                self._profiles[path] = read_profiles(path)
            except ConfigError as error:
                self._diagnostics.problems += error.problems
        return self._profiles[path]

    # Sections

    def _read_default(self) -> None:
        default = self._file.default
        for key, text in default.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key not in ALL_KEYS:
                self._problem(
                    default, key, "is an unknown key" + right_key(key, ALL_KEYS, in_topology=False)
                )
            elif text:
                self._default[key] = self._diagnostics.read(default, ALL_KEYS, key, text)
        read_sweeps(self._diagnostics, default, ALL_KEYS, self._default)

    def _read_topology(self, section: ini.Section) -> Settings:
        own: Settings = {}
        for key, text in section.own.items():
            if key not in TOPOLOGY_KEYS:
                of_entry = key in ENTRY_KEYS or key.startswith(SWEEP_PREFIX)
                what = (
                    "belongs to an entry"
                    if of_entry
                    else "is an unknown key" + right_key(key, TOPOLOGY_KEYS, in_topology=False)
                )
                self._problem(section, key, what)
            elif text:
                own[key] = self._diagnostics.read(section, TOPOLOGY_KEYS, key, text)
        return self._with_default(section, own)

    def _with_default(self, section: ini.Section, own: Settings) -> Settings:
        """Returns the settings of a section. They override those of [DEFAULT]; an empty value
        means unset.
        """
        texts = {key: text for key, text in (section.inherited | section.own).items() if text}
        return {
            key: own[key] if key in own else self._default[key]
            for key in texts
            if key in own or (key in self._default and key not in section.own)
        }

    def _entry(self, section: ini.Section) -> Entry | None:
        before = len(self._diagnostics.problems)
        wrong = section.name in RESERVED_NAMES or not section.name.isprintable()
        if wrong or len(section.name.encode()) > MOST_NAME_BYTES:
            taken = (
                "is taken by a file of the results"
                if section.name in RESERVED_NAMES
                else "is too long"
            )
            taken = taken if section.name.isprintable() else "has characters that can't be printed"
            self._problem(
                section,
                None,
                f"an entry's name becomes a folder's name, and this one {taken}: choose another",
            )
        entry_type = self._entry_type(section)
        given = self._with_default(section, self._read_own(section, entry_type))
        known = KeyTable(
            {**entry_type.keys, **(TOPOLOGY_KEYS if entry_type is ON_TOPOLOGY else {})}
        )
        sweeps = read_sweeps(self._diagnostics, section, known, given)
        self._check_once(section, given, sweeps)
        self._check_unknown(section, given, sweeps)
        profiles = self._profiles_of(
            _value(given, "profile-file") if entry_type is not ON_TOPOLOGY else None
        )
        values = self._values(section, entry_type, given, sweeps)
        if values is None or profiles is None or len(self._diagnostics.problems) > before:
            return None
        self._check_type(section, entry_type, values["type"])
        self._check_steps(
            section, given, sweeps, of_path=_measures_path(given) and entry_type is not COMMAND
        )
        if len(self._diagnostics.problems) > before:
            return None
        defaults = PathDefaults(self._nic, self._netem_at, profiles)
        of_path = self._topologies[values["topology"]] if entry_type is ON_TOPOLOGY else None
        conditions = tuple(
            self._conditions.of(section, entry_type, values, sweeps, defaults, of_path)
        )
        if not values["enabled"] or len(self._diagnostics.problems) > before:
            return None
        shuffled = values["repeat-order"] == "shuffled"
        if entry_type is PSCHEDULER and len(conditions) > 1 and shuffled and "repeat" in values:
            self._problem(
                section,
                "repeat",
                "keeps pScheduler's order in all iterations: remove repeat-order = shuffled",
            )
            return None
        self._notice_without_effect(section, entry_type, given, sweeps)
        return Entry(
            name=section.name,
            iterations=values["iterations"],
            repeat_order=values["repeat-order"],
            accept_limits=values["accept-limits"],
            conditions=conditions,
            unknown=values["unknown"],
            index=values.get("index"),
            title=values.get("title") or "",
        )

    def _entry_type(self, section: ini.Section) -> EntryType:
        """Returns the type, which decides what keys the entry may have. The entry overrides
        [DEFAULT], which overrides a list of hosts.
        """
        given = {key: text for key, text in (section.inherited | section.own).items() if text}
        own = [key for key in ("topology", "dst") if section.own.get(key)]
        named = own or [key for key in ("topology", "dst") if given.get(key)]
        if len(named) > 1:
            self._problem(
                section,
                None if not own else "topology",
                "topology and dst are both set, but topology = NAME is an emulated path and "
                "dst = HOST a real one: remove one",
            )
        elif not named and self._hosts is None:
            self._problem(
                section,
                None,
                "has no path: write topology = NAME for an emulated one, or dst = HOST for a real "
                "one, or give a list of hosts with -H",
            )
        if "topology" in named:
            return ON_TOPOLOGY
        if given.get("src-cmd") or f"{SWEEP_PREFIX}src-cmd" in given:
            return COMMAND
        return PSCHEDULER if given.get("type", "").lower() == host_paths.TYPE else OWN_IPERF3

    def _read_own(self, section: ini.Section, entry_type: EntryType) -> Settings:
        own: Settings = {}
        for key, text in section.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key in entry_type.keys or (entry_type is COMMAND and key in DECIDED_BY_COMMAND):
                if text:
                    own[key] = self._diagnostics.read(section, ENTRY_KEYS, key, text)
            elif key in TOPOLOGY_KEYS:
                vary = (
                    f"; to vary it here, write sweep.{key}"
                    if entry_type is ON_TOPOLOGY
                    else ", and this entry has "
                    f"none{meant_key(key, entry_type.keys, in_topology=False)}"
                )
                self._problem(section, key, f"belongs to a [topology NAME] section{vary}")
            elif key == "cca-load" and entry_type is ON_TOPOLOGY:
                if text:
                    self._problem(section, key, LOADS_NOTHING)
            elif key in ENTRY_KEYS:
                other = next(named for table, named in _BELONGS if key in table)
                if text and key not in ("topology", "dst"):
                    self._problem(
                        section,
                        key,
                        f"belongs to an entry {other}, but this is an entry {entry_type.named}",
                    )
            else:
                hint = right_key(key, entry_type.keys, in_topology=entry_type is ON_TOPOLOGY)
                self._problem(section, key, f"is an unknown key{hint}")
        return own

    def _check_type(self, section: ini.Section, entry_type: EntryType, text: str) -> None:
        if entry_type in (COMMAND, PSCHEDULER) or text.lower() in GENERATORS:
            return
        if text.lower() == host_paths.TYPE:
            message = "perfSONAR tests real paths: write dst = HOST instead of topology"
        elif entry_type is ON_TOPOLOGY or len(text.split()) == 1:
            message = f"{quoted(text)} is unknown{nearest(text, GENERATORS)}"
        else:
            message = (
                f"{quoted(text)} is a label, but the entry does not say how to make traffic: "
                "add src-cmd"
            )
        self._problem(section, "type", message)

    def _check_steps(
        self, section: ini.Section, given: Settings, sweeps: Mapping[str, Sweep], *, of_path: bool
    ) -> None:
        """Checks that an entry of type path has the keys that its steps need, and none that the
        steps decide.
        """
        if not of_path:
            if section.own.get("load-cap") or "load-cap" in sweeps:
                self._problem(section, "load-cap", "belongs to an entry of type path: remove it")
            return
        if "load-cap" not in given and "load-cap" not in sweeps:
            meaning, example = ENTRY_KEYS["load-cap"].meaning, ENTRY_KEYS["load-cap"].example
            self._problem(
                section, "load-cap", f"is missing: {meaning}, for instance load-cap = {example}"
            )
        for name in DECIDED_BY_STEPS:
            if section.own.get(name) or name in sweeps:
                key = f"{SWEEP_PREFIX}{name}" if name in sweeps else name
                self._problem(
                    section,
                    key,
                    "has no effect in an entry of type path, whose steps decide it: remove it",
                )

    def _check_once(
        self, section: ini.Section, given: Settings, sweeps: Mapping[str, Sweep]
    ) -> None:
        for key in ("src-cmd", "dst-cmd"):
            if key in sweeps and _value(given, f"{key}-once"):
                self._problem(
                    section,
                    f"{key}-once",
                    f"keeps one {key} for all runs, but sweep.{key} has several: remove one key",
                )

    def _check_unknown(
        self, section: ini.Section, given: Settings, sweeps: Mapping[str, Sweep]
    ) -> None:
        for name in _value(given, "unknown") or ():
            if name in OF_TEST:
                message = f"{quoted(name)} describes the traffic and not the path: remove it"
            elif name in sweeps:
                continue
            elif sweeps:
                message = f"{quoted(name)} is not swept in [{section.name}]{nearest(name, sweeps)}"
            else:
                message = (
                    f"{quoted(name)} is not swept in [{section.name}]: write sweep.{name} = A, B"
                )
            self._problem(section, "unknown", message)

    def _notice_without_effect(
        self,
        section: ini.Section,
        entry_type: EntryType,
        given: Settings,
        sweeps: Mapping[str, Sweep],
    ) -> None:
        """Notes settings of an enabled entry that have no effect."""
        if entry_type is ON_TOPOLOGY:
            return
        for key in HOST_ENTRY.values():
            always = key.name in (
                "ss",
                "instrument",
            )  # which the original harness had on by default
            if key.obsolete and key.name in given and (always or _value(given, key.name)):
                self._notice(section, key.name, f"has no effect any more: {key.obsolete}")
        if entry_type is COMMAND:
            for name in DECIDED_BY_COMMAND:
                if section.own.get(name):
                    self._notice(section, name, "has no effect with src-cmd: the command decides")
        if self._hosts is not None:
            for name in ("dst", "dst-host", "alias"):
                if section.own.get(name):
                    self._notice(
                        section, name, "has no effect with -H: the list names the destinations"
                    )
        recorded = _value(given, "tcpdump") or "tcpdump" in sweeps
        if section.own.get("tcpdump-filt") and not recorded:
            self._notice(section, "tcpdump-filt", "has no effect without tcpdump = on")
        if _value(given, "src-cmd-once") and "duration" not in given:
            self._notice(
                section,
                "src-cmd-once",
                "has no effect without duration (the length of a run): src-cmd runs to its end "
                "in each run",
            )

    # Values

    def _values(
        self,
        section: ini.Section,
        entry_type: EntryType,
        given: Settings,
        sweeps: Mapping[str, Sweep],
    ) -> dict[str, Any] | None:
        """Returns the value of each key of the entry and of its topology: from the section, from
        [DEFAULT], or the key's default.

        Returns None if a value is missing, or can't be read, which was reported already.
        """
        settings = self._filled(section, entry_type.keys, given, sweeps)
        if entry_type is COMMAND:
            decided = [ENTRY_KEYS[name] for name in DECIDED_BY_COMMAND]
            settings |= {key.name: Setting(key.default or "", key.default_value) for key in decided}
            if "duration" not in given:
                settings.pop("duration")  # it follows from the command
        if entry_type is ON_TOPOLOGY:
            name = _value(settings, "topology")
            path = self._topologies.get(name)
            if path is None:
                if name:
                    hint = (
                        nearest(name, self._topologies)
                        if self._topologies
                        else ", which has no topology"
                    )
                    self._problem(
                        section, "topology", f"no section [topology {name}] in this file{hint}"
                    )
                return None
            settings |= self._filled(path, TOPOLOGY_KEYS, self._topology_settings[name], sweeps)
        if _measures_path(given):
            decided = [ENTRY_KEYS[name] for name in DECIDED_BY_STEPS]
            settings |= {key.name: Setting(key.default or "", key.default_value) for key in decided}
        values = {key: setting.value for key, setting in settings.items() if setting}
        return values if len(values) == len(settings) else None

    def _filled(
        self, section: ini.Section, keys: KeyTable, given: Settings, swept: Mapping[str, Sweep]
    ) -> Settings:
        """Returns the settings of these keys, with the defaults of those that are not given."""
        settings: Settings = {}
        of_steps = DEFAULTS_OF_STEPS if _measures_path(given) else {}
        for key in keys.values():
            if key.name in given:
                settings[key.name] = given[key.name]
            elif key.name in of_steps:
                settings[key.name] = Setting(of_steps[key.name], key.read(of_steps[key.name]))
            elif key.default is not None:
                settings[key.name] = Setting(key.default, key.default_value)
            elif (
                key.required
                and key.name not in swept
                and not _has_any((*given, *swept), key.unless)
            ):
                self._problem(
                    section,
                    key.name,
                    f"is missing: {key.meaning}, for instance {key.name} = {key.example}",
                )
        members = {
            name: setting
            for name, setting in given.items()
            if keys.get(name) is None and name in keys
        }
        return settings | members


def _value(settings: Settings, key: str) -> Any:
    """Returns a value; None if the key is not given or can't be read."""
    setting = settings.get(key)
    return setting and setting.value


def _measures_path(given: Settings) -> bool:
    """Returns whether the entry is of type path."""
    return str(_value(given, "type") or "").lower() == PATH_TYPE


def _has_any(given: Iterable[str], names: Iterable[str]) -> bool:
    """Returns whether one of the names is given, or a member of one that is a family such as
    host.NAME.
    """
    families = tuple(name.partition(".")[0] + "." for name in names if "." in name)
    return any(key in names or key.startswith(families) for key in given)
