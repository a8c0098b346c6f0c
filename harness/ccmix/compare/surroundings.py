"""What a campaign ran on and with: kernel, sysctls, offloads, tools, hosts, path and traffic, as names and values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ccmix.model import Topology
from ccmix.report.results import Result

MOST_VALUES = 4  # of one side that are shown
UNINTERESTING = ("path.commands", "path.task", "path.retries", "path.pause_s", "path.timeout_s", "path.label")


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in both campaigns; of each all its values, none where nothing says."""

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def differences(a: Sequence[Result], b: Sequence[Result]) -> list[Difference]:
    """Machine, kernel and tools first, then hosts, sysctls, offloads, path and traffic."""
    of_a, of_b = _surroundings(a), _surroundings(b)
    names = dict.fromkeys([*of_a, *of_b])
    return [
        Difference(name, of_a.get(name, ()), of_b.get(name, ()))
        for name in sorted(names, key=_rank)
        if set(of_a.get(name, ())) != set(of_b.get(name, ()))
    ]


def _rank(name: str) -> int:
    order = ("machine", "kernel", "tool", "generator", "host.", "sysctl.", "offloads.", "path.", "traffic.")
    return next((at for at, start in enumerate(order) if name.startswith(start)), len(order))


def _surroundings(results: Sequence[Result]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for result in results:
        for name, value in _of(result):
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _of(result: Result) -> Iterator[tuple[str, str]]:
    facts, run = result.summary["facts"], result.run
    yield "machine", str(result.summary["where"]["machine"])
    yield "kernel", str(facts["kernel"])
    if facts.get("kernel_version"):
        yield "kernel's build", str(facts["kernel_version"])
    yield "tool", str(facts["iperf3"]) or "not told"
    yield "generator", str(facts.get("generator", "iperf3"))
    yield from _flat("host", facts.get("hosts") or {})
    yield from _flat("sysctl", facts.get("sysctls") or {})
    yield from _flat("offloads", facts.get("offloads") or {})
    yield "path.kind", "emulated" if isinstance(run.path, Topology) else "real"
    for name, value in _flat("path", asdict(run.path)):
        if not name.startswith(UNINTERESTING):
            yield name, value
    for name in ("duration_s", "omit_s", "interval_s"):
        yield f"traffic.{name}", f"{getattr(run.traffic, name):g}"


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Leaves with the names of all above them; what is unset, and an empty list, has none."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _flat(f"{prefix}.{name}", below)
    elif value is None or value in ((), [], ""):
        return
    elif isinstance(value, list | tuple):
        for number, below in enumerate(value, 1):
            yield from _flat(f"{prefix}.{number}", below)
    else:
        yield prefix, f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
