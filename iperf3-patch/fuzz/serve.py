#!/usr/bin/env python3
"""See whether a server that hostile clients talk to keeps serving, and keeps its descriptors,
threads and memory.

    iperf3-patch/fuzz/serve.py [--talks N] [--seed N] [--binary PATH] [--json] [--growth KIB]

It starts one server, makes talks of all kinds in turn, and after every tenth talk an ordinary test.
It compares the server before and after the talks. Without --binary, `iperf3-patch/build` makes one;
--json starts the server with -J. Exit status: 0 if descriptors and threads are as many as before,
memory grows by less than --growth (by default 1 MiB) after a tenth of the talks, and every ordinary
test is served at once; 1 otherwise.
"""

import argparse
import contextlib
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARAM_EXCHANGE, CREATE_STREAMS, TEST_START, TEST_RUNNING, TEST_END, EXCHANGE_RESULTS = (
    9,
    10,
    1,
    2,
    4,
    13,
)
COOKIE = b"hostile-hostile-hostile-hostile-host\0"
UDP_CONNECT_MSG = struct.pack("=I", 0x36373839)
TIMEOUT_S = 20.0
ORDINARY_EVERY = 10
ORDINARY_ENDS_WITHIN_S = 120.0
TRIES = 3
FREED_WITHIN_S = 30.0


class Talk:
    """Holds a control connection, and the streams that belong to it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []
        self.control = self._connect()

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        for s in self._sockets:
            s.close()

    def _connect(self) -> socket.socket:
        s = socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S)
        self._sockets.append(s)
        return s

    def send(self, value: Any) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.control.sendall(struct.pack("!I", len(data)) + data)

    def state(self, wanted: int) -> None:
        """Reads the server's next state; a ConnectionError says that it is another one."""
        data = self.control.recv(1)
        if data != bytes([wanted]):
            raise ConnectionError(f"the server sent {data!r}")

    def begin(self, **parameters: Any) -> None:
        """Goes as far as the server's answer to the parameters."""
        self.control.sendall(COOKIE)
        self.state(PARAM_EXCHANGE)
        usual = {
            "omit": 0,
            "time": 1,
            "num": 0,
            "blockcount": 0,
            "parallel": 1,
            "len": 1000,
            "pacing_timer": 1000,
        }
        self.send(usual | ({} if "udp" in parameters else {"tcp": True}) | parameters)
        self.state(CREATE_STREAMS)

    def tcp(self, cookie: bytes = COOKIE) -> socket.socket:
        s = self._connect()
        s.sendall(cookie)
        return s

    def udp(self, answered: bool = True) -> socket.socket:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sockets.append(s)
        s.settimeout(TIMEOUT_S)
        s.connect(("127.0.0.1", self._port))
        s.send(UDP_CONNECT_MSG)
        if answered:
            s.recv(4)
        return s

    def run(self) -> None:
        self.state(TEST_START)
        self.state(TEST_RUNNING)

    def reset(self) -> None:
        """Ends the control connection by a RST, as a client does that is killed with
        data unread.
        """
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.control.close()


Kind = Callable[[Talk, random.Random], None]


def hangs_up(talk: Talk, _: random.Random) -> None:
    talk.control.close()


def resets(talk: Talk, _: random.Random) -> None:
    talk.control.sendall(COOKIE)
    talk.state(PARAM_EXCHANGE)
    talk.reset()


def has_half_a_cookie(talk: Talk, random_: random.Random) -> None:
    talk.control.sendall(COOKIE[: random_.randint(1, 36)])


def sends_noise(talk: Talk, random_: random.Random) -> None:
    talk.control.sendall(random_.randbytes(random_.randint(1, 5000)))


def announces_too_much(talk: Talk, _: random.Random) -> None:
    talk.control.sendall(COOKIE)
    talk.state(PARAM_EXCHANGE)
    talk.control.sendall(struct.pack("!I", 0xFFFFFFF0) + b"{")


def sends_bad_parameters(talk: Talk, random_: random.Random) -> None:
    talk.control.sendall(COOKIE)
    talk.state(PARAM_EXCHANGE)
    talk.send(
        random_.choice(
            [b"null", b"[]", b"{", b"7", b'{"tcp": 1}', b'{"len": "x"}', b"\xff\xfe", b"[" * 500]
        )
    )


def asks_udp_for_a_bad_length(talk: Talk, random_: random.Random) -> None:
    talk.begin(udp=True, len=random_.choice((-1, -131072, 1, 2**31 - 1)))
    talk.udp()
    talk.run()


def asks_tcp_for_a_bad_length(talk: Talk, random_: random.Random) -> None:
    talk.begin(len=random_.choice((-1, 0, -(2**31), 2**30)))
    talk.tcp()
    talk.run()


def asks_for_a_bad_number_of_streams(talk: Talk, random_: random.Random) -> None:
    talk.begin(parallel=random_.choice((-1, 129, 5000)))
    talk.tcp()


