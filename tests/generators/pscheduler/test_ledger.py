"""Records of pScheduler's tasks; tests/run/test_pscheduler.py tests their use by `ccmix restore`."""

import json
import os
import resource
import time
from pathlib import Path

import pytest

from ccmix.agent.journal import BEGINS_WITHIN_S, host_id
from ccmix.generators.pscheduler import ledger
from ccmix.generators.pscheduler.ledger import TaskRecord, cancel_left
from ccmix.generators.pscheduler.rest import Interruption, PschedulerServer


def test_a_record_that_does_not_fit_on_the_disk_leaves_no_file(tmp_path: Path) -> None:
    server = PschedulerServer("localhost", None, Interruption())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            TaskRecord(server, "identity", "key", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
    assert str(raised.value.filename).startswith(f"{tmp_path}/pscheduler-task-")


def test_a_path_that_does_not_fit_on_the_disk_costs_nothing(
    tmp_path: Path, asked: list[str]
) -> None:
    """The task was posted, so the run continues; without the path, the task is found by its
    identity.
    """
    server = PschedulerServer("localhost", None, Interruption())
    record = TaskRecord(server, "identity", "key", tmp_path)
    [file] = tmp_path.iterdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 5, hard))
    try:
        record.posted("tasks/one")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    record.leave()
    assert not file.read_bytes().endswith(b"\n")
    assert [reason for _, reason in cancel_left(tmp_path)] == [None]
    assert asked == ["identity"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requested identities of tasks at a lead, which knows none of them."""
    identities: list[str] = []
    monkeypatch.setattr(ledger, "find_posted_task", lambda _, identity: identities.append(identity))
    return identities


@pytest.mark.parametrize("torn", ['{"path": "ta', "{", '{"path": "tasks/one"}'])
def test_a_last_line_that_was_cut_off_is_left_out(
    torn: str, tmp_path: Path, asked: list[str]
) -> None:
    head = {
        "host": host_id(),
        "lead": "localhost",
        "ca": None,
        "identity": "identity",
        "key": "key",
    }
    (tmp_path / "pscheduler-task-1.jsonl").write_text(f"{json.dumps(head)}\n{torn}")
    assert list(cancel_left(tmp_path)) == [
        ("a pScheduler task at localhost, which was never posted", None)
    ]
    assert asked == ["identity"]
    assert not list(tmp_path.iterdir())


def test_what_a_kill_left_of_a_record_that_had_not_begun_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "pscheduler-task-1.new", tmp_path / "pscheduler-task-2.new"
    for file in (old, new):
        file.write_text("{")
    before_s = time.time() - BEGINS_WITHIN_S - 1
    os.utime(old, (before_s, before_s))
    assert list(cancel_left(tmp_path)) == []
    assert list(tmp_path.iterdir()) == [new]
