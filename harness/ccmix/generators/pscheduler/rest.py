"""Sends requests to pScheduler's REST interface, over TLS, with limits of time and size.

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
from ccmix.generators.results import GeneratorError, sentence
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
    """Reports in one line what pScheduler failed to do. The base of all errors of this module."""


class RequestRefused(PschedulerError):
    """Reports that the server answered with an error; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Busy(PschedulerError):
    """Reports that the server can't answer now (429 or 503). Try again after `after_s` (its
    Retry-After), or after a while if that is None.
    """

    def __init__(self, message: str, after_s: float | None) -> None:
        super().__init__(message)
        self.after_s = after_s


class ServerFailed(Busy):
    """Reports an error inside the server (500, 502 or 504), for instance from overload, which may
    be temporary.
    """


class Unreachable(PschedulerError):
    """Reports a missing answer. `sent` says whether the request was sent, so that the server may
    have acted on it.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AnswerNotUnderstood(PschedulerError):
    """Reports a successful answer that is not pScheduler's. The server may have acted on the
    request.
    """


class Interrupted(PschedulerError):
    """Reports that a wait or a request was interrupted because the campaign is ending."""


class Interruption:
    """Lets another thread end a thread's waits and requests at once, for instance at Ctrl-C."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def interrupt(self) -> None:
        """Ends the current wait and request of the other thread, and all later ones."""
        with self._lock:
            self._event.set()
            if self._socket:
                _shut_down(self._socket)

    def check(self) -> None:
        """Raises Interrupted if there was an interruption."""
        if self._event.is_set():
            raise Interrupted("it was interrupted")

    def sleep(self, seconds: float) -> None:
        """Waits for the seconds. Raises Interrupted as soon as there is an interruption."""
        self._event.wait(max(0.0, seconds))
        self.check()

    def guard(self, connected: socket.socket) -> None:
        """Lets an interruption shut down this socket at once, so that a request on it ends. The
        guard lasts until release(). Raises Interrupted if there already was an interruption.
        """
        with self._lock:
            self._socket = connected
        self.check()

    def release(self) -> None:
        """Ends the guard of a socket: an interruption does not shut it down any more."""
        with self._lock:
            self._socket = None


def back_off() -> Iterator[float]:
    """Yields the seconds to wait before each further try, without end: 1, 2, 4, 8, then
    always 15.
    """
    seconds, most_s = BACK_OFF_S
    while True:
        yield min(seconds, most_s)
        seconds *= 2


