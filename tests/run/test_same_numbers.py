"""The numbers of a run in the lab depend on its seed, and not on where the programs were installed."""

import asyncio
import shutil
from pathlib import Path

from ccmix.archive import RunFolder
from ccmix.config import load
from ccmix.plan import make_plan
from ccmix.run.machines import LabMachine, Programs
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon
from support import REPOSITORY


def test_a_longer_path_of_iperf3_changes_nothing(tmp_path: Path) -> None:
    """8 BBR flows for 13 s: in shorter runs a difference may not have grown yet."""
    runs = make_plan(load(REPOSITORY / "configs" / "demo.ini").entries, seed=1)
    run = next(run for run in runs if run.entry == "all-bbr" and run.condition_name == "delay=44ms,loss=0%")
    far = tmp_path / "where" / "somebody" / "else" / "installed" / "it"
    far.mkdir(parents=True)
    raw = []
    for number, iperf3 in enumerate((find_iperf3(), Path(shutil.copy(find_iperf3(), far)))):
        folder = RunFolder(tmp_path / str(number)).begin()
        asyncio.run(LabMachine(find_kernel(), Programs(iperf3, find_sockmon(), find_rtt())).measure(run, folder, cpu=0))
        raw.append((folder / "logs" / "run.sockmon").read_bytes())
    assert raw[0] == raw[1]
