"""A server that answers with JSON of another form than Elasticsearch's: no traceback, no endless
loop, and no document counts as stored. A real Elasticsearch does not lie, so these are stand-ins.
"""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ccmix.index import fields
from ccmix.kibana.dashboards import ndjson
from support.commands import invoke
from support.published_archives import DEMO

META = {"mappings": {"_meta": {"ccmix": fields.fingerprint()}}}
ACTION: dict[str, Any] = {"index": {"status": 201}}
DEEP: Any = json.loads("[" * 500 + "]" * 500)
NO_TIME = {"aggregations": {"min": {"value": None}, "max": {"value": None}}}
WRONG = [None, 1, "x", [], [1], True, DEEP]
NOT_HITS: list[Any] = [None, 1, "x", [None], [1], ["x"], [{}]]
NOT_TIMES: list[Any] = ["x", [], 1e300, -1e300, 1e18, True]
OTHER_FORMS: dict[str, list[Any]] = {
    "mapping": [
        {"ccmix-runs": each} for each in (*WRONG, {"mappings": None}, {"mappings": {"_meta": "x"}})
    ],
    "bulk": [
        *WRONG,
        {},
        {"errors": None},
        {"errors": "x"},
        {"errors": 1},
        {"errors": True},
        *({"errors": True, "items": each} for each in (*WRONG, [ACTION], [ACTION] * 100_000)),
        *(
            {"errors": True, "items": "EACH", "item": each}
            for each in (
                *WRONG,
                {},
                {"index": None},
                {"index": {}},
                {"index": {"status": "x"}},
                {"index": {"status": None}},
                {"index": {"status": 201.5}},
                {"index": {"status": 503}},
                {"index": {"status": 503, "error": {}}},
                {"index": {"status": 503, "error": {"reason": ["a"], "type": None}}},
                {"index": {"status": 503, "error": {"caused_by": {"reason": {}}}}},
                {"index": {"status": 503, "error": "x"}},
                {"index": {"status": 503, "error": {"caused_by": "x"}}},
                {"index": {"status": 201}, "delete": {"status": 200}},
            )
        ),
    ],
    "search": [
        *({"hits": each} for each in (None, 1, "x", [1], True)),
        *({"hits": {"hits": each}} for each in NOT_HITS),
        {"hits": {"hits": [{"_index": None, "_id": "x"}]}},
        {"hits": {"hits": [{"_index": "x"}]}},
    ],
    "times": [
        *({"aggregations": each} for each in WRONG),
        *({"aggregations": {"min": {"value": each}, "max": {"value": each}}} for each in NOT_TIMES),
    ],
}


class Server(http.server.ThreadingHTTPServer):
    """Answers like an empty Elasticsearch that takes everything, except for one kind of request."""

    daemon_threads = True

    def __init__(self, lies: dict[str, Any], status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = {
            "mapping": {kind.index_pattern: META for kind in fields.KINDS.values()},
            "bulk": {"errors": False},
            "search": {},
            "times": NO_TIME,
            "refresh": {},
        } | lies
        self.status = status
        self.lies = lies


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline()
        if not self.raw_requestline or not self.parse_request():
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        kind = self.kind()
        answer = self.server.answers[kind]
        if kind == "mapping" and self.command == "GET" and "*" not in self.path.partition("?")[0]:
            answer = {self.path[1:].partition("?")[0]: META}
        if isinstance(answer, dict) and answer.get("items") == "EACH":
            answer = {"errors": True, "items": [answer["item"]] * (body.count(b"\n") // 2)}
        content = json.dumps(answer).encode()
        self.send_response(self.server.status if kind in self.server.lies else 200)
        self.send_header("content-type", "application/json")
        self.send_header("x-elastic-product", "Elasticsearch")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def kind(self) -> str:
        if "_bulk" in self.path:
            return "bulk"
        if "_refresh" in self.path or self.command == "PUT":
            return "refresh"
        if "_search" in self.path:
            return "times" if "aggregations" in self.path else "search"
        return "mapping"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(lies: dict[str, Any], status: int = 200) -> Iterator[str]:
    with Server(lies, status) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a campaign with one run, without its series."""
    folder = tmp_path_factory.mktemp("one-run") / "campaign"
    run = "mixed/delay=5ms,loss=0%/receiver/001"
    (folder / run).mkdir(parents=True)
    for name in ("campaign.json", f"{run}/run.json", f"{run}/facts.json"):
        (folder / name).write_bytes((DEMO / name).read_bytes())
    return folder


def index(archive: Path, place: Path, url: str, patience_s: float) -> Result:
    return invoke(
        "index",
        archive,
        "--url",
        url,
        "--patience",
        patience_s,
        "--spool",
        place / "spool",
        "--dashboards",
        place / "dashboards.ndjson",
    )


def test_the_stand_in_is_taken_for_an_elasticsearch(archive: Path, tmp_path: Path) -> None:
    with answering({}) as url:
        done = index(archive, tmp_path, url, 0)
    assert done.exit_code == 0, done.output
    assert "has 1 runs" in done.output


@pytest.mark.parametrize(
    "answer",
    [{}, {"aggregations": {}}, {"aggregations": {"min": {"value": 1}}}],
)
def test_an_answer_without_times_leaves_the_dashboards_as_they_are(
    answer: dict[str, Any], archive: Path, tmp_path: Path
) -> None:
    """filter_path leaves out what has no value."""
    with answering({"times": answer}) as url:
        assert index(archive, tmp_path, url, 0).exit_code == 0
    assert (tmp_path / "dashboards.ndjson").read_text() == ndjson()


@pytest.mark.parametrize("kind", OTHER_FORMS)
def test_an_answer_of_another_form(kind: str, archive: Path, tmp_path: Path) -> None:
    for number, answer in enumerate(OTHER_FORMS[kind]):
        for status in (200, 503):
            place = tmp_path / f"{number}-{status}"
            place.mkdir()
            with answering({kind: answer}, status) as url:
                done = index(archive, place, url, 0)
            assert isinstance(done.exception, SystemExit), (answer, status, done.exception)
            assert done.exit_code == 1, (answer, status, done.output)


def test_a_search_that_always_finds_something_ends_with_the_patience(
    archive: Path, tmp_path: Path
) -> None:
    always = {"hits": {"hits": [{"_index": "ccmix-runs", "_id": "x"}]}}
    began_s = time.monotonic()
    with answering({"search": always}) as url:
        done = index(archive, tmp_path, url, 2)
    assert time.monotonic() - began_s < 60
    assert done.exit_code == 1
    assert "still finds documents that were deleted" in done.output


def test_a_reason_of_a_server_is_one_printable_line(archive: Path, tmp_path: Path) -> None:
    reason = "a\x1b]52;c;eA==\x07\nb\u202e" + "x" * 10_000
    failed = {"status": 400, "error": {"type": "t\x1b[31m", "reason": reason}}
    bulk = {"errors": True, "items": "EACH", "item": {"index": failed}}
    for lie, status in ((bulk, 200), ({"error": {"type": reason, "reason": reason}}, 403)):
        place = tmp_path / str(status)
        place.mkdir()
        with answering({"bulk": lie}, status) as url:
            done = index(archive, place, url, 0)
        assert done.exit_code == 1
        assert all(line.isprintable() for line in done.output.splitlines()), done.output
        assert max(map(len, done.output.splitlines())) < 1000
