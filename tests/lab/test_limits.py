"""Tests how limits of control groups are read, and what the lab makes of them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ccmix.lab import host, limits
from ccmix.lab.host import LackError

GIB = 1 << 30
V1 = "9:name=systemd:/x\n8:pids:/docker/1\n4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n0::/\n"
MEMORY_STAT = "active_file {0}\ninactive_file 0\ntotal_active_file {1}\ntotal_inactive_file 0\n"
Pretend = Callable[[str, Mapping[str, str]], None]


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Pretends that this process is in these groups, whose files have these texts."""

    def tell(groups: str, texts: Mapping[str, str]) -> None:
        monkeypatch.setattr(limits, "GROUPS", tmp_path / "cgroup")
        monkeypatch.setattr(limits, "OWN_GROUPS", tmp_path / "own")
        (tmp_path / "own").write_text(groups)
        for name, text in texts.items():
            file = tmp_path / "cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")

    return tell


def test_without_limits(pretend: Pretend) -> None:
    pretend("0::/\n", {"memory.max": "max", "pids.max": "max", "cpu.max": "max 100000"})
    assert limits.memory_left_bytes() is None
    assert limits.processes_left() is None
    assert limits.processors() == len(os.sched_getaffinity(0)) == limits.guests_at_a_time()


def test_version_2_has_the_limits_of_all_groups_above(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    pretend(
        "0::/job/step\n",
        {
            "job/memory.max": str(3 * GIB),
            "job/memory.current": str(2 * GIB),
            "job/memory.stat": f"anon 5\nactive_file {GIB}\ninactive_file 10",
            "job/step/memory.max": str(9 * GIB),
            "job/step/memory.current": "0",
            "job/step/pids.max": "100",
            "job/step/pids.current": "4",
            "job/cpu.max": "250000 100000",
            "job/step/cpu.max": "max 100000",
        },
    )
    assert limits.memory_left_bytes() == 2 * GIB + 10
    assert limits.processes_left() == 96
    assert limits.processors() == 3
    assert limits.guests_at_a_time() == 3
    pretend("0::/job/step\n", {"job/step/pids.current": "1", "job/step/pids.max": "81"})
    assert limits.guests_at_a_time() == 2


@pytest.mark.parametrize("inside", ["", "docker/1/"], ids=["own group on top", "names of the host"])
def test_version_1(pretend: Pretend, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    pretend(
        V1,
        {
            f"memory/{inside}memory.limit_in_bytes": str(GIB),
            f"memory/{inside}memory.usage_in_bytes": "5000",
            f"memory/{inside}memory.stat": MEMORY_STAT.format(1, 1000),
            f"pids/{inside}pids.max": "20",
            f"pids/{inside}pids.current": "30",
            f"cpu/{inside}cpu.cfs_quota_us": "50000",
            f"cpu/{inside}cpu.cfs_period_us": "100000",
        },
    )
    assert limits.memory_left_bytes() == GIB - 4000
    assert limits.processes_left() == 0
    assert limits.processors() == 1 == limits.guests_at_a_time()
    pretend(V1, {f"cpu/{inside}cpu.cfs_quota_us": "-1"})
    assert limits.processors() == 8


@pytest.mark.parametrize(
    ("texts", "lack", "option"),
    [
        (
            {"memory.max": str(GIB // 2), "memory.current": "0"},
            "needs 712 MiB of memory, and 512 MiB are available",
            "--memory 2g",
        ),
        ({"pids.max": "63", "pids.current": "0"}, "needs 64 processes and threads", "--pids-limit"),
    ],
)
def test_too_little_for_a_guest(
    pretend: Pretend,
    monkeypatch: pytest.MonkeyPatch,
    texts: Mapping[str, str],
    lack: str,
    option: str,
) -> None:
    pretend("0::/\n", texts)
    for inside in (True, False):
        monkeypatch.setattr(limits, "inside_container", lambda inside=inside: inside)
        with pytest.raises(LackError, match=lack) as error:
            host.check_room(GIB // 2)
        assert (f"start the container with {option}" in str(error.value)) is inside
        commands = error.value.commands
        assert [one.startswith(f"docker run {option}") for one in commands] == [True] * inside
    pretend("0::/\n", dict.fromkeys(texts, "max"))
    assert host.check_room(GIB // 2).is_dir()
