#!/usr/bin/env python3
"""Measure the goodput of bbr2 and bbr3 as BPF programs on this machine's kernel, compared with its
cubic and bbr.

    sudo .venv/bin/python bench/cca_bpf_goodput.py [--rounds N] [--seconds N] [--loader PROGRAM]

Runs one flow at a time between two network namespaces; the congestion controls take turns, once a
round. The paths are veths with a router of 100 Mbit/s and a buffer of 60 kB (tbf) between them, a
plain veth, and loopback. Then a flow of each competes with a cubic flow at 100 Mbit/s, for four
times as long. Prints medians of the rounds: goodput with its minimum and maximum, the share of
retransmitted segments, and the RTT that TCP measures.
"""

import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.cca_flows import (
    ADDRESSES,
    RECEIVER,
    SENDER,
    linked,
    options_of_turns,
    routed,
    run,
    transfer,
)

LOADED = ("bbr2", "bbr3")
CCAS = ("cubic", "bbr", *LOADED)


def bottleneck(buffer: str = "60k") -> AbstractContextManager[None]:
    return routed("tbf", "rate", "100mbit", "burst", "10k", "limit", buffer)


@dataclass(frozen=True)
class GoodputPath:
    name: str
    made: Callable[[], AbstractContextManager[None]] = linked
    server: str = RECEIVER
    address: str = ADDRESSES[RECEIVER]


PATHS = (
    GoodputPath("100 Mbit/s, 60 kB", bottleneck),
    GoodputPath("plain veth"),
    GoodputPath("loopback", server=SENDER, address="127.0.0.1"),
)


@dataclass(frozen=True)
class Flow:
    goodput_bps: float
    resent: float
    rtt_ms: float


def flow_of(result: dict[str, Any]) -> Flow:
    """Reads iperf3's JSON. Segments on loopback are larger, so the socket reports their size."""
    sender = result["end"]["streams"][0]["sender"]
    segments = sender["bytes"] / result["start"]["tcp_mss_default"]
    goodput = result["end"]["sum_received"]["bits_per_second"]
    return Flow(goodput, sender["retransmits"] / segments, sender["mean_rtt"] / 1e3)


@contextmanager
def loaded(loader: Path) -> Iterator[None]:
    for cca in LOADED:
        run(str(loader), "load", cca)
    try:
        yield
    finally:
        for cca in LOADED:
            run(str(loader), "unload", cca)


def alone(path: GoodputPath, rounds: int, seconds: int) -> dict[str, list[Flow]]:
    flows: dict[str, list[Flow]] = {cca: [] for cca in CCAS}
    with path.made():
        for _ in range(rounds):
            for cca in CCAS:
                (result,) = transfer([cca], seconds, server=path.server, address=path.address)
                flows[cca].append(flow_of(result))
    return flows


def beside_cubic(rounds: int, seconds: int) -> dict[str, list[tuple[Flow, Flow]]]:
    pairs: dict[str, list[tuple[Flow, Flow]]] = {cca: [] for cca in CCAS}
    with bottleneck():
        for _ in range(rounds):
            for cca in CCAS:
                one, cubic = transfer([cca, "cubic"], seconds)
                pairs[cca].append((flow_of(one), flow_of(cubic)))
    return pairs


def goodput(flows: Sequence[Flow]) -> str:
    """Returns the median, the minimum and the maximum, in Mbit/s."""
    values = [flow.goodput_bps / 1e6 for flow in flows]
    digits = 0 if max(values) > 1000 else 1
    return (
        f"{statistics.median(values):.{digits}f} | {min(values):.{digits}f} to "
        f"{max(values):.{digits}f}"
    )


def resent(flows: Sequence[Flow]) -> str:
    return f"{statistics.median(flow.resent for flow in flows):.2%}"


def rtt(flows: Sequence[Flow]) -> str:
    return f"{statistics.median(flow.rtt_ms for flow in flows):.2f}"


def main() -> None:
    options = options_of_turns(__doc__, seconds=4)
    with loaded(options.loader):
        print(
            f"{options.rounds} rounds; Linux {os.uname().release}; load average "
            f"{os.getloadavg()[0]:.1f}\n"
        )
        print(
            "| path | CCA | goodput (Mbit/s) | least to greatest | sent again | RTT (ms) "
            "|\n|---|---|--:|--:|--:|--:|"
        )
        for path in PATHS:
            for cca, flows in alone(path, options.rounds, options.seconds).items():
                print(
                    f"| {path.name} | {cca} | {goodput(flows)} | {resent(flows)} | {rtt(flows)} |",
                    flush=True,
                )
        print(
            "\n| competing with one cubic | goodput (Mbit/s) | least to greatest | sent again | "
            "cubic's | sent again |"
        )
        print("|---|--:|--:|--:|--:|--:|")
        for cca, pairs in beside_cubic(options.rounds, 4 * options.seconds).items():
            own, cubic = zip(*pairs, strict=True)
            of_cubic = goodput(cubic).partition(" | ")[0]
            print(
                f"| {cca} | {goodput(own)} | {resent(own)} | {of_cubic} | {resent(cubic)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
