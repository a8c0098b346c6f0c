"""What a campaign ran on and with: kernel, sysctls, offloads, tools, hosts, path and traffic, as names and values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ccmix.analysis.counting import imported
from ccmix.model import Topology
from ccmix.report.results import Result

MOST_VALUES = 4  # of one side that are shown
OF_EMULATION = ("path.name", "path.receivers", "path.shaper", "path.offloads")  # which no real path has
TOLD_BY_IMPORTS = ("path.src", "path.dst.name")
UNKNOWN, REAL = "unknown", "real"
FAMILIES = {"host.": "hosts", "sysctl.": "sysctls", "offloads.": "offloads"}
UNINTERESTING = ("path.commands", "path.task", "path.retries", "path.pause_s", "path.timeout_s", "path.label")


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in both campaigns; of each all its values, none where nothing says."""

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def unknown(self) -> bool:
        """Whether one of the campaigns doesn't tell what there must have been: it may be the same."""
        return UNKNOWN in (*self.a, *self.b)


def differences(a: Sequence[Result], b: Sequence[Result]) -> list[Difference]:
    """What is unknown first; then machine, kernel and tools, hosts, sysctls, offloads, path and traffic."""
    of_a, of_b = _surroundings(a), _surroundings(b)
    for prefix, family in FAMILIES.items():
        _join_unknown(of_a, of_b, prefix, family)
        _join_unknown(of_b, of_a, prefix, family)
    _mark_unknown_path(of_a, of_b)
    _mark_unknown_path(of_b, of_a)
    names = sorted(dict.fromkeys([*of_a, *of_b]), key=_rank)
    found = [Difference(name, of_a.get(name, ()), of_b.get(name, ())) for name in names]
    return sorted((one for one in found if set(one.a) != set(one.b)), key=lambda one: not one.unknown)


def _join_unknown(
    these: dict[str, tuple[str, ...]], others: dict[str, tuple[str, ...]], prefix: str, name: str
) -> None:
    """Where these tell nothing of a family, the others' values become one, beside which these are unknown."""
    if any(one.startswith(prefix) for one in these):
        return
    members = [one for one in others if one.startswith(prefix)]
    if members:
        joined = tuple(f"{one.removeprefix(prefix)}={' or '.join(others.pop(one))}" for one in members)
        these[name], others[name] = (UNKNOWN,), joined


def _mark_unknown_path(these: dict[str, tuple[str, ...]], others: dict[str, tuple[str, ...]]) -> None:
    """A real path has a rate, a buffer and so on, too; an emulated one has no source that could be unknown."""
    if these["path.kind"] == (REAL,):
        of_any_path = [name for name in others if name.startswith("path.") and not name.startswith(OF_EMULATION)]
        these.update((name, (UNKNOWN,)) for name in of_any_path if name not in these)


def _rank(name: str) -> int:
    order = ("machine", "kernel", "tool", "generator", "host", "sysctl", "offloads", "path", "traffic.")
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
    yield "tool", str(facts["iperf3"]) or UNKNOWN
    yield "generator", str(facts.get("generator", "iperf3"))
    yield from _flat("host", facts.get("hosts") or {})
    yield from _flat("sysctl", facts.get("sysctls") or {})
    yield from _flat("offloads", facts.get("offloads") or {})
    yield "path.kind", "emulated" if isinstance(run.path, Topology) else REAL
    told = not imported(result.summary)
    for name, value in _flat("path", asdict(run.path)):
        if not name.startswith(UNINTERESTING) and (told or name in TOLD_BY_IMPORTS):
            yield name, value
    for name in ("duration_s", "omit_s", "interval_s"):
        value = getattr(run.traffic, name)
        yield f"traffic.{name}", f"{value:g}" if value or told else UNKNOWN
    pacing_bps = run.traffic.pacing_bps
    yield "traffic.pacing_bps", f"{pacing_bps:g}" if pacing_bps else "none" if told else UNKNOWN


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
