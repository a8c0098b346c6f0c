"""A replacement for `ssh` to a host that lies: it runs the real agent in a network namespace, but
sends other messages to its controller.

    lying_host.py LIE NAMESPACE [SSH ARGUMENT...]

A lie of EVER replaces or follows the agent's hello. A lie of COMMANDS replaces the output of a
command; all other messages are the agent's.
"""

import base64
import itertools
import json
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, repeat
from typing import Any

from support import sockmon_stream

BLOCK = 2**16
DEEP = "[" * 200_000
ZEROS = b"\0" * BLOCK


def lines(message: Callable[[int], object]) -> Iterator[bytes]:
    """Yields messages without end, many at a time."""
    for first in count(0, 1000):
        yield b"".join(
            json.dumps(message(number)).encode() + b"\n" for number in range(first, first + 1000)
        )


# By lie: whether the agent says hello first, and what the host sends then
EVER: dict[str, tuple[bool, Callable[[], Iterator[bytes]]]] = {
    "no newline": (False, lambda: repeat(b"x" * BLOCK)),
    "no newline in a message": (False, lambda: chain([b'{"'], repeat(b"x" * BLOCK))),
    "lines of a login": (False, lambda: repeat(b"x\n" * (BLOCK // 2))),
    "no newline after hello": (True, lambda: repeat(b"x" * BLOCK)),
    "zeros": (True, lambda: repeat(ZEROS)),
    "replies": (
        True,
        lambda: lines(lambda number: {"reply": number + 10**6, "commands": ["x" * 50]}),
    ),
    "hellos": (True, lambda: lines(lambda number: {"hello": {"pid": number}})),
    "deep message": (True, lambda: iter([f'{{"beat": {DEEP}\n'.encode()])),
    "deep hello": (False, lambda: iter([f'{{"hello": {DEEP}\n'.encode()])),
    "refused 5": (False, lambda: iter([b'{"refused": 5}\n'])),
    "large hello": (
        False,
        lambda: iter(
            [json.dumps({"hello": {"restored": [["x", None]] * 60_000}}).encode() + b"\n"]
        ),
    ),
    "hangs": (False, lambda: iter([])),
}


@dataclass(frozen=True)
class CommandLie:
    """Describes a lie about some commands: `about` chooses them, `output` is what they write,
    `status` how they end.
    """

    about: Callable[[Sequence[str]], bool]
    output: Callable[[], Iterator[bytes]]
    stream: str = "stdout"
    status: int = 0


def named(*words: str) -> Callable[[Sequence[str]], bool]:
    """Returns whether all words occur in a command's line."""
    return lambda argv: all(word in " ".join(argv) for word in words)


def recording(argv: Sequence[str]) -> bool:
    """Returns whether a command is ccmix-sockmon's, to record a run."""
    return argv[0].endswith("ccmix-sockmon") and "--tree" in " ".join(argv)


def by_ss(argv: Sequence[str]) -> bool:
    return argv[0] == "ss"


def stream(records: Iterator[bytes]) -> Iterator[bytes]:
    """Yields a stream of ccmix-sockmon that is a little shorter than what a run may have."""
    text = b"ticks_per_s=100\npage_bytes=4096\nsockets.0=\ndevice.0=/eth0\ncounters.0=\n"
    yield sockmon_stream.header(text)
    sent = 0
    while sent < STREAM_BYTES:
        data = b"".join(itertools.islice(records, 10))
        sent += len(data)
        yield data


def processes() -> Iterator[bytes]:
    for number in itertools.count():
        body = struct.pack("<IIIIQ24s", number, number, 1, 0, 0, b"x")
        yield sockmon_stream.record(sockmon_stream.PROCESS, body)


def sockets() -> Iterator[bytes]:
    """Yields samples of a thousand sockets, which are introduced first."""
    for number in range(1000):
        yield sockmon_stream.socket_identity(number)
    rows = sockmon_stream.sockets(
        [sockmon_stream.socket_row(number, info=LEAST_INFO) for number in range(1000)],
        info=LEAST_INFO,
    )
    yield from itertools.repeat(rows)


def bbr_states() -> Iterator[bytes]:
    """Yields states of a thousand sockets of BBR, which are sampled once."""
    yield from itertools.islice(sockets(), 1001)
    yield from itertools.repeat(STATES)


def sockets_with_bbr_states() -> Iterator[bytes]:
    """Yields samples of a thousand sockets of BBR, each with their states."""
    records = sockets()
    yield from itertools.islice(records, 1000)  # their identities
    for rows in records:
        yield rows
        yield STATES


STATES = sockmon_stream.sample(
    sockmon_stream.BBR, [sockmon_stream.bbr_row(number) for number in range(1000)]
)
NO_CPU = sockmon_stream.sample(sockmon_stream.CPU, [], row_bytes=88)
CPUS = sockmon_stream.sample(
    sockmon_stream.CPU, [struct.pack("<II10Q", n, 0, *range(10)) for n in range(1000)]
)
NOTE = sockmon_stream.record(sockmon_stream.NOTE, b"x")
STREAM_BYTES = 16_000_000
LEAST_INFO = 104
SOCKET_LINE = b"0 0 10.0.0.1:1 10.0.0.2:2\n"
PROCESSORS = b"".join(b"cpu%d 0 0 0 0 0 0 0 0\n" % number for number in range(10_000))
WITHOUT_SOCKMON = {
    "sockets by ss",
    "a line of ss",
    "lines of ss that end otherwise",
    "processors by /proc",
}
WIDE = b"[]," * 1000
RESULT = b'{"start":{},"end":{},"intervals":['
COMMANDS: dict[str, CommandLie] = {
    "output": CommandLie(named("nproc"), lambda: repeat(ZEROS)),
    "standard error": CommandLie(named("nproc"), lambda: repeat(b"x\n" * (BLOCK // 2)), "stderr"),
    "file": CommandLie(named("cat --", "osrelease"), lambda: repeat(b"x " * (BLOCK // 2))),
    "netstat": CommandLie(named("netstat"), lambda: iter([b"\1" * 990_000])),
    "ping": CommandLie(lambda argv: argv[0] == "ping", lambda: iter([b"time=1 " * 500_000])),
    "words of ping": CommandLie(lambda argv: argv[0] == "ping", lambda: iter([b"ab " * 1_300_000])),
    "deep tc": CommandLie(
        lambda argv: argv[:3] == ["tc", "-s", "-j"], lambda: iter([DEEP.encode()])
    ),
    "wide tc": CommandLie(
        lambda argv: argv[:3] == ["tc", "-s", "-j"], lambda: iter([b"[" + WIDE * 1300 + b"1]"])
    ),
    "output of the traffic": CommandLie(named("sh -c", "touch"), lambda: repeat(ZEROS)),
    "errors of the traffic": CommandLie(
        named("sh -c", "touch"), lambda: repeat(b"x\n" * (BLOCK // 2)), "stderr"
    ),
    "wide result": CommandLie(named("sh -c", "touch"), lambda: chain([RESULT], repeat(WIDE, 2800))),
    "wide result that is read": CommandLie(
        named("sh -c", "touch"), lambda: chain([RESULT], repeat(WIDE, 1300), [b"1]}"])
    ),
    "deep result": CommandLie(named("sh -c", "touch"), lambda: iter([RESULT + DEEP.encode()])),
    "capture": CommandLie(named("cat --", "capture.pcap.zst"), lambda: repeat(ZEROS)),
    "stream of zeros": CommandLie(recording, lambda: repeat(ZEROS)),
    "stream of notes": CommandLie(recording, lambda: stream(repeat(NOTE))),
    "stream of empty samples": CommandLie(recording, lambda: stream(repeat(NO_CPU))),
    "stream of processors": CommandLie(recording, lambda: stream(repeat(CPUS))),
    "stream of processes": CommandLie(recording, lambda: stream(processes())),
    "stream of sockets": CommandLie(recording, lambda: stream(sockets())),
    "stream of BBR's states": CommandLie(recording, lambda: stream(bbr_states())),
    "stream of sockets with BBR's states": CommandLie(
        recording, lambda: stream(sockets_with_bbr_states())
    ),
    "sockets by ss": CommandLie(by_ss, lambda: iter([SOCKET_LINE * 150_000])),
    "a line of ss": CommandLie(by_ss, lambda: iter([SOCKET_LINE[:-1] + b" a:1" * 950_000])),
    "lines of ss that end otherwise": CommandLie(
        by_ss, lambda: iter([SOCKET_LINE.replace(b"\n", b"\f") * 150_000])
    ),
    "processors by /proc": CommandLie(
        lambda argv: [*argv] == ["cat", "/proc/stat"], lambda: iter([PROCESSORS * 16])
    ),
}


class LyingHost:
    """Passes messages on between a controller and its agent, and lies."""

    def __init__(self, lie: str, namespace: str, command: str) -> None:
        self._lie = lie
        self._writing = threading.Lock()
        self._source_bytes = int(re.findall(r"read\((\d+)\)", command)[0])
        argv = ["ip", "netns", "exec", namespace, "sh", "-c", command]
        self._agent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def serve(self) -> None:
        threading.Thread(target=self._to_agent, daemon=True).start()
        assert self._agent.stdout
        if self._lie == "banners":
            while True:
                sys.stderr.write("x" * 70 + "\n")
        if self._lie == "deaf":
            threading.Thread(target=self._beat, daemon=True).start()
        says_hello, what = EVER.get(self._lie, (True, None))
        for line in self._agent.stdout:
            if says_hello:
                self._send(line)
            if what:
                for data in what():
                    self._send(data)
                threading.Event().wait()

    def _to_agent(self) -> None:
        assert self._agent.stdin
        self._agent.stdin.write(sys.stdin.buffer.read(self._source_bytes))
        for line in iter(
            partial(sys.stdin.buffer.readline, BLOCK if self._lie == "deaf" else -1), b""
        ):
            if not line.endswith(b"\n"):
                threading.Event().wait()  # it reads no more of a program that ccmix puts there
            message: dict[str, Any] = json.loads(line)
            argv = message.get("argv", [""])
            if self._lie in WITHOUT_SOCKMON and argv[0].endswith("ccmix-sockmon"):
                self._end(message["id"], 1)
            elif (
                self._lie in COMMANDS
                and message.get("op") == "start"
                and COMMANDS[self._lie].about(argv)
            ):
                threading.Thread(target=self._lie_about, args=(message["id"],), daemon=True).start()
            else:
                self._agent.stdin.write(line)
                self._agent.stdin.flush()
        self._agent.stdin.close()

    def _beat(self) -> None:
        while True:
            time.sleep(10)
            self._send(b'{"beat": true}\n')

    def _lie_about(self, number: int) -> None:
        lie = COMMANDS[self._lie]
        for data in lie.output():
            for at in range(0, len(data), BLOCK):
                part = base64.b64encode(data[at : at + BLOCK]).decode()
                self._send(json.dumps({"id": number, lie.stream: part}).encode() + b"\n")
        self._end(number, lie.status)

    def _end(self, number: int, status: int) -> None:
        for message in ({"id": number, "exit": status}, {"id": number, "gone": True, "left": []}):
            self._send(json.dumps(message).encode() + b"\n")

    def _send(self, data: bytes) -> None:
        with self._writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    LyingHost(sys.argv[1], sys.argv[2], sys.argv[-1]).serve()
