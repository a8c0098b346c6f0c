#!/usr/bin/env python3
"""Measure the patched iperf3 against the same version without the patches, in turn, over 127.0.0.1.

    bench/iperf3.py [--rounds N] [--seconds N] [--streams N[,N]...]

Each round runs each of them twice: in a random order, and then in the reverse of it, so that what
changes steadily hits all of them alike. Client and server are of one kind, write JSON with
intervals of 100 ms, and have a processor each. Printed are medians of the ratios within a round,
patched to stock, with the middle half of them in brackets: of the received bits per second, and of
the processor time (user and system, of both processes) per received byte. A ratio of a kind to
itself (stock to stock) shows what the machine's noise makes of nothing.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "iperf3-patch" / "build"


@dataclass(frozen=True)
class Kind:
    name: str
    binary: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    received_bytes: float
    seconds: float
    cpu_s: float

    def __add__(self, other: "Result") -> "Result":
        return Result(
            self.received_bytes + other.received_bytes,
            self.seconds + other.seconds,
            self.cpu_s + other.cpu_s,
        )

    @property
    def goodput_bps(self) -> float:
        return self.received_bytes * 8 / self.seconds

    @property
    def cpu_s_per_gb(self) -> float:
        return self.cpu_s / self.received_bytes * 1e9


def finish(process: subprocess.Popen[bytes], name: str) -> float:
    """Waits for a process; returns its processor time in seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench/iperf3.py: the {name} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def run(kind: Kind, streams: int, seconds: int) -> Result:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    common = ["-J", "-i", "0.1", "-p", str(port), *kind.arguments]
    cpus = sorted(os.sched_getaffinity(0))
    pins = [("taskset", "-c", str(cpus[n % len(cpus)])) for n in range(2)]
    server = subprocess.Popen(
        [*pins[0], kind.binary, "-4", "-s", "-1", *common], stdout=subprocess.DEVNULL
    )
    table = Path(f"/proc/{server.pid}/net/tcp")
    while f":{port:04X} 00000000:0000 0A" not in table.read_text():
        time.sleep(0.005)
    argv = [
        *pins[1],
        kind.binary,
        "-c",
        "127.0.0.1",
        "-t",
        str(seconds),
        "-P",
        str(streams),
        *common,
    ]
    client = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert client.stdout is not None
    output = client.stdout.read()
    cpu_s = finish(client, "client") + finish(server, "server")
    received = json.loads(output)["end"]["sum_received"]
    return Result(received["bytes"], received["seconds"], cpu_s)


def median(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} [{low:.3f} {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--streams", default="1,16")
    options = parser.parse_args()

    def build(*arguments: str) -> str:
        return subprocess.run(
            [BUILD, *arguments], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    stock = build("--stock")
    kinds = [
        Kind("stock", stock),
        Kind("stock again", stock),
        Kind("patched", build()),
        Kind("patched --tcp-info", build(), ("--tcp-info",)),
    ]
    print(
        f"{'streams':7}  {'patched to stock':18}  {'goodput':19}  {'CPU time per byte':19}  stock"
    )
    for streams in map(int, options.streams.split(",")):
        rounds: list[dict[str, Result]] = []
        for _ in range(options.rounds):
            order = random.sample(kinds, len(kinds))
            first = {k.name: run(k, streams, options.seconds) for k in order}
            rounds.append(
                {k.name: first[k.name] + run(k, streams, options.seconds) for k in reversed(order)}
            )
        stock_gbps = statistics.median(r["stock"].goodput_bps for r in rounds) / 1e9
        stock_cpu_s = statistics.median(r["stock"].cpu_s_per_gb for r in rounds)
        for kind in kinds[1:]:
            goodput = median([r[kind.name].goodput_bps / r["stock"].goodput_bps for r in rounds])
            cpu = median([r[kind.name].cpu_s_per_gb / r["stock"].cpu_s_per_gb for r in rounds])
            base = f"{stock_gbps:.1f} Gbit/s, {stock_cpu_s:.3f} s/GB"
            print(f"{streams:7}  {kind.name:18}  {goodput}  {cpu}  {base}", flush=True)


if __name__ == "__main__":
    main()
