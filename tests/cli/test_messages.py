"""Tests that a command does its work even if nobody can read its messages."""

import subprocess
from pathlib import Path

from ccmix.archive import Campaign
from support.commands import CCMIX


def test_messages_to_a_full_disk_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("dst,cca,goodput_mbps\na,cubic,5\n")
    argv = [CCMIX, "import", "table.csv", "-o", "out"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(argv, cwd=tmp_path, stderr=full, check=False).returncode == 0
    assert len(Campaign.load(tmp_path / "out").runs) == 1