class _SocketWithDeadline(ssl.SSLSocket):
    """Has a deadline for a whole request and its answer, because a socket's own time limit starts
    again with each byte, and http.client reads status lines, headers and trailers without a limit.
    """

    deadline: Deadline | None = None

    def send(self, data: Any, flags: int = 0) -> int:
        """Sends data, if the deadline has not passed yet. Raises TimeoutError."""
        self._set_time_limit()
        return super().send(data, flags)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Receives data, if the deadline has not passed yet. Raises TimeoutError."""
        self._set_time_limit()
        return super().recv_into(buffer, nbytes, flags)

    def _set_time_limit(self) -> None:
        """Sets the time limit of the next read or write. Raises TimeoutError after the deadline."""
        if self.deadline:
            if self.deadline.expired:
                raise TimeoutError
            self.settimeout(self.deadline.socket_timeout_s)


class PschedulerServer:
    """Represents the pScheduler of a host, 'HOST[:PORT]', and sends requests to it. An IPv6 address
    with a port is in brackets.
    """

    def __init__(
        self,
        address: str,
        ca_file: str | None,
        interruption: Interruption,
        hurried: bool = False,
        most_bytes: int = REST_ANSWER.bytes,
    ) -> None:
        """Prepares requests to a host's pScheduler.

        address: 'HOST[:PORT]'
        ca_file: file with the certificates to trust (PEM); None: those that this machine trusts
        interruption: ends waits and requests early, for instance at Ctrl-C
        hurried: use short time limits, because nothing depends on the answers
        most_bytes: maximum length of an answer

        Raises PschedulerError if ca_file can't be read.
        """
        self.address = address
        self.ca_file = ca_file
        self._interruption = interruption
        self._hurried = hurried
        self._most_bytes = most_bytes
        self._host, self._port = split(address)
        try:
            self._context = trusting(ca_file)
            self._context.sslsocket_class = _SocketWithDeadline
        except OSError as error:
            raise PschedulerError(f"{ca_file}: can't be read: {error.strerror or error}") from error

    def another(self, host: str) -> "PschedulerServer":
        """Returns the pScheduler of another host, at the usual port and with short time limits. It
        trusts the same certificates, and an interruption ends its requests, too.
        """
        return PschedulerServer(
            f"[{host}]" if ":" in host else host, self.ca_file, self._interruption, hurried=True
        )

    def url(self, path: str) -> str:
        """Returns the URL of a path below /pscheduler/."""
        return f"https://{self.address}/pscheduler/{path}"

    def free(self) -> "PschedulerServer":
        """Returns the same server without interruptions: its requests go on after Ctrl-C. They are
        for cleaning up, such as cancelling tasks.
        """
        return PschedulerServer(self.address, self.ca_file, Interruption())

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """Sends a GET request for a path below /pscheduler/, and returns the JSON of the answer.
        Raises PschedulerError.
        """
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return self._parsed(path, self._request("GET", f"{path}{query}"))

    def post(self, path: str, document: Mapping[str, Any]) -> Any:
        """Sends a POST request with a JSON document, and returns the JSON of the answer. Raises
        PschedulerError.
        """
        return self._parsed(path, self._request("POST", path, json.dumps(document)))

    def delete(self, path: str, parameters: Mapping[str, str]) -> None:
        """Sends a DELETE request for a path below /pscheduler/. Raises PschedulerError."""
        self._request("DELETE", f"{path}?{urllib.parse.urlencode(parameters)}")

    def get_patiently(
        self, path: str, deadline: Deadline, parameters: Mapping[str, str] | None = None
    ) -> Any:
        """Sends a GET request, and returns the JSON of the answer. While the server is busy or
        can't be reached, the request is repeated until the deadline. While the server answers with
        internal errors, it is repeated for a minute only. Raises PschedulerError.
        """
        failing_deadline = Deadline(FAILS_FOR_S)
        for wait_s in back_off():
            try:
                return self.get(path, parameters)
            except (Busy, Unreachable) as error:
                after_s = (error.after_s if isinstance(error, Busy) else None) or wait_s
                if not isinstance(error, ServerFailed):
                    failing_deadline.restart()
                if not deadline.allows(after_s) or not failing_deadline.allows(after_s):
                    raise
            self._interruption.sleep(after_s)
        raise AssertionError("back_off() has no end")

    def _request(self, method: str, path: str, body: str | None = None) -> str:
        """Sends one request over a connection of its own, and returns the text of the answer.
        Raises PschedulerError. If the error is Unreachable, its `sent` says whether the server may
        have acted on the request.
        """
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
            assert isinstance(connection.sock, _SocketWithDeadline)
            connection.sock.deadline = Deadline(answers_s)
            sent = True
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(
                method, f"/pscheduler/{path}", body=body, headers=headers | {"Connection": "close"}
            )
            answer = connection.getresponse()
            answer_text = _read_answer(answer, self._most_bytes)
        except ssl.SSLCertVerificationError as error:
            raise PschedulerError(mistrust(self.address, error, self.ca_file)) from error
        except ssl.SSLError as error:
            self._interruption.check()
            reason = f"{self.address}: no TLS connection: {error.reason or error}"
            raise (Unreachable(reason, sent=True) if sent else PschedulerError(reason)) from error
        except (OSError, http.client.HTTPException) as error:
            self._interruption.check()
            raise Unreachable(f"{self.address}: {_reason_of(error)}", sent=sent) from error
        finally:
            self._interruption.release()
            connection.close()
        self._interruption.check()  # the text that was read may be cut off
        return self._text_of_success(method, path, answer, answer_text)

    def _text_of_success(
        self, method: str, path: str, answer: http.client.HTTPResponse, content: bytearray
    ) -> str:
        """Returns the text of a successful answer. If the HTTP status is another one, or the answer
        is too long, raises the PschedulerError for that case.

        content: the bytes of the answer
        """
        request = f"{self.address}: {method} {path.partition('?')[0]}"
        if answer.status in _BUSY:
            raise Busy(
                f"{request}: it is busy ({answer.status} {answer.reason})", _retry_after_s(answer)
            )
        answer_text = content.decode(errors="replace")
        if not http.HTTPStatus.OK <= answer.status < http.HTTPStatus.MULTIPLE_CHOICES:
            reason = sentence(answer_text, _LONGEST_REASON) or answer.reason
            if answer.status in _FAILED:
                raise ServerFailed(f"{request}: {answer.status} {reason}", _retry_after_s(answer))
            raise RequestRefused(
                f"{request}: {answer.status} {reason}",
                answer.status,
            )
        if len(content) > self._most_bytes:
            raise AnswerNotUnderstood(
                f"{request}: its answer is longer than {format_bytes(self._most_bytes)}"
            )
        return answer_text

    def _parsed(self, path: str, text: str) -> Any:
        """Returns the JSON of an answer's text. Raises AnswerNotUnderstood if the text is not
        JSON.
        """
        try:
            return foreign_json.loads(text)
        except ValueError as error:
            beginning = sentence(text, 80)
            raise AnswerNotUnderstood(
                f"{self.address}: the answer to {path} is not JSON: {beginning!r}"
            ) from error


def _read_answer(answer: http.client.HTTPResponse, most_bytes: int) -> bytearray:
    """Reads the bytes of an answer. It stops once it has more than `most_bytes`, so a longer result
    shows that the answer is too long. Raises OSError.
    """
    text = bytearray()
    while len(text) <= most_bytes and (some := answer.read1(2**16)):
        text += some
    return text


def _retry_after_s(answer: http.client.HTTPResponse) -> float | None:
    """Returns the seconds after which the server asks to repeat the request, in the header
    Retry-After; None if it does not ask. The header has seconds or a date (RFC 9110, section
    10.2.3).
    """
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _reason_of(error: Exception) -> str:
    """Returns the reason of a failed request, as part of a message."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.HTTPException):
        return f"its answer is not HTTP: {error!r}"
    return getattr(error, "strerror", None) or str(error) or repr(error)


def _shut_down(connected: socket.socket) -> None:
    """Shuts down the plain socket below TLS, because an SSLSocket's own shutdown() would remove TLS
    while another thread reads.
    """
    with contextlib.suppress(OSError):  # it is already shut down
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
