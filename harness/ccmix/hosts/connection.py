"""Exchanges JSON lines with an agent on a host, which may be lost at any time or send anything."""

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
from ccmix.hosts.received import ReceivedLines, TooLong, read_message
from ccmix.text.printable import printable
from ccmix.units import format_bytes

READ_BYTES = 2**18
ENDS_WITHIN_S = (
    5.0  # the process after its standard output, and its standard error after the process
)
LOOKS_EACH_S = 3600.0  # at a connection without a time limit
LONGEST_ERRORS = 2000  # characters of standard error that may matter
SLOWEST_BYTES_PER_S = 10_000  # of a message to a host; ccmix-sockmon then takes three minutes


class Connection:
    """Exchanges messages with the agent, over standard input and output of a process such as ssh.

    Two threads serve it: one calls `handle` (see listen()) for each message of the agent, one
    regularly sends a heartbeat, because each side treats the other as lost after a silence. The
    condition `changed` is notified after each message, and when the connection is lost.
    """

    def __init__(
        self, name: str, argv: Sequence[str], first_bytes: bytes, silence_s: float
    ) -> None:
        """Starts the process `argv`, and sends `first_bytes`: the agent's source and the first
        message. After a silence of `silence_s`, the agent counts as lost. Raises OSError.
        """
        self.name = name
        self.changed = threading.Condition()
        self.last_error_lines: list[str] = []  # of standard error, once it has ended
        self._silence_s = silence_s
        self._make_error: Callable[[], HostLost] | None = None  # once the connection is lost
        self._write_lock = threading.Lock()
        self._stop_beats = threading.Event()
        self._errors = bytearray()  # the last of standard error
        self._errors_bytes = 0  # its total size
        self._received = ReceivedLines()
        self._is_cut_off = False  # further messages of the agent are ignored
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
        _start_thread(self._send_beats, first_bytes)

    def listen(self, handle: Callable[[AgentMessage], None]) -> None:
        """Starts the thread that receives the agent's messages, and calls `handle` with each."""
        _start_thread(self._listen, handle)

    @property
    def lost(self) -> HostLost | None:
        """Returns the error that says why the connection was lost; None while it exists. Each call
        makes a new error, because several threads may raise it.
        """
        return self._make_error() if self._make_error else None

    @property
    def no_message(self) -> str:
        """Returns the last line that the process has written before the agent's first message, for
        example by the login's shell.
        """
        return self._received.no_message

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def send(self, message: ControllerMessage) -> None:
        """Sends a message. Raises HostLost, also if the agent does not read it in time."""
        if lost := self.lost:
            raise lost
        try:
            self._write(json.dumps(message).encode() + b"\n")
        except OSError:  # the listening thread knows the reason better
            self.wait_for(lambda: False, ENDS_WITHIN_S * 2)
            raise HostLost(self.name, "it takes no more messages") from None

    def wait_for(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Waits until the condition holds, and returns whether it did within `timeout_s`. The
        condition is evaluated after each message of the agent. Raises HostLost if the connection is
        lost before the condition holds.
        """
        with self.changed:
            self.changed.wait_for(lambda: condition() or self._make_error is not None, timeout_s)
            if condition():
                return True
            if lost := self.lost:
                raise lost
            return False

    def cut(self, reason: str) -> None:
        """Ends the connection from this side, so that the agent leaves. All waiting calls raise
        HostLost with this reason.
        """
        self._cut(partial(HostLost, self.name, reason))

    def cut_broken(self, reason: str) -> None:
        """Ends the connection to an agent that does not follow the protocol. All waiting calls
        raise ProtocolBroken with this reason.
        """
        self._cut_misbehaving(
            partial(ProtocolBroken, self.name, f"it does not follow the agent's protocol: {reason}")
        )

    def cut_exceeding(self, cap: Cap, most_bytes: int, what: str = "") -> None:
        """Ends the connection to a host that sent more than `most_bytes`, the limit that `cap`
        describes. All waiting calls raise CapExceeded. If several outputs have this cap, `what`
        names the output that was too long.
        """
        sent = f"it sent more than {format_bytes(most_bytes)} for {cap.what}"
        self._cut_misbehaving(
            partial(CapExceeded, self.name, f"{sent}{': ' + what if what else ''}")
        )

    def _cut_misbehaving(self, make_error: Callable[[], HostLost]) -> None:
        """Ends the connection, ignores further messages, and terminates the process, because a host
        that does not follow the rules may go on sending.
        """
        self._is_cut_off = True
        self._cut(make_error)
        self._process.terminate()  # it would go on sending

    def _cut(self, make_error: Callable[[], HostLost]) -> None:
        """Notes the loss, and closes the sending direction, which tells the agent to leave. Its
        last messages can still arrive.
        """
        self._note_loss(make_error)
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it had ended

    def wait_ended(self, timeout_s: float) -> bool:
        """Waits until the process, and so the agent, has ended. Returns whether it did within
        `timeout_s`; otherwise terminates the process.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            return False
        finally:
            self._stop_beats.set()
        return True

    def _printable_error_lines(self) -> list[str]:
        """Returns the last lines of the process's standard error, in printable characters."""
        text = self._errors.decode(errors="replace")
        return [line for line in map(printable, text.splitlines()) if line.strip()]

    def _send_beats(self, first_bytes: bytes) -> None:
        """Sends `first_bytes`, and then a heartbeat several times within the allowed silence, until
        the connection ends.
        """
        message = first_bytes
        while True:
            try:
                self._write(message)
            except OSError:
                return
            if self._stop_beats.wait(self._silence_s / BEATS_IN_SILENCE):
                return
            message = b'{"op": "beat"}\n'

    def _write(self, data: bytes) -> None:
        """Writes all of the data. Raises OSError, and ends the connection, if the agent reads
        nothing for as long as it may be silent, or reads too slowly: otherwise such a host could
        block the campaign for ever.
        """
        unsent = memoryview(data)
        with self._write_lock:
            deadline = Deadline(self._silence_s + len(data) / SLOWEST_BYTES_PER_S)
            try:
                while unsent:
                    self._socket.settimeout(min(self._silence_s, deadline.socket_timeout_s))
                    unsent = unsent[self._socket.send(unsent) :]
            except TimeoutError:
                self.cut("it does not read what ccmix sends it")
                self._process.terminate()
                raise

    def _listen(self, handle: Callable[[AgentMessage], None]) -> None:
        """Calls `handle` for each message until the agent is lost, and then notes the reason and
        cleans up. It runs in its own thread.
        """
        assert self._process.stdout
        assert self._process.stderr
        output, errors = self._process.stdout, self._process.stderr
        os.set_blocking(errors.fileno(), False)
        try:
            for message in self._receive_messages(output, errors):
                handle(message)
                with self.changed:
                    self.changed.notify_all()
                if self._is_cut_off:
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
            self._note_loss(partial(HostLost, self.name, "it has closed its output"))
        else:
            self._receive_errors(errors)
            self.last_error_lines = self._printable_error_lines()
            reason = (self.last_error_lines or [f"it has ended with status {status}"])[-1]
            self._note_loss(partial(HostLost, self.name, reason))
            self._close()

    def _receive_messages(self, output: IO[bytes], errors: IO[bytes]) -> Iterator[AgentMessage]:
        """Yields messages until the process closes its output, sends forbidden data, or is silent
        for too long after its first message. Raises ValueError for data that is not a message.
        """
        buffer = bytearray(READ_BYTES)  # one buffer for all: new ones would leave gaps in the heap
        silence = Deadline(self._silence_s)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(errors, selectors.EVENT_READ)
            while not self._is_cut_off:
                ready = [key.fileobj for key, _ in selector.select(self._wait_s(silence))]
                if errors in ready and not self._receive_errors(errors):
                    selector.unregister(errors)
                if output in ready:
                    silence.restart()
                    count = os.readv(output.fileno(), [buffer])
                    if not count:
                        return
                    yield from self._parse_messages(memoryview(buffer)[:count])
                elif self._received.begun and silence.expired:
                    self.cut(f"nothing heard for {self._silence_s:g} s")
                    self._process.terminate()
                    return

    def _wait_s(self, silence: Deadline) -> float:
        """Returns how long to wait for data: until the silence is too long, or any time before the
        agent's first message, for which pool.connect() has its own limit.
        """
        return silence.remaining_s if self._received.begun else LOOKS_EACH_S

    def _parse_messages(self, data: memoryview) -> Iterator[AgentMessage]:
        """Yields the messages that are complete with these bytes. Cuts the connection if one is too
        long.
        """
        try:
            for line in self._received.take(data):
                yield read_message(line)
        except TooLong as error:
            self.cut_exceeding(error.cap, error.cap.bytes)

    def _receive_errors(self, errors: IO[bytes]) -> bool:
        """Reads what the process has written to standard error, and keeps its end. Returns whether
        there may be more later.
        """
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
        """Releases the threads, pipes and socket once the process has ended."""
        assert self._process.stdout
        assert self._process.stderr
        self._stop_beats.set()
        self._process.stdout.close()
        self._process.stderr.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes threads that may be sending
        with self._write_lock:
            self._socket.close()

    def _note_loss(self, make_error: Callable[[], HostLost]) -> None:
        """Notes the error of a lost connection, and wakes all waiting calls. Only the first loss
        counts, because later ones are its consequences.
        """
        with self.changed:
            if self._make_error is None:
                self._make_error = make_error
            self.changed.notify_all()


def _start_thread(function: Callable[..., None], *arguments: object) -> None:
    """Starts a thread that blocks all signals. A signal that arrived in another thread would not
    wake the main thread, which handles Ctrl-C.
    """

    def without_signals() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        function(*arguments)

    threading.Thread(target=without_signals, daemon=True).start()
