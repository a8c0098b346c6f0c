"""Sections to entries: each value read by its key, sweeps expanded, and all mistakes of the file told together."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.config import ini
from ccmix.config.keys import ENTRY_KEYS, TOPOLOGY_KEYS, Key
from ccmix.config.problems import ConfigError, Problem, nearest, quoted
from ccmix.model import HostPath, Topology, Traffic, condition_name
from ccmix.model.traffic import streams_of_groups
from ccmix.units import format_bytes

TOPOLOGY_PREFIX = "topology "
SWEEP_PREFIX = "sweep."
UNSWEEPABLE = ("type", "enabled", "topology", "iterations", "repeat-order", "accept-limits")
MOST_RUNS = 100_000
RESERVED_NAMES = ("campaign.json", "report", "report.html")  # beside the entries' folders in OUTDIR
MOST_NAME_BYTES = 80  # a folder's name may have 255, and a byte may take three there
MOST_DURATION_S, MOST_OMIT_S = 86400, 600  # iperf3's own limits (MAX_TIME and MAX_OMIT_TIME in iperf.h)
MOST_BUFFER_BYTES = 2**32 - 1  # tbf's limit is of 32 bits (struct tc_tbf_qopt)


@dataclass(frozen=True)
class Condition:
    """One point of an entry's sweeps: the swept values as written, and what they come to."""

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


def load(path: Path, text: str | None = None) -> tuple[Entry, ...]:
    """The enabled entries of an INI file, or of its text where that was read already, in its order.

    Raises ConfigError with every mistake of the file.
    """
    file = ini.read(path, ini.read_text(path) if text is None else text)
    reader = _Reader(file)
    entries = reader.entries()
    if reader.problems:
        raise ConfigError(sorted(dict.fromkeys(reader.problems), key=lambda problem: problem.line or 0))
    return entries


def select(entries: Sequence[Entry], only: Sequence[str], config: Path) -> list[Entry]:
    """The entries named by --only, or all. Raises ConfigError for a name that no entry has."""
    names = [entry.name for entry in entries]
    if unknown := [name for name in only if name not in names]:
        raise ConfigError(
            Problem(config, None, None, None, f"--only {name}: no enabled entry has this name{nearest(name, names)}")
            for name in unknown
        )
    return [entry for entry in entries if not only or entry.name in only]


