"""Checks the network device through which traffic leaves or enters, and its queue disciplines."""

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
    """Describes a network device. `speed_bps` is None if the device reports no speed, like virtual
    devices; `numa_node` is None if there is only one node.
    """

    name: str
    up: bool
    mtu_bytes: int
    speed_bps: float | None
    driver: str
    numa_node: int | None

    @property
    def fast(self) -> bool:
        return self.speed_bps is not None and self.speed_bps >= FAST_BPS


def read_device(host: Host, name: str) -> Device:
    """Reads a device. Raises CommandError if no device has this name, and ValueError."""
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
    """Reads a device from `ip -j link`, the files of /sys and `ethtool -i`. Raises ValueError."""
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
    """Returns ethtool's text on the rings; None if the device has no settable rings. Raises
    CommandError.
    """
    status, output = transcript(host, ["ethtool", "-g", name])
    if "not supported" in output:
        return None
    if status != 0:
        raise ValueError(output.strip() or f"ethtool -g {name} gives status {status}")
    return output


def judge_link(device: Device, needed_bps: float | None) -> Findings:
    """Judges the link; `needed_bps` is the sum of the entries' pacing."""
    what = f"NIC {device.name}"
    node = f", NUMA node {device.numa_node}" if device.numa_node is not None else ""
    speed = format_rate(device.speed_bps) if device.speed_bps else "speed not known"
    seen = f"{device.driver}, {speed}{node}"
    if not device.up:
        yield fail(
            what,
            f"{seen}, down",
            "No traffic passes a device that is down or has no carrier.",
            line("ip", "link", "set", "dev", device.name, "up"),
        )
    elif needed_bps and device.speed_bps and needed_bps > device.speed_bps:
        yield warn(
            what,
            seen,
            f"The entries pace their flows to {format_rate(needed_bps)} in all, more than the "
            "device has, so pacing does not limit them: reduce the rate, or use fewer streams.",
        )
    else:
        yield ok(what, seen)


def judge_mtu(device: Device) -> Findings:
    what, seen = f"MTU {device.name}", f"{device.mtu_bytes} bytes"
    if device.mtu_bytes < ETHERNET_MTU:
        short = device.mtu_bytes < LEAST_MTU
        also = "; IPv6 does not work below 1280" if short else ""
        yield warn(
            what,
            f"{seen}, less than Ethernet's {ETHERNET_MTU}",
            f"Smaller packets, as in tunnels, take more processor time for the same rate{also}.",
            line("ip", "link", "set", "dev", device.name, "mtu", str(ETHERNET_MTU)),
        )
    elif device.fast and device.mtu_bytes < JUMBO_MTU and device.driver != VIRTUAL:
        yield warn(
            what,
            seen,
            "From 10 Gbit/s on, frames of 9000 bytes save much processor time; the whole path must "
            "carry them.",
            line("ip", "link", "set", "dev", device.name, "mtu", str(JUMBO_MTU)),
        )
    else:
        yield ok(what, seen)


def judge_rings(device: Device, output: str) -> Findings:
    """Judges `ethtool -g`: larger rings keep the packets of bursts that arrive while the processor
    is busy. Raises ValueError.
    """
    rings = _RING.findall(output)
    if len(rings) != 4 or [name for name, _ in rings] != ["RX", "TX"] * 2:
        raise ValueError(f"ethtool -g {device.name} does not report two sizes of RX and TX")
    most, now = dict(rings[:2]), dict(rings[2:])
    known = [name for name in most if most[name].isdigit() and now[name].isdigit()]
    small = [name for name in known if int(now[name]) < int(most[name])]
    seen = ", ".join(f"{name} {now[name]} of {most[name]}" for name in known)
    if not known:
        return
    if not small:
        yield ok(f"rings {device.name}", seen)
        return
    sizes = [word for name in small for word in (name.lower(), most[name])]
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
    """Judges `ethtool -k`; `netem_with_loss` is None if netem is not on this device, and False if
    netem loses nothing.

    If netem loses packets, a packet that GRO or LRO has joined from many is lost as a whole. Raises
    ValueError.
    """
    states = {
        OFFLOADS[name]: (state, fixed)
        for name, state, fixed in _OFFLOAD.findall(output)
        if name in OFFLOADS
    }
    if "tso" not in states:
        raise ValueError(f"ethtool -k {device.name} does not say what the device offloads")
    seen = ", ".join(f"{name} {state}" for name, (state, _) in states.items())
    if netem_with_loss is not None:
        joining = [name for name in ("gro", "lro") if states.get(name, ("off",))[0] == "on"]
        if joining:
            yield DoctorFinding(
                f"offloads {device.name}",
                Status.FAIL if netem_with_loss else Status.WARN,
                seen,
                "netem handles packets that the device has joined as one packet, so one loss hits "
                "many of them.",
                (
                    line(
                        "ethtool",
                        "-K",
                        device.name,
                        *(word for name in joining for word in (name, "off")),
                    ),
                ),
            )
            return
    elif off := [
        name for name in ("tso", "gso", "gro") if states.get(name, ("on", ""))[0] == "off"
    ]:
        settable = [name for name in off if not states[name][1]]
        if device.fast and device.driver != VIRTUAL:
            yield warn(
                f"offloads {device.name}",
                seen,
                "Without them the processor handles each packet separately, which limits a flow "
                "to a few Gbit/s.",
                *(
                    (
                        line(
                            "ethtool",
                            "-K",
                            device.name,
                            *(word for name in settable for word in (name, "on")),
                        ),
                    )
                    if settable
                    else ()
                ),
            )
            return
    yield ok(f"offloads {device.name}", seen)


