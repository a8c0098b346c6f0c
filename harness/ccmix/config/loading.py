"""Reads an INI file and the files that it names, and reports all mistakes in them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ccmix.config import ini
from ccmix.config.entries import Entry, EntryReader
from ccmix.config.host_values import read_device, read_netem_place
from ccmix.config.hostlist import HostRow, read_hosts
from ccmix.config.keys import ALL_KEYS, ENTRY_KEYS, TOPOLOGY_KEYS
from ccmix.config.problems import ConfigError, Problem, about, nearest
from ccmix.config.sections import (
    SWEEP_PREFIX,
    Diagnostics,
    FileValues,
    Settings,
    TopologySection,
    hint_for_key,
    read_sweeps,
)
from ccmix.model import HostPath

TOPOLOGY = "topology"
# Keys that make [default] an entry, and the keys of the original harness's [default]
ENTRY_MARKS = frozenset({"type", "topology", "dst", "src-cmd"})
AGENT_URLS = frozenset({"profile-control-url", "traffic-control-url"})
Value = TypeVar("Value")


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
    entries = _FileReader(file, overrides or Overrides(), diagnostics).entries()
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


class _FileReader:
    """Reads one INI file and the files that it names. Goes on after a mistake, so that all problems
    and notices are collected in `diagnostics`.
    """

    def __init__(self, file: ini.IniFile, overrides: Overrides, diagnostics: Diagnostics) -> None:
        """Reads everything that the entries share: the options in `overrides`, the list of hosts,
        [DEFAULT] and the topologies.
        """
        self._file = file
        self._diagnostics = diagnostics
        self._problem = diagnostics.problem
        self._values = FileValues(
            diagnostics,
            hosts_path=overrides.hosts,
            hosts=self._read_host_list(overrides.hosts),
            nic=self._read_option("--nic", overrides.nic, read_device),
            netem_at=self._read_option("--netem-at", overrides.netem_at, read_netem_place),
            default=self._read_default(),
        )
        self._read_topologies()

    def entries(self) -> tuple[Entry, ...]:
        """Returns the enabled entries. Those with a mistake are left out, and their problems are in
        the diagnostics.
        """
        sections = [section for section in self._file.sections if self._is_entry(section)]
        if not sections:
            self._problem(
                self._file.default, None, "the file has no entry: add a section such as [my-entry]"
            )
        entries = [EntryReader(section, self._values).read() for section in sections]
        enabled = tuple(entry for entry in entries if entry)
        has_host_paths = any(
            isinstance(condition.path, HostPath)
            for entry in enabled
            for condition in entry.conditions
        )
        if self._values.hosts_path and not has_host_paths:
            self._diagnostics.notices.append(
                Problem(
                    self._values.hosts_path, "has no effect: no enabled entry is between real hosts"
                )
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
            self._diagnostics.notice(
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

    def _read_option(
        self, name: str, text: str | None, read: Callable[[str], Value]
    ) -> Value | None:
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

    def _read_default(self) -> Settings:
        """Returns the settings of the section [DEFAULT], whose keys apply to all entries and
        topologies that know them.
        """
        default, settings = self._file.default, Settings()
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
                settings[key] = self._diagnostics.read(default, key, text)
        read_sweeps(self._diagnostics, default, ALL_KEYS, settings)
        return settings

    def _read_topologies(self) -> None:
        """Reads the sections [topology NAME]."""
        topologies = self._values.topologies
        for section in self._file.sections:
            name = _topology_name(section)
            if name == "":
                self._problem(
                    section,
                    None,
                    "has no name: write [topology NAME], and topology = NAME in entries",
                )
            if name in topologies:
                self._problem(section, None, f"is a second topology {name}: remove or rename it")
            elif name is not None:
                topologies[name] = TopologySection(section, self._read_topology(section))

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
                settings[key] = self._diagnostics.read(section, key, text)
        return self._values.with_default(section, settings)
