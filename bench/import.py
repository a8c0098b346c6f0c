#!/usr/bin/env python3
"""Measure how fast `ccmix import` reads logs of ss, in megabytes of text a second, compared with
the reader of single samples.

    .venv/bin/python bench/import.py --megabytes 200
    .venv/bin/python bench/import.py --rows 120000
        # instead: a table, and its report, in lines a second

The log is from ss -tinm, run each 0.1 s during 16 flows of iperf3 on loopback. Its samples are
repeated with later times and larger counters. Prints wall time and processor time, because wall
time is longer on a busy machine.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ccmix.importing import ss_logs
from ccmix.importing.ss_logs import read_samples
from ccmix.importing.values import ForeignRun, LeftOut
from ccmix.probes import sockets
from ccmix.terms import CCAS

GOAL = 50.0  # MB/s
PORT, STREAMS, SECONDS = 5377, 16, 5
SINGLE_BYTES = 2_000_000  # of text for the reader of single samples


def recorded() -> list[str]:
    """The output of ss, without its times."""
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", str(PORT)], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        argv = [
            "iperf3",
            "-c",
            "127.0.0.1",
            "-p",
            str(PORT),
            "-P",
            str(STREAMS),
            "-t",
            str(SECONDS),
            "-b",
            "50M",
        ]
        client = subprocess.Popen([*argv, "-C", "bbr"], stdout=subprocess.DEVNULL)
        found = []
        while client.poll() is None:
            told = ["ss", "-tinm", "dport", "=", str(PORT)]
            found.append(subprocess.run(told, capture_output=True, text=True, check=True).stdout)
            time.sleep(0.1)
        return [one for one in found if one.count("ESTAB") > STREAMS]
    finally:
        server.kill()
        server.wait()


def log(samples: list[str], size: float) -> Iterator[str]:
    """A log of about `size` bytes."""
    written, rounds = 0, 0
    while written < size:
        for number, sample in enumerate(samples):
            part = (
                f"# {1.7e9 + (rounds * len(samples) + number) / 10:.6f}\n{_later(sample, rounds)}"
            )
            written += len(part)
            yield part
        rounds += 1


def _later(sample: str, rounds: int) -> str:
    return re.sub(
        r"(bytes_acked|bytes_sent):(\d+)",
        lambda found: f"{found[1]}:{int(found[2]) + rounds * 10**9}",
        sample,
    )


def told(what: str, megabytes: float, begin: tuple[float, float]) -> float:
    """Prints the speeds since `begin`; returns the one by the wall clock."""
    wall, processor = (now - then for now, then in zip(clocks(), begin, strict=True))
    print(
        f"{what}: {megabytes / wall:.0f} MB/s of the wall clock, {megabytes / processor:.0f} MB "
        "a processor second"
    )
    return megabytes / wall


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def single_lines(text: str) -> list[str]:
    """Joins each socket's two lines, without its state."""
    joined = re.sub(r"\s*\n\t", "", text)
    lines = [
        line for line in joined.splitlines()[:-1] if line.startswith("ESTAB") and " rto:" in line
    ]
    return [line.partition(" ")[2] for line in lines]


def import_table(rows: int) -> None:
    """Imports a table and makes its report, as a user does, and prints the speeds."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place, "table.csv")
        with table.open("w") as out:
            out.write("dst,cca,streams,rtt_ms,goodput_gbps,retransmits\n")
            for row in range(rows):
                cca, streams = ("cubic", "bbr", "reno")[row // 20 % 3], (1, 2, 4, 8)[row // 60 % 4]
                out.write(
                    f"host{row % 20},{cca},{streams},{(5, 20, 50)[row // 240 % 3]},"
                    f"{1 + row % 999 / 125},{row % 7}\n"
                )
        outdir = Path(place, "out")
        for arguments in (
            ("import", table, "-o", outdir, "--src", "a"),
            ("report", outdir, "--format", "table", "-o", Path(place, "report")),
        ):
            begin = time.perf_counter()
            used = _used([Path(sys.executable).with_name("ccmix"), *arguments])
            wall_s, processor_s = time.perf_counter() - begin, used.ru_utime + used.ru_stime
            print(
                f"{arguments[0]}, {rows} lines: {wall_s:.1f} s of the wall clock, "
                f"{processor_s:.1f} s of the "
                f"processor ({used.ru_stime:.1f} s of them the kernel's), "
                f"{rows / processor_s:.0f} lines a processor "
                f"second, {used.ru_maxrss / 1e3:.0f} MB"
            )


def _used(argv: list[str | Path]) -> resource.struct_rusage:
    """Runs a command; returns its resource usage, including that of the processes for which it
    waited."""
    command = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(command.pid, 0)
    command.returncode = os.waitstatus_to_exitcode(status)
    if command.returncode:
        raise subprocess.CalledProcessError(command.returncode, argv)
    return used


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--rows", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.rows:
        import_table(arguments.rows)
        return 0
    megabytes = arguments.megabytes
    samples = recorded()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "ss.log")
        with file.open("w") as out:
            out.writelines(log(samples, megabytes * 1e6))
        size = file.stat().st_size / 1e6
        begin = clocks()
        table = read_samples(file, "log")
        assert not isinstance(table, LeftOut)
        rows = table.height
        told(f"{size:.0f} MB, {rows} samples of sockets, to a table", size, begin)
        begin = clocks()
        found = [one for one in ss_logs.read_log(file, "log") if isinstance(one, ForeignRun)]
        speed = told("to a run with its flows and intervals", size, begin)
        assert [one.streams for one in found] == [
            STREAMS + 1
        ]  # the control connection's counters grow here, too
        text = single_lines(file.read_text()[:SINGLE_BYTES])
        begin = clocks()
        for line in text:
            sockets.parse(line, CCAS)
        told("by the reader of single samples, to a list", sum(map(len, text)) / 1e6, begin)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"most memory {most:.0f} MB; goal {GOAL:g} MB/s: {'met' if speed >= GOAL else 'missed'}")
    return 0 if speed >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