class _Reader:
    """Reads one file and collects its problems on the way."""

    def __init__(self, file: ini.IniFile) -> None:
        self._file = file
        self.problems = list(file.problems)
        self._topologies: dict[str, ini.Section] = {}
        for section in file.sections:
            if section.name.startswith(TOPOLOGY_PREFIX):
                name = section.name.removeprefix(TOPOLOGY_PREFIX).strip()
                if self._topologies.setdefault(name, section) is not section:
                    self._problem(section, None, f"is a second topology {name}: remove one")

    def entries(self) -> tuple[Entry, ...]:
        self._check_default()
        for section in self._topologies.values():
            self._check_section(section, TOPOLOGY_KEYS)
        sections = [section for section in self._file.sections if not section.name.startswith(TOPOLOGY_PREFIX)]
        if not sections:
            self._problem(self._file.default, None, "the file has no entry: add a section such as [my-entry]")
        entries = [self._entry(section) for section in sections]
        enabled = tuple(entry for entry in entries if entry)
        if sections and not enabled and not self.problems:
            self._problem(self._file.default, None, "no entry is enabled: set enabled = on in one")
        return enabled

    def _problem(self, section: ini.Section, key: str | None, message: str) -> None:
        if key not in section.key_lines and key in self._file.default.key_lines:
            section = self._file.default  # where it stands
        line = section.key_lines.get(key or "") or section.line or None
        name = None if section is self._file.default and key is None else section.name
        self.problems.append(Problem(self._file.path, line, name, key, message))

    def _check_default(self) -> None:
        default = self._file.default
        known = {**ENTRY_KEYS, **TOPOLOGY_KEYS}
        for key, text in default.own.items():
            if key.startswith(SWEEP_PREFIX):
                continue
            if key not in known:
                self._problem(default, key, "is an unknown key" + nearest(key, known))
            else:
                self._read(default, known[key], text)
        self._sweeps(default)

    def _check_section(self, section: ini.Section, known: Mapping[str, Key]) -> None:
        for key, text in section.own.items():
            if key not in known:
                self._problem(section, key, "is an unknown key" + nearest(key, known))
            else:
                self._read(section, known[key], text)

    def _read(self, section: ini.Section, key: Key, text: str, name: str | None = None) -> None:
        try:
            key.read(text)
        except ValueError as error:
            self._problem(section, name or key.name, f"{quoted(text)} {error}")

    def _entry(self, section: ini.Section) -> Entry | None:
        before = len(self.problems)
        if section.name in RESERVED_NAMES or len(section.name.encode()) > MOST_NAME_BYTES:
            taken = "is taken by a file of the results" if section.name in RESERVED_NAMES else "is too long"
            self._problem(section, None, f"an entry's name is that of a folder, and this one {taken}: choose another")
        plain = {key: text for key, text in section.own.items() if not key.startswith(SWEEP_PREFIX)}
        for key, text in plain.items():
            if key in ENTRY_KEYS:
                self._read(section, ENTRY_KEYS[key], text)
            elif key in TOPOLOGY_KEYS:
                self._problem(section, key, f"belongs to a [topology NAME] section; to vary it here write sweep.{key}")
            else:
                self._problem(section, key, "is an unknown key" + nearest(key, [*ENTRY_KEYS, "sweep.KEY"]))
        sweeps = self._sweeps(section)
        texts = self._texts(section)
        if texts is None or len(self.problems) > before or not _readable(texts):
            return None
        conditions = tuple(self._conditions(section, texts, sweeps))
        if not ENTRY_KEYS["enabled"].read(texts["enabled"]) or len(self.problems) > before:
            return None
        values = {key: ENTRY_KEYS[key].read(texts[key]) for key in UNSWEEPABLE}
        return Entry(
            name=section.name,
            iterations=values["iterations"],
            repeat_order=values["repeat-order"],
            accept_limits=values["accept-limits"],
            conditions=conditions,
        )

    def _texts(self, section: ini.Section) -> dict[str, str] | None:
        """Every key of the entry and of its topology with its text: own, from [DEFAULT], or the default."""
        texts: dict[str, str] = {}
        given = section.inherited | section.own
        self._fill(texts, section, ENTRY_KEYS, given)
        topology = self._topologies.get(texts.get("topology", ""))
        if topology is None:
            if "topology" in texts:
                hint = nearest(texts["topology"], self._topologies) if self._topologies else ": there is none"
                self._problem(section, "topology", f"no section [topology {texts['topology']}] in this file{hint}")
            return None
        swept = {key.removeprefix(SWEEP_PREFIX): "" for key in given if key.startswith(SWEEP_PREFIX)}
        self._fill(texts, topology, TOPOLOGY_KEYS, topology.inherited | topology.own, optional=swept)
        return texts

    def _fill(
        self,
        texts: dict[str, str],
        section: ini.Section,
        keys: Mapping[str, Key],
        given: Mapping[str, str],
        optional: Mapping[str, str] | None = None,
    ) -> None:
        for key in keys.values():
            text = given.get(key.name) or key.default
            if text is not None:
                texts[key.name] = text
            elif key.name not in (optional or {}):
                self._problem(section, key.name, f"is missing: {key.meaning}, for instance {key.name} = {key.example}")

    def _sweeps(self, section: ini.Section) -> dict[str, tuple[str, ...]]:
        known = {**ENTRY_KEYS, **TOPOLOGY_KEYS}
        sweeps: dict[str, tuple[str, ...]] = {}
        for name, text in (section.inherited | section.own).items():
            if not name.startswith(SWEEP_PREFIX):
                continue
            key = name.removeprefix(SWEEP_PREFIX)
            separator = "\n" if "\n" in text.strip() or text.startswith("\n") else ","
            values = tuple(value.strip() for value in text.split(separator) if value.strip())
            if key not in known:
                self._problem(section, name, "sweeps an unknown key" + nearest(key, known))
            elif key in UNSWEEPABLE:
                self._problem(section, name, f"can't be swept: make an entry for each {key}")
            elif not values:
                self._problem(section, name, f"is an empty sweep: write {name} = A, B with values of {key}")
            elif len(set(values)) < len(values):
                self._problem(section, name, "names a value twice: each value makes a condition of its own")
            else:
                for value in values:
                    self._read(section, known[key], value, name)
                sweeps[key] = values
        return sweeps

    def _conditions(
        self, section: ini.Section, texts: Mapping[str, str], sweeps: Mapping[str, tuple[str, ...]]
    ) -> Iterator[Condition]:
        number = 1
        for swept in sweeps.values():
            number *= len(swept)
        number *= int(texts["iterations"])
        if number > MOST_RUNS:
            self._problem(section, None, f"its sweeps and iterations make {number} runs, more than {MOST_RUNS}")
            return
        for point in itertools.product(*sweeps.values()):
            values = dict(zip(sweeps, point, strict=True))
            if len(folder := condition_name(values)) > MOST_NAME_BYTES:
                self._problem(
                    section, None, f"a condition's name is that of a folder, and {folder[:40]}... is too long"
                )
                return
            settings = {key: known.read((dict(texts) | values)[key]) for key, known in _SWEPT_INTO.items()}
            traffic = Traffic(
                groups=settings["cca"],
                streams=settings["streams"],
                duration_s=settings["duration"],
                omit_s=settings["omit"],
                interval_s=settings["interval"],
                pacing_bps=settings["pacing"],
            )
            topology = Topology(
                rate_bps=settings["rate"],
                delay_s=settings["delay"],
                loss=settings["loss"],
                buffer=settings["buffer"],
                mtu_bytes=settings["mtu"],
                offloads=settings["offloads"],
            )
            if message := _contradiction(topology, traffic):
                self._problem(section, None, message)
                return
            yield Condition(values, topology, traffic)