def asks_for_a_bad_time(talk: Talk, random_: random.Random) -> None:
    talk.begin(**{random_.choice(("time", "omit")): random_.choice((-50, -86400, 2**31 - 1))})
    talk.tcp()
    talk.run()


def asks_for_a_bad_option(talk: Talk, random_: random.Random) -> None:
    options: list[dict[str, Any]] = [
        {"MSS": 1},
        {"window": 2**30},
        {"TOS": 1000},
        {"nodelay": True},
        {"server_affinity": 100000},
    ]
    talk.begin(**random_.choice(options))
    talk.tcp()
    talk.run()


def asks_udp_for_a_bad_option(talk: Talk, random_: random.Random) -> None:
    options: list[dict[str, Any]] = [
        {"window": 2**30},
        {"TOS": 1000},
        {"dont_fragment": 7},
        {"parallel": 0},
    ]
    talk.begin(udp=True, **random_.choice(options))
    talk.udp(answered=False)
    talk.run()


def leaves_before_its_streams(talk: Talk, random_: random.Random) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"udp": True},
        {"reverse": True},
        {"window": 50000},
        {"mptcp": True},
    ]
    talk.begin(parallel=4, **random_.choice(options))


def leaves_between_its_tcp_streams(talk: Talk, random_: random.Random) -> None:
    talk.begin(
        parallel=4,
        **random_.choice([{}, {"reverse": True}, {"bidirectional": True}, {"nodelay": True}]),
    )
    for _ in range(random_.randint(1, 3)):
        talk.tcp()


def leaves_between_its_udp_streams(talk: Talk, random_: random.Random) -> None:
    talk.begin(
        udp=True, parallel=4, **random_.choice([{}, {"reverse": True}, {"bidirectional": True}])
    )
    for _ in range(random_.randint(1, 3)):
        talk.udp()


def leaves_a_udp_stream_unanswered(talk: Talk, random_: random.Random) -> None:
    talk.begin(udp=True, parallel=4)
    for _ in range(random_.randint(1, 4)):
        talk.udp(answered=False).close()


def leaves_a_running_tcp_test(talk: Talk, random_: random.Random) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"reverse": True},
        {"skip_rx_copy": 1},
        {"congestion": "reno:1,-"},
    ]
    talk.begin(parallel=2, **random_.choice(options))
    for _ in range(2):
        talk.tcp()
    talk.run()
    if random_.random() < 0.5:
        talk.reset()


def leaves_a_running_udp_test(talk: Talk, random_: random.Random) -> None:
    talk.begin(
        udp=True, parallel=2, **random_.choice([{}, {"reverse": True, "bandwidth": 1000000}])
    )
    streams = [talk.udp() for _ in range(2)]
    talk.run()
    for s in streams:
        s.send(random_.randbytes(random_.randint(0, 2000)))


def brings_strangers_as_streams(talk: Talk, _: random.Random) -> None:
    talk.begin(parallel=2)
    talk.tcp(b"x" * len(COOKIE))
    talk.tcp()


def sends_a_wrong_state(talk: Talk, random_: random.Random) -> None:
    if random_.random() < 0.5:
        talk.begin(**random_.choice([{}, {"udp": True}, {"reverse": True}]))
    else:
        talk.begin()
        talk.tcp()
        talk.run()
    talk.control.sendall(
        bytes([random_.choice((TEST_START, CREATE_STREAMS, TEST_RUNNING, 12, 14, 16, 200))])
    )


def ends_before_it_began(talk: Talk, random_: random.Random) -> None:
    talk.begin(**random_.choice([{}, {"udp": True}]))
    talk.control.sendall(bytes([TEST_END]))
    talk.state(EXCHANGE_RESULTS)


def ends_twice(talk: Talk, _: random.Random) -> None:
    talk.begin()
    talk.tcp()
    talk.run()
    results = {
        "cpu_util_total": 1,
        "cpu_util_user": 1,
        "cpu_util_system": 1,
        "sender_has_retransmits": 1,
    }
    for _again in range(2):
        talk.control.sendall(bytes([TEST_END]))
        talk.send(results | {"streams": [], "congestion_used": "x" * 4000})


def sends_bad_results(talk: Talk, random_: random.Random) -> None:
    udp = random_.random() < 0.5
    talk.begin(
        **({"udp": True} if udp else {}),
        get_server_output=1,
        title="t" * 1000,
        congestion_used="u" * 1000,
    )
    (talk.udp if udp else talk.tcp)()
    talk.run()
    talk.control.sendall(bytes([TEST_END]))
    talk.state(EXCHANGE_RESULTS)
    talk.send(
        random_.choice([b"null", b"{", b'{"streams": 1}', b'{"streams": [{"id": 9}]}', b"[" * 500])
    )


