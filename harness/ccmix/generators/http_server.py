"""Serves a file of BYTES bytes to every HTTP request, as traffic of the lab:
`python -m ccmix.generators.http_server ADDRESS PORT BYTES CCA`.

It is Python's own server, with room for more waiting connections. Its sockets use CCA, or the
system's default for '-'. It uses only the standard library, because it runs in a guest.
"""

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ccmix.model.group_grammar import DEFAULT_CCA

BLOCK = bytes(2**16)


class HttpServer(ThreadingHTTPServer):
    request_queue_size = 1024


class Handler(BaseHTTPRequestHandler):
    """Answers each GET with size_bytes bytes, which are set once for the whole server."""

    disable_nagle_algorithm = True
    wbufsize = len(BLOCK)  # the header goes with the beginning of the file
    size_bytes = 0

    def do_GET(self) -> None:
        """Sends size_bytes bytes, in blocks."""
        self.send_response(200)
        self.send_header("Content-Length", str(self.size_bytes))
        self.end_headers()
        left = self.size_bytes
        while left > 0:
            left -= self.wfile.write(BLOCK[:left] if left < len(BLOCK) else BLOCK)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing, because the client's times are enough."""


def main() -> None:
    """Serves the file until the process is ended; ADDRESS PORT BYTES CCA are the command's
    arguments.
    """
    address, port, size_bytes, cca = sys.argv[1:]
    Handler.size_bytes = int(size_bytes)
    with HttpServer((address, int(port)), Handler) as server:
        if cca != DEFAULT_CCA:
            server.socket.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode()
            )  # accepted sockets inherit it
        server.serve_forever()


if __name__ == "__main__":
    main()
