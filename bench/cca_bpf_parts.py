#!/usr/bin/env python3
"""Show where the time of bbr2 and bbr3 goes as BPF programs on this machine's kernel.

    sudo .venv/bin/python bench/cca_bpf_parts.py [--seconds N] [--rate HZ] [--flows N]
        [--loader PROGRAM]

perf samples the processors while flows run over a veth with 100 Mbit/s. Prints the share of the
samples in the hook that handles an ACK: in the kernel's helper that finds a socket's state, and in
the programs by their source file. Needs the package linux-perf.
"""

import argparse
import bisect
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.cca_flows import linked, run, transfer
from ccmix.tools import cache_folder, find

REPOSITORY = Path(__file__).resolve().parents[1]
HELPER = "bpf_sk_storage_get"
PARTS = {
    HELPER: "finding the state (the kernel's helper)",
    "bbr.bpf.c": "reading from and writing to the socket",
    "bbr_ring.h": "the ring of what was in flight",
    "bbr.c": "the rate sample",
    "bbr_model.c": "the model",
    "bbr_congestion.c": "losses and bounds",
    "bbr_phases.c": "phases",
    "bbr_control.c": "cwnd and pacing rate",
}


class Places:
    """Returns the part to which the code at an address belongs."""

    def __init__(self, lines: Iterable[str]) -> None:
        begins: list[tuple[int, str | None]] = [*helper()]
        for line in lines:
            kind, address, what = line.split()
            if kind == "function":
                begins.append((int(address) + int(what), None))
            else:
                begins.append((int(address), Path(what).name))
        # where a function begins at another's end, the line counts
        begins.sort(key=lambda begin: (begin[0], begin[1] is not None))
        self._addresses = [address for address, _ in begins]
        self._parts = [part for _, part in begins]

    def part(self, address: int) -> str | None:
        index = bisect.bisect_right(self._addresses, address)
        return self._parts[index - 1] if index else None


def helper() -> Iterable[tuple[int, str | None]]:
    """Yields the first and the last address of the helper."""
    symbols = [line.split()[:3] for line in Path("/proc/kallsyms").read_text().splitlines()]
    addresses = sorted(int(address, 16) for address, kind, _ in symbols if kind in "tT")
    (begin,) = (int(address, 16) for address, _, name in symbols if name == HELPER)
    yield begin, HELPER
    yield next(address for address in addresses if address > begin), None


def build(folder: Path) -> Path:
    libbpf = max((cache_folder() / "cca").glob("libbpf-*"), key=lambda path: path.stat().st_mtime)
    source = REPOSITORY / "bench" / "cca_bpf" / "lines.c"
    argv: list[str | Path] = [
        "gcc",
        "-O2",
        "-o",
        folder / "lines",
        f"-I{libbpf}/include",
        source,
        libbpf / "libbpf.a",
        "-lelf",
        "-lz",
    ]
    subprocess.run(argv, check=True)
    return folder / "lines"


def sampled(folder: Path, cca: str, flows: int, seconds: int, rate: int) -> list[int]:
    """Sends while perf samples, and returns the addresses of the samples."""
    data = str(folder / "samples")
    options = ("-q", "-a", "-e", "cpu-clock:k", "-F", str(rate), "-o", data)
    with subprocess.Popen(["perf", "record", *options, "--", "sleep", str(seconds)]) as perf:
        transfer([cca], seconds, flows)
        perf.wait()
    text = subprocess.run(
        ["perf", "script", "-i", data, "-F", "ip"], check=True, stdout=subprocess.PIPE, text=True
    )
    return [int(word, 16) for word in text.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=int, default=30, help="duration for each CCA (default: 30)"
    )
    parser.add_argument("--rate", type=int, default=15000, help="samples a second (default: 15000)")
    parser.add_argument("--flows", type=int, default=1, help="flows at the same time (default: 1)")
    parser.add_argument("--loader", type=Path, help="another ccmix-cca than this checkout's")
    options = parser.parse_args()
    loader = str(options.loader or find("ccmix-cca", "CCMIX_CCA", "ccmix-cca"))
    print(
        f"{options.flows} flows; Linux {os.uname().release}; load average "
        f"{os.getloadavg()[0]:.1f}\n"
    )
    print("| CCA | samples | part | share |\n|---|--:|---|--:|")
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as name:
        lines = build(Path(name))
        with linked("tbf", "rate", "100mbit", "burst", "10k", "limit", "500k"):
            for cca in ("bbr2", "bbr3"):
                run(loader, "load", cca)
                try:
                    told = subprocess.run(
                        [lines, "bbr_ack"], check=True, stdout=subprocess.PIPE, text=True
                    ).stdout
                    addresses = sampled(
                        Path(name), cca, options.flows, options.seconds, options.rate
                    )
                finally:
                    run(loader, "unload", cca)
                places = Places(told.splitlines())
                parts = Counter(
                    PARTS.get(part, "other")
                    for address in addresses
                    if (part := places.part(address))
                )
                for part, count in parts.most_common():
                    print(f"| {cca} | {count} | {part} | {count / parts.total():.0%} |", flush=True)


if __name__ == "__main__":
    main()
