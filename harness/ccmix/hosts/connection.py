"""Carries JSON lines to and from an agent: a process that may be lost at any time, and may
send anything.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO

from ccmix.agent.deadline import Deadline
from ccmix.agent.messages import BEATS_IN_SILENCE, AgentMessage, ControllerMessage
from ccmix.hosts.caps import LOGIN_ERRORS, Cap
from ccmix.hosts.errors import CapExceeded, HostLost, ProtocolBroken
from ccmix.hosts.output_text import printable
from ccmix.hosts.received import ReceivedLines, TooLong, read_message
from ccmix.units import format_bytes

READ_BYTES = 2**18
ENDS_WITHIN_S = (
    5.0  # the process after its standard output, and its standard error after the process
)
LOOKS_EACH_S = 3600.0  # at a connection without a time limit
LONGEST_ERRORS = 2000  # characters of standard error that may matter
SLOWEST_BYTES_PER_S = 10_000  # of a message to a host; ccmix-sockmon then takes three minutes


class Connection:
    """Calls `hear` in its own thread for each message of the agent, and regularly sends the agent a
    heartbeat.

    `changed` is notified after each message, and when the connection is lost.
    """

    def __init__(self, name: str, argv: Sequence[str], first: bytes, silence_s: float) -> None:
        """Starts the process and sends `first`. Raises OSError."""
        self.name = name
        self.changed = threading.Condition()
        self.last_error_lines: list[str] = []  # of standard error, once it has ended
        self._silence_s = silence_s
        self._lost: Callable[[], HostLost] | None = None
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._errors = bytearray()  # the last of standard error
        self._errors_bytes = 0  # its total size
        self._received = ReceivedLines()
        self._broken = False  # its further messages are ignored
        self._socket, agent_end = (
            socket.socketpair()
        )  # not a pipe: a blocked sender can be woken by shutdown()
        with agent_end:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                stdin=agent_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        _start_thread(self._send_beats, first)

    def listen(self, hear: Callable[[AgentMessage], None]) -> None:
        """Starts the thread that receives the agent's messages."""
        _start_thread(self._listen, hear)

    @property
    def lost(self) -> HostLost | None:
        return self._lost() if self._lost else None

    @property
    def no_message(self) -> str:
        """Returns the last line that the process has written before its first message."""
        return self._received.no_message

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def send(self, message: ControllerMessage) -> None:
        """Sends a message. Raises HostLost, also if the agent does not take it in time."""
        if lost := self.lost:
            raise lost
        try:
            self._write(json.dumps(message).encode() + b"\n")
        except OSError:  # the listening thread knows the reason better
            self.wait_for(lambda: False, ENDS_WITHIN_S * 2)
            raise HostLost(self.name, "it takes no more messages") from None

    def wait_for(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Waits for the condition, and returns whether it came true in time. Raises HostLost."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or self._lost is not None, timeout_s)
            if condition():
                return True
            if lost := self.lost:
                raise lost
            return False

    def cut(self, reason: str) -> None:
        """Ends the connection here, so that the agent leaves; all waiting calls raise HostLost with
        this reason.
        """
        self._cut(partial(HostLost, self.name, reason))

    def cut_broken(self, reason: str) -> None:
        """Like cut(), with ProtocolBroken."""
        self._break(
            partial(ProtocolBroken, self.name, f"it does not follow the agent's protocol: {reason}")
        )

    def cut_exceeding(self, cap: Cap, most_bytes: int, what: str = "") -> None:
        """Like cut(), with CapExceeded; `what` names the output that exceeds the cap, if there are
        several.
        """
        sent = f"it sent more than {format_bytes(most_bytes)} for {cap.what}"
        self._break(partial(CapExceeded, self.name, f"{sent}{': ' + what if what else ''}"))

    def _break(self, loss: Callable[[], HostLost]) -> None:
        self._broken = True
        self._cut(loss)
        self._process.terminate()  # it would go on sending

    def _cut(self, loss: Callable[[], HostLost]) -> None:
        self._lose(loss)
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it had ended

    def wait_ended(self, timeout_s: float) -> bool:
        """Waits for the process, and so for the agent, and returns whether it ended in time.
        Terminates a process that did not.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            return False
        finally:
            self._over.set()
        return True

    def _read_errors(self) -> list[str]:
        """Returns the last lines of standard error, in printable characters."""
        text = self._errors.decode(errors="replace")
        return [line for line in map(printable, text.splitlines()) if line]

    def _send_beats(self, first: bytes) -> None:
        """Sends `first`, and then heartbeats without end."""
        message = first
        while True:
            try:
                self._write(message)
            except OSError:
                return
            if self._over.wait(self._silence_s / BEATS_IN_SILENCE):
                return
            message = b'{"op": "beat"}\n'

    def _write(self, data: bytes) -> None:
        """Writes all of the data. Raises OSError, and ends the connection, if the agent reads
        nothing for as long as it may be silent, or reads too slowly: otherwise a host that goes on
        sending could block the campaign for ever.
        """
        left = memoryview(data)
        with self._writing:
            whole = Deadline(self._silence_s + len(data) / SLOWEST_BYTES_PER_S)
            try:
                while left:
                    self._socket.settimeout(min(self._silence_s, whole.socket_timeout_s))
                    left = left[self._socket.send(left) :]
            except TimeoutError:
                self.cut("it does not read what ccmix sends it")
                self._process.terminate()
                raise

    def _listen(self, hear: Callable[[AgentMessage], None]) -> None:
        assert self._process.stdout
        assert self._process.stderr
        output, errors = self._process.stdout, self._process.stderr
        os.set_blocking(errors.fileno(), False)
        try:
            for message in self._messages(output, errors):
                hear(message)
                with self.changed:
                    self.changed.notify_all()
                if self._broken:
                    break
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
        ) as error:  # otherwise all would wait for a dead thread
            self.cut_broken(str(error))
        try:
            status = self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._lose(partial(HostLost, self.name, "it has closed its output"))
        else:
            self._take_errors(errors)
            self.last_error_lines = self._read_errors()
            reason = (self.last_error_lines or [f"it has ended with status {status}"])[-1]
            self._lose(partial(HostLost, self.name, reason))
            self._close()

    def _messages(self, output: IO[bytes], errors: IO[bytes]) -> Iterator[AgentMessage]:
        """Yields messages until the process closes its output, sends forbidden data, or is silent
        for too long after its first message. Raises ValueError for data that is not a message.
        """
        part = bytearray(READ_BYTES)  # one buffer for all: new ones would leave gaps in the heap
        silence = Deadline(self._silence_s)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(errors, selectors.EVENT_READ)
            while not self._broken:
                ready = [key.fileobj for key, _ in selector.select(self._until(silence))]
                if errors in ready and not self._take_errors(errors):
                    selector.unregister(errors)
                if output in ready:
                    silence.restart()
                    count = os.readv(output.fileno(), [part])
                    if not count:
                        return
                    yield from self._messages_in(memoryview(part)[:count])
                elif self._received.begun and silence.expired:
                    self.cut(f"nothing heard for {self._silence_s:g} s")
                    self._process.terminate()
                    return

    def _until(self, silence: Deadline) -> float:
        return silence.remaining_s if self._received.begun else LOOKS_EACH_S

    def _messages_in(self, part: memoryview) -> Iterator[AgentMessage]:
        try:
            for line in self._received.take(part):
                yield read_message(line)
        except TooLong as error:
            self.cut_exceeding(error.cap, error.cap.bytes)

    def _take_errors(self, errors: IO[bytes]) -> bool:
        """Reads the process's standard error; returns whether there may be more later."""
        while True:
            try:
                data = os.read(errors.fileno(), READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._errors = (self._errors + data)[-LONGEST_ERRORS:]
            self._errors_bytes += len(data)
            if self._errors_bytes > LOGIN_ERRORS.bytes:
                self.cut_exceeding(LOGIN_ERRORS, LOGIN_ERRORS.bytes)
                return False

    def _close(self) -> None:
        """Releases everything once the process has ended."""
        assert self._process.stdout
        assert self._process.stderr
        self._over.set()
        self._process.stdout.close()
        self._process.stderr.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes threads that may be sending
        with self._writing:
            self._socket.close()

    def _lose(self, loss: Callable[[], HostLost]) -> None:
        """Notes why the connection was lost; the first reason counts."""
        with self.changed:
            if self._lost is None:
                self._lost = loss
            self.changed.notify_all()


def _start_thread(function: Callable[..., None], *arguments: object) -> None:
    """Starts a thread that blocks all signals, because a signal that another thread gets does not
    wake the main thread.
    """

    def without_signals() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        function(*arguments)

    threading.Thread(target=without_signals, daemon=True).start()
