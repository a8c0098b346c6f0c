"""Uses pScheduler's REST interface: sequential requests over TLS, with JSON in both directions.

The standard library's http.client is enough: a request has one answer, no redirection and no
cookie. A run also has to wait as the server asks and to be interrupted in the middle of an answer,
but larger libraries don't offer this either.
"""

import contextlib
import email.utils
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from ccmix import foreign_json
from ccmix.agent.deadline import Deadline
from ccmix.generators.pscheduler.task import mistrust, split, trusting
from ccmix.generators.results import GeneratorError
from ccmix.hosts.caps import REST_ANSWER
from ccmix.units import format_bytes

CONNECTS_WITHIN_S = 10.0
ANSWERS_WITHIN_S = 60.0  # whole request; the server itself sends several to post a task
HURRIED_S = 3.0  # connecting and whole request, for a server on which nothing depends
BACK_OFF_S = (
    1.0,
    15.0,
)  # between two tries: the first wait, which doubles each time, and the maximum
_BUSY = (http.HTTPStatus.TOO_MANY_REQUESTS, http.HTTPStatus.SERVICE_UNAVAILABLE)
_FAILED = (
    http.HTTPStatus.INTERNAL_SERVER_ERROR,
    http.HTTPStatus.BAD_GATEWAY,
    http.HTTPStatus.GATEWAY_TIMEOUT,
)
FAILS_FOR_S = 60.0  # a server with temporary errors
_LONGEST_REASON = 600  # characters of a refusal, which lists the offers of each participant


class PschedulerError(GeneratorError):
    """Reports in one line what pScheduler failed to do."""


class RequestRefused(PschedulerError):
    """Reports an answer that is not a success; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Busy(PschedulerError):
    """Reports that the server asks for a later request: after `after_s` if it gives a time,
    otherwise after a while.
    """

    def __init__(self, message: str, after_s: float | None) -> None:
        super().__init__(message)
        self.after_s = after_s


class ServerFailed(Busy):
    """Reports an error inside the server, for instance from overload, which may be temporary."""


class Unreachable(PschedulerError):
    """Reports a missing answer; `sent` says whether the server may have acted on the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AnswerNotUnderstood(PschedulerError):
    """Reports a successful answer that is not from pScheduler. The server may have acted on the
    request.
    """


class Interrupted(PschedulerError):
    """Reports that the campaign is ending."""


