"""Describes a run: one condition, one destination, one iteration."""

from dataclasses import dataclass, replace

from ccmix.model.emulated import Topology
from ccmix.model.real import HostPath
from ccmix.model.traffic import Iperf3Source, Traffic, TrafficSource


def condition_name(condition: dict[str, str]) -> str:
    """Returns a condition as one word for folder names: 'delay=5ms,loss=0.1%'."""
    return ",".join(f"{key}={value}" for key, value in condition.items()) or "all"


@dataclass(frozen=True)
class RunSpread:
    """Holds the values that a run on an emulated path drew from its seed, in seconds, each a whole
    number of microseconds.
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
        """Returns the path with the drawn delays."""
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
        """Returns the emulated path of a run that has one, with the delays that the run drew from
        its seed.

        Calling it for another run is a bug.
        """
        assert isinstance(self.path, Topology)
        return self.spread.applied_to(self.path) if self.spread else self.path

    @property
    def host_path(self) -> HostPath:
        """The path between hosts of a run that has one. Calling it for another run is a bug."""
        assert isinstance(self.path, HostPath)
        return self.path

    def group_name(self, source: TrafficSource, own: str = "") -> str:
        """Returns the name of the group of a source's flows: 'web', or 'web@h2' if other hosts send
        this traffic too.

        `own` distinguishes the groups of one iperf3 test: 'long@h2 cubic', or 'cubic@h2' for a
        source without a name.
        """
        hosts = {other.host for other in self.traffic.sources if other.name == source.name}
        at = f"@{source.host}" if len(hosts) > 1 else ""
        if not source.name:
            return own + at
        several = isinstance(source, Iperf3Source) and len(source.groups) > 1
        return source.name + at + (f" {own}" if several else "")

    @property
    def cross_groups(self) -> frozenset[str]:
        """Returns the names of the groups of cross traffic, if there is one test."""
        return frozenset(self.group_name(source) for source in self.traffic.cross_traffic)

    @property
    def has_shell(self) -> bool:
        """Returns whether anything of the run is done on the source's host."""
        return self.traffic.task is None or self.traffic.task.observed

    @property
    def needs_dst_host(self) -> bool:
        """Returns whether a run between hosts needs commands on the destination's host."""
        path = self.host_path
        ours = self.traffic.by_iperf3 and path.server == "ssh"
        return ours or any((path.commands.dst, path.commands.pre_dst, path.commands.post_dst))

    @property
    def seconds(self) -> float | None:
        """The length of the traffic in seconds, virtual ones in the lab; None if it is not
        known.
        """
        return self.traffic.seconds

    @property
    def condition_name(self) -> str:
        return condition_name(self.condition)

    @property
    def name(self) -> str:
        """A name that is unique within a plan, for people."""
        return f"{self.place} #{self.iteration}"

    @property
    def place(self) -> str:
        """The name that all iterations have in common, for people."""
        where = f" {self.dst}" if isinstance(self.path, HostPath) else ""
        return f"{self.entry}{where} {self.condition_name}"
