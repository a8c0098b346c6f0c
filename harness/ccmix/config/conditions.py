"""Expands an INI entry into its conditions: one per combination of swept values and destination."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.config import host_paths, ini
from ccmix.config.flows import (
    hosts_with_flows,
    named_sources,
    path_steps_with_cross_traffic,
    test_with_cross_traffic,
)
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
    traffic_of_sources,
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


class Conditions:
    """Makes the conditions of a file's entries, and reports values that contradict each other.

    `hosts` are the rows of the CSV file `hosts_path`, which the option -H names, and which replace
    the key dst. Both are None if the option is not given.
    """

    def __init__(
        self, diagnostics: Diagnostics, hosts: Sequence[HostRow] | None, hosts_path: Path | None
    ) -> None:
        self._diagnostics = diagnostics
        self._problem = diagnostics.problem
        self._hosts = hosts
        self._hosts_path = hosts_path

    def expand_sweeps(
        self,
        section: ini.Section,
        entry_type: EntryType,
        unswept: Settings,
        sweeps: Mapping[str, Sweep],
        defaults: PathDefaults,
        topology_section: ini.Section | None,
    ) -> Iterator[Condition]:
        """Yields a condition for each combination of the entry's swept values, and for each
        destination. The first sweep varies slowest.

        `unswept` are the values of the keys that are not swept, `sweeps` those of the swept keys.
        `topology_section` is the section [topology NAME] that describes the entry's emulated path;
        None for an entry between real hosts. Stops after the first combination with a problem,
        because the others often repeat it.
        """
        run_count = unswept["iterations"] * (
            len(self._hosts or ()) if entry_type is not ON_TOPOLOGY and self._hosts else 1
        )
        for sweep in sweeps.values():
            run_count *= len(sweep.settings)
        if run_count > MOST_RUNS:
            self._problem(
                section,
                None,
                f"its sweeps and iterations make {run_count} runs, more than {MOST_RUNS}",
            )
            return
        for combination in itertools.product(*(sweep.settings for sweep in sweeps.values())):
            swept_settings = dict(zip(sweeps, combination, strict=True))
            values = {key: setting.text for key, setting in swept_settings.items()}
            if len((folder := condition_name(values)).encode()) > MOST_NAME_BYTES:
                self._problem(
                    section,
                    None,
                    f"a condition's name becomes a folder's name, and {folder[:40]}... is too long",
                )
                return
            problems_before = len(self._diagnostics.problems)
            swept = {
                key: setting.value
                for key, setting in swept_settings.items()
                if not sweeps[key].parameter
            }
            settings = {**unswept, **swept}
            parameter = module_parameter(sweeps, values)
            if topology_section:
                yield from self._emulated_condition(
                    section, topology_section, values, settings, parameter
                )
            else:
                yield from self._host_conditions(
                    section, entry_type, values, settings, parameter, defaults
                )
            if len(self._diagnostics.problems) > problems_before:
                return

    def _emulated_condition(
        self,
        section: ini.Section,
        topology_section: ini.Section,
        values: dict[str, str],
        settings: Settings,
        parameter: ModuleParameter | None,
    ) -> Iterator[Condition]:
        """Yields the condition of one combination of swept values on an emulated path. If the
        values contradict each other, reports a problem and yields nothing.

        `values` are the swept values as written, `settings` all values of the entry and its path by
        key, `parameter` a swept kernel module parameter.
        """
        try:
            path = topology(settings, parameter)
            sources: Sequence[TrafficSource] = named_sources(
                settings, path, self._diagnostics.folder
            )
            if settings["type"].lower() == PATH_TYPE:
                sources = path_steps_with_cross_traffic(sources, path, settings["load-cap"])
            elif not sources or _describes_test(section):
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
            self._report_contradiction(contradiction, (section, topology_section), values)
            return
        yield Condition(values, path, traffic)

    def _report_contradiction(
        self,
        contradiction: Contradiction,
        sections: Sequence[ini.Section],
        swept: Mapping[str, str],
    ) -> None:
        """Reports a contradiction at the line of its key, which is in the entry or in its topology.

        `sections` are the section of the entry and, for an emulated path, that of its topology.
        `swept` are the swept values as written; if the key is swept, the message names its value.
        """
        key, message = contradiction.key, str(contradiction)
        if key and (value := swept.get(key)):
            key, message = f"sweep.{key}", about(value, message)
        sections_with_key = (section for section in sections if key in section.own)
        default_section = sections[-1 if key in TOPOLOGY_KEYS else 0]
        self._problem(next(sections_with_key, default_section), key, message)

    def _host_conditions(
        self,
        section: ini.Section,
        entry_type: EntryType,
        values: dict[str, str],
        settings: Settings,
        parameter: ModuleParameter | None,
        defaults: PathDefaults,
    ) -> Iterator[Condition]:
        """Yields the conditions of one combination of swept values between real hosts, one for each
        destination. Reports values that contradict each other.

        `values` are the swept values as written, `settings` all values of the entry by key,
        `parameter` a swept kernel module parameter. `defaults` has further values from the command
        line and from the file of profiles.
        """
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
                    traffic = traffic_of_sources(settings, [source])
                    check_ccas(traffic)
                    check_traffic(traffic, path.port)
            except Contradiction as contradiction:
                self._report_contradiction(contradiction, (section,), values)
                return
            contradiction_found = path_contradiction(path, traffic)
            if task and not contradiction_found:
                contradiction_found = host_paths.task_contradiction(path, traffic, task, settings)
            if contradiction_found:
                self._problem(section, *contradiction_found)
            yield Condition(values, path, traffic)

    def _destinations(self, settings: Settings) -> Iterator[tuple[HostRow | None, Destination]]:
        """Yields the destinations from the list of hosts (option -H), each with its row. Without a
        list, yields only the destination of the key dst, with None.
        """
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
        """Returns whether the destination names no netem profile, or one that exists. Reports an
        unknown profile at the place that names it: the list of hosts (`row`), or the entry.
        """
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
    """Returns whether an entry sets or sweeps cca or streams, the keys of an iperf3 test. The
    traffic of its keys flows.NAME is then cross traffic for this test.
    """
    return any(section.own.get(name) for key in TEST_KEYS for name in (key, f"sweep.{key}"))
