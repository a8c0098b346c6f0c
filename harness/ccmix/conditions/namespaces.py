"""Sets and reads sysctls, offloads and addresses of this thread's namespace, without subprocesses.

A path of 200 hosts has 400 namespaces and 1400 devices, and in a guest each process takes 2 to 3
ms.
"""

import array
import fcntl
import itertools
import re
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

SIOCETHTOOL = 0x8946
_SIOCGIFCONF, _SIOCGIFMTU = 0x8912, 0x8921  # linux/sockios.h
_IFREQ = struct.Struct("16sP16x")
_IFREQ_OF_NUMBER, _IFREQ_OF_ADDRESS = (
    struct.Struct("16si20x"),
    struct.Struct("16s4x4s16x"),
)  # linux/if.h
_IFCONF = struct.Struct("iP")
_MOST_ADDRESSES = 4096
# linux/ethtool.h
_GSTRINGS, _SFEATURES, _SS_FEATURES, _GSTRING_LEN = 0x1B, 0x3B, 4, 32
_MOST_FEATURES = 1024
# GTSO, GGSO and GGRO, by the names of `ethtool -k DEVICE`
_STATES = {
    "tcp-segmentation-offload": 0x1E,
    "generic-segmentation-offload": 0x23,
    "generic-receive-offload": 0x2B,
}
# Offloads that join packets or split them late, as in `ethtool -K DEVICE tso off gso off gro off`
_JOINING = re.compile(r"tx-tcp\S*-segmentation|tx-generic-segmentation|rx-gro")


def write_sysctls(values: Mapping[str, str]) -> None:
    """Sets sysctls of the namespace that this thread is in: value by name. Raises OSError."""
    for name, value in values.items():
        sysctl_file(name).write_text(f"{value}\n")


def sysctls(names: Iterable[str]) -> dict[str, str]:
    """Reads sysctls of this thread's network namespace. Returns their values by name, without names
    that the kernel or the namespace does not have. Raises OSError.
    """
    return {
        name: file.read_text().strip() for name in names if (file := sysctl_file(name)).exists()
    }


def sysctl_file(name: str) -> Path:
    """Returns the file below /proc/sys that has the value of a sysctl. A thread that opens it gets
    the value in its own network namespace.
    """
    return Path("/proc/sys", *name.split("."))


def offloads(device: str) -> dict[str, bool]:
    """Returns whether the offloads that join packets (TSO, GSO and GRO) are on for a device, by
    their names in `ethtool -k`. Raises OSError.
    """
    states = {name: array.array("I", [command, 0]) for name, command in _STATES.items()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for state in states.values():
            _ethtool(any_socket, device, state)
    return {name: bool(state[1]) for name, state in states.items()}


def mtu_bytes(device: str) -> int:
    """Returns the MTU of a device in this thread's namespace. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, _IFREQ_OF_NUMBER.pack(device.encode(), 0))
    return int(_IFREQ_OF_NUMBER.unpack(answer)[1])


def addresses() -> dict[str, tuple[str, ...]]:
    """Returns the IPv4 addresses in this thread's namespace by device. Raises OSError."""
    by_device: dict[str, tuple[str, ...]] = {}
    answers = array.array("B", bytes(_IFREQ_OF_ADDRESS.size * _MOST_ADDRESSES))
    request = array.array("B", _IFCONF.pack(len(answers), answers.buffer_info()[0]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCGIFCONF, request)
    size_bytes, _ = _IFCONF.unpack(request)
    for device, address in _IFREQ_OF_ADDRESS.iter_unpack(answers.tobytes()[:size_bytes]):
        name = device.partition(b"\0")[0].decode()
        by_device[name] = (*by_device.get(name, ()), socket.inet_ntoa(address))
    return by_device


def offloads_off(devices: Iterable[str]) -> None:
    """Turns off the offloads that join packets (TSO, GSO and GRO) for devices of this thread's
    namespace, as `ethtool -K` does. A queue then holds single packets. Raises OSError.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for device in devices:
            names = _feature_names(any_socket, device)
            # of each 32 features: the bits to change, and their new values (0: off)
            words = [[0, 0] for _ in range(-(-len(names) // 32))]
            for bit, name in enumerate(names):
                if _JOINING.fullmatch(name):
                    words[bit // 32][0] |= 1 << bit % 32
            _ethtool(
                any_socket,
                device,
                array.array("I", [_SFEATURES, len(words), *itertools.chain(*words)]),
            )


def _feature_names(any_socket: socket.socket, device: str) -> list[str]:
    """Returns the names that the kernel has for the features (offloads) of a device. The position
    of a name is the number of its bit in requests that change features.
    """
    request = array.array(
        "I", [_GSTRINGS, _SS_FEATURES, 0, *bytes(_MOST_FEATURES * _GSTRING_LEN // 4)]
    )
    _ethtool(any_socket, device, request)
    text = request[3:].tobytes()
    return [
        text[at : at + _GSTRING_LEN].partition(b"\0")[0].decode()
        for at in range(0, request[2] * _GSTRING_LEN, _GSTRING_LEN)
    ]


def _ethtool(any_socket: socket.socket, device: str, command: "array.array[int]") -> None:
    """Sends a request of the kind that ethtool sends (linux/ethtool.h) for a device. The kernel
    overwrites `command`, the request, with its answer.
    """
    fcntl.ioctl(any_socket, SIOCETHTOOL, _IFREQ.pack(device.encode(), command.buffer_info()[0]))
