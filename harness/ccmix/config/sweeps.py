"""The sweeps of an entry: sweep.KEY, and those that the original harness had."""

from collections.abc import Mapping
from dataclasses import dataclass

from ccmix.config import ini
from ccmix.config.diagnostics import Diagnostics, Setting
from ccmix.config.emulation import ParameterSweep
from ccmix.config.keys import ALL_KEYS, SWEEPS, KeyTable
from ccmix.config.other_words import meant_key
from ccmix.config.problems import nearest
from ccmix.model import ModuleParameter

SWEEP_PREFIX = "sweep."


@dataclass(frozen=True)
class Sweep:
    """Holds the values that one key has in the conditions; `parameter`: it is no key, but a module's parameter."""

    settings: tuple[Setting, ...]
    parameter: ParameterSweep | None = None


def read_sweeps(
    diagnostics: Diagnostics, section: ini.Section, known: KeyTable, given: Mapping[str, Setting | None]
) -> dict[str, Sweep]:
    """Returns the entry's sweeps in the order of the file; of [DEFAULT], those of keys that the entry knows.

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
            key, sweep = parameter.name, Sweep(tuple(Setting(value, value) for value in parameter.values), parameter)
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
        diagnostics.problem(section, name, f"sweeps an unknown key{hint.replace('write ', 'write sweep.', 1)}")
    elif not ALL_KEYS[key].sweepable:
        diagnostics.problem(section, name, f"can't be swept: make an entry for each {key}")
    elif key not in known:
        hint = meant_key(key, known, in_topology=False).replace("write ", "write sweep.", 1)
        diagnostics.problem(section, name, f"{key} has no effect in this entry: remove the sweep{hint}")
    elif not values:
        diagnostics.problem(section, name, f"is an empty sweep: write {name} = A, B with values of {key}")
    elif len(set(values)) < len(values):
        diagnostics.problem(section, name, "names a value twice: each value makes a condition of its own")
    else:
        settings = [diagnostics.read(section, known, key, value, name) for value in values]
        return Sweep(tuple(setting for setting in settings if setting))
    # even wrong, it gives the key, which must not be called missing
    return Sweep(()) if key in known else None


def module_parameter(sweeps: Mapping[str, Sweep], values: Mapping[str, str]) -> ModuleParameter | None:
    """Returns the module's parameter of a point of the sweeps, where one is swept."""
    for key, sweep in sweeps.items():
        if sweep.parameter:
            return ModuleParameter(sweep.parameter.path, values[key], sweep.parameter.element)
    return None
