"""Checks a network device (NIC) by which test traffic leaves or enters a host, and its queues."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ccmix.conditions.qdisc import RESTORABLE, described, root_of, statistics_command
from ccmix.doctor.report import (
    DoctorFinding,
    Findings,
    Status,
    ask,
    count_of,
    device_name,
    fail,
    files,
    line,
    objects,
    ok,
    text_of,
    transcript,
    warn,
    whole,
)
from ccmix.hosts import Host
from ccmix.units import format_rate

FAST_BPS = 10e9  # from this rate on, the host's cost per packet decides the rate of a flow
ETHERNET_MTU = 1500
JUMBO_MTU = 9000
LEAST_MTU = 1280  # IPv6 needs it on every link (RFC 8200)
VIRTUAL = "veth"  # a pair of devices in the same kernel: its speed means nothing
MOST_SPEED_MBIT = 10_000_000
OFFLOADS = {  # ethtool's short names by its long ones
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
}
_OFFLOAD = re.compile(r"^([a-z-]+): (on|off)( \[fixed\])?", re.MULTILINE)
_RING = re.compile(r"^(RX|TX):\s*(\d{1,9}|n/a)$", re.MULTILINE)
_DRIVER = re.compile(r"^driver: (\S{1,60})$", re.MULTILINE)


@dataclass(frozen=True)
class Device:
    """Describes a network device.

    `speed_bps` is None if it reports no speed, as virtual devices do; `numa_node` is None if the
    host has only one node.
    """

    name: str
    up: bool
    mtu_bytes: int
    speed_bps: float | None
    driver: str
    numa_node: int | None

    @property
    def fast(self) -> bool:
        """Whether the device reports a speed of FAST_BPS or more."""
        return self.speed_bps is not None and self.speed_bps >= FAST_BPS


def read_device(host: Host, name: str) -> Device:
    """Reads a device of the host. Raises ValueError, and CommandError if there is none."""
    name = device_name(name)
    link = ask(host, ["ip", "-j", "link", "show", "dev", name])
    folder = f"/sys/class/net/{name}"
    texts = files(
        host, f"{folder}/speed", f"{folder}/device/numa_node", "/sys/devices/system/node/online"
    )
    driver = transcript(host, ["ethtool", "-i", name])[1]
    return device_of(
        link,
        texts.get(f"{folder}/speed", ""),
        driver,
        texts.get(f"{folder}/device/numa_node", ""),
        texts.get("/sys/devices/system/node/online", ""),
    )


def device_of(link: str, speed: str, driver: str, numa_node: str, nodes: str) -> Device:
    """Makes a description of a device from what read_device() has read. Raises ValueError.

    `link` is the output of `ip -j link`, `driver` that of `ethtool -i`. The other arguments are
    the texts of files in /sys ('' if a file is missing): `nodes` are the host's NUMA nodes, and
    `numa_node` is that of the device.
    """
    links = objects(link, "ip's answer")
    if len(links) != 1:
        raise ValueError("ip does not describe the device")
    flags = links[0].get("flags", [])
    mbit = whole(speed, "the speed") if speed else -1
    node = whole(numa_node, "the NUMA node") if numa_node else -1
    match = _DRIVER.search(driver)
    return Device(
        name=device_name(text_of(links[0], "ifname", "ip's answer").partition("@")[0]),
        up=isinstance(flags, list) and "LOWER_UP" in flags and "UP" in flags,
        mtu_bytes=count_of(links[0], "mtu", None, "ip's answer"),
        speed_bps=mbit * 1e6 if 0 < mbit <= MOST_SPEED_MBIT else None,
        driver=match[1] if match else "driver not known",
        numa_node=node if node >= 0 and nodes not in ("", "0") else None,
    )


def read_rings(host: Host, name: str) -> str | None:
    """Returns the output of `ethtool -g`, the sizes of the NIC's rings (queues in its hardware);
    None if the NIC does not let their sizes be set.

    Raises CommandError, and ValueError if ethtool fails.
    """
    status, output = transcript(host, ["ethtool", "-g", name])
    if "not supported" in output:
        return None
    if status != 0:
        raise ValueError(output.strip() or f"ethtool -g {name} gives status {status}")
    return output


def judge_link(device: Device, needed_bps: float | None) -> Findings:
    """Judges whether the device is up, and fast enough for the pacing of the entries.

    `needed_bps` is the rate to which an entry paces all of its flows together (None: no pacing).
    """
    check_name = f"NIC {device.name}"
    node = f", NUMA node {device.numa_node}" if device.numa_node is not None else ""
    speed = format_rate(device.speed_bps) if device.speed_bps else "speed not known"
    seen = f"{device.driver}, {speed}{node}"
    if not device.up:
        yield fail(
            check_name,
            f"{seen}, down",
            "No traffic passes a device that is down or has no carrier.",
            line("ip", "link", "set", "dev", device.name, "up"),
        )
    elif needed_bps and device.speed_bps and needed_bps > device.speed_bps:
        yield warn(
            check_name,
            seen,
            f"The entries pace their flows to {format_rate(needed_bps)} in all, more than the "
            "device has, so pacing does not limit them: reduce the rate, or use fewer streams.",
        )
    else:
        yield ok(check_name, seen)


def judge_mtu(device: Device) -> Findings:
    """Judges the MTU: small packets cost processor time; fast NICs should use jumbo frames."""
    check_name, seen = f"MTU {device.name}", f"{device.mtu_bytes} bytes"
    if device.mtu_bytes < ETHERNET_MTU:
        ipv6 = "; IPv6 does not work below 1280" if device.mtu_bytes < LEAST_MTU else ""
        yield warn(
            check_name,
            f"{seen}, less than Ethernet's {ETHERNET_MTU}",
            f"Smaller packets, as in tunnels, take more processor time for the same rate{ipv6}.",
            line("ip", "link", "set", "dev", device.name, "mtu", str(ETHERNET_MTU)),
        )
    elif device.fast and device.mtu_bytes < JUMBO_MTU and device.driver != VIRTUAL:
        yield warn(
            check_name,
            seen,
            "From 10 Gbit/s on, frames of 9000 bytes save much processor time; the whole path must "
            "carry them.",
            line("ip", "link", "set", "dev", device.name, "mtu", str(JUMBO_MTU)),
        )
    else:
        yield ok(check_name, seen)


def judge_rings(device: Device, output: str) -> Findings:
    """Judges the sizes of the NIC's rings, from the output of `ethtool -g`.

    Larger rings keep the packets of bursts that arrive while the processor is busy. Raises
    ValueError.
    """
    rings = _RING.findall(output)
    if len(rings) != 4 or [name for name, _ in rings] != ["RX", "TX"] * 2:
        raise ValueError(f"ethtool -g {device.name} does not report two sizes of RX and TX")
    maximum_by_ring, size_by_ring = dict(rings[:2]), dict(rings[2:])
    known_rings = [
        name
        for name in maximum_by_ring
        if maximum_by_ring[name].isdigit() and size_by_ring[name].isdigit()
    ]
    enlargeable_rings = [
        name for name in known_rings if int(size_by_ring[name]) < int(maximum_by_ring[name])
    ]
    seen = ", ".join(
        f"{name} {size_by_ring[name]} of {maximum_by_ring[name]}" for name in known_rings
    )
    if not known_rings:
        return
    if not enlargeable_rings:
        yield ok(f"rings {device.name}", seen)
        return
    sizes = [word for name in enlargeable_rings for word in (name.lower(), maximum_by_ring[name])]
    yield DoctorFinding(
        f"rings {device.name}",
        Status.WARN if device.fast else Status.OK,
        seen,
        "A burst that does not fit in the ring is lost in the host, and looks like loss of the "
        "path."
        if device.fast
        else "",
        (line("ethtool", "-G", device.name, *sizes),) if device.fast else (),
    )


def judge_offloads(device: Device, output: str, netem_with_loss: bool | None) -> Findings:
    """Judges the offloads of the device (TSO, GSO, GRO, LRO), from the output of `ethtool -k`.

    They save processor time on fast NICs. But GRO and LRO join packets, and if netem on the device
    loses a joined packet, all packets in it are lost at once. `netem_with_loss` is None if the runs
    put no netem on this device, and False if their netem loses nothing. Raises ValueError.
    """
    state_and_fixed = {
        OFFLOADS[name]: (state, fixed)
        for name, state, fixed in _OFFLOAD.findall(output)
        if name in OFFLOADS
    }
    if "tso" not in state_and_fixed:
        raise ValueError(f"ethtool -k {device.name} does not say what the device offloads")
    seen = ", ".join(f"{name} {state}" for name, (state, _) in state_and_fixed.items())
    if netem_with_loss is not None:
        joining_offloads = [
            name for name in ("gro", "lro") if state_and_fixed.get(name, ("off",))[0] == "on"
        ]
        if joining_offloads:
            switched_off = [word for name in joining_offloads for word in (name, "off")]
            yield DoctorFinding(
                f"offloads {device.name}",
                Status.FAIL if netem_with_loss else Status.WARN,
                seen,
                "netem handles packets that the device has joined as one packet, so one loss hits "
                "many of them.",
                (line("ethtool", "-K", device.name, *switched_off),),
            )
            return
    elif missing_offloads := [
        name for name in ("tso", "gso", "gro") if state_and_fixed.get(name, ("on", ""))[0] == "off"
    ]:
        settable = [name for name in missing_offloads if not state_and_fixed[name][1]]
        switched_on = [word for name in settable for word in (name, "on")]
        if device.fast and device.driver != VIRTUAL:
            yield warn(
                f"offloads {device.name}",
                seen,
                "Without them the processor handles each packet separately, which limits a flow "
                "to a few Gbit/s.",
                *((line("ethtool", "-K", device.name, *switched_on),) if settable else ()),
            )
            return
    yield ok(f"offloads {device.name}", seen)


def default_device(routes: str) -> str | None:
    """Returns the device of the default route with the lowest metric; None if there is no such
    route.

    `routes` is the output of `ip -j route show default`. Raises ValueError.
    """
    defaults = [
        route
        for route in objects(routes, "ip's answer")
        if route.get("dst") == "default" and "dev" in route
    ]
    defaults.sort(key=lambda route: count_of(route, "metric", 0, "a route"))
    return device_name(defaults[0]["dev"]) if defaults else None


def route_device(routes: str) -> str:
    """Returns the device by which packets leave, from `ip -j route get`. Raises ValueError."""
    answer = objects(routes, "ip's answer")
    if not answer or "dev" not in answer[0]:
        raise ValueError("ip knows no route to the destination")
    return device_name(answer[0]["dev"])


def device_with(addresses: str, wanted: Sequence[str]) -> str:
    """Returns the device that has one of the `wanted` addresses.

    `addresses` is the output of `ip -j addr show`. Raises ValueError if there is none, as behind
    NAT.
    """
    for device in objects(addresses, "ip's answer"):
        device_addresses = device.get("addr_info", [])
        if isinstance(device_addresses, list) and any(
            isinstance(address, dict) and address.get("local") in wanted
            for address in device_addresses
        ):
            return device_name(device.get("ifname"))
    raise ValueError(
        "no device here has the destination's address, as behind NAT: give the destination by "
        "another name"
    )


FLOW_LIMIT_PACKETS = (
    10_000  # 100 times the default; a flow of 10 Gbit/s over 10 ms has 1400 packets of 9000 bytes
)


def read_qdiscs(host: Host, device: str) -> str:
    """Reads the queue disciplines of a device and their statistics with tc, as JSON.

    Raises CommandError.
    """
    return ask(host, statistics_command(device))


def judge_sending(device: str, qdiscs: str, default: str, paced: bool, bbr: bool) -> Findings:
    """Judges whether the sending device has fq, the queue discipline that paces flows.

    `qdiscs` is the JSON of read_qdiscs(); `default` is net.core.default_qdisc ('' if not known);
    `paced` means that an entry paces by fq; `bbr` that flows use BBR, which paces by itself since
    Linux 4.13, but with a timer for each socket, which takes more processor time. Raises
    ValueError.
    """
    root, leaves = _root_and_leaves(qdiscs)
    kind = text_of(root, "kind", "the root qdisc")
    fq_qdiscs = [qdisc for qdisc in (root, *leaves) if qdisc.get("kind") == "fq"]
    seen = described([root, *leaves])
    check_name = f"fq {device}"
    if kind == "fq" or (leaves and len(fq_qdiscs) == len(leaves)):
        yield ok(check_name, seen)
        yield from _judge_flow_limit(device, root if kind == "fq" else None, fq_qdiscs)
        return
    if kind == "mq":
        # The kernel gives each queue of a new mq its default qdisc.
        remedy: tuple[str, ...] = (
            line("sysctl", "-w", "net.core.default_qdisc=fq"),
            line("tc", "qdisc", "replace", "dev", device, "root", "mq"),
        )
    else:
        remedy = (line("tc", "qdisc", "replace", "dev", device, "root", "fq"),)
    if paced and not _replaceable(root):
        yield fail(
            check_name,
            seen,
            "ccmix replaces a queue only if it can restore it, and it could not restore this one.",
            *remedy,
        )
    elif paced:
        yield ok(check_name, f"{seen}; replaced by fq for the time of each run")
    else:
        bbr_text = "BBR then paces each socket with its own timer. " if bbr else ""
        default = f", default_qdisc {default}" if default else ""
        yield warn(
            check_name,
            f"{seen}{default}",
            f"{bbr_text}Senders that fq paces lose less in the buffers of the path.",
            *remedy,
        )


def judge_netem(device: str, qdiscs: str) -> Findings:
    """Judges whether netem may replace the device's root queue discipline during runs.

    `qdiscs` is the JSON of read_qdiscs(). Raises ValueError.
    """
    root, _ = _root_and_leaves(qdiscs)
    kind = text_of(root, "kind", "the root qdisc")
    if _replaceable(root):
        yield ok(f"queue {device}", f"{kind}; replaced by netem for the time of each run")
        return
    origin_text = " A killed run may have left it." if kind in ("netem", "tbf") else ""
    yield fail(
        f"queue {device}",
        kind,
        "ccmix replaces a queue only if it can restore it, and it could not restore this "
        f"one.{origin_text}",
        line("tc", "qdisc", "del", "dev", device, "root"),
    )


def _root_and_leaves(answer: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the root queue discipline of a device and those below it, from tc's JSON.

    The hooks clsact and ingress, which queue nothing, are left out. Raises ValueError.
    """
    qdiscs = objects(answer, "tc's answer")
    if any(
        not isinstance(qdisc.get("kind"), str) or not isinstance(qdisc.get("handle"), str)
        for qdisc in qdiscs
    ):
        raise ValueError("tc's answer has a qdisc without kind or handle")
    root = root_of(qdiscs) or next((qdisc for qdisc in qdiscs if qdisc.get("root")), None)
    if root is None:
        raise ValueError("tc's answer has no root qdisc")
    return root, [
        qdisc
        for qdisc in qdiscs
        if not qdisc.get("root") and qdisc["kind"] not in ("clsact", "ingress")
    ]


