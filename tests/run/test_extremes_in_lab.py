"""Tests that the least and the most that a configuration may say works; what lies beyond is refused (tests/config)."""

from pathlib import Path

import pytest

from support import Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep]

EXTREMES = """
[DEFAULT]
type = iperf3
duration = 60s
streams = 2
cca = cubic,bbr

[topology far]
rate = 10mbit
delay = 2500ms
[topology full]
rate = 100kbit
delay = 50ms
buffer = 80p
[topology lossy]
rate = 10mbit
delay = 10ms
loss = 50%
[topology bursts]
rate = 10mbit
delay = 10ms
loss = gemodel 10% 10%
[topology small]
rate = 10gbit
delay = 0ms
buffer = 1p

[far]
topology = far
duration = 200s
[full]
topology = full
[lossy]
topology = lossy
[bursts]
topology = bursts
[small]
topology = small
duration = 1s
"""


@pytest.mark.timeout(600)
def test_the_extremes_are_valid(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "extremes.ini"
    file.write_text(EXTREMES)
    done = ccmix("run", file, "--lab", "-o", tmp_path / "out", timeout=580)
    assert "5 runs valid, 0 not valid, 0 failed" in done.stderr, done.stderr
