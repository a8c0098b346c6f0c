"""Sets up links, addresses and routes of this thread's network namespace through rtnetlink(7).

It sends the same requests as ip(8), which would need a process for each namespace: a path of 200
hosts has 400.
"""

import ipaddress
import os
import socket
import struct
from collections.abc import Sequence

MAIN_TABLE = 254  # of routes; this and what follows: linux/rtnetlink.h and what it includes
_NEW_LINK, _NEW_ADDRESS, _NEW_ROUTE, _NEW_NEIGHBOUR = 16, 20, 24, 28
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400
_ERROR = 2
_IFF_UP = 1
_NUD_PERMANENT = 0x80
_RTPROT_BOOT, _RTN_UNICAST = 3, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_NDA_DST, _NDA_LLADDR = 1, 2
_RTA_DST, _RTA_GATEWAY = 1, 5

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, type
_LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change
_ADDRESS = struct.Struct("=BBBBi")  # ifaddrmsg: family, prefix length, flags, scope, index
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # ndmsg: family, index, state, flags, type
_ROUTE = struct.Struct(
    "=BBBBBBBBI"
)  # rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags
_ERROR_NUMBER = struct.Struct("=i")
_AT_ONCE = 32  # the kernel keeps all answers until they are read
_MOST_ANSWERED_BYTES = 65536


class RtnetlinkRequest:
    """Holds a request to the kernel through rtnetlink, with a description (`text`) for errors."""

    def __init__(self, text: str, kind: int, flags: int, body: bytes) -> None:
        """Takes the parts of a request: its description for errors, the type of the message, flags,
        and the bytes after the header.
        """
        self.text = text
        self._kind, self._flags, self._body = kind, flags, body

    def message(self, sequence: int) -> bytes:
        """Returns the bytes of the request. The kernel repeats the `sequence` number in its answer,
        which shows to which request the answer belongs.
        """
        length = _HEADER.size + len(self._body)
        return (
            _HEADER.pack(length, self._kind, _REQUEST | _ACK | self._flags, sequence, 0)
            + self._body
        )


def up(device: str) -> RtnetlinkRequest:
    """Returns the request that does what `ip link set DEVICE up` does. Raises OSError if there is
    no such device.
    """
    body = _LINK.pack(socket.AF_UNSPEC, 0, socket.if_nametoindex(device), _IFF_UP, _IFF_UP)
    return RtnetlinkRequest(f"link {device} up", _NEW_LINK, 0, body)


def address(device: str, interface: str) -> RtnetlinkRequest:
    """Returns the request that does what `ip addr add INTERFACE dev DEVICE` does. `interface` is an
    address with the length of its prefix, such as '10.0.1.1/24'. Raises OSError if there is no such
    device.
    """
    ip = ipaddress.IPv4Interface(interface)
    body = _ADDRESS.pack(socket.AF_INET, ip.network.prefixlen, 0, 0, socket.if_nametoindex(device))
    body += _attribute(_IFA_LOCAL, ip.packed) + _attribute(_IFA_ADDRESS, ip.packed)
    return _new(f"address {interface} of {device}", _NEW_ADDRESS, body)


def neighbour(device: str, ip: str, mac: str) -> RtnetlinkRequest:
    """Returns the request for a permanent ARP entry, which does what `ip neigh add IP lladdr MAC
    nud permanent dev DEVICE` does. Raises OSError if there is no such device.
    """
    body = _NEIGHBOUR.pack(socket.AF_INET, socket.if_nametoindex(device), _NUD_PERMANENT, 0, 0)
    body += _attribute(_NDA_DST, ipaddress.IPv4Address(ip).packed)
    body += _attribute(_NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
    return _new(f"neighbour {ip} at {device}", _NEW_NEIGHBOUR, body)


def route(network: str, gateway: str, table: int) -> RtnetlinkRequest:
    """Returns the request that does what `ip route add NETWORK via GATEWAY table TABLE` does. The
    network 0.0.0.0/0 means the default route.
    """
    destination = ipaddress.IPv4Network(network)
    body = _ROUTE.pack(
        socket.AF_INET, destination.prefixlen, 0, 0, table, _RTPROT_BOOT, 0, _RTN_UNICAST, 0
    )
    if destination.prefixlen:
        body += _attribute(_RTA_DST, destination.network_address.packed)
    body += _attribute(_RTA_GATEWAY, ipaddress.IPv4Address(gateway).packed)
    return _new(f"route {network} via {gateway}", _NEW_ROUTE, body)


def carry_out(requests: Sequence[RtnetlinkRequest]) -> None:
    """Sends the requests to the kernel in their order, several at a time, and waits for the
    answers. Raises OSError, which names the request that the kernel refuses.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        for begin in range(0, len(requests), _AT_ONCE):
            batch = requests[begin : begin + _AT_ONCE]
            kernel.send(b"".join(request.message(at) for at, request in enumerate(batch)))
            answered = 0
            while answered < len(batch):
                answered += _check(kernel.recv(_MOST_ANSWERED_BYTES), batch)


def _check(answers: bytes, requests: Sequence[RtnetlinkRequest]) -> int:
    """Counts the answers in bytes that the kernel has sent: one or more netlink messages, each of
    which answers one of the requests. Raises OSError, which names the request, if the kernel
    refuses one.
    """
    at = answered = 0
    while at < len(answers):
        length, kind, _, sequence, _ = _HEADER.unpack_from(answers, at)
        number = -_ERROR_NUMBER.unpack_from(answers, at + _HEADER.size)[0] if kind == _ERROR else 0
        if number:
            raise OSError(number, f"{requests[sequence].text}: {os.strerror(number)}")
        answered += 1
        at += -(-length // 4) * 4
    return answered


def _new(text: str, kind: int, body: bytes) -> RtnetlinkRequest:
    """Returns a request that adds an object, such as a route. The kernel refuses it if the object
    exists.
    """
    return RtnetlinkRequest(text, kind, _CREATE | _EXCLUSIVE, body)


def _attribute(kind: int, value: bytes) -> bytes:
    """Returns the bytes of an attribute of a request (the kernel's struct rtattr): its length, its
    kind and its value, padded to 4 bytes.
    """
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)
