"""Tests the messages about a server that does not answer, or does not answer like Elasticsearch."""

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ccmix.index.server import ElasticsearchServer, ServerError, ServerRefused, Unavailable
from ccmix.index.target import find_target

FOREIGN = "the server did not answer like Elasticsearch: is there a proxy in between?"


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable) as error:
            ElasticsearchServer(find_target(url, environment={})).set_up()
    assert str(error.value) == f"{url}: Connection refused"


@pytest.mark.parametrize(
    ("status", "body", "length", "kind", "sentence"),
    [
        (200, b"<html>Welcome</html>", None, Unavailable, FOREIGN),
        (200, b"", None, Unavailable, FOREIGN),
        (200, b"[]", None, Unavailable, FOREIGN),
        (200, b"[" * 100_000, None, Unavailable, FOREIGN),
        (200, b"{", 1000, Unavailable, "the connection ended before the whole answer came"),
        (302, b"", None, ServerRefused, "302: redirected to another URL: use that URL"),
    ],
    ids=["page", "nothing", "list", "deep", "cut", "redirect"],
)
def test_an_answer_that_is_none_of_an_elasticsearch(
    status: int, body: bytes, length: int | None, kind: type[ServerError], sentence: str
) -> None:
    with answering(status, body, length) as url:
        for ask in ("set_up", "check_set_up"):
            with pytest.raises(kind) as error:
                getattr(ElasticsearchServer(find_target(url, environment={})), ask)()
            assert str(error.value) == f"{url}: {sentence}"


@contextmanager
def answering(status: int, body: bytes, length: int | None) -> Iterator[str]:
    """Yields the URL of a server that answers each request like this, with the header by which
    Elasticsearch names itself.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if not self.raw_requestline or not self.parse_request():
                return
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("x-elastic-product", "Elasticsearch")
            self.send_header("content-length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
