"""The points of an entry's sweeps, to each of its destinations."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ccmix.config import ini, pscheduler
from ccmix.config.flows import flows_of
from ccmix.config.host_paths import (
    Surroundings,
    command_traffic,
    destination_of_entry,
    destination_of_row,
    host_path,
    path_contradiction,
)
from ccmix.config.hostlist import HostRow
from ccmix.config.keys import ALL_KEYS, TOPOLOGY_KEYS
from ccmix.config.problems import Contradiction, Problem, nearest, quoted
from ccmix.config.sorts import ON_TOPOLOGY, PSCHEDULER, Sort
from ccmix.config.sweeps import Sweep, module_parameter
from ccmix.config.telling import Telling
from ccmix.config.topologies import check_topology, check_traffic, own_traffic, topology
from ccmix.generators import iperf3
from ccmix.model import Destination, HostPath, ModuleParameter, Topology, Traffic, condition_name

MOST_RUNS = 100_000
MOST_NAME_BYTES = 80  # a folder's name may have 255, and a byte may take three there


@dataclass(frozen=True)
class Condition:
    """One point of an entry's sweeps, to one destination: the swept values as written, and what they come to."""

    values: dict[str, str]
    path: Topology | HostPath
    traffic: Traffic


class Conditions:
    """Makes the conditions of a file's entries; `hosts`, read from `hosts_path`, stand for dst where they are given."""

    def __init__(self, telling: Telling, hosts: Sequence[HostRow] | None, hosts_path: Path | None) -> None:
        self._telling = telling
        self._hosts = hosts
        self._hosts_path = hosts_path

    def of(
        self,
        section: ini.Section,
        sort: Sort,
        texts: Mapping[str, str],
        sweeps: Mapping[str, Sweep],
        around: Surroundings,
        of_path: ini.Section | None,
    ) -> Iterator[Condition]:
        """All conditions of an entry, the first sweep varying slowest; only the first wrong point is told of.

        `of_path` is the section of its topology, if it has one.
        """
        number = int(texts["iterations"]) * (len(self._hosts or ()) if sort is not ON_TOPOLOGY and self._hosts else 1)
        for sweep in sweeps.values():
            number *= len(sweep.values)
        if number > MOST_RUNS:
            self._telling.problem(section, None, f"its sweeps and iterations make {number} runs, more than {MOST_RUNS}")
            return
        unswept = settings_of(texts)
        for point in itertools.product(*(sweep.values for sweep in sweeps.values())):
            values = dict(zip(sweeps, point, strict=True))
            if len((folder := condition_name(values)).encode()) > MOST_NAME_BYTES:
                self._telling.problem(
                    section, None, f"a condition's name is that of a folder, and {folder[:40]}... is too long"
                )
                return
            before = len(self._telling.problems)
            keys = {key: text for key, text in values.items() if not sweeps[key].parameter}
            settings = {**unswept, **settings_of(keys)}
            if of_path:
                yield from self._emulated(section, of_path, values, settings)
            else:
                parameter = module_parameter(sweeps, values)
                yield from self._between_hosts(section, sort, values, settings, parameter, around)
            if len(self._telling.problems) > before:
                return

    def _emulated(
        self, section: ini.Section, of_path: ini.Section, values: dict[str, str], settings: Mapping[str, Any]
    ) -> Iterator[Condition]:
        traffic = own_traffic(settings)
        try:
            path = topology(settings)
            if flows := flows_of(settings, path, self._telling.folder):
                traffic = replace(traffic, groups=(), streams=0, flows=flows)
                self._without_effect(section, values)
            check_traffic(traffic, iperf3.PORT)
            check_topology(path)
        except Contradiction as told:
            self._contradiction(told, (section, of_path), values)
            return
        yield Condition(values, path, traffic)

    def _contradiction(self, told: Contradiction, sections: Sequence[ini.Section], swept: Mapping[str, str]) -> None:
        """At the key, where one of the sections has it: the entry, or its topology."""
        key, message = told.key, str(told)
        if key and (value := swept.get(key)):
            key, message = f"sweep.{key}", f"{quoted(value)} {message}"
        of_key = (section for section in sections if key in section.own)
        unset = sections[-1 if key in TOPOLOGY_KEYS else 0]
        self._telling.problem(next(of_key, unset), key, message)

    def _without_effect(self, section: ini.Section, swept: Mapping[str, str]) -> None:
        for key in ("cca", "streams"):
            if key in swept or key in section.own:
                name = f"sweep.{key}" if key in swept else key
                self._telling.problem(
                    section, name, "has no effect beside lines of flows, which say what is sent: remove it"
                )

    def _between_hosts(
        self,
        section: ini.Section,
        sort: Sort,
        values: dict[str, str],
        settings: Mapping[str, Any],
        parameter: ModuleParameter | None,
        around: Surroundings,
    ) -> Iterator[Condition]:
        for row, dst in self._destinations(settings):
            if not self._profile_is_known(section, settings, row, dst, around):
                continue
            task = pscheduler.task(settings, self._telling.folder) if sort is PSCHEDULER else None
            path = host_path(settings, dst, parameter, around, task)
            try:
                if path.commands.src:
                    traffic = command_traffic(settings, path.commands.src)
                else:
                    traffic = own_traffic(settings)
                    check_traffic(traffic, path.port)
            except Contradiction as told:
                self._contradiction(told, (section,), values)
                return
            wrong = path_contradiction(path, traffic)
            if path.task and not wrong:
                wrong = pscheduler.task_contradiction(path, traffic, settings)
            if wrong:
                self._telling.problem(section, *wrong)
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
        if row and row.profile and self._hosts_path:
            self._telling.problems.append(Problem(self._hosts_path, row.line, None, "profile", message))
        else:
            self._telling.problem(section, "profile", message)
        return False


def settings_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of one point; keys that are unset are left out."""
    return {key: ALL_KEYS[key].read(text) for key, text in texts.items()}
