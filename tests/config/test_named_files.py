"""Files that an INI file names may come from other people: only regular files are opened.

A pipe would wait for a writer for ever, and opening a device may change its state.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Told

WORKLOAD = (
    "[topology t]\nrate = 100mbit\ndelay = 5ms\n"
    "[e]\ntype = iperf3\ntopology = t\nduration = 5s\nflows.f = h1 workload named load 30%\n"
)
PROFILE = "[one]\ntype = iperf3\ndst = 10.1.2.3\nprofile = WAN\nprofile-file = named\n"
CERTIFICATE = "[far]\ntype = perfsonar\ndst = 10.1.2.3\nsrc = ps1.example.org\ntls-ca = named\n"


def make_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(place))


def make_huge(place: Path) -> None:
    place.touch()
    os.truncate(place, 2**40)


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "link to a device": lambda place: place.symlink_to("/dev/zero"),
    "link to a terminal": lambda place: place.symlink_to("/dev/tty"),
    "link to a standard stream": lambda place: place.symlink_to("/dev/stdin"),
    "socket": make_socket,
    "folder": Path.mkdir,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [WORKLOAD, PROFILE, CERTIFICATE], ids=["workload", "yaml", "ca"])
@pytest.mark.parametrize("kind", [*IRREGULAR, "huge"])
def test_only_a_regular_file_of_a_usual_size_is_read(
    text: str, kind: str, told: Told, tmp_path: Path
) -> None:
    IRREGULAR.get(kind, make_huge)(tmp_path / "named")
    [problem] = told(text)
    reason = "is longer than" if kind == "huge" and text != CERTIFICATE else "not a regular file"
    assert reason in str(problem)
