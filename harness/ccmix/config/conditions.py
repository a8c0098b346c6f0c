"""Expands an INI entry into its conditions: one per combination of swept values and destination."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ccmix.config import host_paths, ini
from ccmix.config.contradictions import check_ccas, check_pacing, check_topology, check_traffic
from ccmix.config.flows import (
    hosts_with_flows,
    named_sources,
    path_steps_with_cross_traffic,
    test_with_cross_traffic,
)
from ccmix.config.host_paths import (
    PathDefaults,
    check_host_path,
    check_task,
    command_traffic,
    destination_of_entry,
    destination_of_row,
    host_path,
)
from ccmix.config.hostlist import HostRow
from ccmix.config.keys import COMMAND, ON_TOPOLOGY, PATH_TYPE, PSCHEDULER, TOPOLOGY_KEYS, EntryType
from ccmix.config.problems import Contradiction, Problem, about, nearest, quoted
from ccmix.config.sections import FileValues, Sweep, module_parameter
from ccmix.config.topologies import topology, traffic_of_sources
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
TEST_KEYS = ("cca", "streams")  # keys that describe the test
MOST_NAME_BYTES = 80  # a folder's name may have 255, and each byte may need three of them


@dataclass(frozen=True)
class Condition:
    """Describes one measured situation of an entry: a combination of its swept values, on one path
    (emulated, or to one destination).

    `values` are the swept values by key, as written in the file.
    """

    values: dict[str, str]
    path: Topology | HostPath
    traffic: Traffic


@dataclass(frozen=True)
class EntryValues:
    """Holds the values of an entry: `unswept` those of the keys that are not swept, and `sweeps`
    those of the swept keys. `path_defaults` are for an entry between real hosts.
    """

    section: ini.Section
    type: EntryType
    unswept: Settings
    sweeps: Mapping[str, Sweep]
    path_defaults: PathDefaults


@dataclass(frozen=True)
class _Combination:
    """Holds one combination of an entry's swept values: as written in the file (`swept`), all
    values of the entry and its path by key (`settings`), and a swept kernel module parameter.
    """

    swept: dict[str, str]
    settings: Settings
    parameter: ModuleParameter | None


class Conditions:
    """Makes the conditions of an entry, and reports values that contradict each other."""

    def __init__(self, file: FileValues, entry: EntryValues) -> None:
        """Takes the entry's values, and those that all entries of its file share."""
        self._file = file
        self._problems = file.diagnostics.problems
        self._entry = entry
        self._section = entry.section

    def expand_sweeps(self) -> Iterator[Condition]:
        """Yields a condition for each combination of the entry's swept values, and for each
        destination. The first sweep varies slowest.

        Stops after the first combination with a problem, because the others often repeat it.
        """
        sweeps, unswept = self._entry.sweeps, self._entry.unswept
        on_topology = self._entry.type is ON_TOPOLOGY
        run_count = unswept["iterations"] * (
            len(self._file.hosts) if self._file.hosts and not on_topology else 1
        )
        for sweep in sweeps.values():
            run_count *= len(sweep.settings)
        if run_count > MOST_RUNS:
            self._problem(
                None, f"its sweeps and iterations make {run_count} runs, more than {MOST_RUNS}"
            )
            return
        for settings in itertools.product(*(sweep.settings for sweep in sweeps.values())):
            swept = {key: setting.text for key, setting in zip(sweeps, settings, strict=True)}
            if len((folder := condition_name(swept)).encode()) > MOST_NAME_BYTES:
                self._problem(
                    None,
                    f"a condition's name becomes a folder's name, and {folder[:40]}... is too long",
                )
                return
            problems_before = len(self._problems)
            of_keys = {
                key: setting.value
                for (key, sweep), setting in zip(sweeps.items(), settings, strict=True)
                if not sweep.parameter
            }
            parameter = module_parameter(sweeps, swept)
            combination = _Combination(swept, {**unswept, **of_keys}, parameter)
            if on_topology:
                yield from self._emulated_condition(combination)
            else:
                yield from self._host_conditions(combination)
            if len(self._problems) > problems_before:
                return

    def _problem(self, key: str | None, message: str) -> None:
        """Adds a mistake; with key None, it is about the entry as a whole."""
        self._file.diagnostics.problem(self._section, key, message)

    def _emulated_condition(self, combination: _Combination) -> Iterator[Condition]:
        """Yields the condition of one combination of swept values on an emulated path. If the
        values contradict each other, reports a problem and yields nothing.
        """
        settings = combination.settings
        try:
            path = topology(settings, combination.parameter)
            sources: Sequence[TrafficSource] = named_sources(
                settings, path, self._file.diagnostics.folder
            )
            if settings["type"].lower() == PATH_TYPE:
                sources = path_steps_with_cross_traffic(sources, path, settings["load-cap"])
            elif not sources or _describes_test(self._section):
                groups, streams = settings["cca"], settings["streams"]
                tests = [Iperf3Source("", sender.name, groups, streams) for sender in path.senders]
                hosts = hosts_with_flows(settings)
                sources = (
                    test_with_cross_traffic(sources, path, groups, streams, hosts)
                    if hosts
                    else tests
                )
            traffic = traffic_of_sources(settings, sources)
            if path.kernel == STOCK_KERNEL:
                check_ccas(traffic)
            check_traffic(traffic, iperf3.PORT)
            check_topology(path)
            check_pacing(path, traffic)
        except Contradiction as contradiction:
            self._report_contradiction(contradiction, combination)
            return
        yield Condition(combination.swept, path, traffic)

    def _report_contradiction(
        self, contradiction: Contradiction, combination: _Combination
    ) -> None:
        """Reports a contradiction at the line of its key, which is in the entry or in its topology.
        If the key is swept, the message names its value.
        """
        key, message = contradiction.key, str(contradiction)
        if key and (value := combination.swept.get(key)):
            key, message = f"sweep.{key}", about(value, message)
        section = self._section
        if self._entry.type is ON_TOPOLOGY and key not in section.own:
            of_path = self._file.topologies[combination.settings["topology"]].section
            section = of_path if key in of_path.own or key in TOPOLOGY_KEYS else section
        self._file.diagnostics.problem(section, key, message)

    def _host_conditions(self, combination: _Combination) -> Iterator[Condition]:
        """Yields the conditions of one combination of swept values between real hosts, one for each
        destination. Reports values that contradict each other.
        """
        settings, entry_type = combination.settings, self._entry.type
        folder = self._file.diagnostics.folder
        task = host_paths.task(settings, folder) if entry_type is PSCHEDULER else None
        for row, dst in self._destinations(settings):
            if not self._profile_is_known(settings, row, dst):
                continue
            path = host_path(
                settings,
                dst,
                combination.parameter,
                self._entry.path_defaults,
                by_pscheduler=task is not None,
            )
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
                    traffic = traffic_of_sources(settings, [source])
                    check_ccas(traffic)
                    check_traffic(traffic, path.port)
                check_host_path(path, traffic)
                if task:
                    check_task(path, traffic, task, settings)
            except Contradiction as contradiction:
                self._report_contradiction(contradiction, combination)
            else:
                yield Condition(combination.swept, path, traffic)

    def _destinations(self, settings: Settings) -> Iterator[tuple[HostRow | None, Destination]]:
        """Yields the destinations from the list of hosts (option -H), each with its row. Without a
        list, yields only the destination of the key dst, with None.
        """
        if self._file.hosts is None:
            yield None, destination_of_entry(settings)
        for row in self._file.hosts or ():
            yield row, destination_of_row(row, settings)

    def _profile_is_known(self, settings: Settings, row: HostRow | None, dst: Destination) -> bool:
        """Returns whether the destination names no netem profile, or one that exists. Reports an
        unknown profile at the place that names it: the list of hosts (`row`), or the entry.
        """
        profiles = self._entry.path_defaults.profiles
        if dst.profile is None or dst.profile in profiles:
            return True
        file = settings.get("profile-file")
        if file is None:
            message = (
                f"{quoted(dst.profile)} needs a profile-file, and [{self._section.name}] has none: "
                "add profile-file = FILE"
            )
        else:
            message = (
                f"{quoted(dst.profile)} is not a profile in {file}{nearest(dst.profile, profiles)}"
            )
        if row and row.profile and self._file.hosts_path:
            self._problems.append(Problem(self._file.hosts_path, message, row.line, key="profile"))
        else:
            self._problem("profile", message)
        return False


def _describes_test(section: ini.Section) -> bool:
    """Returns whether an entry sets or sweeps cca or streams, the keys of an iperf3 test. The
    traffic of its keys flows.NAME is then cross traffic for this test.
    """
    return any(section.own.get(name) for key in TEST_KEYS for name in (key, f"sweep.{key}"))
