"""Sections to entries: each value read by its key, sweeps expanded, and all mistakes of all files told together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.config import ini, pscheduler
from ccmix.config.addresses import read_device
from ccmix.config.conditions import MOST_NAME_BYTES, Condition, Conditions, settings_of
from ccmix.config.emulation import read_place
from ccmix.config.host_paths import Surroundings
from ccmix.config.hostlist import HostRow, read_hosts
from ccmix.config.keys import (
    ALL_KEYS,
    DECIDED_BY_COMMAND,
    ENTRY_KEYS,
    GENERATORS,
    HOST_ENTRY,
    PSCHEDULER_ENTRY,
    TOPOLOGY_ENTRY,
    TOPOLOGY_KEYS,
    Key,
    KeyTable,
)
from ccmix.config.overrides import Overrides
from ccmix.config.problems import ConfigError, Problem, nearest, quoted
from ccmix.config.profiles import Profile, read_profiles
from ccmix.config.sorts import COMMAND, ON_TOPOLOGY, OWN_IPERF3, PSCHEDULER, Sort
from ccmix.config.sweeps import SWEEP_PREFIX, Sweep, read_sweeps
from ccmix.config.telling import Telling
from ccmix.model import HostPath, NetemPlace

TOPOLOGY = "topology"
RESERVED_NAMES = ("campaign.json", "report-charts", "report.html")  # beside the entries' folders in OUTDIR
OFF = ("false", "no", "off", "0")
_BELONGS = (
    (HOST_ENTRY, "with dst"),
    (TOPOLOGY_ENTRY, "with a topology"),
    (PSCHEDULER_ENTRY, "of type perfSONAR, without src-cmd"),
)


@dataclass(frozen=True)
class Entry:
    """One enabled section that runs."""

    name: str
    iterations: int
    repeat_order: str
    accept_limits: tuple[str, ...]
    conditions: tuple[Condition, ...]
    index: str | None = None  # URL of an Elasticsearch


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
    telling = Telling(file)
    entries = _Reader(file, overrides or Overrides(), telling).entries()
    if telling.problems:
        raise ConfigError(_in_order(telling.problems, path))
    return Config(entries, tuple(_in_order(telling.notices, path)))


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


def _topology_name(section: ini.Section) -> str | None:
    """NAME of a section [topology NAME]; None of an entry."""
    first, *others = section.name.split(maxsplit=1) or [""]
    return "".join(others).strip() if first.lower() == TOPOLOGY else None


class _Reader:
    """Reads one file and what it names, and collects problems and notices on the way."""

    def __init__(self, file: ini.IniFile, overrides: Overrides, telling: Telling) -> None:
        self._file = file
        self._telling = telling
        self._profiles: dict[Path, dict[str, Profile] | None] = {}
        self._hosts_path = overrides.hosts
        self._hosts = self._host_list(overrides.hosts)
        self._conditions = Conditions(telling, self._hosts, overrides.hosts)
        self._nic: str | None = self._option("--nic", overrides.nic, read_device)
        self._netem_at: NetemPlace | None = self._option("--netem-at", overrides.netem_at, read_place)
        self._topologies: dict[str, ini.Section] = {}
        for section in file.sections:
            name = _topology_name(section)
            if name == "":
                self._telling.problem(
                    section, None, "has no name: write [topology NAME], and topology = NAME in entries"
                )
            if name is not None and self._topologies.setdefault(name, section) is not section:
                self._telling.problem(section, None, f"is a second topology {name}: remove one")

    def entries(self) -> tuple[Entry, ...]:
        self._check_default()
        for section in self._topologies.values():
            self._check_topology(section)
        sections = [section for section in self._file.sections if _topology_name(section) is None]
        if not sections:
            self._telling.problem(self._file.default, None, "the file has no entry: add a section such as [my-entry]")
        entries = [self._entry(section) for section in sections]
        enabled = tuple(entry for entry in entries if entry)
        real = any(isinstance(condition.path, HostPath) for entry in enabled for condition in entry.conditions)
        if self._hosts_path and not real:
            message = "has no effect: no enabled entry is between real hosts"
            self._telling.notices.append(Problem(self._hosts_path, None, None, None, message))
        if sections and not enabled and not self._telling.problems:
            self._telling.problem(self._file.default, None, "no entry is enabled: set enabled = on in one")
        return enabled

    # Other files and the command line

    def _host_list(self, path: Path | None) -> tuple[HostRow, ...] | None:
        if path is None:
            return None
        try:
            return read_hosts(path)
        except ConfigError as error:
            self._telling.problems += error.problems
            return ()

    def _option(self, name: str, text: str | None, read: Any) -> Any:
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            self._telling.problems.append(Problem(self._file.path, None, None, None, f"{name} {quoted(text)} {error}"))
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
                self._telling.problems += error.problems
        return self._profiles[path]

    # Sections

    def _check_default(self) -> None:
        default = self._file.default
        for key, text in default.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key not in ALL_KEYS:
                self._telling.problem(default, key, "is an unknown key" + nearest(key, ALL_KEYS))
            elif text:
                self._read(default, ALL_KEYS, key, text)
        read_sweeps(self._telling, default, ALL_KEYS)

    def _check_topology(self, section: ini.Section) -> None:
        for key, text in section.own.items():
            if key not in TOPOLOGY_KEYS:
                self._telling.problem(section, key, "is an unknown key" + nearest(key, TOPOLOGY_KEYS))
            elif text:
                self._read(section, TOPOLOGY_KEYS, key, text)

    def _entry(self, section: ini.Section) -> Entry | None:
        before = len(self._telling.problems)
        wrong = section.name in RESERVED_NAMES or not section.name.isprintable()
        if wrong or len(section.name.encode()) > MOST_NAME_BYTES:
            taken = "is taken by a file of the results" if section.name in RESERVED_NAMES else "is too long"
            taken = taken if section.name.isprintable() else "has characters that can't be printed"
            self._telling.problem(
                section, None, f"an entry's name is that of a folder, and this one {taken}: choose another"
            )
        given = {key: text for key, text in (section.inherited | section.own).items() if text}
        sort = self._sort(section, given)
        self._check_keys(section, sort)
        sweeps = read_sweeps(
            self._telling, section, KeyTable({**sort.keys, **(TOPOLOGY_KEYS if sort is ON_TOPOLOGY else {})})
        )
        self._check_once(section, given, sweeps)
        profiles = self._profiles_of(given.get("profile-file") if sort is not ON_TOPOLOGY else None)
        texts = self._texts(section, sort, given, sweeps)
        if texts is None or profiles is None or len(self._telling.problems) > before or not _readable(texts):
            return None
        self._check_type(section, sort, texts["type"])
        if len(self._telling.problems) > before:
            return None
        around = Surroundings(self._nic, self._netem_at, profiles)
        of_path = self._topologies[texts["topology"]] if sort is ON_TOPOLOGY else None
        conditions = tuple(self._conditions.of(section, sort, texts, sweeps, around, of_path))
        if not ENTRY_KEYS["enabled"].read(texts["enabled"]) or len(self._telling.problems) > before:
            return None
        if sort is PSCHEDULER and len(conditions) > 1 and texts["repeat-order"] == "shuffled" and "repeat" in texts:
            message = "keeps pScheduler's order in all iterations: leave repeat-order = shuffled out"
            self._telling.problem(section, "repeat", message)
            return None
        self._tell_notices(section, sort, given, sweeps)
        return Entry(
            name=section.name,
            iterations=ENTRY_KEYS["iterations"].read(texts["iterations"]),
            repeat_order=ENTRY_KEYS["repeat-order"].read(texts["repeat-order"]),
            accept_limits=ENTRY_KEYS["accept-limits"].read(texts["accept-limits"]),
            conditions=conditions,
            index=ENTRY_KEYS["index"].read(texts["index"]) if "index" in texts else None,
        )

    def _sort(self, section: ini.Section, given: Mapping[str, str]) -> Sort:
        """What the entry says itself stands before [DEFAULT], and that before a list of hosts."""
        own = [key for key in ("topology", "dst") if section.own.get(key)]
        named = own or [key for key in ("topology", "dst") if given.get(key)]
        if len(named) > 1:
            self._telling.problem(
                section, None if not own else "topology",
                "stands beside dst: topology = NAME is an emulated path, and dst = HOST a real one; remove one",
            )  # fmt: skip
        elif not named and self._hosts is None:
            self._telling.problem(
                section, None,
                "names no path: write topology = NAME for an emulated one, or dst = HOST for a real one, "
                "or give a list of hosts with -H",
            )  # fmt: skip
        if "topology" in named:
            return ON_TOPOLOGY
        if given.get("src-cmd") or f"{SWEEP_PREFIX}src-cmd" in given:
            return COMMAND
        return PSCHEDULER if given.get("type", "").lower() == pscheduler.TYPE else OWN_IPERF3

    def _check_keys(self, section: ini.Section, sort: Sort) -> None:
        for key, text in section.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key in sort.keys or (sort is COMMAND and key in DECIDED_BY_COMMAND):
                if text:
                    self._read(section, ENTRY_KEYS, key, text)
            elif key in TOPOLOGY_KEYS:
                vary = f"; to vary it here write sweep.{key}" if sort is ON_TOPOLOGY else ", and this entry has none"
                self._telling.problem(section, key, f"belongs to a [topology NAME] section{vary}")
            elif key in ENTRY_KEYS:
                other = next(named for table, named in _BELONGS if key in table)
                if text and key not in ("topology", "dst"):
                    self._telling.problem(section, key, f"belongs to an entry {other}, and this is one {sort.named}")
            else:
                self._telling.problem(section, key, "is an unknown key" + nearest(key, [*sort.keys, "sweep.KEY"]))

    def _check_type(self, section: ini.Section, sort: Sort, text: str) -> None:
        if sort in (COMMAND, PSCHEDULER) or text.lower() in GENERATORS:
            return
        if text.lower() == pscheduler.TYPE:
            message = "perfSONAR tests paths that there are: write dst = HOST instead of topology"
        elif sort is ON_TOPOLOGY or len(text.split()) == 1:
            message = f"{quoted(text)} is unknown{nearest(text, GENERATORS)}"
        else:
            message = f"{quoted(text)} is a label, and nothing says what makes the traffic: give a src-cmd"
        self._telling.problem(section, "type", message)

    def _check_once(self, section: ini.Section, given: Mapping[str, str], sweeps: Mapping[str, Sweep]) -> None:
        for key in ("src-cmd", "dst-cmd"):
            if key in sweeps and given.get(f"{key}-once", "off").lower() not in OFF:
                self._telling.problem(
                    section, f"{key}-once", f"keeps one {key} for all runs, and sweep.{key} has several"
                )

    def _tell_notices(
        self, section: ini.Section, sort: Sort, given: Mapping[str, str], sweeps: Mapping[str, Sweep]
    ) -> None:
        """What of an enabled entry has no effect."""
        if sort is ON_TOPOLOGY:
            return
        for key in HOST_ENTRY.values():
            if (
                key.obsolete
                and key.name in given
                and (key.name in ("ss", "instrument") or given[key.name].lower() not in OFF)
            ):
                self._telling.notice(section, key.name, f"has no effect any more: {key.obsolete}")
        if sort is COMMAND:
            for name in DECIDED_BY_COMMAND:
                if section.own.get(name):
                    self._telling.notice(section, name, "has no effect beside src-cmd: the command decides")
        if self._hosts is not None:
            for name in ("dst", "dst-host", "alias"):
                if section.own.get(name):
                    self._telling.notice(section, name, "has no effect with -H: the list names the destinations")
        recorded = given.get("tcpdump", "off").lower() not in OFF or "tcpdump" in sweeps
        if section.own.get("tcpdump-filt") and not recorded:
            self._telling.notice(section, "tcpdump-filt", "has no effect without tcpdump = on")
        if given.get("src-cmd-once", "off").lower() not in OFF and not given.get("duration"):
            message = "has no effect without duration, the length of a run: src-cmd is run to its end for each run"
            self._telling.notice(section, "src-cmd-once", message)

    # Values

    def _read(self, section: ini.Section, keys: KeyTable, name: str, text: str) -> None:
        """Tells what is wrong with a value, or with the rest of a name that belongs to a family."""
        key = keys[name]
        try:
            _read_member(key, name)
        except ValueError as error:
            self._telling.problem(section, name, str(error))
        self._telling.read(section, key, text, name)

    def _texts(
        self, section: ini.Section, sort: Sort, given: Mapping[str, str], sweeps: Mapping[str, Sweep]
    ) -> dict[str, str] | None:
        """Every key of the entry and of its topology with its text: own, from [DEFAULT], or the default."""
        texts: dict[str, str] = {}
        self._fill(texts, section, sort.keys, given, sweeps)
        if sort is COMMAND:
            texts |= {name: ENTRY_KEYS[name].default or "" for name in DECIDED_BY_COMMAND}
            if "duration" not in given:
                texts.pop("duration")  # it follows from the command
        if sort is not ON_TOPOLOGY:
            return texts
        path = self._topologies.get(texts.get("topology", ""))
        if path is None:
            if "topology" in texts:
                hint = nearest(texts["topology"], self._topologies) if self._topologies else ": there is none"
                self._telling.problem(
                    section, "topology", f"no section [topology {texts['topology']}] in this file{hint}"
                )
            return None
        self._fill(texts, path, TOPOLOGY_KEYS, path.inherited | path.own, sweeps)
        return texts

    def _fill(
        self,
        texts: dict[str, str],
        section: ini.Section,
        keys: KeyTable,
        given: Mapping[str, str],
        swept: Mapping[str, Sweep],
    ) -> None:
        for key in keys.values():
            text = given.get(key.name) or key.default
            if text is not None:
                texts[key.name] = text
            elif key.required and key.name not in swept and not _has_member(given, key.unless):
                self._telling.problem(
                    section, key.name, f"is missing: {key.meaning}, for instance {key.name} = {key.example}"
                )
        texts.update((name, text) for name, text in given.items() if text and keys.get(name) is None and name in keys)


def _has_member(given: Iterable[str], family: str | None) -> bool:
    return family is not None and any(name.startswith(family.partition(".")[0] + ".") for name in given)


def _read_member(key: Key, name: str) -> None:
    if key.member:
        key.member(name.partition(".")[2])


def _readable(texts: Mapping[str, str]) -> bool:
    """Whether all values and names can be read; what can't in [DEFAULT] or in the topology was told there."""
    try:
        settings_of(texts)
        for name in texts:
            _read_member(ALL_KEYS[name], name)
    except ValueError:
        return False
    return True
