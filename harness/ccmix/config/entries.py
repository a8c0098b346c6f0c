"""Sections to entries: each value read by its key, sweeps expanded, and all mistakes of all files told together."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.config import ini
from ccmix.config.addresses import read_device
from ccmix.config.emulation import ParameterSweep, read_parameter_sweep, read_place
from ccmix.config.host_paths import (
    Surroundings,
    command_traffic,
    destination_of_entry,
    destination_of_row,
    host_path,
    path_contradiction,
)
from ccmix.config.hostlist import HostRow, read_hosts
from ccmix.config.keys import (
    ALL_KEYS,
    DECIDED_BY_COMMAND,
    ENTRY_KEYS,
    EVERY_ENTRY,
    GENERATORS,
    HOST_ENTRY,
    SWEEPS,
    TOPOLOGY_ENTRY,
    TOPOLOGY_KEYS,
    Key,
)
from ccmix.config.overrides import Overrides
from ccmix.config.problems import ConfigError, Problem, nearest, quoted
from ccmix.config.profiles import Profile, read_profiles
from ccmix.config.topologies import own_traffic, topology, topology_contradiction, traffic_contradiction
from ccmix.model import Destination, HostPath, ModuleParameter, NetemPlace, Topology, Traffic, condition_name

TOPOLOGY_PREFIX = "topology "
SWEEP_PREFIX = "sweep."
MOST_RUNS = 100_000
RESERVED_NAMES = ("campaign.json", "report", "report.html")  # beside the entries' folders in OUTDIR
MOST_NAME_BYTES = 80  # a folder's name may have 255, and a byte may take three there
OFF = ("false", "no", "off", "0")


@dataclass(frozen=True)
class Condition:
    """One point of an entry's sweeps, to one destination: the swept values as written, and what they come to."""

    values: dict[str, str]
    path: Topology | HostPath
    traffic: Traffic


