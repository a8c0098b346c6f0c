"""Finds in /proc the ports that processes listen on: connecting would end a server that serves a single test."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The state in /proc/PID/net/ of a socket that waits for others, as in the kernel's net/tcp_states.h.
TCP_LISTEN, UDP_UNCONNECTED = "0A", "07"
TABLES = {"tcp": (("tcp", "tcp6"), TCP_LISTEN), "udp": (("udp", "udp6"), UDP_UNCONNECTED)}


def listening_ports(pids: Iterable[int]) -> dict[str, list[int]]:
    """Returns the ports by 'tcp' and 'udp', in order; only root sees those of other users' processes."""
    ports_by_transport: dict[str, set[int]] = {transport: set() for transport in TABLES}
    for pid in pids:
        inodes = _socket_inodes(pid)
        for transport, (files, state) in TABLES.items():
            for file in files if inodes else ():
                ports_by_transport[transport] |= _ports(f"/proc/{pid}/net/{file}", state, inodes)
    return {transport: sorted(ports) for transport, ports in ports_by_transport.items()}


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor)  # noqa: PTH115
                if target.startswith("socket:["):
                    inodes.add(target[len("socket:[") : -1])
    return inodes


def _ports(table: str, state: str, inodes: set[str]) -> set[int]:
    """Returns the ports of the sockets with these inodes in this state. Columns: sl local remote st ... inode (the
    tenth).
    """
    ports = set()
    with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            columns = line.split()
            if len(columns) > 9 and columns[3] == state and columns[9] in inodes:
                ports.add(int(columns[1].rpartition(":")[2], 16))
    return ports
