"""Kills sshd's processes at random moments of a campaign over SSH: every run once, and the host
as before.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ccmix.tools import find_iperf3
from support.commands import Ccmix, wait_for
from support.kills import Killer
from support.sshd import CHANGES, SshServer

ITERATIONS = 5
KILLS = 60
ENDS_WITHIN_S = 120.0


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_killed_connections_cost_no_run_twice(
    sshd: SshServer, ccmix: Ccmix, tmp_path: Path
) -> None:
    entry = f"""[killed]
type = x
iterations = {ITERATIONS}
retries = 2
connect-timeout = 120s
{CHANGES}dst-cmd = {find_iperf3()} -s -D
src-cmd = {find_iperf3()} -c {{dst}} -n 200K -b 2M
"""
    config = sshd.ini(tmp_path / "test.ini", entry)

    def check(_: set[str]) -> Sequence[str]:
        wait_for(sshd.is_as_before, ENDS_WITHIN_S, "the host as it was")
        return ()

    made = Killer(
        tmp_path,
        lambda outdir, output: ccmix.start("run", config, "-o", outdir, "--resume", output=output),
        lambda _: {"sshd": sshd.sessions()},
        check,
        seed=20261123,
        longest_wait_s=3.0,
    ).make(KILLS)
    assert made.faults == []
    print(made)
