#!/usr/bin/env python3
"""Measure the probe ccmix-sockmon against ss, and its cost to the traffic that it watches.

    .venv/bin/python3 bench/sockmon.py [--rounds N] [--seconds N]

Measures everything in turn in each round, over 127.0.0.1. Prints medians over the rounds. For the
conversion and for processor time, it also prints the best round, because other work on the machine
only adds to them; for the goodput, the worst round.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ccmix.probes.stream.reader import read_stream

REPOSITORY = Path(__file__).resolve().parents[1]
SOCKETS, RATE_HZ, SS_RUNS = 64, 1000, 20
FLOWS, FLOW_RATE = 16, "40M"
SS = ("ss", "-tinmOH")
DEFAULT_CCA = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def build(tool: str) -> str:
    return subprocess.run(
        [REPOSITORY / tool / "build"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def cpu_s(argv: list[str], **more: object) -> float:
    """The processor time of a command, in seconds."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, **more)  # type: ignore[call-overload]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench/sockmon.py: {argv[0]} ended with status {process.returncode}")
    return float(usage.ru_utime + usage.ru_stime)


def has_programs(watch: list[str]) -> bool:
    """Whether ccmix-cca gives BPF programs to the commands that it starts, on this kernel and for
    this user."""
    done = subprocess.run(
        [*watch, "env"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    return "CCMIX_SOCKETS=" in done.stdout


@contextmanager
def connections(count: int) -> Iterator[int]:
    """Yields the port of connections of this process to itself, two sockets each, which have
    carried data."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(count)
        for _ in range(count):
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            server, _ = listener.accept()
            stack.enter_context(server)
            client.sendall(bytes(10_000))
            left = 10_000
            while left:
                left -= len(server.recv(left))
        yield int(listener.getsockname()[1])


def goodput_bps(iperf3: str, sockmon: str | None, seconds: int) -> float:
    """Goodput of paced flows, with the probe or without."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen(
        [iperf3, "-4", "-s", "-1", "-p", str(port)], stdout=subprocess.DEVNULL
    )
    table = Path(f"/proc/{server.pid}/net/tcp")
    while f":{port:04X} 00000000:0000 0A" not in table.read_text():
        time.sleep(0.005)
    argv = [sockmon or "", "--sockets", f"--port={port}", f"--rate={RATE_HZ}", "--output=/dev/null"]
    probe = subprocess.Popen(argv) if sockmon else None
    argv = [iperf3, "-c", "127.0.0.1", "-p", str(port), "-t", str(seconds), "-P", str(FLOWS), "-J"]
    client = subprocess.run([*argv, "--fq-rate", FLOW_RATE], check=True, stdout=subprocess.PIPE)
    server.wait()
    if probe:
        probe.terminate()
        probe.wait()
    return float(json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=4)
    options = parser.parse_args()
    sockmon, iperf3 = build("probes/sockmon"), build("iperf3-patch")
    watch = [build("cca/bpf"), "watch", "--"]
    by_bpf = has_programs(watch)
    per_sample, per_wake, per_ss, missed, relative, rows_per_s, rows_per_cpu_s = (
        [],
        [],
        [],
        [],
        [],
        [],
        [],
    )
    per_sample_by_bpf, share_by_bpf, start_s = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "stream"
        for _ in range(options.rounds):
            with connections(SOCKETS // 2) as port:
                argv = [
                    sockmon,
                    "--sockets",
                    f"--rate={RATE_HZ}",
                    f"--duration={options.seconds}",
                    f"--output={file}",
                ]
                nothing = [*argv, "--port=1"]  # no socket has it
                per_wake.append(cpu_s(nothing) / (RATE_HZ * options.seconds))
                if by_bpf:
                    start_s.append(cpu_s([*watch, "true"]))
                    spent_s = cpu_s([*watch, *argv, f"--port={port}"]) - start_s[-1]
                    stream = read_stream(file)
                    assert stream.report
                    per_sample_by_bpf.append(spent_s / stream.report["samples"])
                    share_by_bpf.append(stream.report["rows_by_bpf"] / stream.sockets.height)
                spent_s = cpu_s([*argv, f"--port={port}"])
                ss_filter = ["sport", "=", str(port), "or", "dport", "=", str(port)]
                per_ss.append(sum(cpu_s([*SS, *ss_filter]) for _ in range(SS_RUNS)) / SS_RUNS)
            begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
            stream = read_stream(file)
            stream.write(folder)
            rows_per_s.append(stream.sockets.height / (time.perf_counter() - begin_s))
            rows_per_cpu_s.append(stream.sockets.height / (time.process_time() - begin_cpu_s))
            assert stream.report
            per_sample.append(spent_s / stream.report["samples"])
            missed.append(
                stream.report["missed"] / (stream.report["samples"] + stream.report["missed"])
            )
            goodputs = {}
            for kind in random.sample([None, sockmon], 2):
                goodputs[kind] = goodput_bps(iperf3, kind, options.seconds)
            relative.append(goodputs[sockmon] / goodputs[None])
    core = [one * RATE_HZ for one in per_sample]  # were none missed
    ratio = [one / ss for one, ss in zip(per_sample, per_ss, strict=True)]
    ratio_by_bpf = [one / ss for one, ss in zip(per_sample_by_bpf, per_ss, strict=False)]
    median = statistics.median
    print(
        f"{options.rounds} rounds of {options.seconds} s; load average {os.getloadavg()[0]:.1f} "
        f"on {os.cpu_count()} cores; "
        f"sockets use {DEFAULT_CCA.read_text().strip()}"
    )
    print(f"{'':58}  {'median':>9}  {'best':>9}  goal")
    rows = [
        (
            f"{SOCKETS} sockets at {RATE_HZ} Hz: share of a core",
            core,
            min(core),
            "10% at most",
            "{:.1%}",
        ),
        ("samples missed", missed, min(missed), "", "{:.2%}"),
        (
            "processor time of a sample, us",
            [1e6 * s for s in per_sample],
            1e6 * min(per_sample),
            "",
            "{:.0f}",
        ),
        (
            "the same without sockets, us",
            [1e6 * s for s in per_wake],
            1e6 * min(per_wake),
            "",
            "{:.0f}",
        ),
        (
            f"processor time of {' '.join(SS)}, us",
            [1e6 * s for s in per_ss],
            1e6 * min(per_ss),
            "",
            "{:.0f}",
        ),
        ("a sample to a run of ss", ratio, min(ratio), "1/20 = 0.05 at most", "{:.3f}"),
        (
            f"goodput of {FLOWS} flows of {FLOW_RATE}, with to without",
            relative,
            min(relative),
            "0.99 at least",
            "{:.4f}",
        ),
        (
            "stream to Parquet, million rows a second",
            [r / 1e6 for r in rows_per_s],
            max(rows_per_s) / 1e6,
            "1",
            "{:.2f}",
        ),
        (
            "the same, a second of processor time",
            [r / 1e6 for r in rows_per_cpu_s],
            max(rows_per_cpu_s) / 1e6,
            "",
            "{:.2f}",
        ),
    ]
    if by_bpf:
        us = [1e6 * s for s in per_sample_by_bpf]
        rows[6:6] = [
            (
                "by BPF: share of the rows that netlink did not give",
                share_by_bpf,
                max(share_by_bpf),
                "",
                "{:.1%}",
            ),
            (
                "by BPF: share of a core",
                [u * RATE_HZ / 1e6 for u in us],
                min(us) * RATE_HZ / 1e6,
                "10% at most",
                "{:.1%}",
            ),
            ("by BPF: processor time of a sample, us", us, min(us), "", "{:.0f}"),
            (
                "by BPF: a sample to a run of ss",
                ratio_by_bpf,
                min(ratio_by_bpf),
                "1/20 = 0.05 at most",
                "{:.3f}",
            ),
            (
                "by BPF: loading the programs at the start, once, ms",
                [1e3 * s for s in start_s],
                1e3 * min(start_s),
                "",
                "{:.0f}",
            ),
        ]
    else:
        print("no values by BPF: ccmix-cca watch loads no programs for sockets here")
    for what, values, best, goal, form in rows:
        print(f"{what:58}  {form.format(median(values)):>9}  {form.format(best):>9}  {goal}")


if __name__ == "__main__":
    main()
