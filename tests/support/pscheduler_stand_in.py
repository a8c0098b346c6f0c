"""Imitates a pScheduler server; written from the same documentation as ccmix's client.

It answers ccmix's requests as pScheduler 5.2 does, over TLS. It runs one throughput test at a time,
with a function that the test provides. tests/data/pscheduler has the answers of real servers.
"""

import datetime
import http.server
import json
import re
import ssl
import subprocess
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ccmix.generators.pscheduler.task import duration_s
from ccmix.tools import find_iperf3
from support.commands import Pair, wait_for

Carry = Callable[
    [dict[str, Any]], list[dict[str, Any] | None]
]  # a test's spec to the participants' results


@dataclass
class Fault:
    """Describes a wrong answer to `times` requests whose 'METHOD path' matches the pattern."""

    pattern: str
    times: int = 1
    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0  # before the answer
    hang_up: bool = False  # no answer at all
    endless: Sequence[
        bytes
    ] = ()  # what is sent first, and then again and again, in place of an answer
    every_s: float = 0.0  # between these
    right: bool = False  # after the delay, the right answer
    acts: bool = False  # what was asked for is done before
    begun: threading.Event = field(default_factory=threading.Event)  # set before the delay


@dataclass
class Run:
    """Holds a run of a task; its times are those of the wall clock."""

    begins_s: float
    ends_s: float
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: str = "pending"
    results: list[dict[str, Any] | None] | None = None
    merged: dict[str, Any] | None = None
    errors: str | None = None


@dataclass
class Task:
    """Holds a task as a client posted it."""

    document: dict[str, Any]
    runs: list[Run]
    cancelled: bool = False


