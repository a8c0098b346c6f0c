"""Draws an emulated path as text: which device is where, and what it does, from the layout that runs set up."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from ccmix.analysis import path_text
from ccmix.conditions.layout import BOTTLENECK, CONTROL, DELAY, EXIT, RECEIVER, Layout
from ccmix.model import Topology


def drawing(plan: Layout) -> str:
    """Draws a line of hosts, routers and devices; many senders share a name, h1..h50, and devices west1..50."""
    several = len(plan.pairs) > 1
    fans_out = len(plan.receivers) > 1
    senders = names([pair.sender.name for pair in plan.pairs])
    own = f"1..{len(plan.pairs)}" if several else ""
    parts = [f"{senders} eth0", f"west{own} [{DELAY}] east{own}", f"west{own} [{BOTTLENECK}] east"]
    if EXIT in plan.namespaces:
        parts.append(f"west [{EXIT}] east{own if fans_out else ''}")
    return " ── ".join([*parts, f"eth0 {f'{senders}-{RECEIVER}' if fans_out else RECEIVER}"])


def devices(path: Topology, plan: Layout) -> Iterator[tuple[str, str]]:
    """Yields each device with what it does; devices of hosts that are alike share a line."""
    for (what, queue, back), alike in groupby(
        plan.pairs,
        key=lambda pair: tuple(
            of(pair.sender) for of in (path_text.own_path, path_text.sender_queue, path_text.way_back)
        ),
    ):
        pairs = list(alike)
        hosts = names([pair.sender.name for pair in pairs])
        east, west = (names([device.place.device for device in same]) for same in zip(
            *((pair.data_delay, pair.ack_delay) for pair in pairs), strict=True))  # fmt: skip
        yield f"{hosts} eth0", queue
        yield f"{DELAY} {east}", f"netem, data: {what}"
        yield f"{DELAY} {west}", f"netem, ACKs: {back}"
        if path.control == "beside":
            yield f"{hosts} {CONTROL}", "beside the path, its delay alone: iperf3's control connections"
    if path.policer:
        yield f"{BOTTLENECK} east", f"data: {path_text.policer(path.policer)}, before the queue"
    yield f"{BOTTLENECK} east", f"{path_text.rate(path)}, {path_text.queue(path)}"
    if path.ack_bottleneck:
        yield f"{EXIT} west", f"ACKs: {path_text.ack_bottleneck(path)}"


def windows(plan: Layout) -> Iterator[str]:
    """Yields the receivers whose window is configured: 'h1-receiver: up to 4 MB'."""
    for window, alike in groupby(plan.pairs, key=lambda pair: path_text.receiver_window(pair.sender)):
        if window:
            receivers = list(dict.fromkeys(pair.receiver for pair in alike))
            yield f"{', '.join([receivers[0], *(['...', receivers[-1]] if receivers[1:] else [])])}: {window}"


def names(all_names: Sequence[str]) -> str:
    """Returns 'h1..h50' for names that count up, else all of them."""
    first, last = all_names[0], all_names[-1]
    stem = first.rstrip("0123456789")
    number = first.removeprefix(stem)
    if number and len(all_names) > 1 and list(all_names) == [
        f"{stem}{int(number) + at}" for at in range(len(all_names))
    ]:  # fmt: skip
        return f"{first}..{last}"
    return ", ".join(all_names)