class Interruption:
    """Ends waits and requests of a thread from another thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def interrupt(self) -> None:
        with self._lock:
            self._event.set()
            if self._socket:
                _shut_down(self._socket)

    def check(self) -> None:
        """Checks for an interruption. Raises Interrupted."""
        if self._event.is_set():
            raise Interrupted("it was interrupted")

    def sleep(self, seconds: float) -> None:
        """Waits. Raises Interrupted."""
        self._event.wait(max(0.0, seconds))
        self.check()

    def guard(self, connected: socket.socket) -> None:
        """Lets an interruption close this socket, until release(). Raises Interrupted."""
        with self._lock:
            self._socket = connected
        self.check()

    def release(self) -> None:
        with self._lock:
            self._socket = None


def back_off() -> Iterator[float]:
    """Yields seconds to wait, without end."""
    seconds, most_s = BACK_OFF_S
    while True:
        yield min(seconds, most_s)
        seconds *= 2


class _SocketUntil(ssl.SSLSocket):
    """Has a deadline for a whole request and its answer, because a socket's own time limit starts
    again with each byte.

    http.client reads status lines, headers and trailers without a limit.
    """

    deadline: Deadline | None = None

    def send(self, data: Any, flags: int = 0) -> int:
        self._limit()
        return super().send(data, flags)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self._limit()
        return super().recv_into(buffer, nbytes, flags)

    def _limit(self) -> None:
        """Sets the time limit of the next operation. Raises TimeoutError."""
        if self.deadline:
            if self.deadline.expired:
                raise TimeoutError
            self.settimeout(self.deadline.socket_timeout_s)


class PschedulerServer:
    """Represents the pScheduler of a host, 'HOST[:PORT]'. An IPv6 address with a port is in
    brackets.
    """

    def __init__(
        self,
        address: str,
        ca_file: str | None,
        interruption: Interruption,
        hurried: bool = False,
        most_bytes: int = REST_ANSWER.bytes,
    ) -> None:
        """Prepares requests with answers of at most `most_bytes`; `hurried` means that nothing
        depends on them. Raises PschedulerError if the file can't be read.
        """
        self.address = address
        self.ca_file = ca_file
        self._interruption = interruption
        self._hurried = hurried
        self._most_bytes = most_bytes
        self._host, self._port = split(address)
        try:
            self._context = trusting(ca_file)
            self._context.sslsocket_class = _SocketUntil
        except OSError as error:
            raise PschedulerError(f"{ca_file}: can't be read: {error.strerror or error}") from error

    def another(self, host: str) -> "PschedulerServer":
        """Returns the server of another host, at the usual port, with the same trusted
        certificates, and hurried. It is interrupted together with this server.
        """
        return PschedulerServer(
            f"[{host}]" if ":" in host else host, self.ca_file, self._interruption, hurried=True
        )

    def url(self, path: str) -> str:
        """Returns the whole address of a path below /pscheduler/."""
        return f"https://{self.address}/pscheduler/{path}"

    def free(self) -> "PschedulerServer":
        """Returns the same server without interruption."""
        return PschedulerServer(self.address, self.ca_file, Interruption())

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Returns the answer to a GET below /pscheduler/. Raises PschedulerError, like all of these
        methods.
        """
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return self._parsed(path, self._request("GET", f"{path}{query}"))

    def post(self, path: str, document: Mapping[str, Any]) -> Any:
        return self._parsed(path, self._request("POST", path, json.dumps(document)))

    def delete(self, path: str, parameters: Mapping[str, str]) -> None:
        self._request("DELETE", f"{path}?{urllib.parse.urlencode(parameters)}")

    def patiently(
        self, path: str, deadline: Deadline, parameters: Mapping[str, str] | None = None
    ) -> Any:
        """Like get(), but tries again until the deadline while the server is busy or can't be
        reached. While the server fails, tries only for FAILS_FOR_S.
        """
        failing = Deadline(FAILS_FOR_S)
        for wait_s in back_off():
            try:
                return self.get(path, parameters)
            except (Busy, Unreachable) as error:
                after_s = (error.after_s if isinstance(error, Busy) else None) or wait_s
                if not isinstance(error, ServerFailed):
                    failing.restart()
                if not deadline.allows(after_s) or not failing.allows(after_s):
                    raise
            self._interruption.sleep(after_s)
        raise AssertionError("back_off() has no end")

    def _request(self, method: str, path: str, body: str | None = None) -> str:
        connects_s, answers_s = (
            (HURRIED_S, HURRIED_S) if self._hurried else (CONNECTS_WITHIN_S, ANSWERS_WITHIN_S)
        )
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=connects_s, context=self._context
        )
        sent = False
        try:
            connection.connect()
            self._interruption.guard(connection.sock)
            assert isinstance(connection.sock, _SocketUntil)
            connection.sock.deadline = Deadline(answers_s)
            sent = True
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(
                method, f"/pscheduler/{path}", body=body, headers=headers | {"Connection": "close"}
            )
            answer = connection.getresponse()
            text = _read(answer, self._most_bytes)
        except ssl.SSLCertVerificationError as error:
            raise PschedulerError(mistrust(self.address, error, self.ca_file)) from error
        except ssl.SSLError as error:
            self._interruption.check()
            reason = f"{self.address}: no TLS connection: {error.reason or error}"
            raise (Unreachable(reason, sent=True) if sent else PschedulerError(reason)) from error
        except (OSError, http.client.HTTPException) as error:
            self._interruption.check()
            raise Unreachable(f"{self.address}: {_reason(error)}", sent=sent) from error
        finally:
            self._interruption.release()
            connection.close()
        self._interruption.check()  # the text that was read may be cut off
        return self._checked(method, path, answer, text)

    def _checked(
        self, method: str, path: str, answer: http.client.HTTPResponse, text: bytearray
    ) -> str:
        what = f"{self.address}: {method} {path.partition('?')[0]}"
        if answer.status in _BUSY:
            raise Busy(f"{what}: it is busy ({answer.status} {answer.reason})", _after_s(answer))
        answer_text = text.decode(errors="replace")
        if answer.status in _FAILED:
            reason = _sentence(answer_text) or answer.reason
            raise ServerFailed(f"{what}: {answer.status} {reason}", _after_s(answer))
        if not http.HTTPStatus.OK <= answer.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise RequestRefused(
                f"{what}: {answer.status} {_sentence(answer_text) or answer.reason}", answer.status
            )
        if len(text) > self._most_bytes:
            raise AnswerNotUnderstood(
                f"{what}: its answer is longer than {format_bytes(self._most_bytes)}"
            )
        return answer_text

    def _parsed(self, path: str, text: str) -> Any:
        try:
            return foreign_json.loads(text)
        except ValueError as error:
            beginning = _sentence(text)[:80]
            raise AnswerNotUnderstood(
                f"{self.address}: the answer to {path} is not JSON: {beginning!r}"
            ) from error


def _read(answer: http.client.HTTPResponse, most_bytes: int) -> bytearray:
    """Reads the whole answer, and one byte more than is allowed if there is more.
    Raises OSError.
    """
    text = bytearray()
    while len(text) <= most_bytes and (some := answer.read1(2**16)):
        text += some
    return text


def _after_s(answer: http.client.HTTPResponse) -> float | None:
    """Returns the seconds of Retry-After, which contains seconds or a date (RFC 9110, section
    10.2.3).
    """
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.HTTPException):
        return f"its answer is not HTTP: {error!r}"
    return getattr(error, "strerror", None) or str(error) or repr(error)


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[:_LONGEST_REASON] + "…"


def _shut_down(connected: socket.socket) -> None:
    """Shuts down the plain socket, because an SSLSocket's own shutdown() would remove TLS while
    another thread reads.
    """
    with contextlib.suppress(OSError):  # it is already shut down
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
