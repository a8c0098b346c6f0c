"""What a run's generator is asked for."""

from dataclasses import dataclass

DEFAULT_CCA = "-"  # the system's default, in the group grammar


@dataclass(frozen=True)
class Group:
    """Streams of an iperf3 test that share CCA, pacing rate and start, `CCA[:WEIGHT][@RATE][+DELAY]` (iperf3-patch).

    Which CCA '-' comes to is known after the run only.
    """

    cca: str
    weight: int = 1
    pacing_bps: float | None = None  # of each stream, by its socket (SO_MAX_PACING_RATE)
    delay_s: float = 0.0  # from the start of the traffic, the omitted time included

    def __str__(self) -> str:
        """As the patched iperf3 reads it; one name alone stays one name alone."""
        weight = f":{self.weight}" if self.weight != 1 else ""
        pacing = f"@{self.pacing_bps:.0f}" if self.pacing_bps is not None else ""
        delay = f"+{self.delay_s:g}s" if self.delay_s else ""
        return f"{self.cca}{weight}{pacing}{delay}"


@dataclass(frozen=True)
class RttProbe:
    """Questions to the receiver beside the traffic: by ICMP echo, or by TCP where there is a port."""

    rate_hz: int
    tcp_port: int | None = None


@dataclass(frozen=True)
class Traffic:
    """What is asked for in numbers. `groups` share the `streams` of one iperf3 test by their weights.

    Where the user gave the command (src-cmd), that decides: groups is empty, streams is 0, and `duration_s` is what the
    command is expected to take, 0 where nothing tells.
    """

    groups: tuple[Group, ...]
    streams: int
    duration_s: float
    omit_s: float
    interval_s: float
    pacing_bps: float | None = None  # of each flow, by fq on the sending device
    rtt_probe: RttProbe | None = None

    @property
    def seconds(self) -> float:
        """Of traffic; 0 where nothing tells."""
        return self.omit_s + self.duration_s

    @property
    def group_names(self) -> tuple[str, ...]:
        """For tables, one a group: its CCA where no other group has it, else all of it, with a number where alike."""
        ccas = [group.cca for group in self.groups]
        specs = [str(group) for group in self.groups]
        names = []
        for at, (cca, spec) in enumerate(zip(ccas, specs, strict=True)):
            alike = f" #{specs[:at].count(spec) + 1}" if specs.count(spec) > 1 else ""
            names.append(cca if ccas.count(cca) == 1 else spec + alike)
        return tuple(names)


def streams_of_groups(groups: tuple[Group, ...], streams: int) -> list[int]:
    """How many of the streams each group gets: smooth weighted round robin, as the patched iperf3 deals them out."""
    credits, dealt = [0] * len(groups), [0] * len(groups)
    for _ in range(streams):
        credits = [credit + group.weight for credit, group in zip(credits, groups, strict=True)]
        chosen = credits.index(max(credits))
        credits[chosen] -= sum(group.weight for group in groups)
        dealt[chosen] += 1
    return dealt
