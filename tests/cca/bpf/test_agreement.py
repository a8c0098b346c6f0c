"""The BPF programs and the module of bbr2 and bbr3 do the same on the same path of one
emulated machine.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.cca_module import HEADERS, build_modules
from support.commands import NOT_EMULATED, REPOSITORY, run_program

SCRIPT = Path(__file__).with_name("agreement.sh")
NO_MODULES = 77  # the script's exit status
ROUNDS, SECONDS = 9, 25
PATHS, CCAS, KINDS = 2, ("bbr2", "bbr3"), ("module", "BPF")
LEAST_IDLE_PERCENT = 50
# The tolerances of issue 22.
GOODPUT, RETRANSMISSIONS, RTT = 1.05, 1.5, 1.15


@dataclass(frozen=True)
class Flow:
    goodput_bps: float
    sent_bytes: int
    retransmissions: int
    rtt_ms: float


@dataclass(frozen=True)
class Medians:
    """Holds the medians of the rounds, and the share of retransmissions over all rounds."""

    goodput_bps: float
    retransmitted: float
    rtt_ms: float


def flow_of(result: dict[str, Any]) -> Flow:
    """Reads iperf3's JSON. The RTT is the median of the socket's RTTs, read twice a second."""
    sender = result["end"]["streams"][0]["sender"]
    rtts = [interval["streams"][0]["rtt"] for interval in result["intervals"]]
    goodput = result["end"]["sum_received"]["bits_per_second"]
    return Flow(goodput, sender["bytes"], sender["retransmits"], median(rtts) / 1e3)


def medians(flows: Sequence[Flow], mss: int = 1448) -> Medians:
    retransmitted = (
        sum(flow.retransmissions for flow in flows) * mss / sum(flow.sent_bytes for flow in flows)
    )
    goodput = median(flow.goodput_bps for flow in flows)
    return Medians(goodput, retransmitted, median(flow.rtt_ms for flow in flows))


def ratio(left: float, right: float) -> float:
    """Returns the ratio of the larger to the smaller; 1 if both are 0."""
    low, high = sorted((left, right))
    return high / low if low else (float("inf") if high else 1)


def agree(module: Medians, bpf: Medians) -> bool:
    return (
        ratio(module.goodput_bps, bpf.goodput_bps) <= GOODPUT
        and ratio(module.retransmitted, bpf.retransmitted) <= RETRANSMISSIONS
        and ratio(module.rtt_ms, bpf.rtt_ms) <= RTT
    )


def read(lines: Iterable[str]) -> dict[tuple[str, str, str], list[Flow]]:
    """Returns the flows by path, congestion control and kind."""
    flows = defaultdict(list)
    rest = iter(lines)
    for line in rest:
        path, _, cca, kind, idle = line.split("|")
        result = json.loads(next(rest))
        assert result["end"]["sender_tcp_congestion"] == cca
        assert int(idle) >= LEAST_IDLE_PERCENT, "the emulated processor may be the bottleneck"
        flows[path, cca, kind].append(flow_of(result))
    return flows


@pytest.mark.parametrize(
    ("bpf", "near"),
    [
        (Medians(4.4e6, 0.012, 46), True),
        (Medians(4.2e6, 0.012, 46), False),
        (Medians(4.5e6, 0.016, 46), False),
        (Medians(4.5e6, 0.006, 46), False),
        (Medians(4.5e6, 0, 46), False),
        (Medians(4.5e6, 0.010, 53), False),
    ],
)
def test_goodput_retransmissions_and_rtt_are_compared(bpf: Medians, near: bool) -> None:
    assert agree(Medians(4.5e6, 0.01, 45), bpf) == near


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_bpf_and_module_agree_on_the_same_path(program: Path, tmp_path: Path) -> None:
    for headers in HEADERS:
        built = build_modules(headers, tmp_path / headers.name)[0]
        built.rename(tmp_path / headers.name.removeprefix("linux-headers-"))
    words = [SCRIPT, program, tmp_path, str(ROUNDS), str(SECONDS)]
    command = [REPOSITORY / "lab/emulate", "--virtual-time", "max", tmp_path, "bash", *words]
    done = run_program(command)
    if done.returncode == NO_MODULES or (
        done.returncode == NOT_EMULATED and "can't be fetched" in done.stderr
    ):
        pytest.skip(f"no emulated machine whose kernel has its headers here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    *lines, release = done.stdout.splitlines()
    flows = read(lines)
    assert [len(each) for each in flows.values()] == [ROUNDS] * PATHS * len(CCAS) * len(KINDS)
    print(release)
    apart = []
    for path, cca, _ in list(flows)[:: len(KINDS)]:
        module, bpf = (medians(flows[path, cca, kind]) for kind in KINDS)
        print(f"| {path} | {cca} | {shown(module)} | {shown(bpf)} |")
        if not agree(module, bpf):
            apart.append((path, cca, module, bpf))
    assert not apart


def shown(of: Medians) -> str:
    return f"{of.goodput_bps / 1e6:.2f} Mbit/s, {of.retransmitted:.2%}, {of.rtt_ms:.1f} ms"
