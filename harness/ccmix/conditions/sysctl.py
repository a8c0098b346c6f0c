"""Reads and changes sysctls and parameters of kernel modules, such as a TCP receive buffer."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ccmix.hosts import CommandError, Host
from ccmix.model import ModuleParameter, Topology

# Sysctls that decide how TCP behaves; each run records them
OF_TCP = (
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
)
TCP_ECN, TCP_RMEM = "net.ipv4.tcp_ecn", "net.ipv4.tcp_rmem"
LARGEST_BUFFER_BYTES = 512 * 2**20  # the autotuning limit of Tierney et al. 2021, section IV
FIRST_BUFFER_BYTES = 131072  # Linux's default
SHARES, FIRST_SHARE = (
    256,
    128,
)  # TCP_RMEM_TO_WIN_SCALE, and TCP_DEFAULT_SCALING_RATIO until a packet exceeds LEAST_MSS
LEAST_MSS_BYTES = 536  # TCP_MSS_DEFAULT
HEADERS_BYTES = 52  # of IP, and of TCP with timestamps
MEMORY_BESIDE_DATA_BYTES = (
    832  # a small head (SKB_SMALL_HEAD_CACHE_SIZE in net/core/skbuff.c), and struct sk_buff
)
PACKETS_JOINED = 2  # the minimum that TCP joins (tcp_min_tso_segs)

FOLDER = "/sys/module"


def of_ends(topology: Topology) -> tuple[str, ...]:
    """Returns the names of the sysctls of senders and receivers that are read before and after a
    run. They are compared with the values that the topology sets. No others are read, because each
    read takes a guest's virtual time.
    """
    windows = any(sender.receiver_window_bytes is not None for sender in topology.senders)
    return (TCP_ECN, TCP_RMEM) if windows else (TCP_ECN,)


def tcp_rmem(topology: Topology, window_bytes: int | None) -> str:
    """Returns the value of the sysctl tcp_rmem (minimum, default and maximum receive buffer) with
    which a receiver's window is at most `window_bytes`; None: no limit.

    Since Linux 6.6, window = buffer x share, where share is the data's part of the memory of the
    first full packet, in whole 256ths (tcp_measure_rcv_mss() in net/ipv4/tcp_input.c). Packets that
    came over veth devices are still in the memory that their sender allocated. On a kernel that
    uses another amount of memory for a packet, the window differs, and the verdict on the run says
    so.
    """
    largest_bytes = LARGEST_BUFFER_BYTES
    if window_bytes is not None:
        data_bytes, share = topology.mtu_bytes - HEADERS_BYTES, FIRST_SHARE
        if data_bytes > LEAST_MSS_BYTES:
            data_bytes *= PACKETS_JOINED if topology.offloads else 1
            share = SHARES * data_bytes // (data_bytes + MEMORY_BESIDE_DATA_BYTES)
        largest_bytes = -(-window_bytes * SHARES // share)
    return f"4096 {min(FIRST_BUFFER_BYTES, largest_bytes)} {largest_bytes}"


def read_sysctls(host: Host, names: Sequence[str]) -> dict[str, str]:
    """Reads sysctls of a host with one command. Returns values by name; names that its kernel or
    namespace does not have are left out.
    """
    lines = host.run(["sysctl", "-e", *names]).splitlines()
    return {
        name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)
    }


@contextmanager
def changed_sysctls(host: Host, values: Mapping[str, str]) -> Iterator[None]:
    """Sets sysctls of a host (values by name) while the context lasts, and restores them at the
    end.
    """
    former = dict(zip(values, host.run(["sysctl", "-n", *values]).splitlines(), strict=True))
    set_all = ["sysctl", "-q", "-w"]
    do = [*set_all, *(f"{name}={value}" for name, value in values.items())]
    undo = [*set_all, *(f"{name}={' '.join(value.split())}" for name, value in former.items())]
    with host.changed(f"sysctls {', '.join(values)}", do, undo):
        yield


@contextmanager
def changed_parameter(host: Host, parameter: ModuleParameter) -> Iterator[None]:
    """Sets a parameter of a kernel module, or one element of a vector, while the context lasts, and
    puts the former value back at the end. Raises CommandError, also if the kernel does not show the
    new value after it was set.
    """
    file, former = f"{FOLDER}/{parameter.path}", read_parameter(host, parameter)
    try:
        value = parameter.written(former)
    except ValueError as error:
        raise CommandError(host.name, ["write", file], str(error)) from None
    with host.changed(
        f"module parameter {parameter.path}", _write(file, value), _write(file, former)
    ):
        if (now := read_parameter(host, parameter)) != value:
            raise CommandError(
                host.name, _write(file, value), f"{file} is {now} after {value} was written"
            )
        yield


def read_parameter(host: Host, parameter: ModuleParameter) -> str:
    """Reads the value of a kernel module's parameter; all elements if it is a vector. Raises
    CommandError.
    """
    return host.read(f"{FOLDER}/{parameter.path}").strip()


def _write(file: str, value: str) -> list[str]:
    """Returns a command that writes the value into the file. Both are arguments of the shell and
    not part of its line, so that special characters in them do nothing.
    """
    return ["sh", "-c", 'printf "%s\\n" "$1" > "$2"', "sh", value, file]