def default_device(routes: str) -> str | None:
    """Returns the device of the default route with the lowest metric, from
    `ip -j route show default`. Raises ValueError.
    """
    defaults = [
        route
        for route in objects(routes, "ip's answer")
        if route.get("dst") == "default" and "dev" in route
    ]
    defaults.sort(key=lambda route: count_of(route, "metric", 0, "a route"))
    return device_name(defaults[0]["dev"]) if defaults else None


def route_device(routes: str) -> str:
    """Returns the device of `ip -j route get ADDRESS`. Raises ValueError."""
    answer = objects(routes, "ip's answer")
    if not answer or "dev" not in answer[0]:
        raise ValueError("ip knows no route to the destination")
    return device_name(answer[0]["dev"])


def device_with(addresses: str, wanted: Sequence[str]) -> str:
    """Returns the device with one of the addresses, from `ip -j addr show`. Raises
    ValueError.
    """
    for device in objects(addresses, "ip's answer"):
        infos = device.get("addr_info", [])
        if isinstance(infos, list) and any(
            isinstance(info, dict) and info.get("local") in wanted for info in infos
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
    """Reads tc's statistics, as JSON. Raises CommandError."""
    return ask(host, statistics_command(device))


def judge_sending(device: str, qdiscs: str, default: str, paced: bool, bbr: bool) -> Findings:
    """Judges the sending device's queue. `qdiscs` is from read_qdiscs(); `default` is
    net.core.default_qdisc; `paced` means that an entry paces by fq. Raises ValueError.

    tcp_bbr paces by itself since Linux 4.13, with a timer for each socket; fq needs less processor
    time for this.
    """
    root, leaves = _tree(qdiscs)
    kind = text_of(root, "kind", "the root qdisc")
    fq = [qdisc for qdisc in (root, *leaves) if qdisc.get("kind") == "fq"]
    seen = described([root, *leaves])
    what = f"fq {device}"
    if kind == "fq" or (leaves and len(fq) == len(leaves)):
        yield ok(what, seen)
        yield from _flow_limit(device, root if kind == "fq" else None, fq)
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
            what,
            seen,
            "ccmix replaces a queue only if it can restore it, and it could not restore this one.",
            *remedy,
        )
    elif paced:
        yield ok(what, f"{seen}; replaced by fq for the time of each run")
    else:
        more = "BBR then paces each socket with its own timer. " if bbr else ""
        default = f", default_qdisc {default}" if default else ""
        yield warn(
            what,
            f"{seen}{default}",
            f"{more}Senders that fq paces lose less in the buffers of the path.",
            *remedy,
        )


def judge_netem(device: str, qdiscs: str) -> Findings:
    """Judges whether netem may replace the device's queue for a while. Raises ValueError."""
    root, _ = _tree(qdiscs)
    kind = text_of(root, "kind", "the root qdisc")
    if _replaceable(root):
        yield ok(f"queue {device}", f"{kind}; replaced by netem for the time of each run")
        return
    dead = " A killed run may have left it." if kind in ("netem", "tbf") else ""
    yield fail(
        f"queue {device}",
        kind,
        "ccmix replaces a queue only if it can restore it, and it could not restore this "
        f"one.{dead}",
        line("tc", "qdisc", "del", "dev", device, "root"),
    )


def _tree(answer: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
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
    return root["handle"] == "0:" or root["kind"] in RESTORABLE


def _flow_limit(device: str, root: dict[str, Any] | None, queues: list[dict[str, Any]]) -> Findings:
    """Judges drops by flow_limit: fq drops packets of a flow beyond this limit in its queue
    (tc-fq(8)); a sender sees this as loss.
    """
    dropped = sum(count_of(fq, "flows_plimit", 0, "fq") for fq in queues)
    if not dropped:
        return
    what, seen = f"fq {device} flow_limit", f"{dropped} packets dropped by it so far"
    if all(_flow_limit_of(fq) >= FLOW_LIMIT_PACKETS for fq in queues):
        yield ok(what, f"{seen}; it is {FLOW_LIMIT_PACKETS} now")
        return
    places = (
        [["root"]]
        if root is not None
        else [["parent", text_of(fq, "parent", "fq")] for fq in queues]
    )
    change = ["tc", "qdisc", "change", "dev", device]
    limits = ["fq", "flow_limit", str(FLOW_LIMIT_PACKETS)]
    remedy = tuple(line(*change, *place, *limits) for place in places)
    yield warn(what, seen, "Packets that fq drops here look like loss of the path.", *remedy)


def _flow_limit_of(fq: dict[str, Any]) -> int:
    options = fq.get("options")
    return count_of(options, "flow_limit", 100, "fq") if isinstance(options, dict) else 0
