"""Tests requests between real programs, on the loopback device."""

import re
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ccmix.agent.deadline import Deadline
from ccmix.generators.http_requests import curl, is_whole, read_answers
from ccmix.generators.results import GeneratorError
from ccmix.hosts import LocalHost
from ccmix.model import HttpSource, run_files
from ccmix.run.traffic_sources import HttpDownloads, python_module
from support.ports import free_port

ASKED = HttpSource("web", "h1", requests=3, size_bytes=1000, parallel=1, cca="-")


def download(folder: Path, server: list[str], port: int, seconds: float = 20.0) -> None:
    host = LocalHost()
    line = HttpDownloads(
        ASKED,
        host,
        server,
        host,
        [curl(ASKED.requests, "127.0.0.1", port)],
        port,
        folder,
        "web-http",
        stderr=True,
    )
    with ExitStack() as started:
        line.serve(started)
        line.start(started)
        line.finish(Deadline(seconds))


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `python -S` find ccmix."""
    monkeypatch.setenv("PYTHONPATH", str(Path(sys.modules["ccmix"].__path__[0]).parent))


@pytest.mark.usefixtures("harness")
def test_whole_files_are_good(tmp_path: Path) -> None:
    port = free_port()
    download(tmp_path, python_module("http_server", "127.0.0.1", port, 1000, "-"), port)
    answers = read_answers(tmp_path / run_files.client_output("web-http"))
    assert [is_whole(answer, ASKED) for answer in answers] == [True] * 3


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize(
    ("server", "answer"),
    [
        (
            ["http.server", "--bind", "127.0.0.1"],
            "localhost answered 3 of 3 requests wrongly, the first with status 404",
        ),
        (["ccmix.generators.http_server", "127.0.0.1"], "first with status 200 and 999 bytes"),
    ],
)
def test_any_other_answer_is_an_error(tmp_path: Path, server: list[str], answer: str) -> None:
    port = free_port()
    argv = [
        sys.executable,
        "-m",
        *server,
        str(port),
        *(["999", "-"] if "ccmix" in server[0] else []),
    ]
    with pytest.raises(GeneratorError, match=re.escape(answer)):
        download(tmp_path, argv, port)


@pytest.mark.usefixtures("harness")
def test_a_download_that_is_cut_off_is_none(tmp_path: Path) -> None:
    """Asks for 1 TB, which does not come in a tenth of a second."""
    port = free_port()
    download(
        tmp_path, python_module("http_server", "127.0.0.1", port, 10**12, "-"), port, seconds=0.1
    )
    assert read_answers(tmp_path / run_files.client_output("web-http")) == []


def test_a_line_that_was_not_written_to_its_end_is_none(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("200 1000 0.1 0.2 0.3\n200 10")
    assert len(read_answers(tmp_path / "output")) == 1
