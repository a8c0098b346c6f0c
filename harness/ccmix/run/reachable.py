"""Checks whether a destination answers pings or TCP, before any run sends traffic to it."""

from ccmix.hosts import CommandError, Host
from ccmix.hosts.errors import HostLost
from ccmix.isolated import python_command
from ccmix.model import HostPath

PINGS, PING_INTERVAL_S, PING_WAITS_S = 2, 0.2, 2
# A destination answers if anything listens, or if the host itself refuses. The port of the test is
# not used, because a server for one test would take the connection for its client and end. Only a
# server that runs independently of ccmix may be tried, as the last port.
PORTS = (22, 443, 80)
TCP_WAITS_S = 2
_TRY = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), timeout=%d).close()
    except ConnectionRefusedError:
        pass
    except OSError:
        continue
    sys.exit(0)
sys.exit(1)
"""


def unreachable(src: Host, path: HostPath) -> str | None:
    """Returns the reason why nothing should be sent from the host `src` to the path's destination:
    its name is not known there, or it answers neither pings nor TCP. None if it answers. Raises
    HostLost.

    Pings may be filtered, so TCP is tried after them, on a few usual ports.
    """
    address = path.dst.address
    try:
        src.run(["getent", "ahosts", address])
    except HostLost:
        raise
    except CommandError:
        return f"{src.name} does not know the name {address}"
    try:
        src.run(
            [
                "ping",
                "-n",
                "-q",
                "-c",
                str(PINGS),
                "-i",
                f"{PING_INTERVAL_S:g}",
                "-W",
                str(PING_WAITS_S),
                address,
            ]
        )
    except HostLost:
        raise
    except CommandError:
        pass
    else:
        return None
    ports = [*PORTS, *((path.port,) if path.server == "running" else ())]
    try:
        src.run(python_command(_TRY % TCP_WAITS_S, address, *ports), timeout_s=60)
    except HostLost:
        raise
    except CommandError:
        return (
            f"{address} answers {src.name} neither to pings nor on TCP ports "
            f"{', '.join(map(str, ports))}"
        )
    return None
