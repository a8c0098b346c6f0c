"""Makes HTTP requests with curl: its command line, and the lines it prints for each request."""

from collections.abc import Mapping
from pathlib import Path

from ccmix.model import HttpSource

# curl writes these for each transfer to its standard error, which is not buffered
COLUMNS = ("http_code", "size_download", "time_connect", "time_starttransfer", "time_total")


def curl(requests: int, address: str, port: int) -> list[str]:
    """Returns a curl command that downloads the file from the server `requests` times, one after
    the other.

    For simultaneous downloads, run several such commands: with curl's own --parallel, one transfer
    waits for another (measured with 7.88).
    """
    line_of_transfer = "%{stderr}" + " ".join(f"%{{{name}}}" for name in COLUMNS) + "\\n"
    url = f"http://{address}:{port}/[1-{requests}]"
    return ["curl", "--silent", "--output", "/dev/null", "--write-out", line_of_transfer, url]


def read_answers(output: Path) -> list[dict[str, str]]:
    """Reads what curl has printed about each of its requests: a dict with COLUMNS, such as the HTTP
    status. If curl was stopped, an incomplete last line is left out.
    """
    lines = output.read_text().split("\n")[:-1]
    return [dict(zip(COLUMNS, line.split(), strict=True)) for line in lines]


def is_whole(answer: Mapping[str, str], source: HttpSource) -> bool:
    """Returns whether a request succeeded with a whole file; `answer` is from read_answers()."""
    return answer["http_code"] == "200" and int(answer["size_download"]) == source.size_bytes
