"""Checks the path to a destination: does it answer, RTT, path MTU, and whether buffers suffice.

A flow with rate R and round-trip time T has R x T bytes unacknowledged, the bandwidth-delay product
(BDP), which the socket buffers of both ends must hold.

The kernel sizes buffers by itself up to the third number of tcp_rmem and tcp_wmem (ip-sysctl.rst).
About half of a receive buffer becomes window; the rest is overhead. A send buffer grows to twice
the congestion window, because bytes that were lost in a window are still there in the next
(tcp_sndbuf_expand() in net/ipv4/tcp_input.c). So each buffer needs 2 BDP. rmem_max and wmem_max
only limit buffers that applications set themselves (SO_RCVBUF, SO_SNDBUF; iperf3's -w). tcp_mem
limits all sockets of the machine together, in pages.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.doctor.device import Device
from ccmix.doctor.needs import Load
from ccmix.doctor.report import (
    DoctorFinding,
    Findings,
    Status,
    ask,
    fail,
    files,
    line,
    numbers,
    ok,
    transcript,
    unknown,
    warn,
    whole,
)
from ccmix.hosts import Host
from ccmix.units import format_bytes, format_rate, format_time

PINGS, PING_INTERVAL_S, PING_WAITS_S = 3, 0.2, 2
PROBE_WAITS_S = 1  # for the answer to a ping that probes the path MTU
MOST_PACKET_BYTES = 65535  # of IPv4; loopback's MTU is one more
ICMP_BYTES = 8  # of an echo request's header
IP_BYTES = {4: 20, 6: 40}
# Sizes that paths carry: jumbo frames, FDDI, Ethernet, PPPoE, GRE, VXLAN, the remainder in clouds,
# the minimum of IPv6, X.25
SIZES = (9000, 8900, 4352, 1500, 1492, 1476, 1450, 1400, 1280, 576)
_RTT = re.compile(r"^(?:rtt|round-trip) min/avg/max\S* = (\d{1,9}(?:\.\d{1,6})?)/", re.MULTILINE)
_TOO_LONG = re.compile(r"(?:mtu\s?=\s?|Frag needed and DF set \(mtu = )(\d{1,6})")


def addresses_of(output: str) -> list[str]:
    """Returns the first IPv4 and the first IPv6 address in the output of `getent ahosts NAME`.

    The addresses keep the order of the output, in which programs try them. Raises ValueError if the
    output has no address.
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
    """Resolves a name on the host, whose answer may differ from this machine's.

    Raises CommandError or ValueError.
    """
    return addresses_of(ask(host, ["getent", "ahosts", name]))


def version_of(address: str) -> int:
    """Returns 4 or 6, the version of IP of an address; the address may have a zone (%eth0)."""
    return ipaddress.ip_address(address.partition("%")[0]).version


def read_ping(host: Host, address: str) -> str:
    """Returns the output of pings to an address. Raises CommandError."""
    options = ["-n", "-c", str(PINGS), "-i", f"{PING_INTERVAL_S:g}", "-W", str(PING_WAITS_S)]
    return transcript(host, ["ping", *options, address], timeout_s=15)[1]


def base_rtt_s(output: str) -> float | None:
    """Returns the smallest round-trip time in ping's output, in seconds; None if no ping was
    answered.
    """
    match = _RTT.search(output)
    return float(match[1]) / 1e3 if match else None


def judge_family(address: str, output: str, silent_why: str | None) -> DoctorFinding:
    """Judges the pings to one address of a destination, by IPv4 or IPv6.

    `output` is what ping printed. `silent_why` says why the destination does not answer in any way;
    it is None if it answers at another address or by TCP.
    """
    check_name = f"IPv{version_of(address)} {address}"
    rtt_s = base_rtt_s(output)
    if rtt_s is not None:
        return ok(check_name, f"answers after {rtt_s * 1e3:g} ms")
    if silent_why:
        return fail(
            check_name,
            "does not answer",
            f"Runs to a destination that does not answer are skipped: {silent_why}.",
        )
    return warn(
        check_name,
        "does not answer pings; the destination answers by TCP or at another address",
        "Without pings the round-trip time is not known before a run; a dead address is tried "
        "nevertheless.",
    )