KINDS: tuple[Kind, ...] = (
    hangs_up,
    resets,
    has_half_a_cookie,
    sends_noise,
    announces_too_much,
    sends_bad_parameters,
    asks_udp_for_a_bad_length,
    asks_tcp_for_a_bad_length,
    asks_for_a_bad_number_of_streams,
    asks_for_a_bad_time,
    asks_for_a_bad_option,
    asks_udp_for_a_bad_option,
    leaves_before_its_streams,
    leaves_between_its_tcp_streams,
    leaves_between_its_udp_streams,
    leaves_a_udp_stream_unanswered,
    leaves_a_running_tcp_test,
    leaves_a_running_udp_test,
    brings_strangers_as_streams,
    sends_a_wrong_state,
    ends_before_it_began,
    ends_twice,
    sends_bad_results,
)


@dataclass(frozen=True)
class Size:
    """Describes what a server holds; streams are those with a buffer, memory is in KiB."""

    descriptors: int
    streams: int
    threads: int
    memory: int


class Server:
    """Runs a server with its output in a file."""

    def __init__(self, binary: str, folder: Path, *arguments: str) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [binary, "-s", "-4", "-p", str(self.port), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def await_listening(self) -> None:
        table = Path(f"/proc/{self._process.pid}/net/tcp")
        while f":{self.port:04X} 00000000:0000 0A" not in table.read_text():
            if (status := self._process.poll()) is not None:
                raise ChildProcessError(f"the server ended with status {status}: {self.log()}")
            time.sleep(0.01)

    def size(self) -> Size:
        """Returns the memory and files of the server after a test; it has some seconds to free
        those of the test.
        """
        end = time.monotonic() + FREED_WITHIN_S
        while True:
            if (status := self._process.poll()) is not None:
                raise ChildProcessError(f"the server ended with status {status}: {self.log()}")
            size = self._size()
            if (size.threads == 1 and size.streams == 0) or time.monotonic() > end:
                return size
            time.sleep(0.05)

    def _size(self) -> Size:
        folder = Path(f"/proc/{self._process.pid}")
        descriptors = []
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                descriptors.append(str(link.readlink()))
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        streams = sum("/iperf3." in name for name in descriptors)
        return Size(
            len(descriptors), streams, int(status["Threads"]), int(status["VmRSS"].split()[0])
        )

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def ordinary(binary: str, port: int, udp: bool, after: str) -> int:
    """Makes an ordinary test after a kind of talk; returns the number of the try that was served, 0
    if none was.
    """
    arguments = ["-u", "-b", "0"] if udp else []
    for number in range(1, TRIES + 1):
        argv = [
            binary,
            "-c",
            "127.0.0.1",
            "-p",
            str(port),
            "-J",
            "-n",
            "64K",
            "-i",
            "0.1",
            *arguments,
        ]
        ended = subprocess.run(
            argv, capture_output=True, text=True, timeout=ORDINARY_ENDS_WITHIN_S, check=False
        )
        if ended.returncode == 0:
            return number
        error = json.loads(ended.stdout).get("error")
        print(f"an ordinary test after {after} failed at try {number}: {error}", file=sys.stderr)
    return 0


def talks(server: Server, count: int, random_: random.Random) -> Iterator[int]:
    """Makes talks of every kind in turn, and yields the number of each after it has ended."""
    for number in range(count):
        with contextlib.suppress(OSError), Talk(server.port) as talk:
            KINDS[number % len(KINDS)](talk, random_)
        yield number


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--talks", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--growth", type=int, default=1024)
    options = parser.parse_args()
    binary = options.binary
    if binary is None:
        build = Path(__file__).parents[1] / "build"
        binary = subprocess.run(
            [build], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    began = time.monotonic()
    tries: list[int] = []
    with tempfile.TemporaryDirectory(prefix="ccmix-serve-") as folder:
        server = Server(binary, Path(folder), *(["-J"] if options.json else []))
        try:
            server.await_listening()
            ordinary(binary, server.port, udp=False, after="nothing")
            first = settled = server.size()
            for number in talks(server, options.talks, random.Random(options.seed)):
                if (number + 1) % ORDINARY_EVERY == 0:
                    kind = KINDS[number % len(KINDS)].__name__
                    tries.append(ordinary(binary, server.port, len(tries) % 2 == 1, kind))
                if number == options.talks // 10:
                    settled = server.size()
            last = server.size()
            log = server.log()
        finally:
            server.stop()
    at_once = tries.count(1)
    print(
        f"{options.talks} talks of {len(KINDS)} kinds in {time.monotonic() - began:.0f} s:"
        f" descriptors {first.descriptors} to {last.descriptors}, threads {first.threads} to "
        f"{last.threads},"
        f" memory {first.memory} to {last.memory} KiB (after a tenth of the talks "
        f"{settled.memory} KiB),"
        f" {at_once} of {len(tries)} ordinary tests served at once, "
        f"{len(tries) - at_once - tries.count(0)} later"
    )
    faults = [line for line in log.splitlines() if "Sanitizer" in line or "runtime error" in line]
    print(*faults, sep="\n" if faults else "", end="")
    same = first.descriptors == last.descriptors and first.threads == last.threads
    return (
        0
        if same
        and not faults
        and at_once == len(tries)
        and last.memory - settled.memory < options.growth
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
