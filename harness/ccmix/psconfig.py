"""Makes a pSConfig template: a mesh of perfSONAR hosts that regularly test mixes of CCAs.

Every test is pScheduler's `throughput`. Each mix is a task of the mesh: for instance CUBIC and BBR
together, only CUBIC, and only BBR. For a mix of a single CCA, pScheduler uses its own iperf3.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ccmix.config.flows import GROUPS, check_known
from ccmix.config.problems import about
from ccmix.model import Group
from ccmix.model.group_grammar import is_group_list, streams_of_groups
from ccmix.units import format_time

MOST_STREAMS = 128  # of iperf3
TOOL = "iperf3mix"
# The time that a run takes besides its traffic: round trips of iperf3 at 200 ms for 16 streams,
# starting, ending, and the pause of pScheduler between two runs of a host
OVERHEAD_S = 20.0

_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)


class MeshError(ValueError):
    """Says that a mesh is not possible; the text names the option, and says what would be right."""


@dataclass(frozen=True)
class Mix:
    """Describes a test of the mesh: the CCAs whose flows share the path, such as 'cubic:8,bbr:8'.

    `text` is this list without blanks, `groups` are its parts, and `streams` is the number of flows
    in all.
    """

    text: str
    groups: tuple[Group, ...]
    streams: int

    @property
    def needs_tool(self) -> bool:
        """Whether the hosts need ccmix's plugin, because stock iperf3 can't mix CCAs."""
        return is_group_list(self.text)

    @property
    def name(self) -> str:
        """The name of its test and its task in the template."""
        return "throughput-" + re.sub(r"[^a-zA-Z0-9:._-]", "_", self.text)


@dataclass(frozen=True)
class Mesh:
    """Describes a mesh of hosts: each pair runs all `mixes` once in `interval_s`, both ways.

    `omit_s` is the time at the beginning that does not count. `archive` is the URL that takes
    results by HTTP, such as Logstash's ('': none). `ip_version` and `link_rtt_s` are None for
    pScheduler's defaults.
    """

    hosts: tuple[str, ...]
    mixes: tuple[Mix, ...]
    duration_s: int
    interval_s: int
    omit_s: int = 0
    archive: str = ""
    verify_tls: bool = True
    ip_version: int | None = None
    link_rtt_s: float | None = None

    def __post_init__(self) -> None:
        """Raises MeshError if the mesh is not possible.

        For instance, the interval may be too short for all tests of a host.
        """
        if len(self.hosts) < 2:
            raise MeshError("hosts: a mesh needs at least two")
        if repeated_hosts := [host for host in self.hosts if self.hosts.count(host) > 1]:
            raise MeshError(f"hosts: {repeated_hosts[0]} is named twice")
        for host in self.hosts:
            if not _is_host_name_or_address(host):
                raise MeshError(f"hosts: {host!r} is neither a host name nor an address")
        names = [mix.name for mix in self.mixes]
        if not names or len(set(names)) < len(names):
            raise MeshError("groups: write each mix once, such as cubic:8,bbr:8")
        if self.archive and urlsplit(self.archive).scheme not in ("http", "https"):
            raise MeshError(
                f"archive: {self.archive!r} is not a URL that begins with http:// or https://"
            )
        if not self.duration_s:
            raise MeshError("duration: is zero: write for instance 30s")
        if self.interval_s < self.busy_s:
            raise MeshError(
                f"interval: {format_time(self.interval_s)} is too short: with {len(self.hosts)} "
                "hosts and "
                f"{len(self.mixes)} tests of each pair a host is busy for "
                f"{format_time(self.busy_s)} of it"
            )

    @property
    def busy_s(self) -> float:
        """The time in which a host is busy in each interval.

        A host tests with each other host in both directions, one test at a time.
        """
        return (
            2
            * (len(self.hosts) - 1)
            * len(self.mixes)
            * (self.omit_s + self.duration_s + OVERHEAD_S)
        )


def read_mixes(texts: Sequence[str], streams: int | None) -> tuple[Mix, ...]:
    """Reads mixes in the grammar of groups (CCA:WEIGHT,...), such as 'cubic:8,bbr:8'.

    `streams` is the number of streams of each test; None stands for the largest sum of weights.
    Raises MeshError.
    """
    parsed = []
    for text in texts:
        compact = "".join(text.split())
        try:
            groups = GROUPS.read(compact)
            check_known(group.cca for group in groups)
        except ValueError as error:
            raise MeshError(f"groups: {about(compact, error)}") from None
        parsed.append((compact, groups))
    count = streams or max(sum(group.weight for group in groups) for _, groups in parsed)
    if count > MOST_STREAMS:
        raise MeshError(
            f"groups: the weights add up to {count} streams, more than the {MOST_STREAMS} of "
            "iperf3: give --streams"
        )
    for compact, groups in parsed:
        if 0 in streams_of_groups(groups, count):
            raise MeshError(
                f"groups: {compact!r} has a group that gets none of the {count} streams"
            )
    return tuple(Mix(compact, groups, count) for compact, groups in parsed)


def template(mesh: Mesh) -> dict[str, Any]:
    """Returns the mesh as the JSON object that pSConfig reads."""
    interval = _iso_duration(mesh.interval_s)
    schedule = f"every-{interval}"
    archives = {"archive": _archive_spec(mesh)} if mesh.archive else {}
    return {
        "addresses": {host: {"address": host} for host in mesh.hosts},
        "groups": {"mesh": {"type": "mesh", "addresses": [{"name": host} for host in mesh.hosts]}},
        "tests": {
            mix.name: {"type": "throughput", "spec": _test_spec(mesh, mix)} for mix in mesh.mixes
        },
        # pScheduler may put a test anywhere in the interval, so that not all begin at once
        "schedules": {schedule: {"repeat": interval, "slip": interval, "sliprand": True}},
        "archives": archives,
        "tasks": {
            mix.name: {
                "group": "mesh",
                "test": mix.name,
                "schedule": schedule,
                "archives": list(archives),
                "reference": {"ccmix": {"groups": mix.text, "streams": mix.streams}},
            }
            | ({"tools": [TOOL]} if mix.needs_tool else {})
            for mix in mesh.mixes
        },
    }


def _test_spec(mesh: Mesh, mix: Mix) -> Mapping[str, Any]:
    """Returns the specification of a throughput test, in the form of pScheduler.

    pSConfig replaces {% address[0] %} and [1] by the hosts of each pair.
    """
    optional = {
        "omit": _iso_duration(mesh.omit_s) if mesh.omit_s else None,
        "ip-version": mesh.ip_version,
        "link-rtt": _iso_duration(mesh.link_rtt_s) if mesh.link_rtt_s is not None else None,
    }
    return {
        "schema": 4,  # the first that takes any text for congestion
        "source": "{% address[0] %}",
        "dest": "{% address[1] %}",
        "duration": _iso_duration(mesh.duration_s),
        "parallel": mix.streams,
        "congestion": mix.text,
    } | {name: value for name, value in optional.items() if value is not None}


def _archive_spec(mesh: Mesh) -> dict[str, Any]:
    """Returns the specification of pScheduler's HTTP archiver, which sends each result to a URL."""
    return {
        "schema": 2,  # the first that has runs
        "runs": "all",  # by default pScheduler sends no failures
        "archiver": "http",
        "data": {
            "schema": 3,
            "_url": mesh.archive,
            "op": "put",
            "verify-ssl": mesh.verify_tls,
            "_headers": {
                "x-ps-observer": "{% scheduled_by_address %}",
                "content-type": "application/json",
            },
        },
    }


def _is_host_name_or_address(text: str) -> bool:
    """Returns whether the text is an IP address without a zone (%eth0), or a DNS name.

    Digits and points that are not an IPv4 address are not a name.
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST.fullmatch(text)) and not re.fullmatch(r"[0-9.]+", text)
    return "%" not in text


def _iso_duration(seconds: float) -> str:
    """Formats a duration as in ISO 8601, such as 'PT30S'."""
    return f"PT{seconds:.6f}".rstrip("0").rstrip(".") + "S"
