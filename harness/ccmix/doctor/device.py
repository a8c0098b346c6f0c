"""Checks the network device that traffic leaves or enters by: link, speed, driver, NUMA node, MTU, rings, offloads."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import ask, count_of, device_name, files, objects, text_of, transcript, whole
from ccmix.hosts import Host
from ccmix.units import format_rate

FAST_BPS = 10e9  # from here on, what a host spends per packet decides what a flow reaches
ETHERNET_MTU = 1500
JUMBO_MTU = 9000
LEAST_MTU = 1280  # IPv6 asks for it of every link (RFC 8200)
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
    """Describes a network device. `speed_bps` is None if it reports none, as virtual ones do; `numa_node` is None
    if there is one node only.
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
    """Reads a device. Raises CommandError if there is none of this name, and ValueError."""
    name = device_name(name)
    link = ask(host, ["ip", "-j", "link", "show", "dev", name])
    folder = f"/sys/class/net/{name}"
    texts = files(host, f"{folder}/speed", f"{folder}/device/numa_node", "/sys/devices/system/node/online")
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
    """Returns ethtool's text on the rings; None if the device has none that can be set. Raises CommandError."""
    status, output = transcript(host, ["ethtool", "-g", name])
    if "not supported" in output:
        return None
    if status != 0:
        raise ValueError(output.strip() or f"ethtool -g {name} gives status {status}")
    return output


def judge_link(device: Device, needed_bps: float | None) -> Iterator[DoctorFinding]:
    """Judges the link; `needed_bps` is the sum of the entries' pacing."""
    what = f"NIC {device.name}"
    node = f", NUMA node {device.numa_node}" if device.numa_node is not None else ""
    speed = format_rate(device.speed_bps) if device.speed_bps else "speed not known"
    seen = f"{device.driver}, {speed}{node}"
    if not device.up:
        yield DoctorFinding(
            what, Status.FAIL, f"{seen}, down", "No traffic passes a device that is down or has no carrier.",
            (line("ip", "link", "set", "dev", device.name, "up"),),
        )  # fmt: skip
    elif needed_bps and device.speed_bps and needed_bps > device.speed_bps:
        yield DoctorFinding(
            what, Status.WARN, seen,
            f"The entries pace their flows to {format_rate(needed_bps)} in all, more than the device has, so pacing "
            "does not limit them: ask for less, or for fewer streams.",
        )  # fmt: skip
    else:
        yield DoctorFinding(what, Status.OK, seen)


def judge_mtu(device: Device) -> Iterator[DoctorFinding]:
    what, seen = f"MTU {device.name}", f"{device.mtu_bytes} bytes"
    if device.mtu_bytes < ETHERNET_MTU:
        short = device.mtu_bytes < LEAST_MTU
        also = "; IPv6 does not work below 1280" if short else ""
        yield DoctorFinding(
            what, Status.WARN, f"{seen}, less than Ethernet's {ETHERNET_MTU}",
            f"Smaller packets take more of the processor for the same rate, as in tunnels{also}.",
            (line("ip", "link", "set", "dev", device.name, "mtu", str(ETHERNET_MTU)),),
        )  # fmt: skip
    elif device.fast and device.mtu_bytes < JUMBO_MTU and device.driver != VIRTUAL:
        yield DoctorFinding(
            what, Status.WARN, seen,
            "From 10 Gbit/s on, frames of 9000 bytes save much of the processor; all of the path must carry them.",
            (line("ip", "link", "set", "dev", device.name, "mtu", str(JUMBO_MTU)),),
        )  # fmt: skip
    else:
        yield DoctorFinding(what, Status.OK, seen)


def judge_rings(device: Device, output: str) -> Iterator[DoctorFinding]:
    """Judges `ethtool -g`: larger rings keep packets of bursts that come while the processor is busy. Raises
    ValueError.
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
        yield DoctorFinding(f"rings {device.name}", Status.OK, seen)
        return
    sizes = [word for name in small for word in (name.lower(), most[name])]
    yield DoctorFinding(
        f"rings {device.name}", Status.WARN if device.fast else Status.OK, seen,
        "A burst that the ring has no room for is lost in the host, and looks like loss of the path." if device.fast
        else "",
        (line("ethtool", "-G", device.name, *sizes),) if device.fast else (),
    )  # fmt: skip


def judge_offloads(device: Device, output: str, netem_with_loss: bool | None) -> Iterator[DoctorFinding]:
    """Judges `ethtool -k`; `netem_with_loss` is None if netem is not on this device, and False if it loses nothing.

    If netem loses packets, a packet that GRO or LRO has made of many is lost as a whole. Raises ValueError.
    """
    states = {OFFLOADS[name]: (state, fixed) for name, state, fixed in _OFFLOAD.findall(output) if name in OFFLOADS}
    if "tso" not in states:
        raise ValueError(f"ethtool -k {device.name} does not say what the device offloads")
    seen = ", ".join(f"{name} {state}" for name, (state, _) in states.items())
    if netem_with_loss is not None:
        joining = [name for name in ("gro", "lro") if states.get(name, ("off",))[0] == "on"]
        if joining:
            yield DoctorFinding(
                f"offloads {device.name}", Status.FAIL if netem_with_loss else Status.WARN, seen,
                "netem takes packets that the device has joined for one packet, so one loss hits many of them.",
                (line("ethtool", "-K", device.name, *(word for name in joining for word in (name, "off"))),),
            )  # fmt: skip
            return
    elif off := [name for name in ("tso", "gso", "gro") if states.get(name, ("on", ""))[0] == "off"]:
        settable = [name for name in off if not states[name][1]]
        if device.fast and device.driver != VIRTUAL:
            yield DoctorFinding(
                f"offloads {device.name}", Status.WARN, seen,
                "Without them the processor handles each packet by itself, which limits a flow to a few Gbit/s.",
                (line("ethtool", "-K", device.name, *(word for name in settable for word in (name, "on"))),)
                if settable else (),
            )  # fmt: skip
            return
    yield DoctorFinding(f"offloads {device.name}", Status.OK, seen)


def default_device(routes: str) -> str | None:
    """Returns the device of the default route with the lowest metric, from `ip -j route show default`. Raises
    ValueError.
    """
    defaults = [route for route in objects(routes, "ip's answer") if route.get("dst") == "default" and "dev" in route]
    defaults.sort(key=lambda route: count_of(route, "metric", 0, "a route"))
    return device_name(defaults[0]["dev"]) if defaults else None


def route_device(routes: str) -> str:
    """Returns the device of `ip -j route get ADDRESS`. Raises ValueError."""
    answer = objects(routes, "ip's answer")
    if not answer or "dev" not in answer[0]:
        raise ValueError("ip knows no route to the destination")
    return device_name(answer[0]["dev"])


def device_with(addresses: str, wanted: Sequence[str]) -> str:
    """Returns the device that has one of the addresses, from `ip -j addr show`. Raises ValueError."""
    for device in objects(addresses, "ip's answer"):
        infos = device.get("addr_info", [])
        if isinstance(infos, list) and any(isinstance(info, dict) and info.get("local") in wanted for info in infos):
            return device_name(device.get("ifname"))
    raise ValueError(
        "no device here has the destination's address, as behind NAT: give the destination by another name"
    )
