"""A proxy in front of a server that does what networks and busy servers do: it cuts, delays,
refuses and encrypts.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CUT = None  # instead of an answer


@dataclass(frozen=True)
class Request:
    number: int  # of the bulk requests, from 0
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """`cut_at`: after so many bytes of it the connection is cut."""

    status: int
    body: bytes
    cut_at: int | None = None


Forward = Callable[[], Awaitable[Reply]]
Fault = Callable[[Request, Forward], Awaitable[Reply | None]]


@dataclass
class Proxy:
    """`fault` decides what becomes of each bulk request; `requests` are all that came."""

    port: int = 0
    scheme: str = "http"
    requests: list[Request] = field(default_factory=list)
    bulks: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"


@contextmanager
def proxy(
    server_port: int, fault: Fault | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Proxy]:
    """In a thread of its own."""
    made = Proxy(scheme="https" if tls else "http")
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def serve() -> asyncio.Server:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while (request := await _read(reader, made)) is not None:
                    made.requests.append(request)

                    async def forward(request: Request = request) -> Reply:
                        return await _forward(server_port, request)

                    is_bulk = "/_bulk" in request.line
                    reply = await (fault(request, forward) if fault and is_bulk else forward())
                    if reply is None:
                        break
                    await _write(writer, reply)
                    if reply.cut_at is not None:
                        break
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls, limit=2**26)
        made.port = server.sockets[0].getsockname()[1]
        ready.set()
        return server

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(serve())
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _read(reader: asyncio.StreamReader, made: Proxy) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *rest = head.decode().strip().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (part.partition(":") for part in rest)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    number = made.bulks
    made.bulks += "/_bulk" in line
    return Request(number, line, headers, body)


async def _forward(port: int, request: Request) -> Reply:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    except OSError:
        return Reply(503, b"{}")
    try:
        kept = {
            name: request.headers[name]
            for name in ("content-type", "accept")
            if name in request.headers
        }
        head = [
            request.line,
            "host: localhost",
            "connection: close",
            f"content-length: {len(request.body)}",
        ]
        head += [f"{name}: {value}" for name, value in kept.items()]
        writer.write("\r\n".join([*head, "", ""]).encode() + request.body)
        await writer.drain()
        said = await reader.read()
    finally:
        writer.close()
    answer, _, body = said.partition(b"\r\n\r\n")
    if not answer:
        raise ConnectionResetError("the server ended before it answered")
    if b"transfer-encoding: chunked" in answer.lower():
        body = _unchunked(body)
    return Reply(int(answer.split()[1]), body)


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        whole += rest[:length]
        body = rest[length + 2 :]
        if not length:
            break
    return whole


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
    head = (
        f"HTTP/1.1 {reply.status} -\r\nX-elastic-product: Elasticsearch\r\ncontent-type: "
        "application/json\r\n"
        f"content-length: {len(reply.body)}\r\n\r\n"
    )
    whole = head.encode() + reply.body
    writer.write(whole if reply.cut_at is None else whole[: reply.cut_at])
    await writer.drain()


def rejection(status: int, kind: str) -> dict[str, object]:
    """An answer to one document of a bulk."""
    return {"index": {"status": status, "error": {"type": kind, "reason": "by the test"}}}


def said(items: list[dict[str, object]]) -> Reply:
    return Reply(200, json.dumps({"errors": True, "items": items}).encode())