def probe(host: Host, address: str) -> Callable[[int], tuple[bool, str]]:
    """Returns a function that sends one ping of a given packet size, which must not be fragmented.

    That function returns whether the ping was answered, and the output.
    """
    header = IP_BYTES[version_of(address)] + ICMP_BYTES

    def send(packet_bytes: int) -> tuple[bool, str]:
        """Sends one ping in a packet of this size; returns whether it was answered, and output."""
        size = str(max(0, packet_bytes - header))
        argv = ["ping", "-n", "-M", "do", "-c", "1", "-W", str(PROBE_WAITS_S), "-s", size, address]
        status, output = transcript(host, argv)
        return status == 0, output

    return send


def path_mtu(send: Callable[[int], tuple[bool, str]], device_mtu: int) -> tuple[int | None, bool]:
    """Finds the path MTU. Returns it, and whether the sender learns it: the path reports it (RFC
    1191, RFC 8201), or it is not smaller than the MTU of the sending device, `device_mtu`.

    `send` is the result of probe(): it sends a ping of a given size. If the path reports nothing,
    the usual sizes are tried. The MTU is None if not even small packets are answered.
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
    """Returns the largest size that passes, or None if no size does. Finds it by bisection.

    `sizes` are in falling order. If `passes` is true for a size, it must be true for all smaller
    sizes.
    """
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if passes(sizes[middle]):
            high = middle
        else:
            low = middle + 1
    return sizes[low] if low < len(sizes) else None


def judge_path_mtu(device: Device, address: str, mtu_bytes: int | None, reported: bool) -> Findings:
    """Compares the path MTU with the MTU of the sending device.

    `mtu_bytes` is the path MTU (None: pings are not answered). `reported` means that the path tells
    the sender its MTU. If the path has a smaller MTU than the device and does not tell it, full TCP
    packets are lost without a trace.
    """
    check_name = f"path MTU {address}"
    if mtu_bytes is None:
        yield unknown(
            check_name,
            "pings are not answered, whatever their size",
            "ccmix finds the path MTU only if pings are answered.",
        )
        return
    headers = IP_BYTES[version_of(address)] + 20
    seen = (
        f"{mtu_bytes} bytes, MSS {mtu_bytes - headers}"
        if mtu_bytes > headers
        else f"{mtu_bytes} bytes"
    )
    shrink = line("ip", "link", "set", "dev", device.name, "mtu", str(mtu_bytes))
    if mtu_bytes >= min(device.mtu_bytes, MOST_PACKET_BYTES):
        yield ok(check_name, seen)
    elif reported:
        yield warn(
            check_name,
            f"{seen}; {device.name} has {device.mtu_bytes}",
            "TCP learns this only by losing its first full packets, each time.",
            shrink,
        )
    else:
        yield fail(
            check_name,
            f"{seen} pass, {device.name} sends up to {device.mtu_bytes}, "
            "which the path drops without an ICMP message",
            "Connections are established, but stall as soon as they send full packets.",
            shrink,
            instead=(line("sysctl", "-w", "net.ipv4.tcp_mtu_probing=1"),),
        )


BDPS = 2  # that a buffer needs, as the beginning of this module explains
MOST_BUFFER_BYTES = 2**31 - 1  # the kernel's limit (net/ipv4/sysctl_net_ipv4.c counts in int)
FILES = ("ipv4/tcp_rmem", "ipv4/tcp_wmem", "ipv4/tcp_mem", "core/rmem_max", "core/wmem_max")


@dataclass(frozen=True)
class Buffers:
    """Holds the kernel's limits of socket buffers in bytes, and tcp_mem in pages of `page_bytes`.

    `rmem`, `wmem` and `mem_pages` have the three numbers of the files tcp_rmem, tcp_wmem and
    tcp_mem. A field is None if the host does not show its file: network namespaces don't show all.
    """

    rmem: tuple[int, int, int] | None
    wmem: tuple[int, int, int] | None
    mem_pages: tuple[int, int, int] | None
    rmem_max: int | None
    wmem_max: int | None
    page_bytes: int


@dataclass(frozen=True)
class Demand:
    """Says how many bytes socket buffers must hold, because they are sent but not acknowledged yet.

    `flow_bytes` is the BDP of one flow, `all_bytes` that of all flows together; `sentence` explains
    them to users. `certain` means that an entry sets the rate; otherwise the rate is the device's
    speed, which flows may not reach.
    """

    flow_bytes: float
    all_bytes: float
    sentence: str
    certain: bool


def read_buffers(host: Host) -> Buffers:
    """Reads the kernel's limits of socket buffers on a host. Raises CommandError or ValueError."""
    texts = files(host, *(f"/proc/sys/net/{name}" for name in FILES))
    pages = host.run(["getconf", "PAGESIZE"])
    return buffers_of(
        {name.removeprefix("/proc/sys/net/"): text for name, text in texts.items()}, pages
    )


