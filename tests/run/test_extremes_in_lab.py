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
control = beside
[topology full]
rate = 100kbit
delay = 50ms
buffer = 80p
control = beside
[topology lossy]
rate = 10mbit
delay = 10ms
loss = 50%
control = beside
[topology bursts]
rate = 10mbit
delay = 10ms
loss = gemodel 10% 10%
control = beside
[topology long-bursts]
rate = 100mbit
delay = 10ms
loss = gemodel 5% 10%
control = beside
[topology far-and-shallow]
rate = 1mbit
delay = 4s
buffer = 20p
control = beside
[topology deep]
rate = 1mbit
delay = 4s
buffer = 2mb
control = beside
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
[long-bursts]
topology = long-bursts
[far-and-shallow]
topology = far-and-shallow
duration = 120s
[deep]
topology = deep
duration = 200s
[small]
topology = small
duration = 1s
"""


@pytest.mark.timeout(600)
def test_the_extremes_are_valid(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "extremes.ini"
    file.write_text(EXTREMES)
    done = ccmix("run", file, "--lab", "-o", tmp_path / "out", timeout=580)
    assert "8 runs valid, 0 not valid, 0 failed" in done.stderr, done.stderr
