"""Lists a campaign's kernel, sysctls, offloads, tools, hosts, path and traffic as names and values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from ccmix.analysis.counting import imported
from ccmix.analysis.results import Result
from ccmix.model import GuestRoot, HostPath, Topology

OF_TRAFFIC = ("cca", "streams", "pacing")  # swept keys that the mix, streams and pacing of a run already contain
SHA_DIGITS = 12  # of a file's hash that are shown
MOST_VALUES = 4  # how many are shown of one side
# Settings that no real path has
OF_EMULATION = (
    "path.name", "path.receivers", "path.shaper", "path.offloads", "path.sender_queue", "path.spread", "path.kernel",
    "path.host_root",
)  # fmt: skip
KNOWN_TO_IMPORTS = ("path.src", "path.dst.name")
UNKNOWN, REAL = "unknown", "real"
FAMILIES = {"host.": "hosts", "sysctl.": "sysctls", "offloads.": "offloads", "sender-qdisc": "sender-qdisc"}
FIRST_OF_PATH = (  # in this order, whether they are the path's or its sender's
    "rate_bps", "delay_s", "loss", "buffer", "mtu_bytes", "offloads", "jitter_s", "reorder",
)  # fmt: skip
OF_BOTH = ("rate_bps", "queue")  # names of settings of the path and of its sender
UNINTERESTING = (
    "path.commands", "path.task", "path.retries", "path.pause_s", "path.timeout_s", "path.connect_timeout_s",
    "path.label",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Describes what is not the same in both campaigns: all values of each, or none if nothing is recorded."""

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def unknown(self) -> bool:
        """Returns whether one of the campaigns doesn't record a value that must exist: it may be the same."""
        return UNKNOWN in (*self.a, *self.b)


def differences(a: Sequence[Result], b: Sequence[Result]) -> list[Difference]:
    """Returns what is unknown first; then machine, kernel and tools, hosts, sysctls, offloads, path and traffic."""
    of_a, of_b = _environment(a), _environment(b)
    for prefix, family in FAMILIES.items():
        _join_unknown(of_a, of_b, prefix, family)
        _join_unknown(of_b, of_a, prefix, family)
    _mark_unknown_path(of_a, of_b)
    _mark_unknown_path(of_b, of_a)
    names = sorted(dict.fromkeys([*of_a, *of_b]), key=_rank)
    every = [Difference(name, of_a.get(name, ()), of_b.get(name, ())) for name in names]
    differing = [difference for difference in every if set(difference.a) != set(difference.b)]
    return sorted(differing, key=lambda difference: not difference.unknown)


def _join_unknown(
    these: dict[str, tuple[str, ...]], others: dict[str, tuple[str, ...]], prefix: str, name: str
) -> None:
    """Joins the others' values of a family into one if these have no values of it, and marks these as unknown."""
    if any(member.startswith(prefix) for member in these):
        return
    members = [member for member in others if member.startswith(prefix)]
    if members:
        values = ((member.removeprefix(prefix).lstrip("."), " or ".join(others.pop(member))) for member in members)
        joined = tuple(f"{member}={text}" if member else text for member, text in values)
        these[name], others[name] = (UNKNOWN,), joined


def _mark_unknown_path(these: dict[str, tuple[str, ...]], others: dict[str, tuple[str, ...]]) -> None:
    """Marks what a real path must have, such as a rate and a buffer, as unknown; an emulated one has no such gaps."""
    if these["path.kind"] == (REAL,):
        of_any_path = [name for name in others if name.startswith("path.") and not name.startswith(OF_EMULATION)]
        these.update((name, (UNKNOWN,)) for name in of_any_path if name not in these)


def _rank(name: str) -> int:
    order = (
        "machine", "kernel", "userland", "tool", "generator", "host", "cca.", "sysctl", "offloads", "sender-qdisc",
        "path", "traffic.",
    )  # fmt: skip
    return next((at for at, start in enumerate(order) if name.startswith(start)), len(order))


def _environment(results: Sequence[Result]) -> dict[str, tuple[str, ...]]:
    seen: dict[str, dict[str, None]] = {}
    for result in _differing(results):
        for name, value in _of(result):
            seen.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in seen.items()}


