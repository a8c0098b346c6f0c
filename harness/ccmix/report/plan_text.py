"""A plan for people: of each entry what will be run and set where, then its runs."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ccmix.model import HostPath, Loss, ModuleParameter, Netem, Run, Topology, Traffic
from ccmix.plan import Span
from ccmix.units import format_bytes, format_percent, format_rate, format_time

LABEL_WIDTH = 12
COMMANDS = {
    "pre": "pre",
    "pre-src-cmd": "pre_src",
    "pre-dst-cmd": "pre_dst",
    "dst-cmd": "dst",
    "src-cmd": "src",
    "post-src-cmd": "post_src",
    "post-dst-cmd": "post_dst",
    "post": "post",
}


def render(runs: Sequence[Run]) -> str:
    """A paragraph an entry: a head, what holds for its runs, and a line for each run in their order."""
    return "\n".join("".join(_entry(list(group))) for _, group in groupby(runs, key=lambda run: run.entry))


def total(span: Span) -> str:
    """'60 runs, 780 s of traffic, 10 s of pauses, plus 2 runs of unknown length'"""
    parts = [f"{span.runs} runs, {span.seconds:g} s of traffic"]
    if span.pauses_s:
        parts.append(f"{span.pauses_s:g} s of pauses")
    if span.unknown:
        parts.append(f"plus {span.unknown} run{'s' if span.unknown > 1 else ''} of unknown length")
    return ", ".join(parts)


def _entry(runs: list[Run]) -> Iterator[str]:
    yield f"[{runs[0].entry}]\n"
    for label, lines in _facts(runs).items():
        for line in lines:
            first, *rest = line.split("\n")
            yield f"  {label:{LABEL_WIDTH}} {first}\n"
            yield from (f"  {'':{LABEL_WIDTH}} {more}\n" for more in rest)
    for run in runs:
        yield f"  {run.name}  {f'{run.seconds:g} s' if run.seconds else 'unknown time'}\n"


def _facts(runs: Iterable[Run]) -> dict[str, dict[str, None]]:
    """Each thing that is said of at least one run, once, under its label and in the order of the runs."""
    facts: dict[str, dict[str, None]] = {}
    for run in runs:
        said = _emulated(run.path) if isinstance(run.path, Topology) else _real(run.path, run.traffic)
        for label, line in said:
            facts.setdefault(label, {})[line] = None
    return facts


def _emulated(path: Topology) -> Iterator[tuple[str, str]]:
    yield (
        "path",
        (
            f"emulated: {format_rate(path.rate_bps)}, base RTT {format_time(path.base_rtt_s)}, "
            f"loss {format_percent(path.loss)}, buffer {format_bytes(path.buffer_bytes)}"
        ),
    )


def _real(path: HostPath, traffic: Traffic) -> Iterator[tuple[str, str]]:
    device = path.nic or f"the device of the route to {path.dst.address}"
    yield "type", path.label
    yield "src", path.src
    name = "" if path.dst.name == path.dst.address else f"{path.dst.name}: "
    yield "dst", f"{name}{path.dst.address}, commands on {path.dst.host}"
    if not path.commands.src:
        server = f"runs at port {path.port}" if path.server == "running" else f"is started at port {path.port}"
        groups = ",".join(map(str, traffic.groups))
        yield "iperf3", f"{traffic.streams} streams, {groups}; the server {server}"
    for label, field in COMMANDS.items():
        if command := getattr(path.commands, field):
            once = (label == "src-cmd" and path.commands.src_once) or (label == "dst-cmd" and path.commands.dst_once)
            yield label, f"{command}{'  (once, for all runs)' if once else ''}"
    if path.netem and path.netem_at:
        at = path.netem_at
        ack = f", {at.ack_device} (ACKs)" if at.ack_device else ""
        yield "netem", f"on {at.host}, {at.data_device} (data){ack}: {_netem(path.netem)}"
    if path.profile:
        yield "profile", f"{path.dst.profile} on {path.src}, {path.profile_device}: {_netem(path.profile)}"
    if traffic.pacing_bps is not None:
        yield "pacing", f"on {path.src}, {device}: fq maxrate {format_rate(traffic.pacing_bps)} each flow"
    if path.module_parameter:
        yield "parameter", f"on {path.src}: {_parameter(path.module_parameter)}"
    if path.capture:
        arguments = shlex.join(path.capture.arguments)
        yield "tcpdump", f"on {path.src}: {arguments}, up to {format_bytes(path.capture.most_bytes)}"
    if path.mpstat_cores:
        yield "mpstat", f"on both hosts: cores {path.mpstat_cores}"


def _netem(netem: Netem) -> str:
    parts = [f"delay {format_time(netem.delay_s)} in each direction"] if netem.delay_s else []
    if netem.loss:
        parts.append(f"loss {_loss(netem.loss)}")
    if netem.limit_packets is not None:
        parts.append(f"limit {netem.limit_packets} packets")
    if netem.rate_bps is not None:
        parts.append(f"rate {format_rate(netem.rate_bps)}")
    return ", ".join(parts) or "nothing"


def _loss(loss: Loss) -> str:
    shares = " ".join(map(format_percent, loss.parameters))
    return shares if loss.model == "random" else f"{loss.model} {shares}"


def _parameter(parameter: ModuleParameter) -> str:
    element = f", element {parameter.element}," if parameter.element else ""
    return f"{parameter.path}{element} = {parameter.value}"
