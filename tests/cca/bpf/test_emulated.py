"""bbr2 and bbr3 on Debian's kernels, in emulated machines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.commands import REPOSITORY, run_program

SCRIPT = Path(__file__).with_name("emulated.sh")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
@pytest.mark.parametrize(
    ("suite", "release"), [("bookworm", "6.1."), ("trixie", "6.12."), ("sid", "7.")]
)
def test_it_carries_traffic_on_a_kernel_of_debian(
    program: Path, tmp_path: Path, suite: str, release: str
) -> None:
    emulate = [REPOSITORY / "lab/emulate", "--kernel", suite, "--virtual-time", "max", tmp_path]
    command = [*emulate, "bash", SCRIPT, program]
    done = run_program(command)
    if done.returncode == 125 and "can't be fetched" in done.stderr:
        pytest.skip(f"the mirror lacks a package: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith(("[", "{"))]
    assert done.stdout.splitlines()[-1].startswith(release)
    for cca, status, result in zip(("cubic", "bbr2", "bbr3"), lines[::2], lines[1::2], strict=True):
        ends = json.loads(result)["end"]
        assert ends["sender_tcp_congestion"] == cca
        assert (
            ends["sum_received"]["bytes"] > 1e6
        )  # the goodput is not judged: emulation delays packets at random
        print(release, cca, f"{ends['sum_received']['bits_per_second'] / 1e6:.1f} of 5 Mbit/s")
        states = json.loads(status)
        assert (cca == "cubic") == (not states)
        assert all(state["name"] == cca and state["min_rtt_us"] >= 20_000 for state in states)
