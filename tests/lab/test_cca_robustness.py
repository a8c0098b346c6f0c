"""Tests that bbr2 and bbr3 leak no memory and let no flow hang, whatever connections do; and that a
run whose flows got no state is not valid.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ccmix.lab import GuestSpec, run_guest
from support.commands import REPOSITORY, Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep]

PROGRAM = Path(__file__).with_name("guest_flows.py")
CCAS = "bbr2,bbr3"
OTHERS = "bbr,cubic,reno"
# The memory that the kernel keeps for the next sockets varies by 1.6 MB, also with its own bbr. If
# each tenth socket of three times 1000 connections kept its state, that would be 3.3 MB. The
# sockets that have state are also counted exactly: there must be none.
LARGEST_GROWTH_BYTES = 3 << 20
WRAPPER = "module/tcp_bbr.h"
# Replacements in the source that make every third request for memory fail.
FAILING = {
    "static u32 bbr_random_below(u32 ceiling);\n": """static u32 bbr_random_below(u32 ceiling);

static unsigned int bbr_asked, bbr_failures;
module_param_named(failures, bbr_failures, uint, 0444);

static bool bbr_fails(void)
{
	bool fails = bbr_asked++ % 3 == 0;

	bbr_failures += fails;
	return fails;
}
""",
    "return kmalloc(": "return bbr_fails() ? NULL : kmalloc(",
    "= kmem_cache_alloc(": "= bbr_fails() ? NULL : kmem_cache_alloc(",
}
RUN = """
[topology small]
rate = 20mbit
delay = 5ms

[one]
type = iperf3
topology = small
cca = {cca}
streams = 2
duration = 2s
param-sweep = tcp_{cca}/parameters/max_sockets, sys-module-list,1
"""


def verdict(tmp_path: Path, ini: str) -> tuple[str, list[str]]:
    """Makes the run; returns its status, and its findings on CCAs."""
    config, outdir, commands = tmp_path / "one.ini", tmp_path / "out", tmp_path / "commands"
    config.write_text(ini)
    commands.mkdir()
    done = Ccmix(commands)("run", config, "--lab", "-o", outdir)
    files = list(outdir.rglob("run.json"))
    assert len(files) == 1, done.stderr
    found = json.loads(files[0].read_text())["verdict"]
    return found["status"], [
        finding["detail"] for finding in found["findings"] if finding["kind"] == "cca"
    ]


@pytest.fixture(scope="session")
def failing_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a kernel of the lab in which every third allocation of bbr2 and bbr3 fails."""
    folder = tmp_path_factory.mktemp("failing")
    source = (REPOSITORY / "cca" / WRAPPER).read_text()
    changed = source
    for before, after in FAILING.items():
        assert changed.count(before) == 1
        changed = changed.replace(before, after)
    path = f"net/ipv4/ccmix_cca/{WRAPPER}"
    lines = (text.splitlines(keepends=True) for text in (source, changed))
    (folder / "failing.patch").write_text(
        "".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}"))
    )
    argv = [REPOSITORY / "lab" / "build", "--name", "failing", "--patch", folder / "failing.patch"]
    environment = os.environ | {"CCMIX_LAB_KERNELS": str(folder / "named")}
    built = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return Path(built.stdout.strip())


def flows(kernel: Path, job: Path, kind: str, ccas: str, count: int) -> dict[str, int]:
    """Runs the flows in a guest; returns the counts of its program."""
    argv = (sys.executable, str(PROGRAM), kind, ccas, str(count))
    result = asyncio.run(run_guest(kernel, GuestSpec(argv, job, 1 << 30, seed=1)))
    assert result.exit_status == 0, result.console
    assert not re.search(r"WARNING|BUG|Oops|Call Trace", result.console), result.console
    found: dict[str, int] = json.loads(result.console.splitlines()[-1])
    assert found["left"] == 0, found
    assert found["grown_bytes"] < LARGEST_GROWTH_BYTES, found
    return found


@pytest.mark.long
@pytest.mark.parametrize("count", [10_000, 100_000])
@pytest.mark.timeout(3000)
def test_short_connections_leave_nothing(kernel: Path, job: Path, count: int) -> None:
    assert flows(kernel, job, "short", CCAS, count)["done"] == count


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_thousand_flows_at_once_all_end(kernel: Path, job: Path) -> None:
    assert flows(kernel, job, "together", CCAS, 1000)["done"] == 1000


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_flows_whose_cca_is_switched_all_end(kernel: Path, job: Path) -> None:
    found = flows(kernel, job, "switched", f"{CCAS},{OTHERS}", 20)
    assert found["done"] == 20
    assert found["switches"] > 5_000


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("cca", CCAS.split(","))
def test_sockets_without_state_say_so_and_work(kernel: Path, job: Path, cca: str) -> None:
    """Both ends of the first of 50 connections get state."""
    found = flows(kernel, job, "refused", cca, 50)
    assert found["done"] == 50
    assert found["fallbacks"] == 98


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("cca", CCAS.split(","))
def test_failed_allocations_of_state_harm_no_flow(
    failing_kernel: Path, job: Path, cca: str
) -> None:
    """Neither requests for a socket's state, without which the socket falls back, nor requests for
    a larger ring.
    """
    found = flows(failing_kernel, job, "failing", cca, 50)
    assert found["done"] == 50
    assert 10 <= found["fallbacks"] <= 90
    assert found["counted"] == found["fallbacks"]
    assert found["failures"] > found["fallbacks"], "no ring asked for memory"


@pytest.mark.parametrize("cca", CCAS.split(","))
def test_a_run_with_a_flow_beyond_max_sockets_is_not_valid(tmp_path: Path, cca: str) -> None:
    status, findings = verdict(tmp_path, RUN.format(cca=cca))
    assert status == "limited"
    assert len(findings) == 1
    assert f"was to run {cca} but ran {cca}-reno" in findings[0]
