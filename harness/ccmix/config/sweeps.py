"""The sweeps of an entry: sweep.KEY, and those that the original harness had."""

from collections.abc import Mapping
from dataclasses import dataclass

from ccmix.config import ini
from ccmix.config.emulation import ParameterSweep, read_parameter_sweep
from ccmix.config.keys import ALL_KEYS, SWEEPS, Key
from ccmix.config.problems import nearest
from ccmix.config.telling import Telling
from ccmix.model import ModuleParameter

SWEEP_PREFIX = "sweep."


@dataclass(frozen=True)
class Sweep:
    """The values of one key of the conditions; `parameter`: it is no key, but a module's parameter."""

    values: tuple[str, ...]
    parameter: ParameterSweep | None = None


def read_sweeps(telling: Telling, section: ini.Section, known: Mapping[str, Key]) -> dict[str, Sweep]:
    """The entry's sweeps in the order of the file; of [DEFAULT], those of keys that the entry knows."""
    sweeps: dict[str, Sweep] = {}
    for name, text in (section.inherited | section.own).items():
        key, sweep = name, None
        if name.startswith(SWEEP_PREFIX):
            key = name.removeprefix(SWEEP_PREFIX)
            sweep = _sweep(telling, section, name, key, text, known)
        elif name in SWEEPS and name in known and text:
            key = SWEEPS[name]
            sweep = _sweep(telling, section, name, key, text, known)
        elif name == "param-sweep" and name in known and text:
            sweep = _parameter_sweep(text)
            key = sweep.parameter.name if sweep and sweep.parameter else ""
        if sweep and key in sweeps:
            telling.problem(section, name, f"sweeps {key} a second time: remove one")
        elif sweep:
            sweeps[key] = sweep
    return sweeps


def _parameter_sweep(text: str) -> Sweep | None:
    try:
        parameter = read_parameter_sweep(text)
    except ValueError:
        return None  # told with the other keys
    return Sweep(parameter.values, parameter)


def _sweep(
    telling: Telling, section: ini.Section, name: str, key: str, text: str, known: Mapping[str, Key]
) -> Sweep | None:
    separator = "\n" if "\n" in text.strip() or text.startswith("\n") else ","
    values = tuple(value.strip() for value in text.split(separator) if value.strip())
    before = len(telling.problems)
    if key not in known and key in ALL_KEYS and name not in section.own:
        return None
    if key not in ALL_KEYS:
        telling.problem(section, name, "sweeps an unknown key" + nearest(key, ALL_KEYS))
    elif not ALL_KEYS[key].sweepable:
        telling.problem(section, name, f"can't be swept: make an entry for each {key}")
    elif key not in known:
        telling.problem(section, name, f"{key} has no effect in this entry: remove the sweep")
    elif not values:
        telling.problem(section, name, f"is an empty sweep: write {name} = A, B with values of {key}")
    elif len(set(values)) < len(values):
        telling.problem(section, name, "names a value twice: each value makes a condition of its own")
    else:
        for value in values:
            telling.read(section, known[key], value, name)
    return Sweep(values) if len(telling.problems) == before else None


def module_parameter(sweeps: Mapping[str, Sweep], values: Mapping[str, str]) -> ModuleParameter | None:
    """What a point of the sweeps says of it, if one is swept."""
    for key, sweep in sweeps.items():
        if sweep.parameter:
            return ModuleParameter(sweep.parameter.path, values[key], sweep.parameter.element)
    return None
