"""Makes the conditions of an entry: the points of its sweeps, for each of its destinations."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.config import host_paths, ini
from ccmix.config.flows import hosts_of_lines, named_sources, own_test_beside, steps_beside
from ccmix.config.host_paths import (
    PathDefaults,
    command_traffic,
    destination_of_entry,
    destination_of_row,
    host_path,
    path_contradiction,
)
from ccmix.config.hostlist import HostRow
from ccmix.config.keys import COMMAND, ON_TOPOLOGY, PATH_TYPE, PSCHEDULER, TOPOLOGY_KEYS, EntryType
from ccmix.config.problems import Contradiction, Problem, about, nearest, quoted
from ccmix.config.sections import Diagnostics, Sweep, module_parameter
from ccmix.config.topologies import (
    check_ccas,
    check_pacing,
    check_topology,
    check_traffic,
    topology,
    traffic_of,
)
from ccmix.config.values import Settings
from ccmix.generators import iperf3
from ccmix.model import (
    STOCK_KERNEL,
    Destination,
    HostPath,
    Iperf3Source,
    ModuleParameter,
    PathSource,
    PschedulerSource,
    Topology,
    Traffic,
    TrafficSource,
    condition_name,
)
from ccmix.model.traffic import BETWEEN_HOSTS

MOST_RUNS = 100_000
OF_TEST = ("cca", "streams")  # keys that describe the test
MOST_NAME_BYTES = 80  # a folder's name may have 255, and each byte may need three of them


@dataclass(frozen=True)
class Condition:
    """Describes one point of an entry's sweeps, for one destination; `values` are the swept values
    as written.
    """

    values: dict[str, str]
    path: Topology | HostPath
    traffic: Traffic


class Conditions:
    """Makes the conditions of a file's entries; `hosts`, read from `hosts_path`, override dst."""

    def __init__(
        self, diagnostics: Diagnostics, hosts: Sequence[HostRow] | None, hosts_path: Path | None
    ) -> None:
        self._diagnostics = diagnostics
        self._problem = diagnostics.problem
        self._hosts = hosts
        self._hosts_path = hosts_path

    def of(
        self,
        section: ini.Section,
        entry_type: EntryType,
        unswept: Settings,
        sweeps: Mapping[str, Sweep],
        defaults: PathDefaults,
        of_path: ini.Section | None,
    ) -> Iterator[Condition]:
        """Yields all conditions of an entry, the first sweep varying slowest. Only the first wrong
        point is reported.

        `unswept` are the entry's own values, `of_path` is the section of its topology, if it has
        one.
        """
        number = unswept["iterations"] * (
            len(self._hosts or ()) if entry_type is not ON_TOPOLOGY and self._hosts else 1
        )
        for sweep in sweeps.values():
            number *= len(sweep.settings)
        if number > MOST_RUNS:
            self._problem(
                section,
                None,
                f"its sweeps and iterations make {number} runs, more than {MOST_RUNS}",
            )
            return
        for combination in itertools.product(*(sweep.settings for sweep in sweeps.values())):
            point = dict(zip(sweeps, combination, strict=True))
            values = {key: setting.text for key, setting in point.items()}
            if len((folder := condition_name(values)).encode()) > MOST_NAME_BYTES:
                self._problem(
                    section,
                    None,
                    f"a condition's name becomes a folder's name, and {folder[:40]}... is too long",
                )
                return
            before = len(self._diagnostics.problems)
            swept = {
                key: setting.value for key, setting in point.items() if not sweeps[key].parameter
            }
            settings = {**unswept, **swept}
            parameter = module_parameter(sweeps, values)
            if of_path:
                yield from self._emulated(section, of_path, values, settings, parameter)
            else:
                yield from self._between_hosts(
                    section, entry_type, values, settings, parameter, defaults
                )
            if len(self._diagnostics.problems) > before:
                return

    def _emulated(
        self,
        section: ini.Section,
        of_path: ini.Section,
        values: dict[str, str],
        settings: Settings,
        parameter: ModuleParameter | None,
    ) -> Iterator[Condition]:
        try:
            path = topology(settings, parameter)
            sources: Sequence[TrafficSource] = named_sources(
                settings, path, self._diagnostics.folder
            )
            if settings["type"].lower() == PATH_TYPE:
                sources = steps_beside(sources, path, settings["load-cap"])
            elif not sources or _describes_test(section):
                groups, streams = settings["cca"], settings["streams"]
                tests = [Iperf3Source("", sender.name, groups, streams) for sender in path.senders]
                hosts = hosts_of_lines(settings)
                sources = own_test_beside(sources, path, groups, streams, hosts) if hosts else tests
            traffic = traffic_of(settings, sources)
            if path.kernel == STOCK_KERNEL:
                check_ccas(traffic)
            check_traffic(traffic, iperf3.PORT)
            check_topology(path)
            check_pacing(path, traffic)
        except Contradiction as contradiction:
            self._contradiction(contradiction, (section, of_path), values)
            return
        yield Condition(values, path, traffic)

    def _contradiction(
        self,
        contradiction: Contradiction,
        sections: Sequence[ini.Section],
        swept: Mapping[str, str],
    ) -> None:
        """Notes a problem at its key in the section that has the key: the entry, or its
        topology.
        """
        key, message = contradiction.key, str(contradiction)
        if key and (value := swept.get(key)):
            key, message = f"sweep.{key}", about(value, message)
        of_key = (section for section in sections if key in section.own)
        unset = sections[-1 if key in TOPOLOGY_KEYS else 0]
        self._problem(next(of_key, unset), key, message)

    def _between_hosts(
        self,
        section: ini.Section,
        entry_type: EntryType,
        values: dict[str, str],
        settings: Settings,
        parameter: ModuleParameter | None,
        defaults: PathDefaults,
    ) -> Iterator[Condition]:
        for row, dst in self._destinations(settings):
            if not self._profile_is_known(section, settings, row, dst, defaults):
                continue
            task = (
                host_paths.task(settings, self._diagnostics.folder)
                if entry_type is PSCHEDULER
                else None
            )
            path = host_path(settings, dst, parameter, defaults, by_pscheduler=task is not None)
            try:
                if entry_type is COMMAND:
                    traffic = command_traffic(settings, dst.address)
                else:
                    groups, streams = settings["cca"], settings["streams"]
                    source: TrafficSource = Iperf3Source("", BETWEEN_HOSTS, groups, streams)
                    if settings["type"].lower() == PATH_TYPE:
                        source = PathSource("", BETWEEN_HOSTS, settings["load-cap"])
                    if task:
                        source = PschedulerSource("", BETWEEN_HOSTS, groups, streams, task)
                    traffic = traffic_of(settings, [source])
                    check_ccas(traffic)
                    check_traffic(traffic, path.port)
            except Contradiction as contradiction:
                self._contradiction(contradiction, (section,), values)
                return
            wrong = path_contradiction(path, traffic)
            if task and not wrong:
                wrong = host_paths.task_contradiction(path, traffic, task, settings)
            if wrong:
                self._problem(section, *wrong)
            yield Condition(values, path, traffic)

    def _destinations(self, settings: Settings) -> Iterator[tuple[HostRow | None, Destination]]:
        if self._hosts is None:
            yield None, destination_of_entry(settings)
        for row in self._hosts or ():
            yield row, destination_of_row(row, settings)

    def _profile_is_known(
        self,
        section: ini.Section,
        settings: Settings,
        row: HostRow | None,
        dst: Destination,
        defaults: PathDefaults,
    ) -> bool:
        if dst.profile is None or dst.profile in defaults.profiles:
            return True
        file = settings.get("profile-file")
        if file is None:
            message = (
                f"{quoted(dst.profile)} needs a profile-file, and [{section.name}] has none: "
                "add profile-file = FILE"
            )
        else:
            message = (
                f"{quoted(dst.profile)} is not a profile in "
                f"{file}{nearest(dst.profile, defaults.profiles)}"
            )
        if row and row.profile and self._hosts_path:
            self._diagnostics.problems.append(
                Problem(self._hosts_path, message, row.line, key="profile")
            )
        else:
            self._problem(section, "profile", message)
        return False


def _describes_test(section: ini.Section) -> bool:
    """Returns whether an entry describes a test itself, in addition to its flows."""
    return any(section.own.get(name) for key in OF_TEST for name in (key, f"sweep.{key}"))
