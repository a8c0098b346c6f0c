"""Reads the values and sweeps of a section, and collects the mistakes and notices of a file, each
with its place and a hint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.config import ini
from ccmix.config.host_values import ParameterSweep
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
from ccmix.config.problems import Problem, about, nearest
from ccmix.model import ModuleParameter


@dataclass(frozen=True)
class Setting:
    """Holds the value of a key, of a member of a family as a Member, and the text that it was
    read from.
    """

    text: str
    value: Any


class Diagnostics:
    """Collects `problems`, which stop everything, and `notices` about settings without effect."""

    def __init__(self, file: ini.IniFile) -> None:
        self._file = file
        self.problems = list(file.problems)
        self.notices: list[Problem] = []

    @property
    def folder(self) -> Path:
        """The folder of the INI file, which other files are relative to."""
        return self._file.path.parent

    def problem(self, section: ini.Section, key: str | None, message: str) -> None:
        self.problems.append(self._placed(section, key, message))

    def notice(self, section: ini.Section, key: str | None, message: str) -> None:
        self.notices.append(self._placed(section, key, message))

    def read(
        self, section: ini.Section, keys: KeyTable, name: str, text: str, place: str | None = None
    ) -> Setting | None:
        """Reads the value of a key. If it can't be read, returns None and notes problems of the key
        `place`.
        """
        key, place = keys[name], place or name
        before = len(self.problems)
        member = value = None
        if key.member:
            try:
                member = key.member(name.partition(".")[2])
            except ValueError as error:
                self.problem(section, place, str(error))
        try:
            value = key.read(text)
        except ValueError as error:
            self.problem(section, place, about(text, error) if key.kind.shown else str(error))
        if len(self.problems) > before:
            return None
        return Setting(text, Member(member, value) if key.member else value)

    def _placed(self, section: ini.Section, key: str | None, message: str) -> Problem:
        if key not in section.key_lines and key in self._file.default.key_lines:
            section = self._file.default  # which has the line
        line = section.key_lines.get(key or "") or section.line or None
        name = None if section is self._file.default and key is None else section.name
        return Problem(self._file.path, message, line, name, key)


# Keys of one meaning, and words that people write for them
MEANT = [(row["keys"], row["words"]) for row in ROWS["meaning"]]


def right_key(word: str, known: KeyTable, in_topology: bool) -> str:
    """Returns a hint: '; write rate = 1gbit (rate of the bottleneck)' for 'bandwidth', otherwise
    similar keys.

    `known` are the keys that the section may have. With `in_topology` the entry has a topology,
    whose section may have other keys.
    """
    return meant_key(word, known, in_topology) or nearest(word, [*known, "sweep.KEY"])


def meant_key(word: str, known: KeyTable, in_topology: bool) -> str:
    """Returns '; write rate = 1gbit (rate of the bottleneck)' for 'bandwidth', and an empty text
    for a word without a known meaning.
    """
    plain = word.lower().replace("_", "-")
    for keys, words in MEANT:
        for name in keys if plain in words else ():
            if name in known and name != plain:
                return f"; write {_example(ALL_KEYS[name])}"
            if name in TOPOLOGY_KEYS and in_topology:
                return (
                    "; write in the [topology NAME] section "
                    f"{_example(TOPOLOGY_KEYS[name])}, or sweep.{name} here"
                )
            if name in DECIDED_BY_COMMAND and name not in known and known is not TOPOLOGY_KEYS:
                return f"; the key is {name}, but with src-cmd the command decides it"
    return ""


def _example(key: Key) -> str:
    return f"{key.name} = {key.example} ({key.meaning.partition(';')[0]})"


SWEEP_PREFIX = "sweep."


@dataclass(frozen=True)
class Sweep:
    """Holds the values that one key has in the conditions. With `parameter`, it is not a key but a
    module's parameter.
    """

    settings: tuple[Setting, ...]
    parameter: ParameterSweep | None = None


def read_sweeps(
    diagnostics: Diagnostics,
    section: ini.Section,
    known: KeyTable,
    given: Mapping[str, Setting | None],
) -> dict[str, Sweep]:
    """Returns the entry's sweeps in the order of the file, and sweeps of [DEFAULT] whose keys the
    entry knows.

    `given` are the settings that were read.
    """
    sweeps: dict[str, Sweep] = {}
    for name, text in (section.inherited | section.own).items():
        key, sweep = name, None
        if name.startswith(SWEEP_PREFIX):
            key = name.removeprefix(SWEEP_PREFIX)
            sweep = _sweep(diagnostics, section, name, key, text, known)
        elif name in SWEEPS and name in known and text:
            key = SWEEPS[name]
            sweep = _sweep(diagnostics, section, name, key, text, known)
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


def _sweep(
    diagnostics: Diagnostics, section: ini.Section, name: str, key: str, text: str, known: KeyTable
) -> Sweep | None:
    separator = "\n" if "\n" in text.strip() or text.startswith("\n") else ","
    values = tuple(value.strip() for value in text.split(separator) if value.strip())
    if key not in known and key in ALL_KEYS and name not in section.own:
        return None
    if key not in ALL_KEYS:
        hint = meant_key(key, known, in_topology=False) or nearest(key, ALL_KEYS)
        diagnostics.problem(
            section, name, f"sweeps an unknown key{hint.replace('write ', 'write sweep.', 1)}"
        )
    elif not ALL_KEYS[key].sweepable:
        diagnostics.problem(section, name, f"can't be swept: make an entry for each {key}")
    elif key not in known:
        hint = meant_key(key, known, in_topology=False).replace("write ", "write sweep.", 1)
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
        settings = [diagnostics.read(section, known, key, value, name) for value in values]
        return Sweep(tuple(setting for setting in settings if setting))
    # a wrong sweep still sets the key, so that nothing reports the key as missing
    return Sweep(()) if key in known else None


def module_parameter(
    sweeps: Mapping[str, Sweep], values: Mapping[str, str]
) -> ModuleParameter | None:
    """Returns the module's parameter at a point of the sweeps, if one is swept."""
    for key, sweep in sweeps.items():
        if sweep.parameter:
            return ModuleParameter(sweep.parameter.path, values[key], sweep.parameter.element)
    return None
