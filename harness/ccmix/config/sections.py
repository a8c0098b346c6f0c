"""Reads the values and sweeps of a section of the INI file, and collects the mistakes in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccmix.config import ini
from ccmix.config.host_values import ParameterSweep
from ccmix.config.hostlist import HostRow
from ccmix.config.keys import (
    ALL_KEYS,
    DECIDED_BY_COMMAND,
    ROWS,
    SWEEPS,
    TOPOLOGY_KEYS,
    Key,
    KeyTable,
    Member,
)
from ccmix.config.problems import ConfigError, Problem, about, nearest
from ccmix.model import ModuleParameter, NetemPlace

if TYPE_CHECKING:
    from ccmix.config.profiles import Profile


@dataclass(frozen=True)
class Setting:
    """Holds the value of a key and the text that it was read from. For a key of a family, such as
    host.h1, the value is a Member, which also has the part of the name after the dot.
    """

    text: str
    value: Any


Settings = dict[str, Setting | None]  # by key; None: the value can't be read


def value_of(settings: Settings, key: str) -> Any:
    """Returns the value of a key; None if the key is not given or its text can't be read."""
    setting = settings.get(key)
    return setting and setting.value


class Diagnostics:
    """Collects the `problems` of a file, which stop everything, and `notices` about settings
    without effect. Both get the line of their key.
    """

    def __init__(self, file: ini.IniFile) -> None:
        self._file = file
        self.problems = list(file.problems)
        self.notices: list[Problem] = []

    @property
    def folder(self) -> Path:
        """The folder of the INI file; other files that it names are relative to it."""
        return self._file.path.parent

    def problem(self, section: ini.Section, key: str | None, message: str) -> None:
        """Adds a mistake; with key None, it is about the section as a whole."""
        self.problems.append(self._placed_problem(section, key, message))

    def notice(self, section: ini.Section, key: str | None, message: str) -> None:
        """Adds a notice about a setting that has no effect; it stops nothing."""
        self.notices.append(self._placed_problem(section, key, message))

    def read(
        self,
        section: ini.Section,
        name: str,
        text: str,
        reported_key: str | None = None,
    ) -> Setting | None:
        """Reads the value of the key `name` from its text. If the text is wrong, adds a problem and
        returns None.

        `reported_key` is the key that the problem names, such as sweep.rate for a value of rate.
        """
        key, reported_key = ALL_KEYS[name], reported_key or name
        problems_before = len(self.problems)
        member_name = value = None
        if key.member:
            try:
                member_name = key.member(name.partition(".")[2])
            except ValueError as error:
                self.problem(section, reported_key, str(error))
        try:
            value = key.read(text)
        except ValueError as error:
            self.problem(
                section, reported_key, about(text, error) if key.kind.shown else str(error)
            )
        if len(self.problems) > problems_before:
            return None
        return Setting(text, Member(member_name, value) if key.member else value)

    def _placed_problem(self, section: ini.Section, key: str | None, message: str) -> Problem:
        """Returns a problem with the line of its key, which may be in the section or in
        [DEFAULT].
        """
        if key not in section.key_lines and key in self._file.default.key_lines:
            section = self._file.default  # which has the line
        line = section.key_lines.get(key or "") or section.line or None
        name = None if section is self._file.default and key is None else section.name
        return Problem(self._file.path, message, line, name, key)


@dataclass(frozen=True)
class TopologySection:
    """Holds a section [topology NAME] and its settings, including those from [DEFAULT]."""

    section: ini.Section
    settings: Settings


@dataclass(frozen=True)
class FileValues:
    """Holds the values that the entries of a file share.

    `hosts` are the rows of the CSV file `hosts_path`, which the option -H names, and which replace
    the key dst. `nic` and `netem_at` are the values of the options with these names. Each of them
    is None if its option is not given. `default` has the settings of [DEFAULT]. `topologies` are by
    NAME, `profiles` by file; profiles are None if their file has mistakes.
    """

    diagnostics: Diagnostics
    hosts_path: Path | None
    hosts: Sequence[HostRow] | None
    nic: str | None
    netem_at: NetemPlace | None
    default: Settings
    topologies: dict[str, TopologySection] = field(default_factory=dict)
    profiles: dict[Path, dict[str, Profile] | None] = field(default_factory=dict)

    def with_default(self, section: ini.Section, read_here: Settings) -> Settings:
        """Returns the settings read from a section (`read_here`), and those of [DEFAULT] for keys
        that the section does not have. An empty value in the section unsets the key.
        """
        inherited = {
            key: self.default[key]
            for key, text in section.inherited.items()
            if text and key in self.default
        }
        return inherited | read_here

    def read_profiles(self, name: str | None) -> Mapping[str, Profile] | None:
        """Returns the netem profiles, by name, in the file that the entry's key profile-file names
        (`name`); {} if the entry does not have this key. Returns None if the file has mistakes,
        which are reported only for the first entry that names the file.
        """
        if name is None:
            return {}
        from ccmix.config.profiles import read_profiles  # noqa: PLC0415  # its library is slow

        path = self.diagnostics.folder / name
        if path not in self.profiles:
            self.profiles[path] = None
            try:
                self.profiles[path] = read_profiles(path)
            except ConfigError as error:
                self.diagnostics.problems += error.problems
        return self.profiles[path]


# Keys of one meaning, and words that people write for them
MEANT = [(row["keys"], row["words"]) for row in ROWS["meaning"]]