def buffers_of(texts: Mapping[str, str], page: str) -> Buffers:
    """Reads the limits from texts: of files, by their paths below /proc/sys/net, and of getconf.

    `page` is the size of a page in bytes. Raises ValueError.
    """

    def three_sizes(name: str) -> tuple[int, int, int] | None:
        """Returns the three numbers of a file; None if the host does not show it."""
        if name not in texts:
            return None
        least, middle, most = numbers(texts[name], 3, name)
        return least, middle, most

    def one_size(name: str) -> int | None:
        """Returns the number in a file; None if the host does not show it."""
        return whole(texts[name], name, 0) if name in texts else None

    if not texts:
        raise ValueError("the host shows none of its buffer sizes")
    return Buffers(
        rmem=three_sizes("ipv4/tcp_rmem"),
        wmem=three_sizes("ipv4/tcp_wmem"),
        mem_pages=three_sizes("ipv4/tcp_mem"),
        rmem_max=one_size("core/rmem_max"),
        wmem_max=one_size("core/wmem_max"),
        page_bytes=whole(page, "the size of a page", 1),
    )


def demand(loads: Iterable[Load], rtt_s: float | None, speed_bps: float | None) -> Demand | None:
    """Returns how many bytes socket buffers must hold for the condition that needs most.

    `loads` has the traffic of each condition. `rtt_s` is the measured round-trip time, `speed_bps`
    the speed of the NIC (None: not known). Returns None if the rate or the round-trip time of the
    flows is not known.
    """
    demands = []
    for load in loads:
        all_flows_bps = min(
            (rate for rate in (load.rate_bps, speed_bps) if rate is not None), default=None
        )
        share_bps = None if all_flows_bps is None else all_flows_bps / load.streams
        flow_limits_bps = [rate for rate in (load.flow_bps, share_bps) if rate is not None]
        if not flow_limits_bps or (rtt_s is None and not load.added_rtt_s):
            continue
        total_rtt_s = (rtt_s or 0.0) + load.added_rtt_s
        flow_bps = min(flow_limits_bps)
        flow_bytes = flow_bps * total_rtt_s / 8
        sentence = (
            f"{load.streams} x {format_rate(flow_bps)} over "
            f"{format_time(round(total_rtt_s, 6))} have {format_bytes(flow_bytes)} each on the way"
        )
        certain = flow_bps == load.flow_bps or load.rate_bps is not None
        demands.append(
            Demand(flow_bytes, load.streams * flow_bps * total_rtt_s / 8, sentence, certain)
        )
    return max(demands, key=lambda candidate: candidate.flow_bytes, default=None)


