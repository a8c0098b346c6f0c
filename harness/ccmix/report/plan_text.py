"""Writes the plan of a campaign as text: what each entry will run, on which hosts and path."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import groupby

from ccmix.analysis import path_text
from ccmix.analysis.cost import Cost
from ccmix.analysis.size import captured_bytes, has_commands, written_bytes
from ccmix.conditions.layout import BOTTLENECK, CONTROL, DELAY, EXIT, RECEIVER, Layout, layout
from ccmix.config import Condition, Entry
from ccmix.generators.expected import other_duration_s
from ccmix.model import (
    STOCK_KERNEL,
    Commands,
    CommandSource,
    HostPath,
    Iperf3Source,
    LossChange,
    Netem,
    PschedulerTask,
    Run,
    Topology,
    Traffic,
)
from ccmix.model.group_grammar import format_groups
from ccmix.plan import Span
from ccmix.units import format_bytes, format_count, format_rate, format_time

LEAST_SHARE = 0.5 / (2**32 - 1)  # smaller probabilities become 0 in netem: tc-netem(8)


def path_drawing(plan: Layout) -> str:
    """Draws an emulated path as a line of hosts, routers and devices.

    Many senders share a name, as in 'h1..h50 eth0 ── west1..50 [delay] east1..50'.
    """
    several = len(plan.pairs) > 1
    fans_out = len(plan.receivers) > 1
    senders = host_names([pair.sender.name for pair in plan.pairs])
    numbers = f"1..{len(plan.pairs)}" if several else ""
    parts = [
        f"{senders} eth0",
        f"west{numbers} [{DELAY}] east{numbers}",
        f"west{numbers} [{BOTTLENECK}] east",
    ]
    if EXIT in plan.namespaces:
        parts.append(f"west [{EXIT}] east{numbers if fans_out else ''}")
    return " ── ".join([*parts, f"eth0 {f'{senders}-{RECEIVER}' if fans_out else RECEIVER}"])


def devices(path: Topology, plan: Layout) -> Iterator[tuple[str, str]]:
    """Yields (device, function) for each device of an emulated path that has a qdisc.

    Hosts with the same settings share a line: ('h1..h50 eth0', 'fq').
    """
    texts = (path_text.netem_of_data, path_text.sender_queue, path_text.netem_of_acks)
    for (data_path, queue, ack_path), alike in groupby(
        plan.pairs, key=lambda pair: tuple(text(pair.sender) for text in texts)
    ):
        pairs = list(alike)
        hosts = host_names([pair.sender.name for pair in pairs])
        east, west = (
            host_names([device.place.device for device in same])
            for same in zip(*((pair.data_delay, pair.ack_delay) for pair in pairs), strict=True)
        )
        yield f"{hosts} eth0", queue
        yield f"{DELAY} {east}", f"netem, data: {data_path}"
        yield f"{DELAY} {west}", f"netem, ACKs: {ack_path}"
        if path.control == "beside":
            yield (
                f"{hosts} {CONTROL}",
                "a bypass with only the path's delay, for iperf3's control connections",
            )
    if path.policer:
        yield f"{BOTTLENECK} east", f"data: {path_text.policer(path.policer)}, before the queue"
    yield f"{BOTTLENECK} east", f"{path_text.rate(path)}, {path_text.queue(path)}"
    if path.ack_bottleneck:
        yield f"{EXIT} west", f"ACKs: {path_text.ack_bottleneck(path)}"


def receiver_windows(plan: Layout) -> Iterator[str]:
    """Yields the receivers whose window is limited: 'h1-receiver, ..., h9-receiver: up to 4 MB'."""
    for window, alike in groupby(
        plan.pairs, key=lambda pair: path_text.receiver_window(pair.sender)
    ):
        if window:
            receivers = list(dict.fromkeys(pair.receiver for pair in alike))
            others = ["...", receivers[-1]] if receivers[1:] else []
            yield f"{', '.join([receivers[0], *others])}: {window}"


def host_names(all_names: Sequence[str]) -> str:
    """Returns 'h1..h50' for names that count up, otherwise all names with commas."""
    first, last = all_names[0], all_names[-1]
    stem = first.rstrip("0123456789")
    number = first.removeprefix(stem)
    if (
        number
        and len(all_names) > 1
        and list(all_names) == [f"{stem}{int(number) + index}" for index in range(len(all_names))]
    ):
        return f"{first}..{last}"
    return ", ".join(all_names)


LABEL_WIDTH, DEVICE_WIDTH = 12, 24


def rounded_values(runs: Iterable[Run]) -> Iterator[str]:
    """Yields a sentence about each value of an emulated path that the kernel can't emulate as
    written: a buffer of less than a packet, and probabilities below those of netem.
    """
    sentences = (
        f"{run.entry}: {sentence}"
        for run in runs
        if isinstance(run.path, Topology)
        for sentence in _rounded(run.path)
    )
    yield from dict.fromkeys(sentences)


def _rounded(path: Topology) -> Iterator[str]:
    """Yields a sentence about each value of a path that becomes another one in the kernel."""
    if path.buffer_bytes > path.configured_buffer_bytes + 0.5:
        yield (
            f"buffer = {path.buffer} becomes {format_bytes(path.buffer_bytes)}, a packet: nothing "
            "passes a smaller buffer"
        )
    losses = [sender.loss for sender in path.senders]
    losses += [change.loss for change in path.changes if isinstance(change, LossChange)]
    shares = {share for loss in losses if loss for share in loss.parameters}
    shares |= {sender.reorder for sender in path.senders}
    for share in sorted(shares):
        if 0.0 < share < LEAST_SHARE:
            yield (
                f"a probability of {100 * share:.3g}% becomes 0, because netem's smallest is "
                f"{100 * LEAST_SHARE:.2g}%"
            )


def render(entries: Iterable[Entry], runs: Iterable[Run]) -> str:
    """Returns the text of `ccmix plan`: a paragraph for each entry, with its settings and runs.

    An entry is a section of the INI file that describes an experiment.
    """
    runs_by_entry: dict[str, list[Run]] = {}
    for run in runs:
        runs_by_entry.setdefault(run.entry, []).append(run)
    return "\n".join("".join(_entry_lines(entry, runs_by_entry[entry.name])) for entry in entries)


def total(span: Span) -> str:
    """Returns the sum of the runs' times, for the end of the plan.

    Example: '60 runs, 780 s of traffic, 10 s of pauses, in all 0:13:10, plus 2 runs of unknown
    length'.
    """
    parts = [f"{format_count(span.runs, 'run')}, {span.seconds:g} s of traffic"]
    if span.pauses_s:
        parts.append(f"{span.pauses_s:g} s of pauses")
    parts.append(f"in all {timedelta(seconds=round(span.seconds + span.pauses_s))}")
    if span.unknown:
        parts.append(f"plus {format_count(span.unknown, 'run')} of unknown length")
    return ", ".join(parts)


def to_write(runs: Iterable[Run]) -> str:
    """Says how much the campaign will write to disk.

    Example: 'about 250 MB to write, and captures of up to 1 GB, plus 1 run of unknown length'. A
    user's command may have any number of flows, so the text also names the number of runs with
    commands.
    """
    runs = list(runs)
    sizes = [written_bytes(run) for run in runs]
    text = f"about {format_bytes(sum(size for size in sizes if size is not None))} to write"
    if captures := sum(map(captured_bytes, runs)):
        text += f", and captures of up to {format_bytes(captures)}"
    unknown_sizes = []
    if commands := sum(
        size is not None and has_commands(run) for run, size in zip(runs, sizes, strict=True)
    ):
        unknown_sizes.append(f"the flows of commands in {format_count(commands, 'run')}")
    if unknown := sizes.count(None):
        unknown_sizes.append(f"{format_count(unknown, 'run')} of unknown length")
    return f"{text}, plus {' and '.join(unknown_sizes)}" if unknown_sizes else text


def cost(costs: Cost, jobs: int | None = None) -> str:
    """Says how long the lab will take in real time, and how much memory.

    Example: 'about 0:03:20 of real time in the lab, 2 runs at a time, with 300 MB of memory (guests
    may take 1 GB)'. Without `jobs`, the part on the lab is left out.
    """
    text = f"about {timedelta(seconds=round(costs.real_s))} of real time"
    if costs.memory_bytes:
        where = f" in the lab, {format_count(jobs, 'run')} at a time" if jobs else ""
        text += f"{where}, with {format_bytes(float(f'{costs.memory_bytes:.2g}'))} of memory "
        text += f"(guests may take {format_bytes(costs.most_memory_bytes)})"
    if costs.unknown:
        text += f", without {format_count(costs.unknown, 'run')} of unknown length"
    return text


def _entry_lines(entry: Entry, runs: Iterable[Run]) -> Iterator[str]:
    """Yields the lines of an entry: its name, its settings with a label each, and its runs."""
    yield f"[{entry.name}]\n"
    for label, lines in _facts(entry.conditions).items():
        for line in lines:
            first, *rest = line.split("\n")
            yield f"  {label:{LABEL_WIDTH}} {first}\n"
            yield from (f"  {'':{LABEL_WIDTH}} {more}\n" for more in rest)
    if entry.unknown:
        yield f"  {'unknown':{LABEL_WIDTH}} {_unknown_text(entry)}\n"
    for run in runs:
        yield f"  {run.name}  {f'{run.seconds:g} s' if run.seconds else 'unknown time'}\n"


def _unknown_text(entry: Entry) -> str:
    """Lists the unknown keys of an entry with the values that are tried.

    Example: 'buffer (0.1bdp, 1bdp): conditions that differ only in this are one range'.
    """
    values = []
    for key in entry.unknown:
        key_values = dict.fromkeys(condition.values[key] for condition in entry.conditions)
        values.append(f"{key} ({', '.join(key_values)})")
    pronoun = "this" if len(values) == 1 else "these"
    return f"{', '.join(values)}: conditions that differ only in {pronoun} are one range"


def _facts(conditions: Iterable[Condition]) -> dict[str, dict[str, None]]:
    """Returns the facts of all conditions by label, each fact once, in order.

    A condition is one combination of the swept values; most facts are the same in all. The inner
    dict is an ordered set.
    """
    facts: dict[str, dict[str, None]] = {}
    for condition in conditions:
        path, traffic = condition.path, condition.traffic
        lines = (
            _emulated_facts(path, traffic)
            if isinstance(path, Topology)
            else _real_facts(path, traffic)
        )
        for label, line in (*lines, *_common_facts(traffic)):
            facts.setdefault(label, {})[line] = None
    return facts


def _emulated_facts(path: Topology, traffic: Traffic) -> Iterator[tuple[str, str]]:
    """Yields the lines of the plan on an emulated path and its traffic.

    Each is (label, text), such as ('iperf3', '4 streams, bbr'); the drawing of the path has no
    label.
    """
    yield (
        "path",
        (
            f"emulated: {format_rate(path.rate_bps)}, base RTT {path_text.base_rtts(path)}, "
            f"loss {path_text.losses(path)}, {path_text.queue(path)}"
        ),
    )
    plan = layout(path)
    yield "", path_drawing(plan)
    for device, function in devices(path, plan):
        yield "device", f"{device:{DEVICE_WIDTH}} {function}"
    for window in receiver_windows(plan):
        yield "receiver-window", window
    if path.kernel != STOCK_KERNEL:
        yield "kernel", f"of the lab: {path.kernel}"
    if path.host_root:
        yield "host-root", "guests have this machine's programs: runs are not repeatable elsewhere"
    if path.module_parameter:
        yield "parameter", f"of all hosts: {path.module_parameter}"
    if path.spread:
        yield "spread", path_text.spread(path)
    if path.capture:
        yield (
            "tcpdump",
            f"before the delay: {shlex.join(path.capture.arguments)}, up to "
            f"{format_bytes(path.capture.most_bytes)}",
        )
    for change in path.changes:
        yield f"at {format_time(change.at_s)}", path_text.change(change)
    if traffic.test and traffic.cross_traffic:
        yield "iperf3", f"{traffic.test.host}: {path_text.test(traffic.test)}"
    for _, alike in groupby(
        traffic.named_sources, key=lambda source: replace(source, host="", start_s=0.0)
    ):
        first, *others = alike
        yield (
            "flows",
            path_text.traffic_source(
                first, host_names([source.host for source in (first, *others)])
            ),
        )


def _common_facts(traffic: Traffic) -> Iterator[tuple[str, str]]:
    """Yields the lines of the plan that both emulated and real paths may have, as (label, text)."""
    if traffic.at_most_s is not None:
        yield (
            "duration",
            f"until it has settled, at most {format_time(traffic.at_most_s)}: times and sizes "
            "assume this maximum",
        )
    command = traffic.command
    if command and not command.kept and traffic.duration_s is not None:
        command_s = other_duration_s(command.line, traffic.duration_s)
        if command_s is not None:
            yield (
                "duration",
                f"{format_time(traffic.duration_s)}, but src-cmd sends for "
                f"{format_time(command_s)}: change one of them",
            )
    if steps := traffic.steps:
        most_bytes = round(steps.most_bps * traffic.total_s / 8)
        yield (
            "volume",
            f"at most {format_bytes(most_bytes)}: {format_rate(steps.most_bps)} for all of the "
            "time",
        )
    if probe := traffic.rtt_probe:
        way = "ping" if probe.tcp_port is None else f"TCP to port {probe.tcp_port}"
        yield "rtt-probe", f"by {way}, {probe.rate_hz} times a second"


def _real_facts(path: HostPath, traffic: Traffic) -> Iterator[tuple[str, str]]:
    """Yields the lines of the plan on a path between real hosts and its traffic.

    Each is (label, text), such as ('src', 'user@host').
    """
    device = path.nic or f"the device of the route to {path.dst.address}"
    yield "type", path.label
    yield "src", path.src
    name = "" if path.dst.name == path.dst.address else f"{path.dst.name}: "
    if traffic.task:
        yield "dst", f"{name}{path.dst.address}"
        yield "pScheduler", _task_text(traffic.task, traffic)
    else:
        yield "dst", f"{name}{path.dst.address}, commands on {path.dst.host}"
    if isinstance(traffic.test, Iperf3Source):
        test = traffic.test
        server = (
            f"runs at port {path.port}"
            if path.server == "running"
            else f"is started at port {path.port}"
        )
        groups = format_groups(test.groups)
        yield "iperf3", f"{format_count(test.streams, 'stream')}, {groups}; the server {server}"
    for label, command, once in _command_lines(path.commands, traffic.command):
        if command:
            yield label, f"{command}{'  (once, for all runs)' if once else ''}"
    if path.netem and path.netem_at:
        at = path.netem_at
        ack = f", {at.ack_device} (ACKs)" if at.ack_device else ""
        yield (
            "netem",
            f"on {at.host}, {at.data_device} (data){ack}: "
            f"{_netem_text(path.netem, ' in each direction')}",
        )
    if path.profile:
        yield (
            "profile",
            f"{path.dst.profile} on {path.src}, {path.profile_device}: {_netem_text(path.profile)}",
        )
    if traffic.pacing_bps is not None:
        yield (
            "pacing",
            f"on {path.src}, {device}: fq maxrate {format_rate(traffic.pacing_bps)} each flow",
        )
    if path.cca_load:
        yield (
            "cca-load",
            f"on {path.src}: {', '.join(path.cca_load)} as BPF programs, for the entry's runs, "
            "unless it has them",
        )
    if path.module_parameter:
        yield "parameter", f"on {path.src}: {path.module_parameter}"
    if path.capture:
        arguments = shlex.join(path.capture.arguments)
        yield (
            "tcpdump",
            f"on {path.src}: {arguments}, up to {format_bytes(path.capture.most_bytes)}",
        )
    if path.mpstat_cores:
        yield "mpstat", f"on both hosts: cores {path.mpstat_cores}"


def _command_lines(
    commands: Commands, src: CommandSource | None
) -> Iterator[tuple[str, str | None, bool]]:
    """Yields (INI key, command, whether it runs once for all runs), in the order of execution.

    The command is None if the key is not set.
    """
    yield "pre", commands.pre, False
    yield "pre-src-cmd", commands.pre_src, False
    yield "pre-dst-cmd", commands.pre_dst, False
    yield "dst-cmd", commands.dst, commands.dst_once
    if src:
        yield "src-cmd", src.line, src.kept
    yield "post-src-cmd", commands.post_src, False
    yield "post-dst-cmd", commands.post_dst, False
    yield "post", commands.post, False


def _task_text(task: PschedulerTask, traffic: Traffic) -> str:
    """Describes a pScheduler task: its tool, its flows, and when it may run."""
    groups = format_groups(traffic.groups)
    parts = [
        f"task at {task.lead}: {traffic.streams} streams, {groups}, "
        f"{task.tool or 'a tool of its choice'}"
    ]
    if task.priority is not None:
        parts.append(f"priority {task.priority}")
    if task.repeat_s is not None:
        parts.append(f"one task, repeated every {format_time(task.repeat_s)}")
    parts.append(f"may slip {format_time(task.slip_s)}, cancelled after {format_time(task.wait_s)}")
    return ", ".join(parts + [f"{name} {text}" for name, text in task.spec])


def _netem_text(netem: Netem, direction: str = "") -> str:
    """Describes a netem on a real host: 'delay 10 ms, loss 0.1%'; `direction` follows the delay."""
    parts = [f"delay {format_time(netem.delay_s)}{direction}"] if netem.delay_s else []
    if netem.loss:
        parts.append(f"loss {path_text.loss(netem.loss)}")
    if netem.limit_packets is not None:
        parts.append(f"limit {netem.limit_packets} packets")
    if netem.rate_bps is not None:
        parts.append(f"rate {format_rate(netem.rate_bps)}")
    return ", ".join(parts) or "nothing"