@dataclass(frozen=True)
class Entry:
    """One enabled section that runs."""

    name: str
    iterations: int
    repeat_order: str
    accept_limits: tuple[str, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Config:
    """What a file says: its enabled entries, and `notices` of what in it has no effect."""

    entries: tuple[Entry, ...]
    notices: tuple[Problem, ...]


def load(path: Path, text: str | None = None, overrides: Overrides | None = None) -> Config:
    """The enabled entries of an INI file, or of its text where that was read already, in its order.

    Raises ConfigError with every mistake of the file, and of those that it or the command line names.
    """
    file = ini.read(path, ini.read_text(path) if text is None else text)
    reader = _Reader(file, overrides or Overrides())
    entries = reader.entries()
    if reader.problems:
        raise ConfigError(_in_order(reader.problems, path))
    return Config(entries, tuple(_in_order(reader.notices, path)))


def select(entries: Sequence[Entry], only: Sequence[str], config: Path) -> list[Entry]:
    """The entries named by --only, or all. Raises ConfigError for a name that no entry has."""
    names = [entry.name for entry in entries]
    if unknown := [name for name in only if name not in names]:
        raise ConfigError(
            Problem(config, None, None, None, f"--only {name}: no enabled entry has this name{nearest(name, names)}")
            for name in unknown
        )
    return [entry for entry in entries if not only or entry.name in only]


def _in_order(problems: Iterable[Problem], path: Path) -> list[Problem]:
    """Each once: those of the INI file first, by line."""
    return sorted(dict.fromkeys(problems), key=lambda told: (told.file != path, str(told.file), told.line or 0))


@dataclass(frozen=True)
class _Sort:
    """A sort of entry: the keys that it knows, and in words what makes it so."""

    keys: Mapping[str, Key]
    named: str


_ON_TOPOLOGY = _Sort({**EVERY_ENTRY, **TOPOLOGY_ENTRY}, "with a topology")
_OWN_IPERF3 = _Sort({**EVERY_ENTRY, **HOST_ENTRY}, "with dst")
_COMMAND = _Sort(
    {name: key for name, key in _OWN_IPERF3.keys.items() if name not in DECIDED_BY_COMMAND}, "with src-cmd"
)


@dataclass(frozen=True)
class _Sweep:
    """The values of one key of the conditions; `parameter`: it is no key, but a module's parameter."""

    values: tuple[str, ...]
    parameter: ParameterSweep | None = None


class _Reader:
    """Reads one file and what it names, and collects problems and notices on the way."""

    def __init__(self, file: ini.IniFile, overrides: Overrides) -> None:
        self._file = file
        self.problems = list(file.problems)
        self.notices: list[Problem] = []
        self._profiles: dict[Path, dict[str, Profile] | None] = {}
        self._hosts_path = overrides.hosts
        self._hosts = self._host_list(overrides.hosts)
        self._nic: str | None = self._option("--nic", overrides.nic, read_device)
        self._netem_at: NetemPlace | None = self._option("--netem-at", overrides.netem_at, read_place)
        self._topologies: dict[str, ini.Section] = {}
        for section in file.sections:
            if section.name.startswith(TOPOLOGY_PREFIX):
                name = section.name.removeprefix(TOPOLOGY_PREFIX).strip()
                if self._topologies.setdefault(name, section) is not section:
                    self._problem(section, None, f"is a second topology {name}: remove one")

    def entries(self) -> tuple[Entry, ...]:
        self._check_default()
        for section in self._topologies.values():
            self._check_topology(section)
        sections = [section for section in self._file.sections if not section.name.startswith(TOPOLOGY_PREFIX)]
        if not sections:
            self._problem(self._file.default, None, "the file has no entry: add a section such as [my-entry]")
        entries = [self._entry(section) for section in sections]
        enabled = tuple(entry for entry in entries if entry)
        if sections and not enabled and not self.problems:
            self._problem(self._file.default, None, "no entry is enabled: set enabled = on in one")
        return enabled

    # Telling

    def _told(self, section: ini.Section, key: str | None, message: str) -> Problem:
        if key not in section.key_lines and key in self._file.default.key_lines:
            section = self._file.default  # where it stands
        line = section.key_lines.get(key or "") or section.line or None
        name = None if section is self._file.default and key is None else section.name
        return Problem(self._file.path, line, name, key, message)

    def _problem(self, section: ini.Section, key: str | None, message: str) -> None:
        self.problems.append(self._told(section, key, message))

    def _read(self, section: ini.Section, key: Key, text: str, name: str | None = None) -> Any:
        """A value; None, and a problem, where it can't be read."""
        try:
            return key.read(text)
        except ValueError as error:
            self._problem(section, name or key.name, f"{quoted(text)} {error}")
            return None

    # Other files and the command line

    def _host_list(self, path: Path | None) -> tuple[HostRow, ...] | None:
        if path is None:
            return None
        try:
            return read_hosts(path)
        except ConfigError as error:
            self.problems += error.problems
            return ()

    def _option(self, name: str, text: str | None, read: Any) -> Any:
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            self.problems.append(Problem(self._file.path, None, None, None, f"{name} {quoted(text)} {error}"))
            return None

    def _profiles_of(self, name: str | None) -> Mapping[str, Profile] | None:
        """Those of an entry's profile-file, which is read once; None where it is wrong."""
        if name is None:
            return {}
        path = self._file.path.parent / name
        if path not in self._profiles:
            self._profiles[path] = None
            try:
                self._profiles[path] = read_profiles(path)
            except ConfigError as error:
                self.problems += error.problems
        return self._profiles[path]

    # Sections

    def _check_default(self) -> None:
        default = self._file.default
        for key, text in default.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key not in ALL_KEYS:
                self._problem(default, key, "is an unknown key" + nearest(key, ALL_KEYS))
            elif text:
                self._read(default, ALL_KEYS[key], text)
        self._sweeps(default, ALL_KEYS)

    def _check_topology(self, section: ini.Section) -> None:
        for key, text in section.own.items():
            if key not in TOPOLOGY_KEYS:
                self._problem(section, key, "is an unknown key" + nearest(key, TOPOLOGY_KEYS))
            elif text:
                self._read(section, TOPOLOGY_KEYS[key], text)

    def _entry(self, section: ini.Section) -> Entry | None:
        before = len(self.problems)
        if section.name in RESERVED_NAMES or len(section.name.encode()) > MOST_NAME_BYTES:
            taken = "is taken by a file of the results" if section.name in RESERVED_NAMES else "is too long"
            self._problem(section, None, f"an entry's name is that of a folder, and this one {taken}: choose another")
        given = {key: text for key, text in (section.inherited | section.own).items() if text}
        sort = self._sort(section, given)
        self._check_keys(section, sort)
        sweeps = self._sweeps(section, {**sort.keys, **(TOPOLOGY_KEYS if sort is _ON_TOPOLOGY else {})})
        self._check_once(section, given, sweeps)
        profiles = self._profiles_of(given.get("profile-file") if sort is not _ON_TOPOLOGY else None)
        texts = self._texts(section, sort, given, sweeps)
        if texts is None or profiles is None or len(self.problems) > before or not _readable(texts):
            return None
        self._check_type(section, sort, texts["type"])
        if len(self.problems) > before:
            return None
        around = Surroundings(self._nic, self._netem_at, profiles)
        conditions = tuple(self._conditions(section, sort, texts, sweeps, around))
        if not ENTRY_KEYS["enabled"].read(texts["enabled"]) or len(self.problems) > before:
            return None
        self.notices += self._notices(section, sort, given, sweeps)
        return Entry(
            name=section.name,
            iterations=ENTRY_KEYS["iterations"].read(texts["iterations"]),
            repeat_order=ENTRY_KEYS["repeat-order"].read(texts["repeat-order"]),
            accept_limits=ENTRY_KEYS["accept-limits"].read(texts["accept-limits"]),
            conditions=conditions,
        )

    def _sort(self, section: ini.Section, given: Mapping[str, str]) -> _Sort:
        """What the entry says itself stands before [DEFAULT], and that before a list of hosts."""
        own = [key for key in ("topology", "dst") if section.own.get(key)]
        named = own or [key for key in ("topology", "dst") if given.get(key)]
        if len(named) > 1:
            self._problem(
                section, None if not own else "topology",
                "stands beside dst: topology = NAME is an emulated path, and dst = HOST a real one; remove one",
            )  # fmt: skip
        elif not named and self._hosts is None:
            self._problem(
                section, None,
                "names no path: write topology = NAME for an emulated one, or dst = HOST for a real one, "
                "or give a list of hosts with -H",
            )  # fmt: skip
        if "topology" in named:
            return _ON_TOPOLOGY
        return _COMMAND if given.get("src-cmd") or f"{SWEEP_PREFIX}src-cmd" in given else _OWN_IPERF3

    def _check_keys(self, section: ini.Section, sort: _Sort) -> None:
        for key, text in section.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key in sort.keys or (sort is _COMMAND and key in DECIDED_BY_COMMAND):
                if text:
                    self._read(section, ENTRY_KEYS[key], text)
            elif key in TOPOLOGY_KEYS:
                vary = f"; to vary it here write sweep.{key}" if sort is _ON_TOPOLOGY else ", and this entry has none"
                self._problem(section, key, f"belongs to a [topology NAME] section{vary}")
            elif key in ENTRY_KEYS:
                other = "with dst" if key in HOST_ENTRY else "with a topology"
                if text and key not in ("topology", "dst"):
                    self._problem(section, key, f"belongs to an entry {other}, and this is one {sort.named}")
            else:
                self._problem(section, key, "is an unknown key" + nearest(key, [*sort.keys, "sweep.KEY"]))

    def _check_type(self, section: ini.Section, sort: _Sort, text: str) -> None:
        if sort is _COMMAND or text.lower() in GENERATORS:
            return
        if text.lower() == "perfsonar":
            message = (
                "ccmix has no pScheduler generator of its own yet: give a src-cmd, such as "
                "pscheduler task --format json throughput --dest {dst}"
            )
        elif sort is _ON_TOPOLOGY or len(text.split()) == 1:
            message = f"{quoted(text)} is unknown{nearest(text, GENERATORS)}"
        else:
            message = f"{quoted(text)} is a label, and nothing says what makes the traffic: give a src-cmd"
        self._problem(section, "type", message)

    def _check_once(self, section: ini.Section, given: Mapping[str, str], sweeps: Mapping[str, _Sweep]) -> None:
        for key in ("src-cmd", "dst-cmd"):
            if key in sweeps and given.get(f"{key}-once", "off").lower() not in OFF:
                self._problem(section, f"{key}-once", f"keeps one {key} for all runs, and sweep.{key} has several")

    def _notices(
        self, section: ini.Section, sort: _Sort, given: Mapping[str, str], sweeps: Mapping[str, _Sweep]
    ) -> Iterator[Problem]:
        """What of an enabled entry has no effect."""
        if sort is _ON_TOPOLOGY:
            return
        for key in HOST_ENTRY.values():
            if key.obsolete and key.name in given and (key.name in ("ss", "instrument") or given[key.name] not in OFF):
                yield self._told(section, key.name, f"has no effect any more: {key.obsolete}")
        if sort is _COMMAND:
            for name in DECIDED_BY_COMMAND:
                if section.own.get(name):
                    yield self._told(section, name, "has no effect beside src-cmd: the command decides")
        if self._hosts is not None:
            for name in ("dst", "dst-host", "alias"):
                if section.own.get(name):
                    yield self._told(section, name, "has no effect with -H: the list names the destinations")
        recorded = given.get("tcpdump", "off").lower() not in OFF or "tcpdump" in sweeps
        if section.own.get("tcpdump-filt") and not recorded:
            yield self._told(section, "tcpdump-filt", "has no effect without tcpdump = on")

    # Values

    def _texts(
        self, section: ini.Section, sort: _Sort, given: Mapping[str, str], sweeps: Mapping[str, _Sweep]
    ) -> dict[str, str] | None:
        """Every key of the entry and of its topology with its text: own, from [DEFAULT], or the default."""
        texts: dict[str, str] = {}
        self._fill(texts, section, sort.keys, given, sweeps)
        if sort is _COMMAND:
            texts |= {name: ENTRY_KEYS[name].default or "" for name in DECIDED_BY_COMMAND}
            if "duration" not in given:
                texts.pop("duration")  # it follows from the command
        if sort is not _ON_TOPOLOGY:
            return texts
        path = self._topologies.get(texts.get("topology", ""))
        if path is None:
            if "topology" in texts:
                hint = nearest(texts["topology"], self._topologies) if self._topologies else ": there is none"
                self._problem(section, "topology", f"no section [topology {texts['topology']}] in this file{hint}")
            return None
        self._fill(texts, path, TOPOLOGY_KEYS, path.inherited | path.own, sweeps)
        return texts

    def _fill(
        self,
        texts: dict[str, str],
        section: ini.Section,
        keys: Mapping[str, Key],
        given: Mapping[str, str],
        swept: Mapping[str, _Sweep],
    ) -> None:
        for key in keys.values():
            text = given.get(key.name) or key.default
            if text is not None:
                texts[key.name] = text
            elif key.required and key.name not in swept:
                self._problem(section, key.name, f"is missing: {key.meaning}, for instance {key.name} = {key.example}")

    def _sweeps(self, section: ini.Section, known: Mapping[str, Key]) -> dict[str, _Sweep]:
        """The entry's sweeps in the order of the file; of [DEFAULT], those of keys that the entry knows."""
        sweeps: dict[str, _Sweep] = {}
        for name, text in (section.inherited | section.own).items():
            key, sweep = name, None
            if name.startswith(SWEEP_PREFIX):
                key = name.removeprefix(SWEEP_PREFIX)
                sweep = self._sweep(section, name, key, text, known)
            elif name in SWEEPS and name in known and text:
                key = SWEEPS[name]
                sweep = self._sweep(section, name, key, text, known)
            elif name == "param-sweep" and name in known and text:
                sweep = self._parameter_sweep(text)
                key = sweep.parameter.name if sweep and sweep.parameter else ""
            if sweep and key in sweeps:
                self._problem(section, name, f"sweeps {key} a second time: remove one")
            elif sweep:
                sweeps[key] = sweep
        return sweeps

    def _parameter_sweep(self, text: str) -> _Sweep | None:
        try:
            parameter = read_parameter_sweep(text)
        except ValueError:
            return None  # told with the other keys
        return _Sweep(parameter.values, parameter)

    def _sweep(self, section: ini.Section, name: str, key: str, text: str, known: Mapping[str, Key]) -> _Sweep | None:
        separator = "\n" if "\n" in text.strip() or text.startswith("\n") else ","
        values = tuple(value.strip() for value in text.split(separator) if value.strip())
        before = len(self.problems)
        if key not in known and key in ALL_KEYS and name not in section.own:
            return None
        if key not in ALL_KEYS:
            self._problem(section, name, "sweeps an unknown key" + nearest(key, ALL_KEYS))
        elif not ALL_KEYS[key].sweepable:
            self._problem(section, name, f"can't be swept: make an entry for each {key}")
        elif key not in known:
            self._problem(section, name, f"{key} has no effect in this entry: remove the sweep")
        elif not values:
            self._problem(section, name, f"is an empty sweep: write {name} = A, B with values of {key}")
        elif len(set(values)) < len(values):
            self._problem(section, name, "names a value twice: each value makes a condition of its own")
        else:
            for value in values:
                self._read(section, known[key], value, name)
        return _Sweep(values) if len(self.problems) == before else None

    # Conditions

    def _conditions(
        self,
        section: ini.Section,
        sort: _Sort,
        texts: Mapping[str, str],
        sweeps: Mapping[str, _Sweep],
        around: Surroundings,
    ) -> Iterator[Condition]:
        number = int(texts["iterations"]) * (len(self._hosts or ()) if sort is not _ON_TOPOLOGY and self._hosts else 1)
        for sweep in sweeps.values():
            number *= len(sweep.values)
        if number > MOST_RUNS:
            self._problem(section, None, f"its sweeps and iterations make {number} runs, more than {MOST_RUNS}")
            return
        unswept = _settings(texts)
        for point in itertools.product(*(sweep.values for sweep in sweeps.values())):
            values = dict(zip(sweeps, point, strict=True))
            if len(folder := condition_name(values)) > MOST_NAME_BYTES:
                self._problem(
                    section, None, f"a condition's name is that of a folder, and {folder[:40]}... is too long"
                )
                return
            before = len(self.problems)
            keys = {key: text for key, text in values.items() if not sweeps[key].parameter}
            settings = {**unswept, **_settings(keys)}
            if sort is _ON_TOPOLOGY:
                yield from self._emulated(section, values, settings)
            else:
                yield from self._between_hosts(section, values, settings, _parameter(sweeps, values), around)
            if len(self.problems) > before:
                return

    def _emulated(
        self, section: ini.Section, values: dict[str, str], settings: Mapping[str, Any]
    ) -> Iterator[Condition]:
        path, traffic = topology(settings), own_traffic(settings)
        if message := traffic_contradiction(traffic) or topology_contradiction(path):
            self._problem(section, None, message)
        yield Condition(values, path, traffic)

    def _between_hosts(
        self,
        section: ini.Section,
        values: dict[str, str],
        settings: Mapping[str, Any],
        parameter: ModuleParameter | None,
        around: Surroundings,
    ) -> Iterator[Condition]:
        for row, dst in self._destinations(settings):
            if not self._profile_is_known(section, settings, row, dst, around):
                continue
            path = host_path(settings, dst, parameter, around)
            if path.commands.src:
                traffic, message = command_traffic(settings, path.commands.src), None
            else:
                traffic = own_traffic(settings)
                message = traffic_contradiction(traffic)
            key, message = (None, message) if message else path_contradiction(path, traffic) or (None, None)
            if message:
                self._problem(section, key, message)
            yield Condition(values, path, traffic)

    def _destinations(self, settings: Mapping[str, Any]) -> Iterator[tuple[HostRow | None, Destination]]:
        if self._hosts is None:
            yield None, destination_of_entry(settings)
        for row in self._hosts or ():
            yield row, destination_of_row(row, settings)

    def _profile_is_known(
        self,
        section: ini.Section,
        settings: Mapping[str, Any],
        row: HostRow | None,
        dst: Destination,
        around: Surroundings,
    ) -> bool:
        if dst.profile is None or dst.profile in around.profiles:
            return True
        file = settings.get("profile-file")
        if file is None:
            message = f"{quoted(dst.profile)} is a profile, and [{section.name}] has no profile-file: name one"
        else:
            message = f"{quoted(dst.profile)} is no profile of {file}{nearest(dst.profile, around.profiles)}"
        told = self._told(section, "profile", message)
        if row and row.profile and self._hosts_path:
            told = Problem(self._hosts_path, row.line, None, "profile", message)
        self.problems.append(told)
        return False


def _settings(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of one point; keys that are unset are left out."""
    return {key: ALL_KEYS[key].read(text) for key, text in texts.items()}


def _parameter(sweeps: Mapping[str, _Sweep], values: Mapping[str, str]) -> ModuleParameter | None:
    for key, sweep in sweeps.items():
        if sweep.parameter:
            return ModuleParameter(sweep.parameter.path, values[key], sweep.parameter.element)
    return None


def _readable(texts: Mapping[str, str]) -> bool:
    """Whether every value can be read; one of [DEFAULT] or of the topology that can't was told there."""
    try:
        _settings(texts)
    except ValueError:
        return False
    return True
