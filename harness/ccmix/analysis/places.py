"""Says what compared runs share, a place: a path with its traffic, but without the CCAs.

Places whose settings differ in only one setting are compared, too, to see the effect of it.
"""

from dataclasses import dataclass, field, replace

from ccmix.analysis.counting import requested_traffic, studied_groups
from ccmix.analysis.path_text import OF_KEYS, STREAMS, path_settings, swept_text
from ccmix.model import (
    GroupedSource,
    HostPath,
    HttpSource,
    Topology,
    Traffic,
    TrafficSource,
    WorkloadSource,
)
from ccmix.model.results import FinishedRun
from ccmix.terms import BESIDE

CCA = "cca"  # the key whose sweep varies CCAs


@dataclass(frozen=True)
class SharedPlace:
    """What compared runs have in common: everything except their CCAs, entry, seed and
    iteration.
    """

    dst: str
    condition: tuple[tuple[str, str], ...]  # without CCAs
    path: Topology | HostPath
    traffic: Traffic  # its groups without their CCAs
    name: str = field(
        default="", compare=False
    )  # of the emulated path; two paths that are alike may have different names


def place_of(finished: FinishedRun) -> SharedPlace:
    """Returns the properties that a run shares with the runs it may be compared with: its
    destination, swept values, path and traffic, without the CCAs of the studied traffic. Cross
    traffic counts as a part of the path, so its CCAs are kept.
    """
    run = finished.run
    condition = tuple(item for item in run.condition.items() if item[0] != CCA)
    path = replace(run.path, name="") if isinstance(run.path, Topology) else run.path
    planned = requested_traffic(finished)
    sources = (
        each if each in planned.cross_traffic else _without_cca(each) for each in planned.sources
    )
    traffic = replace(planned, sources=tuple(sources))
    name = run.path.name if isinstance(run.path, Topology) else ""
    return SharedPlace(run.dst, condition, path, traffic, name)


def _without_cca(source: TrafficSource) -> TrafficSource:
    """Returns a traffic source with '' instead of its CCA, so that sources with different CCAs are
    equal.
    """
    if isinstance(source, GroupedSource):
        return replace(source, groups=tuple(replace(group, cca="") for group in source.groups))
    if isinstance(source, HttpSource | WorkloadSource):
        return replace(source, cca="")
    return source


def only_cca(finished: FinishedRun) -> str | None:
    """Returns the CCA that all flows of a run use; None if there are several, or if other tests ran
    at the same time as an imported run.
    """
    if BESIDE in finished.run.condition:
        return None
    ccas = {group.cca for group in studied_groups(finished)}
    return ccas.pop() if len(ccas) == 1 else None


@dataclass(frozen=True)
class PlaceSettings:
    """Holds the settings of a place (a path with its traffic), to find places that differ in only
    one setting. Places are compared only if `rest` is equal.
    """

    settings: tuple[tuple[str, str], ...]  # name and value as text
    rest: tuple[object, ...]  # all else; places in which this differs are not compared


def settings_of(place: SharedPlace, entry: str) -> PlaceSettings:
    """Returns the settings of a place as text, to find the places that differ in only one setting.

    On an emulated path, these are all settings of the path, swept or not. On a real path, or if a
    key is swept that is not in OF_KEYS, they are only the swept values; then only places of the
    same entry and destination can be compared.
    """
    path, traffic, condition = place.path, place.traffic, place.condition
    if isinstance(path, Topology) and all(key in OF_KEYS for key, _ in condition):
        settings = path_settings(path) | {STREAMS: str(traffic.streams)}
        return PlaceSettings(
            tuple(settings.items()), ("emulated", _without_streams(traffic), _rest(path))
        )
    swept = tuple((key, swept_text(path, key, value)) for key, value in condition)
    return PlaceSettings(swept, ("swept", entry, place.dst, tuple(key for key, _ in condition)))


def _without_streams(traffic: Traffic) -> Traffic:
    """Returns the traffic with all numbers of streams set to 0. Places are compared by this,
    because the number of streams is compared as a setting of its own.
    """
    sources = tuple(
        replace(source, streams=0) if isinstance(source, GroupedSource) else source
        for source in traffic.sources
    )
    return replace(traffic, sources=sources)


def _rest(path: Topology) -> tuple[object, ...]:
    """Returns the parts of a path that path_settings() leaves out. They must be equal for places to
    be compared.
    """
    senders = tuple(sender.name for sender in path.senders)
    return (
        senders,
        path.receivers,
        path.shaper,
        path.burst_bytes,
        path.ack_bottleneck,
        path.control,
        path.changes,
    )
