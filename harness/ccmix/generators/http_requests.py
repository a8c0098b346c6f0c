"""Makes HTTP requests with curl: the command, and its output about each request."""

from collections.abc import Mapping
from pathlib import Path

from ccmix.model import HttpSource

# curl writes these for each transfer to its standard error, which is not buffered
COLUMNS = ("http_code", "size_download", "time_connect", "time_starttransfer", "time_total")


def curl(requests: int, address: str, port: int) -> list[str]:
    """Returns a command that sends one request after the other.

    Simultaneous requests need several processes: with curl's own --parallel, one transfer waits for
    another (7.88, measured).
    """
    line_of_transfer = "%{stderr}" + " ".join(f"%{{{name}}}" for name in COLUMNS) + "\\n"
    url = f"http://{address}:{port}/[1-{requests}]"
    return ["curl", "--silent", "--output", "/dev/null", "--write-out", line_of_transfer, url]


def read_answers(output: Path) -> list[dict[str, str]]:
    """Reads curl's output about each ended request. Curl may have been stopped within a
    line.
    """
    lines = output.read_text().split("\n")[:-1]
    return [dict(zip(COLUMNS, line.split(), strict=True)) for line in lines]


def is_whole(answer: Mapping[str, str], asked: HttpSource) -> bool:
    """Returns whether the server sent the whole file."""
    return answer["http_code"] == "200" and int(answer["size_download"]) == asked.size_bytes
