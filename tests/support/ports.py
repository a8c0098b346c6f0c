"""Finds free TCP ports, and waits until servers listen."""

import socket
import subprocess
import time
from pathlib import Path

LISTENS_WITHIN_S = 60.0


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


def await_listening(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + LISTENS_WITHIN_S
    while not _listens(port, server.pid):
        if server.poll() is not None:
            raise AssertionError(
                f"the server ended with status {server.returncode}: {server.communicate()}"
            )
        if time.monotonic() > end:
            raise AssertionError(
                f"the server does not listen on port {port} after {LISTENS_WITHIN_S} s"
            )
        time.sleep(0.005)


def _listens(port: int, namespace_of: int) -> bool:
    """Returns whether the port is in the kernel's table: to connect would end a server that serves
    one client.
    """
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{namespace_of}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return True
    return False
