"""Reads the address of a pScheduler server, as an INI file and hosts of a task give it."""

PORT = 443


def split(address: str) -> tuple[str, int]:
    """Returns host and port of 'HOST[:PORT]'. Raises ValueError if the port is none."""
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    else:
        host, port = address, ""
    if not port:
        return host, PORT
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(f"has the port {port!r}: give one from 1 to 65535")
    return host, int(port)
