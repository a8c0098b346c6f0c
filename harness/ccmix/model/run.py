"""Describes a planned run: one destination, one combination of swept values, one iteration."""

from dataclasses import dataclass, replace

from ccmix.model.emulated import Topology
from ccmix.model.real import HostPath
from ccmix.model.traffic import Iperf3Source, Traffic, TrafficSource


def condition_name(condition: dict[str, str]) -> str:
    """Returns a condition (swept keys and their values) as a word for folder names:
    'delay=5ms,loss=0.1%', or 'all' if nothing is swept.
    """
    return ",".join(f"{key}={value}" for key, value in condition.items()) or "all"


@dataclass(frozen=True)
class RunSpread:
    """Holds the random values that a run on an emulated path drew from its seed, so that its flows
    do not stay in step. They are in seconds, in whole microseconds.
    """

    phase_s: float  # how much later all traffic begins: less than a tick of the kernel
    delays_s: tuple[
        float, ...
    ]  # added to the delay of data, of each sender of the path; may be negative
    starts_s: tuple[tuple[float, ...], ...]
    """For each traffic source, how much later its streams start; a source that is not iperf3's TCP
    has one value.

    The first of all starts is 0, so a single flow loses none of the measured time.
    """

    def applied_to(self, path: Topology) -> Topology:
        """Returns the path with the random delays that the run drew for its senders added."""
        senders = zip(path.senders, self.delays_s, strict=True)
        return replace(
            path,
            senders=tuple(replace(sender, drawn_delay_s=delay_s) for sender, delay_s in senders),
        )


@dataclass(frozen=True)
class Run:
    """Describes a run as planned. `path` is either emulated or between hosts."""

    entry: str
    condition: dict[str, str]  # swept key to its value as written, in the order of the file
    dst: str
    iteration: int  # from 1
    seed: int | None  # 0 to 2**32-1; None of a run that ccmix did not make
    traffic: Traffic
    path: Topology | HostPath
    accept_limits: tuple[str, ...] = ()
    spread: RunSpread | None = (
        None  # drawn from the seed; None between hosts, and if the path has no spread
    )

    @property
    def topology(self) -> Topology:
        """The emulated path of the run, with the random delays that the run drew from its seed.
        Calling it for a run between hosts is a bug.
        """
        assert isinstance(self.path, Topology)
        return self.spread.applied_to(self.path) if self.spread else self.path

    @property
    def host_path(self) -> HostPath:
        """The path of a run between hosts. Calling it for another run is a bug."""
        assert isinstance(self.path, HostPath)
        return self.path

    def group_name(self, source: TrafficSource, group_in_test: str = "") -> str:
        """Returns the name that the flows of a source have in results.

        It is the source's name, such as 'web'. If sources on several hosts have this name, the host
        is added: 'web@h2'. If the source is an iperf3 test with several groups, `group_in_test` is
        added, the group's name within the test: 'long@h2 cubic'. A source without a name has only
        `group_in_test` and the host: 'cubic@h2'.
        """
        hosts = {other.host for other in self.traffic.sources if other.name == source.name}
        at_host = f"@{source.host}" if len(hosts) > 1 else ""
        if not source.name:
            return group_in_test + at_host
        has_groups = isinstance(source, Iperf3Source) and len(source.groups) > 1
        return source.name + at_host + (f" {group_in_test}" if has_groups else "")

    @property
    def cross_groups(self) -> frozenset[str]:
        """The names of the groups of cross traffic, which competes with the test but is not
        studied.
        """
        return frozenset(self.group_name(source) for source in self.traffic.cross_traffic)

    @property
    def has_shell(self) -> bool:
        """Whether ccmix can run commands on the source's host. False only for pScheduler tests from
        another host on which ccmix has no shell.
        """
        return self.traffic.task is None or self.traffic.task.observed

    @property
    def needs_dst_host(self) -> bool:
        """Whether a run between hosts runs commands on the destination's host: to start iperf3's
        server, or because the user has configured commands for that host.
        """
        path = self.host_path
        starts_server = self.traffic.by_iperf3 and path.server == "ssh"
        return starts_server or any(
            (path.commands.dst, path.commands.pre_dst, path.commands.post_dst)
        )

    @property
    def seconds(self) -> float | None:
        """The length of the traffic in seconds (of virtual time in the lab); None if it is not
        known.
        """
        return self.traffic.seconds

    @property
    def condition_name(self) -> str:
        return condition_name(self.condition)

    @property
    def repeated_key(self) -> tuple[str, str, str]:
        """Entry, swept values and destination, which all iterations of a condition share."""
        return self.entry, self.condition_name, self.dst

    @property
    def name(self) -> str:
        """A name that is unique in its plan, for people: 'ENTRY CONDITION #1'."""
        return f"{self.place} #{self.iteration}"

    @property
    def place(self) -> str:
        """A name for all iterations of a run together, for people: 'ENTRY CONDITION', or between
        hosts 'ENTRY DESTINATION CONDITION'.
        """
        destination = f" {self.dst}" if isinstance(self.path, HostPath) else ""
        return f"{self.entry}{destination} {self.condition_name}"
