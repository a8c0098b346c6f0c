"""Tests the package for Enterprise Linux 9 in a STAND-IN for it: a chroot with Debian 11, whose
Python is 3.9, too, and whose C library is older (2.31, not 2.34). rpm is Debian's; pScheduler is a
stand-in as well.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.commands import REPOSITORY
from support.plugin_machine import ENVIRONMENT, PACKAGE, STAND_IN, Machine, debian_machine
from support.plugin_runner import check, throughput

TOOL = "usr/libexec/pscheduler/classes/tool/iperf3mix"
STOCK_TOOL = "usr/libexec/pscheduler/classes/tool/iperf3"
WITH_PROC = 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'
BOTH, STOCK = {"iperf3", "iperf3mix"}, {"iperf3"}

pytestmark = [
    pytest.mark.root,
    pytest.mark.deep,
    pytest.mark.timeout(1200),
]  # the first one makes the chroot


@dataclass(frozen=True)
class RpmMachine:
    """Runs rpm in the chroot."""

    machine: Machine

    def rpm(self, *arguments: str | Path) -> None:
        # an RPM can't depend on Debian's packages
        done = subprocess.run(
            ["rpm", f"--root={self.machine.root}", "--nodeps", *arguments],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
        assert "scriptlet failed" not in done.stderr

    def healthy(self, tools: set[str]) -> bool:
        """Returns whether pScheduler has these tools, by the package's own scripts, and can
        boot again.
        """
        machine = self.machine
        return (
            machine.registered() == tools
            and machine.warmboot().returncode == 0
            and machine.registered() == tools
        )

    def call(self, method: str, given: object) -> subprocess.CompletedProcess[str]:
        """Calls a method of the tool as root, with /proc."""
        argv = ["unshare", "--mount", "sh", "-c", WITH_PROC, self.machine.root, f"/{TOOL}/{method}"]
        return subprocess.run(
            argv,
            input=json.dumps(given),
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns the package, and one of the next version."""
    folder = tmp_path_factory.mktemp("rpm")
    copy = folder / "source"
    parts = (
        "plugin",
        "iperf3-patch",
        "cca",
        "lab",
        "packaging",
        "probes/common",
        "tools",
        "docs/howto",
        "harness/ccmix/model",
    )
    for part in parts:
        shutil.copytree(
            REPOSITORY / part,
            copy / part,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    init = copy / "plugin/tool/iperf3mix/__init__.py"
    built = []
    for source in (REPOSITORY, copy):
        done = subprocess.run(
            [source / "plugin/build", "--rpm", folder],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        built.append(Path(done.stdout.strip()))
        init.write_text(init.read_text().replace('VERSION = "1', 'VERSION = "2'))
    first, second = built
    return first, second


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RpmMachine]:
    if not shutil.which("rpm"):
        pytest.skip("there is no rpm: run 'tools/setup --dev'")
    with debian_machine(tmp_path / "root", "bullseye") as machine:
        shutil.copy(STAND_IN, machine.root / "usr/bin/pscheduler")
        stock = machine.root / STOCK_TOOL / "enumerate"
        stock.parent.mkdir(parents=True)
        stock.write_text("#!/bin/sh\necho '{}'\n")
        for program in (stock, machine.root / "usr/bin/pscheduler"):
            program.chmod(0o755)
        yield RpmMachine(machine)


def test_install_use_upgrade_downgrade_and_erase(
    host: RpmMachine, packages: tuple[Path, Path]
) -> None:
    first, second = packages
    host.rpm("--install", first)
    assert host.healthy(BOTH)
    installed = host.machine.files()
    mixed = throughput(congestion="cubic:1,bbr:1")
    for method, given in (
        ("enumerate", None),
        ("can-run", mixed),
        ("duration", mixed),
        ("participant-data", {"participant": 1, "test": mixed}),
    ):
        done = host.call(method, given)
        assert (done.returncode, done.stderr) == (0, "")
        check(json.loads(done.stdout), method)
    assert "3.9" in host.machine.run("/usr/bin/python3", "--version").stdout
    assert (
        "+ccmix"
        in host.machine.run("/usr/lib/pscheduler-tool-iperf3mix/iperf3", "--version").stdout
    )
    assert host.machine.run("/usr/sbin/ccmix-cca", "--version").stdout.startswith(
        "ccmix-cca, build "
    )
    assert host.machine.files() == installed, "root's use of the tool leaves no byte code"
    (host.machine.root / TOOL / "iperf3mix/__pycache__").mkdir()
    host.rpm("--upgrade", second)
    assert host.healthy(BOTH)
    assert host.machine.files() == installed
    host.rpm("--upgrade", "--oldpackage", first)
    assert host.healthy(BOTH)
    (host.machine.root / TOOL / "left-by-an-administrator").mkdir()
    host.rpm("--erase", PACKAGE)
    assert host.healthy(STOCK)
    assert host.machine.files() == set()
    host.rpm("--install", first)
    assert host.healthy(BOTH)
    assert host.machine.files() == installed


def test_a_run_on_python_3_9(host: RpmMachine, packages: tuple[Path, Path]) -> None:
    """Both participants run in the chroot, over a loopback: real traffic by the static iperf3."""
    host.rpm("--install", packages[0])
    test = throughput(
        source="127.0.0.1", dest="127.0.0.1", congestion="reno@20M,reno@40M"
    )  # which every user may use
    data = [
        json.loads(host.call("participant-data", {"participant": at, "test": test}).stdout)
        for at in (0, 1)
    ]
    script = REPOSITORY / "tests/plugin/run_in_chroot.py"
    given = json.dumps(
        {"test": test, "data": data, "run": f"/{TOOL}/run", "root": str(host.machine.root)}
    )
    done = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, script],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(done.stdout)
    merged = json.loads(host.call("merged-results", {"test": test, "results": results}).stdout)
    check(merged, "result")
    assert merged["succeeded"], merged
    assert [group["congestion"] for group in merged["summary"]["groups"]] == ["reno", "reno"]
    assert all(group["receiver-throughput-bits"] > 0 for group in merged["summary"]["groups"])
