"""A run: one condition, one destination, one iteration."""

import types
import typing
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from typing import Any

from ccmix.model.emulated import Topology
from ccmix.model.real import HostPath
from ccmix.model.traffic import Flows, Iperf3Flows, Traffic


def condition_name(condition: dict[str, str]) -> str:
    """A condition in one word, as in folder names: 'delay=5ms,loss=0.1%'."""
    return ",".join(f"{key}={value}" for key, value in condition.items()) or "all"


@dataclass(frozen=True)
class Run:
    """`path` is either an emulated topology, or one between hosts that there are."""

    entry: str
    condition: dict[str, str]  # swept key to its value as written, in the order of the file
    dst: str
    iteration: int  # from 1
    seed: int | None  # 0 to 2**32-1; None of a run that ccmix did not make
    traffic: Traffic
    path: Topology | HostPath
    accept_limits: tuple[str, ...] = ()

    @property
    def topology(self) -> Topology:
        """The emulated path of a run that has one; asking another one is a mistake of the program."""
        assert isinstance(self.path, Topology)
        return self.path

    @property
    def host_path(self) -> HostPath:
        """The path between hosts of a run that has one; asking another one is a mistake of the program."""
        assert isinstance(self.path, HostPath)
        return self.path

    @property
    def flows(self) -> tuple[Flows, ...]:
        """What each process pair on an emulated path makes: the entry's lines, else one test of iperf3 per sender."""
        test = Iperf3Flows(self.traffic.groups, self.traffic.streams)
        return self.traffic.flows or tuple(Flows("", sender.name, test) for sender in self.topology.senders)

    def group_name(self, line: Flows, own: str = "") -> str:
        """Of the flows that a line makes on its host: 'web', 'web@h2' where other hosts have the line too.

        `own` tells the groups of one iperf3 test apart: 'long@h2 cubic'; without a line's name, 'cubic@h2'.
        """
        hosts = {other.host for other in self.flows if other.name == line.name}
        at = f"@{line.host}" if len(hosts) > 1 else ""
        if not line.name:
            return own + at
        several = isinstance(line.what, Iperf3Flows) and len(line.what.groups) > 1
        return line.name + at + (f" {own}" if several else "")

    @property
    def seconds(self) -> float:
        """Virtual (in the lab) or real seconds of traffic."""
        return self.traffic.seconds

    @property
    def condition_name(self) -> str:
        return condition_name(self.condition)

    @property
    def name(self) -> str:
        """Unique within a plan, for people."""
        where = f" {self.dst}" if isinstance(self.path, HostPath) else ""
        return f"{self.entry}{where} {self.condition_name} #{self.iteration}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Run":
        """What to_json() gave, after JSON. Raises KeyError, TypeError or ValueError for anything else."""
        run: Run = _decode(cls, data)
        return run


def _decode(kind: Any, data: Any) -> Any:
    """A value of the annotated type `kind` from what JSON made of it: lists to tuples, objects to data classes."""
    if data is None or is_dataclass(data):
        return data
    if isinstance(kind, types.UnionType):
        kind = next(choice for choice in typing.get_args(kind) if choice is not types.NoneType and _fits(choice, data))
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        given = [part.name for part in fields(kind) if part.name in data or not _may_lack(part)]
        return kind(**{name: _decode(hints[name], data[name]) for name in given})  # type: ignore[operator]
    if typing.get_origin(kind) is tuple:
        choices = typing.get_args(kind)
        return tuple(_decode(choices[0] if choices[-1] is ... else choices[at], item) for at, item in enumerate(data))
    return data


def _fits(kind: Any, data: Any) -> bool:
    """Whether an object is that data class; anything else is not told apart."""
    if not is_dataclass(kind):
        return True
    needed = {part.name for part in fields(kind) if not _may_lack(part)}
    return needed <= set(data) <= {part.name for part in fields(kind)}


def _may_lack(part: "Field[Any]") -> bool:
    """What has a default may have come after the campaign was written."""
    return part.default is not MISSING
