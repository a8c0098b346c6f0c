#!/usr/bin/env python3
"""Fuzz a real server with a client's parameters, streams and results, over real sockets.

    iperf3-patch/fuzz/talks.py [--seconds N] [--seed N] [--binary PATH]

Unlike the other targets, which coverage guides, this one has the server's sockets, threads and
states in it. Without
--binary, `iperf3-patch/build --sanitize` makes one. Exit status: 0 without a fault, 1 with one (the
input and the sanitizer's report are printed).
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
from pathlib import Path
from typing import Any

PARAM_EXCHANGE, CREATE_STREAMS, EXCHANGE_STREAMS, TEST_START, TEST_RUNNING = 9, 10, 17, 1, 2
TEST_END, EXCHANGE_RESULTS = 4, 13
TIMEOUT_S = 3.0

SPECS = [
    "cubic",
    "cubic,bbr",
    "-",
    "-,-",
    "cubic:12,bbr:4",
    "cubic:8@2.4G,bbr:8@1G+10s",
    "reno@1M",
    "reno+250ms",
    "cubic:3@50.5m+0.1s,-:1@1K",
    "nosuch:2,cubic",
    "cubic+86400s",
    "a:1000@1000T+86400",
]
PIECES = [
    ",",
    ":",
    "@",
    "+",
    "-",
    ".",
    "0",
    "1",
    "9" * 30,
    "1000",
    "1001",
    "K",
    "T",
    "ms",
    "s",
    "e9",
    "0x10",
    "nan",
    "inf",
    " ",
    "%s%n",
    "\\",
    '"',
    "é",
    "\x01",
    "x" * 15,
    "x" * 16,
    "x" * 400,
    "cubic",
    "," * 127,
    "a," * 200,
    "1e400",
]
NUMBERS = [0, 1, -1, 2, 3, 127, 128, 129, 1000, 65536, 0.5, 1e9]
# The values that a client sends for each of these keys. Other numbers end a test by themselves, or
# make it take memory and time, as upstream's server does for every client.
KEYS: dict[str, list[Any]] = {
    "parallel": [0, 1, 2, 3, 4, 128, 129, -1],
    "len": [1, 1000, 131072],
    "num": [0, 1, 1000000],
    "time": [0, 1, 2],
    "omit": [0, 1],
    "fqrate": [0, 1, 1000000],
    "skip_rx_copy": [0, 1],
}


def mutate_text(random_: random.Random, text: str) -> str:
    for _ in range(random_.choice((0, 1, 1, 2, 3, 8))):
        at = random_.randint(0, len(text))
        match random_.randrange(5):
            case 0:
                text = text[:at] + random_.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + random_.randint(1, 4) :]
            case 2:
                text = text[:at] + chr(random_.randint(1, 255)) + text[at + 1 :]
            case 3:
                text = text + "," + random_.choice(SPECS)
            case _:
                text = text[:at] + text[random_.randint(0, len(text)) :]
    return text.replace("\0", "")


def any_value(random_: random.Random) -> Any:
    return random_.choice(
        [
            random_.choice(NUMBERS),
            mutate_text(random_, random_.choice(SPECS)),
            True,
            None,
            [],
            {},
            [{}],
            "",
            -1e308,
        ]
    )


def parameters(random_: random.Random) -> dict[str, Any]:
    result: dict[str, Any] = {
        "tcp": True,
        "omit": 0,
        "time": 1,
        "num": 0,
        "blockcount": 0,
        "parallel": 2,
        "len": 1000,
    }
    result |= {"client_version": "3.20", "pacing_timer": 1000}
    for key in ("reverse", "bidirectional", "exchange_streams"):
        if random_.random() < 0.5:
            result[key] = True
    for key in ("congestion", "congestion_groups"):
        if random_.random() < 0.7:
            result[key] = mutate_text(random_, random_.choice(SPECS))
    for key, values in KEYS.items():
        if random_.random() < 0.15:
            result[key] = random_.choice(values)
    if random_.random() < 0.3:
        result[random_.choice(["congestion", "congestion_groups", "congestion_used", "title"])] = (
            any_value(random_)
        )
    return result


def mutate_streams(random_: random.Random, streams: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for stream in streams:
        for _ in range(random_.choice((0, 0, 1, 2))):
            stream[random_.choice([*stream])] = any_value(random_)
    random_.shuffle(streams)
    return streams


def labels(random_: random.Random, ports: list[tuple[int, int]]) -> dict[str, Any]:
    """Returns the labels of the streams that the client sends before the test."""
    streams = [
        {"congestion": "cubic", "group": number, "local_port": local, "remote_port": remote}
        for number, (local, remote) in enumerate(ports, 1)
    ]
    return {"streams": mutate_streams(random_, streams)}


def results(random_: random.Random, count: int) -> dict[str, Any]:
    streams = [
        {
            "id": number + 2 if number else 1,
            "bytes": 1000,
            "retransmits": 0,
            "jitter": 0,
            "errors": 0,
            "packets": 0,
            "start_time": 0,
            "end_time": 1,
        }
        for number in range(count)
    ]
    return {
        "cpu_util_total": 1,
        "cpu_util_user": 1,
        "cpu_util_system": 1,
        "sender_has_retransmits": 1,
        "streams": mutate_streams(random_, streams),
        "congestion_used": any_value(random_),
    }


def encode(random_: random.Random, value: Any) -> bytes:
    data = json.dumps(value).encode()
    if random_.random() < 0.05:
        at = random_.randrange(len(data))
        data = data[:at] + bytes([random_.randrange(256)]) + data[at + 1 :]
    return struct.pack("!I", len(data)) + data


def talk(random_: random.Random, port: int) -> bool:
    """Makes one test, as far as the server goes along. Returns whether that was as far as
    the results.
    """
    cookie = b"fuzzfuzzfuzzfuzzfuzzfuzzfuzzfuzzfuzz\0"
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            s = stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
            s.sendall(cookie)
            return s

        control = connect()

        def state() -> int:
            data = control.recv(1)
            if not data:
                raise ConnectionError("the server hung up")
            return data[0]

        def expect(wanted: int) -> None:
            if state() != wanted:
                raise ConnectionError("the server refused")

        def receive() -> None:
            (length,) = struct.unpack("!I", control.recv(4, socket.MSG_WAITALL))
            json.loads(control.recv(length, socket.MSG_WAITALL))

        expect(PARAM_EXCHANGE)
        asked = parameters(random_)
        control.sendall(encode(random_, asked))
        expect(CREATE_STREAMS)
        count = asked["parallel"] if isinstance(asked["parallel"], int) else 0
        count *= 2 if asked.get("bidirectional") else 1
        streams = [connect() for _ in range(max(0, min(count, 8)))]
        if len(streams) != count:
            return False
        if asked.get("exchange_streams"):
            expect(EXCHANGE_STREAMS)
            ports = [(s.getsockname()[1], s.getpeername()[1]) for s in streams]
            control.sendall(encode(random_, labels(random_, ports)))
            receive()
        expect(TEST_START)
        expect(TEST_RUNNING)
        for s in streams:
            s.setblocking(False)
            with contextlib.suppress(OSError):
                s.send(bytes(random_.choice((0, 1, 5000))))
        time.sleep(random_.choice((0, 0, 0, 0.05)))
        control.sendall(bytes([TEST_END]))
        expect(EXCHANGE_RESULTS)
        control.sendall(encode(random_, results(random_, len(streams))))
        receive()
        return True


class Server:
    """Runs a server until it dies, with its standard error in a file."""

    def __init__(self, binary: str, folder: Path, *arguments: str) -> None:
        self._log = folder / "server.log"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [binary, "-s", "-4", "-p", str(self.port), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def listens(self) -> bool:
        """Returns whether it takes connections again, after the last client has gone."""
        end = time.monotonic() + 4 * TIMEOUT_S
        table = Path(f"/proc/{self._process.pid}/net/tcp")
        while self._process.poll() is None and time.monotonic() < end:
            if f":{self.port:04X} 00000000:0000 0A" in table.read_text():
                return True
            time.sleep(0.002)
        return False

    def fault(self) -> str | None:
        """Returns the report of a sanitizer, or of a death; None without one."""
        log = self._log.read_text(errors="replace")
        if "Sanitizer" in log or "runtime error" in log:
            return log
        # upstream's server ends on purpose after five errors in a row
        if self._process.poll() is not None and self._process.returncode not in (0, 1):
            return f"the server ended with status {self._process.returncode}\n{log}"
        return None

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary")
    options = parser.parse_args()
    binary = options.binary
    if binary is None:
        build = Path(__file__).parents[1] / "build"
        binary = subprocess.run(
            [build, "--sanitize"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    random_ = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    talks = whole = servers = 0
    with tempfile.TemporaryDirectory(prefix="ccmix-fuzz-") as folder:
        while time.monotonic() < end:
            server = Server(
                binary,
                Path(folder),
                *random_.choice(((), ("-J",), ("--json-stream", "--tcp-info"))),
            )
            servers += 1
            try:
                for _ in range(200):
                    if time.monotonic() > end or not server.listens():
                        break
                    before = random_.getstate()
                    with contextlib.suppress(OSError, struct.error, ValueError):
                        whole += talk(random_, server.port)
                    talks += 1
                    if not server.alive() and (fault := server.fault()):
                        random_.setstate(before)
                        print(f"seed {options.seed}, talk {talks}: {parameters(random_)}\n{fault}")
                        return 1
                if fault := server.fault():
                    print(f"seed {options.seed}, by talk {talks}:\n{fault}")
                    return 1
            finally:
                server.stop()
    print(
        f"{talks} talks with {servers} servers, {whole} of them up to the results, in "
        f"{options.seconds:g} s: no fault"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