def _readable(texts: Mapping[str, str]) -> bool:
    """Whether every value can be read; one of [DEFAULT] or of the topology that can't was told there."""
    known = {**ENTRY_KEYS, **TOPOLOGY_KEYS}
    try:
        for key, text in texts.items():
            known[key].read(text)
    except ValueError:
        return False
    return True


_SWEPT_INTO = {key: known for key, known in {**ENTRY_KEYS, **TOPOLOGY_KEYS}.items() if key not in UNSWEEPABLE}


def _contradiction(topology: Topology, traffic: Traffic) -> str | None:
    """What two right values say against each other."""
    if 0 in streams_of_groups(traffic.groups, traffic.streams):
        return f"cca names {len(traffic.groups)} groups, and with streams = {traffic.streams} not each of them gets one"
    if not 0.1 <= traffic.interval_s <= min(60.0, traffic.duration_s):
        return f"interval = {traffic.interval_s:g}s: iperf3 takes 100ms to 60s, and no more than duration"
    if topology.buffer.kind == "bdp" and topology.delay_s == 0:
        return "buffer is given in BDP, and the BDP of a path without delay is 0: give bytes or packets"
    if topology.buffer_bytes > MOST_BUFFER_BYTES:
        size = format_bytes(topology.buffer_bytes)
        return f"buffer comes to {size}: tbf holds {format_bytes(MOST_BUFFER_BYTES)} at most"
    for name, seconds, most in (
        ("duration", traffic.duration_s, MOST_DURATION_S), ("omit", traffic.omit_s, MOST_OMIT_S)
    ):  # fmt: skip
        if seconds != int(seconds) or seconds > most:
            return f"{name} = {seconds:g}s: iperf3 takes whole seconds, {most} at most"
    return None
