"""Reads the sections of an INI file as entries (measurements to run), and reports all mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccmix.config import host_paths, ini
from ccmix.config.conditions import MOST_NAME_BYTES, TEST_KEYS, Condition, Conditions
from ccmix.config.host_paths import PathDefaults
from ccmix.config.host_values import read_device, read_netem_place
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
    hint_for_key,
    hint_for_synonym,
    read_sweeps,
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
_KEY_OWNERS = (
    (HOST_ENTRY, "with dst"),
    (TOPOLOGY_ENTRY, "with a topology"),
    (PSCHEDULER_ENTRY, "of type perfSONAR, without src-cmd"),
)


@dataclass(frozen=True)
class Overrides:
    """Holds command line options that override keys of every entry; None: not given.

    `hosts` is a CSV file of destinations, `nic` the sending network device, and `netem_at`
    overrides the key netem-at: where netem acts, as HOST:DATA_DEVICE,ACK_DEVICE.
    """

    hosts: Path | None = None
    nic: str | None = None
    netem_at: str | None = None


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


@dataclass(frozen=True)
class Config:
    """Holds the enabled entries of a file, and `notices` about settings without effect."""

    entries: tuple[Entry, ...]
    notices: tuple[Problem, ...]


def load(path: Path, text: str | None = None, overrides: Overrides | None = None) -> Config:
    """Reads an INI file and returns its enabled entries, in the order of the file. `text` is the
    file's content, if the caller has read it already.

    Raises ConfigError with all mistakes at once: those of the file, of the files that it names, and
    of the options in `overrides`.
    """
    file = ini.read(path, ini.read_text(path) if text is None else text)
    diagnostics = Diagnostics(file)
    entries = _Reader(file, overrides or Overrides(), diagnostics).entries()
    if diagnostics.problems:
        raise ConfigError(_sorted_by_line(diagnostics.problems, path))
    return Config(entries, tuple(_sorted_by_line(diagnostics.notices, path)))


def select(entries: Sequence[Entry], only: Sequence[str], config: Path) -> list[Entry]:
    """Returns the entries that the option --only names; all entries if `only` is empty. Raises
    ConfigError for a name that no enabled entry has; `config` is the INI file for this message.
    """
    names = [entry.name for entry in entries]
    if unknown := [name for name in only if name not in names]:
        raise ConfigError(
            Problem(config, f"--only {name}: no enabled entry has this name{nearest(name, names)}")
            for name in unknown
        )
    return [entry for entry in entries if not only or entry.name in only]


def _sorted_by_line(problems: Iterable[Problem], path: Path) -> list[Problem]:
    """Returns each problem once: first the problems of the INI file `path`, sorted by line, then
    the problems of other files.
    """
    return sorted(
        dict.fromkeys(problems),
        key=lambda problem: (problem.file != path, str(problem.file), problem.line or 0),
    )


def _topology_name(section: ini.Section) -> str | None:
    """Returns the NAME of a section [topology NAME] (empty if it is missing); None for other
    sections.
    """
    first, *others = section.name.split(maxsplit=1) or [""]
    return "".join(others).strip() if first.lower() == TOPOLOGY else None


# Keys that make [default] an entry, and the keys of the original harness's [default]
ENTRY_MARKS = frozenset({"type", "topology", "dst", "src-cmd"})
AGENT_URLS = frozenset({"profile-control-url", "traffic-control-url"})


class _Reader:
    """Reads one INI file and the files that it names. Goes on after a mistake, so that all problems
    and notices are collected in `diagnostics`.
    """

    def __init__(self, file: ini.IniFile, overrides: Overrides, diagnostics: Diagnostics) -> None:
        """Reads the options in `overrides` and the list of hosts, and finds the topologies of the
        file. entries() reads the sections.
        """
        self._file = file
        self._diagnostics = diagnostics
        self._problem, self._notice = diagnostics.problem, diagnostics.notice
        self._profiles: dict[Path, dict[str, Profile] | None] = {}  # by file; None: has mistakes
        self._hosts_path = overrides.hosts
        self._hosts = self._read_host_list(overrides.hosts)
        self._conditions = Conditions(diagnostics, self._hosts, overrides.hosts)
        self._nic: str | None = self._read_option("--nic", overrides.nic, read_device)
        self._netem_at: NetemPlace | None = self._read_option(
            "--netem-at", overrides.netem_at, read_netem_place
        )
        self._default: Settings = {}  # of [DEFAULT]
        self._topologies: dict[str, ini.Section] = {}  # sections [topology NAME], by NAME
        self._topology_settings: dict[str, Settings] = {}  # by NAME, too
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
        """Reads all sections, and returns the enabled entries. Those with a mistake are left out,
        and their problems are in the diagnostics.
        """
        self._read_default()
        for name, section in self._topologies.items():
            self._topology_settings[name] = self._read_topology(section)
        sections = [section for section in self._file.sections if self._is_entry(section)]
        if not sections:
            self._problem(
                self._file.default, None, "the file has no entry: add a section such as [my-entry]"
            )
        entries = [self._read_entry(section) for section in sections]
        enabled = tuple(entry for entry in entries if entry)
        has_host_paths = any(
            isinstance(condition.path, HostPath)
            for entry in enabled
            for condition in entry.conditions
        )
        if self._hosts_path and not has_host_paths:
            self._diagnostics.notices.append(
                Problem(self._hosts_path, "has no effect: no enabled entry is between real hosts")
            )
        if sections and not enabled and not self._diagnostics.problems:
            self._problem(self._file.default, None, "no entry is enabled: set enabled = on in one")
        return enabled

    def _is_entry(self, section: ini.Section) -> bool:
        """Returns whether a section is an entry. A topology is none, and neither is a [default] as
        in files of the original ESnet harness, about which a notice or a problem is reported.
        """
        if _topology_name(section) is not None:
            return False
        if section.name.lower() != ini.DEFAULT.lower() or section.own.keys() & ENTRY_MARKS:
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

    def _read_host_list(self, path: Path | None) -> tuple[HostRow, ...] | None:
        """Returns the destinations from the file that the option -H names (`path`); None if the
        option is not given. Adds the file's mistakes to the problems.
        """
        if path is None:
            return None
        try:
            return read_hosts(path)
        except ConfigError as error:
            self._diagnostics.problems += error.problems
            return ()

    def _read_option(self, name: str, text: str | None, read: Any) -> Any:
        """Returns the value of a command line option, None if it is not given. Adds a problem if
        `read`, which turns its text into the value, raises ValueError.
        """
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            self._diagnostics.problems.append(
                Problem(self._file.path, f"{name}: {about(text, error)}")
            )
            return None

    def _read_profiles(self, name: str | None) -> Mapping[str, Profile] | None:
        """Returns the netem profiles, by name, in the file that the entry's key profile-file names
        (`name`); {} if the entry does not have this key. Returns None if the file has mistakes,
        which are reported only for the first entry that names the file.
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
        """Reads the section [DEFAULT], whose keys apply to all entries and topologies that know
        them.
        """
        default = self._file.default
        for key, text in default.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key not in ALL_KEYS:
                self._problem(
                    default,
                    key,
                    "is an unknown key" + hint_for_key(key, ALL_KEYS, in_topology=False),
                )
            elif text:
                self._default[key] = self._diagnostics.read(default, ALL_KEYS, key, text)
        read_sweeps(self._diagnostics, default, ALL_KEYS, self._default)

    def _read_topology(self, section: ini.Section) -> Settings:
        """Returns the settings of a section [topology NAME], including those from [DEFAULT].
        Reports keys that a topology can't have.
        """
        settings: Settings = {}
        for key, text in section.own.items():
            if key not in TOPOLOGY_KEYS:
                is_entry_key = key in ENTRY_KEYS or key.startswith(SWEEP_PREFIX)
                message = (
                    "belongs to an entry"
                    if is_entry_key
                    else "is an unknown key" + hint_for_key(key, TOPOLOGY_KEYS, in_topology=False)
                )
                self._problem(section, key, message)
            elif text:
                settings[key] = self._diagnostics.read(section, TOPOLOGY_KEYS, key, text)
        return self._with_default_section(section, settings)

    def _with_default_section(self, section: ini.Section, read_here: Settings) -> Settings:
        """Returns the settings read from a section (`read_here`), and those of [DEFAULT] for keys
        that the section does not have. An empty value in the section unsets the key.
        """
        texts = {key: text for key, text in (section.inherited | section.own).items() if text}
        return {
            key: read_here[key] if key in read_here else self._default[key]
            for key in texts
            if key in read_here or (key in self._default and key not in section.own)
        }

    def _read_entry(self, section: ini.Section) -> Entry | None:
        """Reads a section as an entry and expands its sweeps. Returns None if it is not enabled, or
        has mistakes, which are reported.
        """
        problems_before = len(self._diagnostics.problems)
        has_bad_name = section.name in RESERVED_NAMES or not section.name.isprintable()
        if has_bad_name or len(section.name.encode()) > MOST_NAME_BYTES:
            reason = (
                "is taken by a file of the results"
                if section.name in RESERVED_NAMES
                else "is too long"
            )
            reason = (
                reason if section.name.isprintable() else "has characters that can't be printed"
            )
            self._problem(
                section,
                None,
                f"an entry's name becomes a folder's name, and this one {reason}: choose another",
            )
        entry_type = self._entry_type(section)
        settings = self._with_default_section(section, self._read_entry_keys(section, entry_type))
        sweepable_keys = KeyTable(
            {**entry_type.keys, **(TOPOLOGY_KEYS if entry_type is ON_TOPOLOGY else {})}
        )
        sweeps = read_sweeps(self._diagnostics, section, sweepable_keys, settings)
        self._check_kept_commands(section, settings, sweeps)
        self._check_unknown(section, settings, sweeps)
        profiles = self._read_profiles(
            _value_of(settings, "profile-file") if entry_type is not ON_TOPOLOGY else None
        )
        values = self._entry_values(section, entry_type, settings, sweeps)
        if values is None or profiles is None or len(self._diagnostics.problems) > problems_before:
            return None
        self._check_type(section, entry_type, values["type"])
        self._check_steps(
            section,
            settings,
            sweeps,
            is_path_type=_is_path_type(settings) and entry_type is not COMMAND,
        )
        if len(self._diagnostics.problems) > problems_before:
            return None
        defaults = PathDefaults(self._nic, self._netem_at, profiles)
        topology_section = (
            self._topologies[values["topology"]] if entry_type is ON_TOPOLOGY else None
        )
        conditions = tuple(
            self._conditions.expand_sweeps(
                section, entry_type, values, sweeps, defaults, topology_section
            )
        )
        if not values["enabled"] or len(self._diagnostics.problems) > problems_before:
            return None
        shuffled = values["repeat-order"] == "shuffled"
        if entry_type is PSCHEDULER and len(conditions) > 1 and shuffled and "repeat" in values:
            self._problem(
                section,
                "repeat",
                "keeps pScheduler's order in all iterations: remove repeat-order = shuffled",
            )
            return None
        self._notice_without_effect(section, entry_type, settings, sweeps)
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
        """Returns the type of an entry, which decides what keys it may have. An entry is on an
        emulated path (it has a topology), or between real hosts (it has a dst): with src-cmd,
        through pScheduler, or with ccmix's own iperf3.

        The entry's own topology or dst overrides that of [DEFAULT], which overrides a list of
        hosts.
        """
        texts = {key: text for key, text in (section.inherited | section.own).items() if text}
        named_here = [key for key in ("topology", "dst") if section.own.get(key)]
        named = named_here or [key for key in ("topology", "dst") if texts.get(key)]
        if len(named) > 1:
            self._problem(
                section,
                None if not named_here else "topology",
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
        if texts.get("src-cmd") or f"{SWEEP_PREFIX}src-cmd" in texts:
            return COMMAND
        return PSCHEDULER if texts.get("type", "").lower() == host_paths.TYPE else OWN_IPERF3

    def _read_entry_keys(self, section: ini.Section, entry_type: EntryType) -> Settings:
        """Returns the settings that the entry's section itself has, without sweeps. Reports keys
        that its type can't have, with a hint at the right key or section.
        """
        settings: Settings = {}
        for key, text in section.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key in entry_type.keys or (entry_type is COMMAND and key in DECIDED_BY_COMMAND):
                if text:
                    settings[key] = self._diagnostics.read(section, ENTRY_KEYS, key, text)
            elif key in TOPOLOGY_KEYS:
                hint = (
                    f"; to vary it here, write sweep.{key}"
                    if entry_type is ON_TOPOLOGY
                    else ", and this entry has "
                    f"none{hint_for_synonym(key, entry_type.keys, in_topology=False)}"
                )
                self._problem(section, key, f"belongs to a [topology NAME] section{hint}")
            elif key == "cca-load" and entry_type is ON_TOPOLOGY:
                if text:
                    self._problem(section, key, LOADS_NOTHING)
            elif key in ENTRY_KEYS:
                owner = next(named for table, named in _KEY_OWNERS if key in table)
                if text and key not in ("topology", "dst"):
                    self._problem(
                        section,
                        key,
                        f"belongs to an entry {owner}, but this is an entry {entry_type.named}",
                    )
            else:
                hint = hint_for_key(key, entry_type.keys, in_topology=entry_type is ON_TOPOLOGY)
                self._problem(section, key, f"is an unknown key{hint}")
        return settings

    def _check_type(self, section: ini.Section, entry_type: EntryType, text: str) -> None:
        """Reports a value of the key type that is not one of ccmix's traffic generators. With
        src-cmd any text is allowed, because it is only a label.
        """
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
        self,
        section: ini.Section,
        given: Settings,
        sweeps: Mapping[str, Sweep],
        *,
        is_path_type: bool,
    ) -> None:
        """Checks the keys of an entry of type path, which measures a path by a fixed sequence of
        steps: it needs load-cap, and must not have keys that the steps decide. Other entries must
        not have load-cap.
        """
        if not is_path_type:
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

    def _check_kept_commands(
        self, section: ini.Section, given: Settings, sweeps: Mapping[str, Sweep]
    ) -> None:
        """Reports a command that is swept although src-cmd-once or dst-cmd-once keeps it running
        for all runs.
        """
        for key in ("src-cmd", "dst-cmd"):
            if key in sweeps and _value_of(given, f"{key}-once"):
                self._problem(
                    section,
                    f"{key}-once",
                    f"keeps one {key} for all runs, but sweep.{key} has several: remove one key",
                )

    def _check_unknown(
        self, section: ini.Section, given: Settings, sweeps: Mapping[str, Sweep]
    ) -> None:
        """Checks the key unknown, which lists swept keys whose true value on the path the user does
        not know: each must be swept, and describe the path instead of the traffic.
        """
        for name in _value_of(given, "unknown") or ():
            if name in TEST_KEYS:
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
        """Adds notices about settings of an entry between real hosts that have no effect."""
        if entry_type is ON_TOPOLOGY:
            return
        for key in HOST_ENTRY.values():
            was_default = key.name in (
                "ss",
                "instrument",
            )  # which the original harness had on by default
            if key.obsolete and key.name in given and (was_default or _value_of(given, key.name)):
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
        records_packets = _value_of(given, "tcpdump") or "tcpdump" in sweeps
        if section.own.get("tcpdump-filt") and not records_packets:
            self._notice(section, "tcpdump-filt", "has no effect without tcpdump = on")
        if _value_of(given, "src-cmd-once") and "duration" not in given:
            self._notice(
                section,
                "src-cmd-once",
                "has no effect without duration (the length of a run): src-cmd runs to its end "
                "in each run",
            )

    # Values

    def _entry_values(
        self,
        section: ini.Section,
        entry_type: EntryType,
        given: Settings,
        sweeps: Mapping[str, Sweep],
    ) -> dict[str, Any] | None:
        """Returns the value of each key of an entry and of its topology: from its section, from
        [DEFAULT], or the key's default. Swept keys may be missing, because each condition has its
        own value.

        Returns None if a needed value is missing or was wrong, which is reported.
        """
        settings = self._with_defaults(section, entry_type.keys, given, sweeps)
        if entry_type is COMMAND:
            decided_keys = [ENTRY_KEYS[name] for name in DECIDED_BY_COMMAND]
            settings |= {
                key.name: Setting(key.default or "", key.default_value) for key in decided_keys
            }
            if "duration" not in given:
                settings.pop("duration")  # it follows from the command
        if entry_type is ON_TOPOLOGY:
            name = _value_of(settings, "topology")
            section_of_path = self._topologies.get(name)
            if section_of_path is None:
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
            settings |= self._with_defaults(
                section_of_path, TOPOLOGY_KEYS, self._topology_settings[name], sweeps
            )
        if _is_path_type(given):
            decided_keys = [ENTRY_KEYS[name] for name in DECIDED_BY_STEPS]
            settings |= {
                key.name: Setting(key.default or "", key.default_value) for key in decided_keys
            }
        values = {key: setting.value for key, setting in settings.items() if setting}
        return values if len(values) == len(settings) else None

    def _with_defaults(
        self, section: ini.Section, keys: KeyTable, given: Settings, swept: Mapping[str, Sweep]
    ) -> Settings:
        """Returns the `given` settings of the keys in `keys`, and the defaults of those that are
        neither given nor swept. Reports required keys that are missing. For a family in `keys`,
        such as host.NAME, the result has the given members (host.h1).
        """
        settings: Settings = {}
        step_defaults = DEFAULTS_OF_STEPS if _is_path_type(given) else {}
        for key in keys.values():
            if key.name in given:
                settings[key.name] = given[key.name]
            elif key.name in step_defaults:
                settings[key.name] = Setting(
                    step_defaults[key.name], key.read(step_defaults[key.name])
                )
            elif key.default is not None:
                settings[key.name] = Setting(key.default, key.default_value)
            elif (
                key.required
                and key.name not in swept
                and not _any_given((*given, *swept), key.unless)
            ):
                self._problem(
                    section,
                    key.name,
                    f"is missing: {key.meaning}, for instance {key.name} = {key.example}",
                )
        family_members = {
            name: setting
            for name, setting in given.items()
            if keys.get(name) is None and name in keys
        }
        return settings | family_members


def _value_of(settings: Settings, key: str) -> Any:
    """Returns the value of a key; None if the key is not given or its text can't be read."""
    setting = settings.get(key)
    return setting and setting.value


def _is_path_type(given: Settings) -> bool:
    """Returns whether the entry has type = path: it measures a path instead of comparing CCAs."""
    return str(_value_of(given, "type") or "").lower() == PATH_TYPE


def _any_given(given: Iterable[str], names: Iterable[str]) -> bool:
    """Returns whether one of `names` is among the keys that are `given`. The name of a family, such
    as host.NAME, stands for all keys of the family, such as host.h1.
    """
    families = tuple(name.partition(".")[0] + "." for name in names if "." in name)
    return any(key in names or key.startswith(families) for key in given)