def _differing(results: Sequence[Result]) -> Iterator[Result]:
    """Yields the runs without those whose facts, path and traffic are the same objects as an earlier one's.

    There may be a hundred thousand runs, and few objects.
    """
    seen = set()
    for result in results:
        run, finished = result.run, result.finished
        key = finished.execution.machine, id(finished.facts), id(run.path), id(run.traffic)
        if key not in seen:
            seen.add(key)
            yield result


def _of(result: Result) -> Iterator[tuple[str, str]]:
    facts, run = result.finished.facts, result.run
    yield "machine", result.finished.execution.machine
    yield "kernel", facts.kernel
    if facts.kernel_version:
        yield "kernel's build", facts.kernel_version
    if facts.lab_kernel:
        yield "kernel's file", f"{facts.lab_kernel.name}, sha256 {facts.lab_kernel.sha256[:SHA_DIGITS]}"
    if facts.guest_root:
        yield "userland", _userland(facts.guest_root)
    for name, sha256 in (facts.lab_programs or {}).items():
        yield f"tool's file, {name}", f"sha256 {sha256[:SHA_DIGITS]}"
    yield "tool", facts.iperf3 or UNKNOWN
    yield "generator", facts.generator or "iperf3"
    yield from _flat("host", {role: asdict(host) for role, host in (facts.hosts or {}).items()})
    yield from _flat("sysctl", facts.sysctls or {})
    yield from _flat("offloads", facts.offloads or {})
    for cca, bpf in (facts.bpf_ccas or {}).items():
        yield f"cca.{cca}", f"BPF program {bpf.program[:SHA_DIGITS]}"
        yield from _flat(f"cca.{cca}", bpf.parameters)
    queues = facts.sender_qdiscs or {}
    for host, queue in queues.items():
        yield f"sender-qdisc{f'.{host}' if len(queues) > 1 else ''}", queue
    yield "path.kind", "emulated" if isinstance(run.path, Topology) else REAL
    complete = not imported(result.finished)
    for name, value in _flat("path", _path(run.path)):
        if not name.startswith(UNINTERESTING) and (complete or name in KNOWN_TO_IMPORTS):
            yield name, value
    for name in ("duration_s", "omit_s", "interval_s"):
        value = getattr(run.traffic, name)
        yield f"traffic.{name}", f"{value:g}" if value or (complete and value is not None) else UNKNOWN
    if run.traffic.at_most_s is not None:
        yield "traffic.settled", "ends when it has settled"
    pacing_bps = run.traffic.pacing_bps
    yield "traffic.pacing_bps", f"{pacing_bps:g}" if pacing_bps else "none" if complete else UNKNOWN


def _userland(root: GuestRoot) -> str:
    if root.userland_sha256 is None:
        return "the host's file system, not repeatable elsewhere"
    return f"sha256 {root.userland_sha256[:SHA_DIGITS]}"


def settings_of_path(result: Result) -> Mapping[str, str]:
    """Returns what a run's path is, as names and values, without the name of its section and what is no setting.

    The settings of an imported run are those of its condition.
    """
    settings = {name: value for name, value in _flat("path", _path(result.run.path)) if name != "path.name"}
    known = {name: value for name, value in settings.items() if not name.startswith(UNINTERESTING)}
    of_condition = result.run.condition.items() if imported(result.finished) else ()
    return known | {f"condition.{key}": value for key, value in of_condition if key not in OF_TRAFFIC}


def _path(path: Topology | HostPath) -> dict[str, object]:
    """Returns the settings of a path by name; those of the one sender of an emulated path are the path's."""
    settings = asdict(path)
    del settings["kind"]
    if isinstance(path, Topology):
        for change in settings["changes"]:
            del change["kind"]
        senders = settings.pop("senders")
        if len(senders) == 1:
            sender: dict[str, object] = senders[0]
            del sender["name"]
            settings |= sender | {name: settings[name] for name in OF_BOTH}
            settings |= {f"sender_{name}": sender[name] for name in OF_BOTH}
            return {name: settings[name] for name in FIRST_OF_PATH} | settings
        return settings | {"hosts": senders}
    return settings


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    """Yields the leaves with the names of all levels above; skips what is unset, and empty lists."""
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
