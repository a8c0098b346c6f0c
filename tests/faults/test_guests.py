"""Tests that a guest that is killed, or runs out of memory, costs only its own run."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.commands import Ccmix, wait_for
from support.kills import Killer

pytestmark = pytest.mark.lab

ITERATIONS = 6
KILLS = 70
ENDS_WITHIN_S = 30.0

EATS_ALL_MEMORY = """
[eats]
type = iperf3
topology = small
duration = 2s
flows.bulk = h1 cubic
flows.eater = h1 command python3 -c "x = [bytearray(1 << 20) for _ in range(100000)]"
"""


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_guests_that_are_killed_cost_their_own_runs(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Kills two guests one after the other at random moments, and resumes until the campaign is
    complete.
    """
    small_ini.write_text(
        small_ini.read_text().replace("iterations = 2", f"iterations = {ITERATIONS}")
    )

    def check(_: set[str]) -> Sequence[str]:
        wait_for(lambda: not ccmix.guests(), ENDS_WITHIN_S, "the end of every guest")
        return ()

    made = Killer(
        tmp_path,
        lambda outdir, output: ccmix.start(
            "run", small_ini, "--lab", "-j", 2, "-o", outdir, "--resume", output=output
        ),
        lambda _: {"guest": [-group for group in ccmix.guest_groups()]},
        check,
        seed=20261123,
        longest_wait_s=3.0,
    ).make(KILLS)
    assert made.faults == []
    print(made)


@pytest.mark.deep
def test_a_guest_out_of_memory_costs_its_own_run(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    small_ini.write_text(small_ini.read_text() + EATS_ALL_MEMORY)
    outdir = tmp_path / "out"
    done = ccmix("run", small_ini, "--lab", "-o", outdir, status=1)
    assert "2 runs valid" in done.stderr
    assert "Traceback" not in done.stderr
    assert [file.relative_to(outdir).parts[0] for file in outdir.rglob("run.json")].count(
        "both"
    ) == 2
    assert not ccmix.guests()
