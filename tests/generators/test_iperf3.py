"""Tests the start of an iperf3 test, and errors if it fails, with simulated hosts."""

import itertools
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ccmix.generators import iperf3
from ccmix.generators.iperf3 import Iperf3Ends, longest_s, run_test
from ccmix.generators.results import GeneratorError, load_json
from ccmix.hosts import LocalHost
from ccmix.model import Group
from support.model import iperf3_traffic

TRAFFIC = iperf3_traffic(
    groups=(Group("cubic"), Group("bbr")), streams=8, duration_s=20.0, omit_s=3.0, interval_s=0.5
)
GOOD = '{"end": {}}'


class Ended:
    """Represents a process that has done its work."""

    def __init__(self, waited: list[float]) -> None:
        self._waited = waited

    def ended(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> int:
        self._waited.append(timeout_s)
        return 0

    def end(self) -> None:
        pass


class PretendedHost(LocalHost):
    """Writes iperf3's output instead of starting it; `listens` is the output of ss."""

    def __init__(
        self, name: str, says: str = GOOD, errors: str = "", listens: Sequence[str] = ("LISTEN 0",)
    ) -> None:
        self.name = name
        self.commands: list[list[str]] = []
        self.waited: list[float] = []
        self._says = says
        self._errors = errors
        self._listens = iter(listens)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        assert argv[0] == "ss"
        assert argv[-1] == "sport = :5201"
        return next(self._listens, "")

    @contextmanager
    def start(self, argv: Sequence[str], *, stdout: Path, stderr: Path) -> Iterator[Ended]:  # type: ignore[override]
        self.commands.append(list(argv))
        stdout.write_text(self._says)
        with stderr.open("a") as file:
            file.write(self._errors)
        yield Ended(self.waited)


def run(
    sender: PretendedHost, receiver: PretendedHost, folder: Path
) -> tuple[list[str], list[str]]:
    ends = Iperf3Ends(sender, "/opt/iperf3", receiver, "/opt/iperf3", "10.0.3.2")
    client, server = run_test(ends, TRAFFIC, longest_s(TRAFFIC, 0.5, 8), folder)
    assert (client.role, server.role) == ("client", "server")
    return shlex.split(client.line), shlex.split(server.line)


def test_both_ends_are_started_with_what_was_asked_for(tmp_path: Path) -> None:
    sender, receiver = PretendedHost("h1"), PretendedHost("receiver")
    client, server = run(sender, receiver, tmp_path)
    assert (sender.commands, receiver.commands) == ([client], [server])
    assert client[:3] == ["/opt/iperf3", "--client", "10.0.3.2"]
    options = dict(itertools.pairwise(client[3:]))
    assert options["--parallel"] == "8"
    assert options["--congestion"] == "cubic,bbr"
    assert (options["--time"], options["--omit"], options["--interval"]) == ("20", "3", "0.5")
    assert "--json" in client
    assert {"--server", "--one-off", "--json"} <= set(server)
    assert sender.waited[0] > 23
    assert (tmp_path / "h1-iperf3-client.json").read_text() == GOOD
    assert (tmp_path / "h1-iperf3-server.json").read_text() == GOOD


def test_the_client_waits_for_the_server_to_listen(tmp_path: Path) -> None:
    receiver = PretendedHost("receiver", listens=["", "", "LISTEN 0 4096"])
    run(PretendedHost("h1"), receiver, tmp_path)
    assert next(receiver._listens, "none left") == "none left"


def test_a_server_that_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iperf3, "STARTS_WITHIN_S", 0.1)
    sender = PretendedHost("h1")
    with pytest.raises(
        GeneratorError, match=r"the iperf3 server on receiver does not listen after 0\.1 s"
    ):
        run(sender, PretendedHost("receiver", listens=[]), tmp_path)
    assert sender.commands == []


@pytest.mark.parametrize(
    ("client", "server", "sentence"),
    [
        (
            PretendedHost("h1", says='{"error": "unable to connect"}'),
            PretendedHost("r"),
            "h1-iperf3-client: unable to connect",
        ),
        (
            PretendedHost("h1"),
            PretendedHost("r", says='{"error": "control socket has closed"}'),
            "h1-iperf3-server: control socket has closed",
        ),
        (
            PretendedHost("h1", says="", errors="first\nbad option\n"),
            PretendedHost("r"),
            "iperf3 left no result in h1-iperf3-client.json: the file is empty: bad option",
        ),
        (
            PretendedHost("h1", says='{"intervals": ['),
            PretendedHost("r"),
            "iperf3 left no result in h1-iperf3-client",
        ),
        (
            PretendedHost("h1", says="[]"),
            PretendedHost("r"),
            "h1-iperf3-client.json: it is not a JSON object",
        ),
    ],
    ids=["client's error", "server's error", "no result", "half a result", "no object"],
)
def test_what_iperf3_says_of_a_failure(
    tmp_path: Path, client: PretendedHost, server: PretendedHost, sentence: str
) -> None:
    with pytest.raises(GeneratorError) as caught:
        run(client, server, tmp_path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_result_and_none(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"end": 1}))
    assert load_json(tmp_path / "result.json") == {"end": 1}
    with pytest.raises(GeneratorError, match=r"iperf3 left no result in none\.json"):
        load_json(tmp_path / "none.json")
