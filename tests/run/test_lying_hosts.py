"""Tests campaigns with a lying host, played by tests/support/lying_host.py: its run fails or not,
the next run is made, and the controller's memory stays bounded.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.commands import REPOSITORY, Ccmix, Pair, run_program, summaries

MOST_BYTES = 300e6  # of the controller's memory
# A forked process inherits its parent's peak memory; the kernel counts again after exec, so ccmix
# reads its own peak.
PROGRAM = """
import atexit, os
from pathlib import Path
from ccmix.cli.main import main
atexit.register(lambda: Path(os.environ["STATUS"]).write_text(Path("/proc/self/status").read_text()))
main()
"""
CONFIG = """
[DEFAULT]
type = x
interval = 100ms
accept-limits = probe, cpu
connect-timeout = {timeout}

[lies]
iterations = {iterations}
{lies}

[honest]
src = netns:{honest}
dst = {honest_dst}
src-cmd = sleep 0.2
"""
# Messages of the failed run, by lie that a destination tells while it is connected
EVER = {
    "no newline": "liar: there is no agent of ccmix: it sent more than 100 kB for the output "
    "of a login",
    "no newline in a message": "liar: there is no agent of ccmix: it sent more than 1 MB for a "
    "message",
    "lines of a login": "liar: there is no agent of ccmix: it sent more than 100 kB for what a "
    "login prints",
    "banners": "liar: there is no agent of ccmix: it sent more than 1 MB for the standard error "
    "of a connection",
    "no newline after hello": "connection to liar lost: it sent more than 1 MB for a message of "
    "the agent",
    "replies": "connection to liar lost: it does not follow the agent's protocol: it answers "
    "a question that was not asked",
    "hellos": "connection to liar lost: it does not follow the agent's protocol: its hello lacks "
    "uid",
    "deep message": "connection to liar lost: it does not follow the agent's protocol: its "
    "values are nested too",
    "deep hello": "liar: there is no agent of ccmix: it does not follow the agent's protocol: "
    "its values are nested",
    "refused 5": "liar: there is no agent of ccmix: it does not follow the agent's protocol: its "
    "refused can't be 5",
    "large hello": "liar: there is no agent of ccmix: it does not follow the agent's protocol: "
    "its hello lacks pid",
}
# The same, of lies that a source tells about a command; "" if its run succeeds
COMMANDS = {
    "output": "connection to liar lost: it sent more than 4 MB for the output of a command that "
    "ccmix reads at once",
    "standard error": "connection to liar lost: it sent more than 1 MB for the standard error of "
    "such a command: nproc",
    "file": "connection to liar lost: it sent more than 1 MB for a file that ccmix reads at "
    "once: cat",
    "netstat": "a raw file can't be understood",
    "ping": "ping on liar printed more than 1000 times",
    "words of ping": "",
    "deep tc": "its values are nested too deeply",
    "wide tc": "unexpected output",
    "output of the traffic": "for each output of a traffic source or of another command, in one "
    "run: sh -c touch",
    "errors of the traffic": "for each output of a traffic source or of another command, in one "
    "run: sh -c touch",
    "wide result": "src-cmd: its result has 8",
    "wide result that is read": "a raw file can't be understood",
    "deep result": "",
    "capture": "for a compressed capture, beyond tcpdump-size: cat",
    "stream of zeros": "for each output of a traffic source or of another command, in one run:",
    "stream of notes": "there are more than 10000 notes",
    "stream of empty samples": "",
    "stream of processors": "",
    "stream of processes": "",
    "stream of sockets": "",
    "stream of BBR's states": "",
    "stream of sockets with BBR's states": "",
    "sockets by ss": "ss printed more than 250000 lines",
    "a line of ss": "a line of ss has more than 10000 characters",
    "lines of ss that end otherwise": "a line of ss has more than 10000 characters",
    "processors by /proc": "",
}
# Of these, those that meet a limit that another one meets, too
LONG = {
    "lines of a login",
    "hellos",
    "deep hello",
    "refused 5",
    "large hello",
    "standard error",
    "netstat",
    "words of ping",
    "wide tc",
    "errors of the traffic",
    "wide result that is read",
    "deep result",
    "stream of notes",
    "stream of processors",
    "stream of processes",
    "stream of BBR's states",
    "stream of sockets with BBR's states",
    "lines of ss that end otherwise",
    "processors by /proc",
}


@dataclass(frozen=True)
class Campaign:
    """Holds the output of a campaign, its maximum memory, and in `failed` the logs of failed
    runs.
    """

    stderr: str
    peak_bytes: float
    failed: str


@dataclass(frozen=True)
class Laboratory:
    """Runs campaigns with two entries, of which the first has the lying host."""

    pair: Pair
    folder: Path
    ccmix: Ccmix

    def campaign(
        self, lie: str, *, as_source: bool, more: str = "", timeout: str = "60s", runs: int = 1
    ) -> Campaign:
        namespace = self.pair.near if as_source else self.pair.far
        honest, dst = (
            (self.pair.far, "10.213.7.1") if as_source else (self.pair.near, self.pair.address)
        )
        lies = f"src = liar\nsrc-cmd = touch {self.folder}/x; sleep 3\n{more}"
        if not as_source:
            lies = (
                f"src = netns:{self.pair.near}\ndst-host = liar\npre-dst-cmd = true\nsrc-cmd "
                "= sleep 0.2"
            )
        file = self.folder / "test.ini"
        lies += f"\ndst = {self.pair.address}"
        file.write_text(
            CONFIG.format(
                lies=lies, honest=honest, honest_dst=dst, timeout=timeout, iterations=runs
            )
        )
        argv = [sys.executable, "-c", PROGRAM, "run", str(file), "-o", str(self.out)]
        path = f"{self._stand_in(lie, namespace)}:{os.environ['PATH']}"
        environment = {
            "PATH": path,
            "TMPDIR": str(self.ccmix.folder),
            "STATUS": str(self.folder / "status"),
        }
        done = run_program(argv, env=os.environ | environment, timeout=600)
        [peak] = [
            row
            for row in (self.folder / "status").read_text().splitlines()
            if row.startswith("VmHWM")
        ]
        assert "Traceback" not in done.stderr, done.stderr
        failed = "".join(log.read_text() for log in sorted(self.out.rglob("error.txt")))
        return Campaign(done.stderr, float(peak.split()[1]) * 1024, failed)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def _stand_in(self, lie: str, namespace: str) -> Path:
        """Makes the stand-in for ssh; returns its folder."""
        folder = self.folder / "bin"
        folder.mkdir()
        ssh = folder / "ssh"
        ssh.write_text(
            f"#!/bin/sh\nexport PYTHONPATH={REPOSITORY}/tests\n"
            f'exec {sys.executable} -m support.lying_host "{lie}" {namespace} "$@"\n'
        )
        ssh.chmod(0o755)
        return folder


@pytest.fixture
def laboratory(own_state: Path, pair: Pair, tmp_path: Path, ccmix: Ccmix) -> Laboratory:
    del own_state
    return Laboratory(pair, tmp_path, ccmix)


def is_bounded(laboratory: Laboratory, done: Campaign, sentence: str) -> None:
    """Checks the required outcome of each campaign."""
    assert sentence in done.failed, done
    assert bool(sentence) == bool(done.failed), done
    entries = [summary["run"]["entry"] for summary in summaries(laboratory.out)]
    assert entries == (["honest"] if sentence else ["honest", "lies"])
    assert done.peak_bytes < MOST_BYTES


def test_a_lying_host_stand_in_that_sends_zeros(laboratory: Laboratory) -> None:
    done = laboratory.campaign("zeros", as_source=False)
    is_bounded(
        laboratory,
        done,
        "connection to liar lost: it sent more than 1 MB for a message of the agent",
    )


@pytest.mark.deep
@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=pytest.mark.long if lie in LONG else ()) for lie in EVER]
)
def test_a_lying_host_stand_in_on_its_connection(lie: str, laboratory: Laboratory) -> None:
    is_bounded(laboratory, laboratory.campaign(lie, as_source=False), EVER[lie])


@pytest.mark.deep
@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(
            lie, marks=[pytest.mark.root] * (lie == "capture") + [pytest.mark.long] * (lie in LONG)
        )
        for lie in COMMANDS
    ],  # root for tcpdump
)
def test_a_lying_host_stand_in_about_its_commands(lie: str, laboratory: Laboratory) -> None:
    more = "tcpdump = on\ntcpdump-size = 1mb\n" if lie == "capture" else ""
    is_bounded(laboratory, laboratory.campaign(lie, as_source=True, more=more), COMMANDS[lie])


@pytest.mark.deep
def test_a_host_stand_in_that_hangs_costs_its_timeout_once(laboratory: Laboratory) -> None:
    done = laboratory.campaign("hangs", as_source=False, timeout="6s", runs=3)
    is_bounded(
        laboratory, done, "liar: it accepted the connection, but no agent answered within 6 s"
    )
    assert done.stderr.count("liar: no answer after 5 s; ccmix waits 6 s (connect-timeout)") == 1
    assert done.failed.count("it is not tried again before") == 2


@pytest.mark.deep
def test_a_lying_host_stand_in_that_is_deaf_and_beats(laboratory: Laboratory) -> None:
    done = laboratory.campaign("deaf", as_source=True)
    # Both ends wait 60 s: the agent behind the liar may be the first to say that it hears nothing.
    first = "ccmix-agent" if "ccmix-agent" in done.failed else "ccmix"
    sentence = {
        "ccmix": "it does not read what ccmix sends it",
        "ccmix-agent": "the controller has sent nothing for 60 s",
    }
    is_bounded(laboratory, done, sentence[first])
