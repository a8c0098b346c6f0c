"""Kills the harness by kill -9 at moments spread over a campaign: no guest survives, and --resume
makes it whole.
"""

import time
from pathlib import Path

import pytest

from support.commands import Ccmix, wait_for

pytestmark = pytest.mark.lab

MOMENTS = 12
STEP_S = 0.4


@pytest.mark.long
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_killed_at_any_moment(moment: int, ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    running = ccmix.start("run", small_ini, "--lab", "-o", outdir)
    time.sleep(moment * STEP_S)
    running.kill()
    running.communicate(timeout=30)
    wait_for(lambda: not ccmix.guests(), 10, "the end of every guest")
    ccmix("run", small_ini, "--lab", "-o", outdir, "--resume", status=0)
    assert len(list(outdir.rglob("run.json"))) == 2
    assert not list(outdir.rglob("*.partial"))