class StandIn:
    """Sets how long after its task was posted a run starts, and by how much the server's clock is
    ahead.

    The runs of the first tasks start after `first_start_after_s`, if there are any.
    """

    def __init__(self, carry: Carry, starts_after_s: float = 1.0, ahead_s: float = 0.0) -> None:
        self.carry = carry
        self.starts_after_s = starts_after_s
        self.first_start_after_s: list[float] = []
        self.ahead_s = ahead_s
        self.slot_s = 2.0  # beyond a test's duration
        self.merging_s = 0.0
        self.errors: str | None = None
        self.faults: list[Fault] = []
        self.tools = [{"can-run": {"can-run": True}, "tool": {"name": "iperf3", "version": "1.0"}}]
        self.tasks: dict[str, Task] = {}
        self.asked: list[str] = []
        self.end_in: str | None = None  # a state without a result
        self.address = ""
        self._lock = threading.Lock()
        self._exclusive = threading.Lock()

    @property
    def only_task(self) -> Task:
        [task] = self.tasks.values()
        return task

    def answer(self, method: str, path: str, query: dict[str, str], body: str) -> tuple[int, Any]:
        """Returns the status and the JSON; with another status than 200, text is sent as it is."""
        words = path.removeprefix("/pscheduler/").split("/")
        if method == "POST" and words == ["tasks"]:
            return self._post(json.loads(body))
        if words[0] == "tasks" and len(words) > 1:
            return self._of_task(method, words[1], words[2:], query.get("key"))
        answers: Mapping[str, Callable[[], Any]] = {
            "": lambda: "This is a stand-in for a pScheduler API server",
            "api": lambda: 6,
            "clock": lambda: {
                "time": self._time(time.time()),
                "synchronized": True,
                "source": "ntp",
                "offset": 0.0,
            },
            "tools": lambda: self.tools,
            "tests/throughput/spec/is-valid": lambda: {
                "valid": "dest" in json.loads(query["spec"])
            },
            "tasks": lambda: self._known_by(json.loads(query["json"])["reference"]["ccmix"]["id"]),
        }
        answer = answers.get("/".join(words))
        return (200, answer()) if method == "GET" and answer else (404, "Resource not found.")

    def cancel_only_task(self) -> None:
        """Cancels the task on behalf of another user, who knows its key."""
        [(name, task)] = self.tasks.items()
        self.answer("DELETE", f"/pscheduler/tasks/{name}", {"key": task.document["_key"]}, "")

    def _known_by(self, identity: str) -> list[str]:
        return [
            self._url(name)
            for name, task in self.tasks.items()
            if task.document["reference"]["ccmix"]["id"] == identity and not task.cancelled
        ]

    def _of_task(self, method: str, name: str, rest: list[str], key: str | None) -> tuple[int, Any]:
        task = self.tasks.get(name)
        if task is None:
            return 404, "Resource not found."
        if method == "DELETE":
            if key is None or key != task.document.get(
                "_key"
            ):  # without one, it would have one of its own
                return 403, "Forbidden"
            task.cancelled = True  # a run that goes on goes on to its end, others vanish
            task.runs = [run for run in task.runs if run.state != "pending"]
            return 200, "OK"
        match rest:
            case ["runs"]:
                return 200, [f"{self._url(name)}/runs/{run.identity}" for run in task.runs]
            case ["runs", identity]:
                for run in task.runs:
                    if run.identity == identity:
                        return 200, self._run_document(name, run)
        return 404, "Resource not found."

    def _post(self, document: dict[str, Any]) -> tuple[int, Any]:
        if set(document) - {"schema", "test", "tools", "schedule", "priority", "reference", "_key"}:
            return 400, "Invalid task specification"
        lasts_s = self.slot_s + sum(
            duration_s(document["test"]["spec"][name])
            for name in ("duration", "omit")
            if name in document["test"]["spec"]
        )
        schedule = document["schedule"]
        first_s = time.time() + (
            self.first_start_after_s.pop(0) if self.first_start_after_s else self.starts_after_s
        )
        repeat_s = duration_s(schedule["repeat"]) if "repeat" in schedule else 0.0
        number = schedule.get("max-runs", 1) if repeat_s else 1
        runs = [
            Run(first_s + at * repeat_s, first_s + at * repeat_s + lasts_s) for at in range(number)
        ]
        name = str(uuid.uuid4())
        self.tasks[name] = Task(document, runs)
        for run in runs:
            threading.Thread(
                target=self._carry_out, args=(self.tasks[name], run), daemon=True
            ).start()
        return 200, self._url(name)

    def _carry_out(self, task: Task, run: Run) -> None:
        time.sleep(max(0.0, run.begins_s - time.time()))
        if task.cancelled:
            return
        if self.end_in:
            run.state, run.errors = self.end_in, self.errors
            return
        run.state = "running"
        with self._exclusive:
            results = self.carry(task.document["test"]["spec"])
        time.sleep(max(0.0, run.ends_s + self.merging_s - time.time()))
        first = results[0] or {"succeeded": False}
        diags = "".join(
            f"Participant {number}:\n{(result or {}).get('diags')}\n"
            for number, result in enumerate(results)
        )
        run.results, run.merged, run.errors = results, first | {"diags": diags}, self.errors
        run.state = "canceled" if task.cancelled else "finished" if first["succeeded"] else "failed"

    def _run_document(self, name: str, run: Run) -> dict[str, Any]:
        url = self._url(name)
        return {
            "start-time": self._time(run.begins_s),
            "end-time": self._time(run.ends_s),
            "duration": f"PT{run.ends_s - run.begins_s:.0f}S",
            "participant": 0,
            "participants": ["near", "far"],
            "result": (run.results or [None])[0],
            "result-full": run.results,
            "result-merged": run.merged,
            "state": run.state,
            "state-display": run.state.title(),
            "errors": run.errors,
            "priority": None,
            "href": f"{url}/runs/{run.identity}",
            "task-href": url,
        }

    def _time(self, wall_s: float) -> str:
        return datetime.datetime.fromtimestamp(wall_s + self.ahead_s, datetime.UTC).isoformat()

    def _url(self, name: str) -> str:
        """Returns the name by which the server calls itself, which clients need not know."""
        return f"https://known.to.itself.invalid/pscheduler/tasks/{name}"

    def fault(self, what: str) -> Fault | None:
        """Returns the fault for this request, if there is one, and counts it."""
        with self._lock:
            self.asked.append(what)
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, what):
                    fault.times -= 1
                    return fault
        return None


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    stand_in: StandIn
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        query = dict(urllib.parse.parse_qsl(parts.query))
        fault = self.stand_in.fault(f"{self.command} {parts.path}")
        if fault:
            if fault.acts:
                self.stand_in.answer(self.command, parts.path, query, body)
            fault.begun.set()
            time.sleep(fault.delay_s)
            if fault.hang_up:
                self.close_connection = True
                return
            if fault.endless:
                first, again = fault.endless
                self._send_without_end(first, again, fault.every_s)
            if not fault.right:
                self._send(fault.status, fault.body, fault.headers)
                return
        status, answer = self.stand_in.answer(self.command, parts.path, query, body)
        self._send(status, answer if status != 200 else json.dumps(answer), {})

    do_GET = do_POST = do_DELETE = _do

    def _send_without_end(self, first: bytes, again: bytes, every_s: float) -> None:
        """Sends until the client goes away, which raises OSError."""
        self.wfile.write(first)
        while True:
            self.wfile.write(again)
            time.sleep(every_s)

    def _send(self, status: int, text: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignores clients that go away, which are part of the tests."""


@dataclass(frozen=True)
class Certificate:
    """Holds PEM files."""

    certificate: Path
    key: Path


def certificate(
    folder: Path, names: str = "DNS:localhost,IP:127.0.0.1", days: int = 2
) -> Certificate:
    """Makes a self-signed certificate for these names; with negative `days` it has expired."""
    folder.mkdir(exist_ok=True)
    key, request, signed = folder / "key.pem", folder / "request.pem", folder / "certificate.pem"
    for argv in (
        [
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            key,
            "-out",
            request,
            "-subj",
            "/CN=stand-in",
            "-addext",
            f"subjectAltName={names}",
        ],
        [
            "x509",
            "-req",
            "-in",
            request,
            "-signkey",
            key,
            "-days",
            days,
            "-copy_extensions",
            "copy",
            "-out",
            signed,
        ],
    ):
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)
    return Certificate(signed, key)


@contextmanager
def serving(stand_in: StandIn, shown: Certificate) -> Iterator[StandIn]:
    """Serves at localhost, at a port of its own, until the context ends."""
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    server = _Server(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    stand_in.address = f"localhost:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def succeeds(_: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Returns results without a test."""
    sums = {
        "throughput-bits": 100e6,
        "throughput-bytes": 12_500_000,
        "receiver-throughput-bits": 90e6,
    }
    streams = [
        {
            "stream-id": 5,
            "throughput-bits": 80e6,
            "throughput-bytes": 10_000_000,
            "start": 0,
            "end": 1,
            "retransmits": 3,
        },
        {
            "stream-id": 7,
            "throughput-bits": 20e6,
            "throughput-bytes": 2_500_000,
            "start": 0,
            "end": 1,
            "retransmits": 0,
        },
    ]
    summary = {"streams": streams, "summary": sums, "congestion": {"5": "cubic", "7": "bbr"}}
    result = {
        "succeeded": True,
        "diags": "",
        "intervals": [{"streams": streams, "summary": sums}],
        "summary": summary,
    }
    return [result, result]


def fails(_: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Returns the results of a run whose tool failed at one end, and wrote nothing at the other."""
    return [
        {
            "succeeded": False,
            "error": "iperf3 returned an error: unable to connect",
            "diags": "iperf3 -c",
        },
        None,
    ]


def by_iperf3(pair: Pair) -> Carry:
    """Makes real tests of the patched iperf3 between two namespaces, with results like those of
    pScheduler's tool.
    """

    def carry(spec: dict[str, Any]) -> list[dict[str, Any] | None]:
        binary = str(find_iperf3())
        every = ["--json", "-p", "5201"]
        server_argv = [binary, "-s", "-1", *every]
        client_argv = [
            binary,
            "-c",
            spec["dest"],
            *every,
            "-t",
            f"{duration_s(spec['duration']):.0f}",
            "-P",
            str(spec["parallel"]),
        ]
        client_argv += (
            ["-b", str(spec["bandwidth"])] if "bandwidth" in spec else ["--fq-rate", "30M"]
        )
        if "congestion" in spec:
            client_argv += ["-C", spec["congestion"]]
        if "omit" in spec:
            client_argv += ["-O", f"{duration_s(spec['omit']):.0f}"]
        server = _started(pair.far, server_argv)
        listening = ["ip", "netns", "exec", pair.far, "ss", "-ltnH", "sport = :5201"]
        wait_for(
            lambda: subprocess.run(listening, capture_output=True, check=True).stdout,
            10,
            "iperf3 listens",
        )
        client = _started(pair.near, client_argv)
        outputs = [process.communicate(timeout=60)[0] for process in (client, server)]
        return [
            _of_tool(argv, text)
            for argv, text in zip((client_argv, server_argv), outputs, strict=True)
        ]

    return carry


def _started(namespace: str, argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["ip", "netns", "exec", namespace, *argv], stdout=subprocess.PIPE, text=True
    )


def _of_tool(argv: list[str], output: str) -> dict[str, Any]:
    result = json.loads(output)
    diags = f"{' '.join(argv)}\n\n{output}"
    if "error" in result:
        return {
            "succeeded": False,
            "error": f"iperf3 returned an error: {result['error']}",
            "diags": diags,
        }
    streams = [
        {
            "stream-id": stream["sender"]["socket"],
            "throughput-bits": stream["sender"]["bits_per_second"],
            "throughput-bytes": stream["sender"]["bytes"],
            "start": 0,
            "end": stream["sender"]["end"],
        }
        for stream in result["end"]["streams"]
    ]
    sums = {"throughput-bits": sum(stream["throughput-bits"] for stream in streams)}
    return {
        "succeeded": True,
        "diags": diags,
        "intervals": [],
        "summary": {"streams": streams, "summary": sums},
    }
