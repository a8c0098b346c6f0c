"""bbr2 and bbr3 as BPF programs fill a bottleneck of this machine as the kernel's bbr does."""

from __future__ import annotations

import subprocess
from functools import partial
from statistics import median

import pytest

from support.cca_bpf import CCAS, Loader
from support.commands import REPOSITORY, loaded

FLOWS = loaded(REPOSITORY / "bench" / "cca_flows.py", "bench.cca_flows")
BENCH = loaded(REPOSITORY / "bench" / "cca_bpf_goodput.py")
LEAST = 0.9  # of bbr's goodput


def test_a_flow_is_read_from_what_iperf3_says() -> None:
    sender = {"bytes": 1448 * 1000, "retransmits": 20, "mean_rtt": 4800}
    end = {"streams": [{"sender": sender}], "sum_received": {"bits_per_second": 95e6}}
    flow = BENCH.flow_of({"start": {"tcp_mss_default": 1448}, "end": end})
    assert (flow.goodput_bps, flow.resent, flow.rtt_ms) == (95e6, 0.02, 4.8)


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_it_fills_the_bottleneck_as_bbr_does(loader: Loader) -> None:
    """A router has 100 Mbit/s. Its buffer has room for packets that wait while other work has the
    processor.

    With a small buffer, packets would then be lost, and unlike bbr these CCAs reduce their rate
    upon losses.
    """
    for cca in CCAS:
        loader.must("load", cca)
    path = BENCH.GoodputPath("deep buffer", partial(BENCH.bottleneck, "500k"))
    flows = BENCH.alone(path, rounds=3, seconds=4)
    goodputs = {cca: median(flow.goodput_bps for flow in each) for cca, each in flows.items()}
    print(goodputs)
    for cca in CCAS:
        assert goodputs[cca] >= LEAST * goodputs["bbr"], goodputs
    namespaces = subprocess.run(
        ["ip", "netns", "list"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert not any(
        name in namespaces.split() for name in (FLOWS.SENDER, FLOWS.ROUTER, FLOWS.RECEIVER)
    )