def judge_buffers(
    buffers: Buffers, sends: Demand | None, receives: Demand | None, window_bytes: int
) -> Findings:
    """Judges the limits of socket buffers by the demand of the runs.

    `sends` is the demand of the traffic that the host sends, `receives` that of the traffic to it
    (None: not known). `window_bytes` is the largest buffer that a command itself sets, as with
    iperf3's -w (0: none does).
    """
    for name, sizes, wanted, why in (
        (
            "net.ipv4.tcp_wmem",
            buffers.wmem,
            sends,
            "The sender can't have more than this unacknowledged",
        ),
        (
            "net.ipv4.tcp_rmem",
            buffers.rmem,
            receives,
            "The receiver offers a window of about half of this at most",
        ),
    ):
        if sizes is not None and wanted is not None:
            yield _judge_automatic_buffer(name, sizes, wanted, why)
    # A buffer that a command sets is judged in the directions with a known demand, or in both if
    # no demand is known
    for name, limit_bytes, applies in (
        ("net.core.wmem_max", buffers.wmem_max, sends),
        ("net.core.rmem_max", buffers.rmem_max, receives),
    ):
        if limit_bytes is None or not window_bytes or (applies is None and sends is not receives):
            continue
        if limit_bytes >= window_bytes:
            yield ok(
                name,
                f"{format_bytes(limit_bytes)}, and a command asks for {format_bytes(window_bytes)}",
            )
        else:
            yield fail(
                name,
                f"{format_bytes(limit_bytes)}, and a command asks for {format_bytes(window_bytes)}",
                "A command that sets its socket buffer (-w) gets at most this size, and no error.",
                line("sysctl", "-w", f"{name}={window_bytes}"),
            )
    total = BDPS * sum(direction.all_bytes for direction in (sends, receives) if direction)
    if buffers.mem_pages is not None and total:
        yield _judge_tcp_mem(buffers.mem_pages, buffers.page_bytes, total)


def _judge_automatic_buffer(
    name: str, sizes: tuple[int, int, int], wanted: Demand, why: str
) -> DoctorFinding:
    """Judges tcp_rmem or tcp_wmem, whose third number limits how large the kernel makes a buffer.

    `sizes` are its three numbers in bytes; `why` begins the sentence that explains a failure.
    """
    limit_bytes = sizes[2]
    needed = min(BDPS * wanted.flow_bytes, MOST_BUFFER_BYTES)
    seen = f"up to {format_bytes(limit_bytes)}; {wanted.sentence}"
    if limit_bytes >= needed:
        return ok(name, seen)
    size = min(2 ** max(16, (round(needed) - 1).bit_length()), MOST_BUFFER_BYTES)
    status = Status.FAIL if wanted.certain and limit_bytes < wanted.flow_bytes else Status.WARN
    consequence = (
        "the run is then limited by the host"
        if status is Status.FAIL
        else "a flow that has lost packets may be limited"
    )
    return DoctorFinding(
        name,
        status,
        seen,
        f"{why}, and a flow needs {BDPS} BDP, {format_bytes(needed)}: {consequence}.",
        (line("sysctl", "-w", f"{name}={sizes[0]} {min(sizes[1], size)} {size}"),),
    )


def _judge_tcp_mem(
    pages: tuple[int, int, int], page_bytes: int, total_bytes: float
) -> DoctorFinding:
    """Judges tcp_mem, which limits the buffers of all sockets of the machine together.

    `pages` are its three numbers; from the second on, windows stop growing. `total_bytes` is the
    demand of all flows in bytes.
    """
    pressure, limit = pages[1] * page_bytes, pages[2] * page_bytes
    seen = (
        f"pressure from {format_bytes(pressure)}, at most {format_bytes(limit)}; all flows "
        f"need {format_bytes(total_bytes)}"
    )
    if total_bytes < pressure:
        return ok("net.ipv4.tcp_mem", seen)
    needed = round(total_bytes / page_bytes) + 1
    return DoctorFinding(
        "net.ipv4.tcp_mem",
        Status.FAIL if total_bytes > limit else Status.WARN,
        seen,
        "All sockets of the host share this; under pressure their windows stop growing.",
        (line("sysctl", "-w", f"net.ipv4.tcp_mem={needed} {2 * needed} {3 * needed}"),),
    )