def _replaceable(root: dict[str, Any]) -> bool:
    """Returns whether ccmix can restore this root queue discipline after it has replaced it."""
    return root["handle"] == "0:" or root["kind"] in RESTORABLE


def _judge_flow_limit(
    device: str, root: dict[str, Any] | None, queues: list[dict[str, Any]]
) -> Findings:
    """Judges drops by fq's flow_limit: the number of packets of one flow that fq queues (tc-fq(8)).

    Packets beyond it are dropped, which the sender takes for loss of the path. `root` is the root
    queue discipline if that is an fq, otherwise None; `queues` are all fq of the device.
    """
    dropped = sum(count_of(fq, "flows_plimit", 0, "fq") for fq in queues)
    if not dropped:
        return
    check_name, seen = f"fq {device} flow_limit", f"{dropped} packets dropped by it so far"
    if all(_flow_limit_packets(fq) >= FLOW_LIMIT_PACKETS for fq in queues):
        yield ok(check_name, f"{seen}; it is {FLOW_LIMIT_PACKETS} now")
        return
    parents = (
        [["root"]]
        if root is not None
        else [["parent", text_of(fq, "parent", "fq")] for fq in queues]
    )
    change = ["tc", "qdisc", "change", "dev", device]
    limits = ["fq", "flow_limit", str(FLOW_LIMIT_PACKETS)]
    remedy = tuple(line(*change, *parent, *limits) for parent in parents)
    yield warn(check_name, seen, "Packets that fq drops here look like loss of the path.", *remedy)


def _flow_limit_packets(fq: dict[str, Any]) -> int:
    """Returns the flow_limit of an fq in tc's JSON; the kernel's default of 100 if tc shows the
    options without it, and 0 if tc shows no options.
    """
    options = fq.get("options")
    return count_of(options, "flow_limit", 100, "fq") if isinstance(options, dict) else 0
