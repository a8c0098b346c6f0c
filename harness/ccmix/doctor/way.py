"""The way to a destination: does it answer, by IPv4 and IPv6, how far away is it, and how large may a packet be?"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence

from ccmix.doctor.device import Device
from ccmix.doctor.findings import Finding, Status, line
from ccmix.doctor.reading import ask, transcript
from ccmix.hosts import Host

PINGS, PING_INTERVAL_S, PING_WAITS_S = 3, 0.2, 2
PROBE_WAITS_S = 1
MOST_PACKET_BYTES = 65535  # of IPv4; loopback's MTU is one more
ICMP_BYTES = 8  # of an echo request's header
IP_BYTES = {4: 20, 6: 40}
# What paths carry: jumbo frames, FDDI's and Ethernet's size, PPPoE, GRE, VXLAN, what clouds leave, IPv6's least, X.25's
SIZES = (9000, 8900, 4352, 1500, 1492, 1476, 1450, 1400, 1280, 576)
_RTT = re.compile(r"^(?:rtt|round-trip) min/avg/max\S* = (\d{1,9}(?:\.\d{1,6})?)/", re.MULTILINE)
_TOO_LONG = re.compile(r"(?:mtu\s?=\s?|Frag needed and DF set \(mtu = )(\d{1,6})")


def addresses_of(said: str) -> list[str]:
    """The first address of each family, from `getent ahosts NAME`, in its order. Raises ValueError where none is."""
    found: dict[int, str] = {}
    for one in said.splitlines():
        words = one.split()
        try:
            address = ipaddress.ip_address(words[0].partition("%")[0]) if words else None
        except ValueError:
            continue
        if address:
            found.setdefault(address.version, words[0])
    if not found:
        raise ValueError("the name has no address")
    return list(found.values())


def read_addresses(host: Host, name: str) -> list[str]:
    """Raises CommandError or ValueError."""
    return addresses_of(ask(host, ["getent", "ahosts", name]))


def version_of(address: str) -> int:
    return ipaddress.ip_address(address.partition("%")[0]).version


def read_ping(host: Host, address: str) -> str:
    """Raises CommandError."""
    options = ["-n", "-c", str(PINGS), "-i", f"{PING_INTERVAL_S:g}", "-W", str(PING_WAITS_S)]
    return transcript(host, ["ping", *options, address], timeout_s=15)[1]


def base_rtt_s(said: str) -> float | None:
    """The smallest round-trip time that ping saw, in seconds; None where nothing answered."""
    match = _RTT.search(said)
    return float(match[1]) / 1e3 if match else None


def judge_family(address: str, said: str, silent_why: str | None) -> Finding:
    """`silent_why`: why nothing at all answers there; None where something does, if only by TCP."""
    what = f"IPv{version_of(address)} {address}"
    rtt_s = base_rtt_s(said)
    if rtt_s is not None:
        return Finding(what, Status.OK, f"answers after {rtt_s * 1e3:g} ms")
    if silent_why:
        return Finding(
            what,
            Status.FAIL,
            "does not answer",
            f"Runs to a destination that does not answer are skipped: {silent_why}.",
        )
    return Finding(
        what, Status.WARN, "does not answer pings; something there answers otherwise",
        "Without pings the round-trip time is not known before a run; a dead address is tried nevertheless.",
    )  # fmt: skip


def probe(host: Host, address: str) -> Callable[[int], tuple[bool, str]]:
    """A function that sends one packet of a size, never fragmented: whether it was answered, and ping's words."""
    header = IP_BYTES[version_of(address)] + ICMP_BYTES

    def send(packet_bytes: int) -> tuple[bool, str]:
        size = str(max(0, packet_bytes - header))
        argv = ["ping", "-n", "-M", "do", "-c", "1", "-W", str(PROBE_WAITS_S), "-s", size, address]
        status, said = transcript(host, argv)
        return status == 0, said

    return send


def path_mtu(send: Callable[[int], tuple[bool, str]], device_mtu: int) -> tuple[int | None, bool]:
    """The largest packet that passes, and whether the path has told so, as routers should (RFC 1191, RFC 8201).

    None: not even small ones are answered. What the path doesn't tell is searched among the usual sizes.
    """
    device_mtu = min(device_mtu, MOST_PACKET_BYTES)
    passed, said = send(device_mtu)
    if passed:
        return device_mtu, True
    told = [int(size) for size in _TOO_LONG.findall(said) if 0 < int(size) < device_mtu]
    if told and send(min(told))[0]:
        return min(told), True
    sizes = [size for size in SIZES if size < device_mtu]
    return largest(sizes, lambda size: send(size)[0]), False


def largest(sizes: Sequence[int], passes: Callable[[int], bool]) -> int | None:
    """The first of the falling sizes that passes, by halving: where one passes, all smaller ones do."""
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if passes(sizes[middle]):
            high = middle
        else:
            low = middle + 1
    return sizes[low] if low < len(sizes) else None


def judge_path_mtu(device: Device, address: str, size: int | None, told: bool) -> Iterator[Finding]:
    what = f"path MTU {address}"
    if size is None:
        yield Finding(
            what, Status.UNKNOWN, "pings of no size are answered", "It takes pings that are answered to see it."
        )
        return
    headers = IP_BYTES[version_of(address)] + 20
    seen = f"{size} bytes, MSS {size - headers}" if size > headers else f"{size} bytes"
    shrink = line("ip", "link", "set", "dev", device.name, "mtu", str(size))
    if size >= min(device.mtu_bytes, MOST_PACKET_BYTES):
        yield Finding(what, Status.OK, seen)
    elif told:
        yield Finding(
            what, Status.WARN, f"{seen}; {device.name} has {device.mtu_bytes}",
            "TCP learns this by losing its first full packets, each time.", (shrink,),
        )  # fmt: skip
    else:
        yield Finding(
            what, Status.FAIL, f"{seen} pass, {device.name} sends up to {device.mtu_bytes}, which vanish in silence",
            "Connections are made, and stall as soon as they send full packets.",
            (shrink,), (line("sysctl", "-w", "net.ipv4.tcp_mtu_probing=1"),),
        )  # fmt: skip
