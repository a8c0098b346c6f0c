"""Does what pScheduler does with a tool: calls its methods with JSON, and runs its participants at
the same time.

The tool is that of the built package, unpacked below a folder; its methods run as a user without
privileges.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema

from support.commands import REPOSITORY

NOBODY = 65534
TOOL = "usr/lib/pscheduler/classes/tool/iperf3mix"
IPERF3 = "usr/lib/pscheduler-tool-iperf3mix/iperf3"
CONF = "etc/pscheduler/tool/iperf3mix.conf"
SCHEMAS = Path(__file__).parent.parent / "plugin" / "schemas"
# As pScheduler's: a participant starts before its time, and is killed after its slot
START_MARGIN_S = 0.5
KILL_AFTER_S = 1.0
TERM_TO_KILL_S = 0.5

Json = dict[str, Any]


def check(value: object, schema: str) -> None:
    """Raises ValidationError where a value doesn't keep to its schema."""
    jsonschema.validate(value, json.loads((SCHEMAS / f"{schema}.json").read_text()))


def throughput(**options: object) -> Json:
    """Returns a test of these options, which have _ for -."""
    spec = {
        "schema": 4,
        "dest": "10.99.7.2",
        "congestion": "reno:1,bbr:1",
        "parallel": 2,
        "duration": "PT1S",
    }
    spec |= {"link-rtt": "PT0.01S"} | {
        name.replace("_", "-"): value for name, value in options.items()
    }
    return {
        "type": "throughput",
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


@dataclass
class Participant:
    """Holds a `run` that was started."""

    process: subprocess.Popen[str]
    ends_at: float  # when the runner kills it
    stdout: str = ""
    stderr: str = ""
    ended_at: float = 0.0
    killed: bool = False
    _thread: threading.Thread | None = None

    def start(self, given: str) -> None:
        self._thread = threading.Thread(target=self._communicate, args=(given,))
        self._thread.start()

    def result(self) -> Any:
        """Returns the result that the runner reads: null where the method wrote nothing or
        was killed.
        """
        assert self._thread is not None
        self._thread.join()
        assert self.process.returncode == 0 or self.killed, (self.process.returncode, self.stderr)
        assert not self.stderr, self.stderr
        return json.loads(self.stdout) if self.stdout else None

    def _communicate(self, given: str) -> None:
        try:
            self.stdout, self.stderr = self.process.communicate(
                given, timeout=max(0.1, self.ends_at - time.time())
            )
        except subprocess.TimeoutExpired:
            self.killed = True
            self.process.terminate()
            try:
                self.stdout, self.stderr = self.process.communicate(timeout=TERM_TO_KILL_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
        self.killed = self.killed or self.process.returncode == -signal.SIGKILL
        self.ended_at = time.time()


@dataclass(frozen=True)
class Run:
    """Holds the participants of a run that were started."""

    test: Json
    start: float
    seconds: float
    data: list[Any] | None
    participants: list[Participant]

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def results(self) -> list[Any]:
        return [participant.result() for participant in self.participants]


@dataclass(frozen=True)
class Tool:
    """Calls the unpacked package at one end, which is a network namespace; "" is the test's own."""

    root: Path
    namespace: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    uid: int = NOBODY

    def command(self, method: str) -> list[str]:
        argv = [str(self.root / TOOL / method)]
        if os.geteuid() == 0 and self.uid:
            argv = [
                "setpriv",
                f"--reuid={self.uid}",
                f"--regid={self.uid}",
                "--clear-groups",
                *argv,
            ]
        return ["ip", "netns", "exec", self.namespace, *argv] if self.namespace else argv

    def say(
        self, method: str, given: object, timeout: float = 5
    ) -> subprocess.CompletedProcess[str]:
        """Returns one method's answer to a JSON value, or to text as it is."""
        text = given if isinstance(given, str) else json.dumps(given)
        argv, environment = self.command(method), self._environment()
        return subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout,
            check=False,
        )

    def call(self, method: str, given: object) -> Any:
        """Returns the object that a method answers, which must succeed."""
        process = self.say(method, given)
        assert process.returncode == 0, process
        assert not process.stderr, process.stderr
        return json.loads(process.stdout)

    def start(self, given: Json, ends_at: float) -> Participant:
        process = subprocess.Popen(
            self.command("run"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )
        participant = Participant(process, ends_at)
        participant.start(json.dumps(given))
        return participant

    def _environment(self) -> dict[str, str]:
        plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        plain["TMPDIR"] = (
            tempfile.gettempdir()
        )  # iperf3 needs one; the runner gives a folder for the run
        return {**plain, "IPERF3MIX_CONF": str(self.root / CONF), **self.environment}


def start_run(
    ends: list[Tool],
    test: Json,
    *,
    seconds: float | None = None,
    late_s: tuple[float, ...] = (0.0, 0.0),
    data: list[Any] | None = None,
    only: tuple[int, ...] | None = None,
    checked: bool = True,
    early_s: float = START_MARGIN_S,
) -> Run:
    """Starts a run on the participants, or on `only` some, `early_s` before its start; `late_s`
    delays each of them.

    The input keeps to the schema, unless pScheduler gives other input after a failure (not
    `checked`); then `data` is given as it is.
    """
    tools = ends[: 1 if "single-ended" in test["spec"] else 2]
    if seconds is None:
        seconds = float(ends[0].call("duration", test)["duration"][2:-1])
    if data is None and checked:
        data = [
            tool.call("participant-data", {"participant": at, "test": test})
            for at, tool in enumerate(tools)
        ]
    start = time.time() + early_s
    participants = []
    for at, tool in sorted(enumerate(tools), key=lambda each: late_s[each[0]]):
        if only is not None and at not in only:
            continue
        time.sleep(max(0.0, start - early_s + late_s[at] - time.time()))
        given = {
            "schema": 1,
            "task-uuid": secrets.token_hex(16),
            "schedule": {
                "start": datetime.fromtimestamp(start, UTC).isoformat(),
                "duration": f"PT{seconds:g}S",
            },
            "test": test,
            "participant": at,
            "participant-data": data,
        }
        if checked:
            check(given, "run-input")
        participants.append((at, tool.start(given, start + seconds + KILL_AFTER_S)))
    return Run(test, start, seconds, data, [participant for _, participant in sorted(participants)])


@contextmanager
def unpacked_package() -> Iterator[Path]:
    """Yields a folder with the package's files that everybody may read, with the binary's path in
    its configuration.
    """
    folder = Path(tempfile.mkdtemp(prefix="ccmix-plugin-"))
    try:
        folder.chmod(0o755)
        built = subprocess.run(
            [REPOSITORY / "plugin/build", folder], capture_output=True, text=True, check=True
        ).stdout.strip()
        subprocess.run(["dpkg-deb", "-x", built, folder], check=True)
        folder.chmod(0o755)
        with (folder / CONF).open("a") as file:
            file.write(f"iperf3 = {folder / IPERF3}\n")
        yield folder
    finally:
        shutil.rmtree(folder)
