"""Records of pScheduler's tasks; tests/run/test_pscheduler.py has what `ccmix restore` does with them."""

import resource
from pathlib import Path

import pytest

from ccmix.generators.pscheduler.ledger import TaskRecord
from ccmix.generators.pscheduler.rest import Interruption, PschedulerServer


def test_a_record_that_does_not_fit_on_the_disk_leaves_no_file(tmp_path: Path) -> None:
    server = PschedulerServer("localhost", None, Interruption())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            TaskRecord(server, "identity", "key", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