def hint_for_key(word: str, known: KeyTable, in_topology: bool) -> str:
    """Returns a hint for an unknown key: '; write rate = 1gbit (rate of the bottleneck)' for
    'bandwidth', otherwise similar keys.

    `known` are the keys that the section may have. With `in_topology`, the hint also covers keys of
    the [topology NAME] section to which the entry belongs.
    """
    return hint_for_synonym(word, known, in_topology) or nearest(word, [*known, "sweep.KEY"])


def hint_for_synonym(word: str, known: KeyTable, in_topology: bool) -> str:
    """Returns a hint for a word that people write for another key: '; write rate = 1gbit (rate of
    the bottleneck)' for 'bandwidth'. Empty for other words.

    `known` are the keys that the section may have. With `in_topology`, the hint also covers keys of
    the [topology NAME] section to which the entry belongs.
    """
    searched_word = word.lower().replace("_", "-")
    for keys, words in MEANT:
        for name in keys if searched_word in words else ():
            if name in known and name != searched_word:
                return f"; write {_key_example(ALL_KEYS[name])}"
            if name in TOPOLOGY_KEYS and in_topology:
                return (
                    "; write in the [topology NAME] section "
                    f"{_key_example(TOPOLOGY_KEYS[name])}, or sweep.{name} here"
                )
            if name in DECIDED_BY_COMMAND and name not in known and known is not TOPOLOGY_KEYS:
                return f"; the key is {name}, but with src-cmd the command decides it"
    return ""


def _key_example(key: Key) -> str:
    """Returns a key with an example and the first part of its meaning, for a hint."""
    return f"{key.name} = {key.example} ({key.meaning.partition(';')[0]})"


SWEEP_PREFIX = "sweep."


@dataclass(frozen=True)
class Sweep:
    """Holds the values of a swept key; each condition of the entry has one of them. If `parameter`
    is set, they are values of a kernel module's parameter instead of a key.
    """

    settings: tuple[Setting, ...]
    parameter: ParameterSweep | None = None


def read_sweeps(
    diagnostics: Diagnostics,
    section: ini.Section,
    known: KeyTable,
    given: Mapping[str, Setting | None],
) -> dict[str, Sweep]:
    """Returns the sweeps of an entry by key, in the order of the file: keys sweep.KEY, lat-sweep,
    limit-sweep and param-sweep. Sweeps in [DEFAULT] apply if the entry may have their keys.

    `known` are the keys that the entry may have, `given` its settings, which were read before.
    """
    sweeps: dict[str, Sweep] = {}
    for name, text in (section.inherited | section.own).items():
        key, sweep = name, None
        if name.startswith(SWEEP_PREFIX):
            key = name.removeprefix(SWEEP_PREFIX)
            sweep = _read_sweep(diagnostics, section, name, key, text, known)
        elif name in SWEEPS and name in known and text:
            key = SWEEPS[name]
            sweep = _read_sweep(diagnostics, section, name, key, text, known)
        elif name == "param-sweep" and name in known and (setting := given.get(name)):
            parameter: ParameterSweep = setting.value
            key, sweep = (
                parameter.name,
                Sweep(tuple(Setting(value, value) for value in parameter.values), parameter),
            )
        if sweep and key in sweeps:
            diagnostics.problem(section, name, f"sweeps {key} a second time: remove one")
        elif sweep:
            sweeps[key] = sweep
    return sweeps


def _read_sweep(
    diagnostics: Diagnostics, section: ini.Section, name: str, key: str, text: str, known: KeyTable
) -> Sweep | None:
    """Reads the list of values of one sweep, separated by commas or lines. Adds a problem if it is
    wrong.

    `name` is the key of the sweep as written, such as sweep.rate, and `key` the key that it sweeps.
    `known` are the keys that the entry may have. Returns None if `key` is not one of them, and a
    sweep without values if the list is wrong.
    """
    separator = "\n" if "\n" in text.strip() or text.startswith("\n") else ","
    values = tuple(value.strip() for value in text.split(separator) if value.strip())
    if key not in known and key in ALL_KEYS and name not in section.own:
        return None
    if key not in ALL_KEYS:
        hint = hint_for_synonym(key, known, in_topology=False) or nearest(key, ALL_KEYS)
        diagnostics.problem(
            section, name, f"sweeps an unknown key{hint.replace('write ', 'write sweep.', 1)}"
        )
    elif not ALL_KEYS[key].sweepable:
        diagnostics.problem(section, name, f"can't be swept: make an entry for each {key}")
    elif key not in known:
        hint = hint_for_synonym(key, known, in_topology=False).replace("write ", "write sweep.", 1)
        diagnostics.problem(
            section, name, f"{key} has no effect in this entry: remove the sweep{hint}"
        )
    elif not values:
        diagnostics.problem(
            section, name, f"is an empty sweep: write {name} = A, B with values of {key}"
        )
    elif len(set(values)) < len(values):
        diagnostics.problem(section, name, "names a value twice: remove one")
    else:
        settings = [diagnostics.read(section, key, value, name) for value in values]
        return Sweep(tuple(setting for setting in settings if setting))
    # a wrong sweep still sets the key, so that nothing reports the key as missing
    return Sweep(()) if key in known else None


def module_parameter(
    sweeps: Mapping[str, Sweep], values: Mapping[str, str]
) -> ModuleParameter | None:
    """Returns the swept kernel module parameter with its value in one condition, whose swept values
    are `values`; None if the entry sweeps none.
    """
    for key, sweep in sweeps.items():
        if sweep.parameter:
            return ModuleParameter(sweep.parameter.path, values[key], sweep.parameter.element)
    return None
