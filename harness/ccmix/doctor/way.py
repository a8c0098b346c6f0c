"""Checks the path to a destination: whether it answers by IPv4 and IPv6, its distance, and its largest packet."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence

from ccmix.doctor.device import Device
from ccmix.doctor.findings import DoctorFinding, Status, line
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


def addresses_of(output: str) -> list[str]:
    """Returns the first address of each family, from `getent ahosts NAME`, in its order. Raises ValueError if there
    is none.
    """
    first_of_family: dict[int, str] = {}
    for row in output.splitlines():
        words = row.split()
        try:
            address = ipaddress.ip_address(words[0].partition("%")[0]) if words else None
        except ValueError:
            continue
        if address:
            first_of_family.setdefault(address.version, words[0])
    if not first_of_family:
        raise ValueError("the name has no address")
    return list(first_of_family.values())


def read_addresses(host: Host, name: str) -> list[str]:
    """Reads the addresses of a name. Raises CommandError or ValueError."""
    return addresses_of(ask(host, ["getent", "ahosts", name]))


def version_of(address: str) -> int:
    return ipaddress.ip_address(address.partition("%")[0]).version


def read_ping(host: Host, address: str) -> str:
    """Returns the output of pings to an address. Raises CommandError."""
    options = ["-n", "-c", str(PINGS), "-i", f"{PING_INTERVAL_S:g}", "-W", str(PING_WAITS_S)]
    return transcript(host, ["ping", *options, address], timeout_s=15)[1]


def base_rtt_s(output: str) -> float | None:
    """Returns the smallest round-trip time that ping saw, in seconds; None if nothing answered."""
    match = _RTT.search(output)
    return float(match[1]) / 1e3 if match else None


def judge_family(address: str, output: str, silent_why: str | None) -> DoctorFinding:
    """Judges the pings of one address; `silent_why` says why nothing at all answers there, and is None if something
    does, even by TCP only.
    """
    what = f"IPv{version_of(address)} {address}"
    rtt_s = base_rtt_s(output)
    if rtt_s is not None:
        return DoctorFinding(what, Status.OK, f"answers after {rtt_s * 1e3:g} ms")
    if silent_why:
        return DoctorFinding(
            what,
            Status.FAIL,
            "does not answer",
            f"Runs to a destination that does not answer are skipped: {silent_why}.",
        )
    return DoctorFinding(
        what, Status.WARN, "does not answer pings; the destination answers by TCP or at another address",
        "Without pings the round-trip time is not known before a run; a dead address is tried nevertheless.",
    )  # fmt: skip


def probe(host: Host, address: str) -> Callable[[int], tuple[bool, str]]:
    """Returns a function that sends one unfragmented packet of a size, and returns whether it was answered, and
    ping's output.
    """
    header = IP_BYTES[version_of(address)] + ICMP_BYTES

    def send(packet_bytes: int) -> tuple[bool, str]:
        size = str(max(0, packet_bytes - header))
        argv = ["ping", "-n", "-M", "do", "-c", "1", "-W", str(PROBE_WAITS_S), "-s", size, address]
        status, output = transcript(host, argv)
        return status == 0, output

    return send


def path_mtu(send: Callable[[int], tuple[bool, str]], device_mtu: int) -> tuple[int | None, bool]:
    """Returns the largest packet that passes, and whether the path reported it, as routers should (RFC 1191, RFC 8201).

    The size is None if not even small packets are answered. If the path doesn't report it, the usual sizes are
    searched.
    """
    device_mtu = min(device_mtu, MOST_PACKET_BYTES)
    passed, output = send(device_mtu)
    if passed:
        return device_mtu, True
    reported = [int(size) for size in _TOO_LONG.findall(output) if 0 < int(size) < device_mtu]
    if reported and send(min(reported))[0]:
        return min(reported), True
    sizes = [size for size in SIZES if size < device_mtu]
    return largest(sizes, lambda size: send(size)[0]), False


def largest(sizes: Sequence[int], passes: Callable[[int], bool]) -> int | None:
    """Returns the first of the falling sizes that passes, by halving: if one passes, all smaller ones do."""
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if passes(sizes[middle]):
            high = middle
        else:
            low = middle + 1
    return sizes[low] if low < len(sizes) else None


def judge_path_mtu(device: Device, address: str, size: int | None, reported: bool) -> Iterator[DoctorFinding]:
    what = f"path MTU {address}"
    if size is None:
        yield DoctorFinding(
            what,
            Status.UNKNOWN,
            "pings of no size are answered",
            "ccmix finds the path MTU only by pings that are answered.",
        )
        return
    headers = IP_BYTES[version_of(address)] + 20
    seen = f"{size} bytes, MSS {size - headers}" if size > headers else f"{size} bytes"
    shrink = line("ip", "link", "set", "dev", device.name, "mtu", str(size))
    if size >= min(device.mtu_bytes, MOST_PACKET_BYTES):
        yield DoctorFinding(what, Status.OK, seen)
    elif reported:
        yield DoctorFinding(
            what, Status.WARN, f"{seen}; {device.name} has {device.mtu_bytes}",
            "TCP learns this by losing its first full packets, each time.", (shrink,),
        )  # fmt: skip
    else:
        yield DoctorFinding(
            what, Status.FAIL, f"{seen} pass, {device.name} sends up to {device.mtu_bytes}, "
            "which the path drops without an ICMP message",
            "Connections are made, and stall as soon as they send full packets.",
            (shrink,), (line("sysctl", "-w", "net.ipv4.tcp_mtu_probing=1"),),
        )  # fmt: skip
