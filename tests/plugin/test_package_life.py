"""Tests the package's life with dpkg: what it installs, what it leaves, and pScheduler's warm boot,
on a STAND-IN.

The short life is in an empty root folder. The whole one is in a chroot with Debian.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plugin_machine import (
    PACKAGE,
    Machine,
    debian_machine,
    empty_machine,
    own_suite,
    package_1_0,
    with_pscheduler,
)
from support.plugin_runner import CONF, TOOL

METHODS = ("can-run", "duration", "enumerate", "merged-results", "participant-data", "run")
BOTH, STOCK = {"iperf3", "iperf3mix"}, {"iperf3"}
NO_METHOD = "tool plugin iperf3mix has no 'enumerate' method"

pytestmark = [pytest.mark.namespaces, pytest.mark.timeout(1200)]  # the first one makes the chroot


@pytest.fixture(scope="module")
def deb(package: Path) -> Path:
    (file,) = package.glob("*.deb")
    return file


@pytest.fixture
def former(deb: Path, tmp_path: Path) -> Path:
    return package_1_0(deb, tmp_path)


@pytest.fixture(
    params=[
        "empty-root",
        pytest.param("debian-in-a-chroot", marks=[pytest.mark.deep, pytest.mark.root]),
    ]
)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if request.param == "empty-root":
        yield with_pscheduler(empty_machine(tmp_path / "root"), tmp_path)
        return
    with debian_machine(tmp_path / "root", own_suite()) as debian:
        yield with_pscheduler(debian, tmp_path)


def healthy(machine: Machine, tools: set[str]) -> bool:
    """Returns whether pScheduler has these tools, by the package's own trigger, and can
    boot again.
    """
    return (
        machine.registered() == tools
        and machine.warmboot().returncode == 0
        and machine.registered() == tools
    )


def test_install_use_remove_reinstall_purge(machine: Machine, deb: Path) -> None:
    machine.dpkg("--install", deb)
    assert healthy(machine, BOTH)
    installed = machine.files()
    assert f"{TOOL}/iperf3mix/methods.py" in installed
    for script in (*METHODS, "allow-ccas"):
        machine.call(script)
    assert not machine.byte_code()
    assert machine.files() == installed
    (machine.root / TOOL / "left-by-an-administrator").mkdir()
    machine.dpkg("--remove", PACKAGE)
    assert healthy(machine, STOCK)
    assert machine.files() == {CONF}
    machine.dpkg("--install", deb)
    assert healthy(machine, BOTH)
    assert machine.files() == installed
    machine.dpkg("--purge", PACKAGE)
    assert healthy(machine, STOCK)
    assert machine.files() == set()


def test_upgrade_from_1_0_which_left_byte_code(machine: Machine, former: Path, deb: Path) -> None:
    machine.dpkg("--install", former)
    machine.call("enumerate")
    assert machine.byte_code()
    (machine.root / CONF).write_text("[iperf3mix]\nport = 5301\n")
    machine.dpkg("--install", deb)
    assert healthy(machine, BOTH)
    assert not machine.byte_code()
    assert "5301" in (machine.root / CONF).read_text()
    machine.dpkg("--purge", PACKAGE)
    assert healthy(machine, STOCK)
    assert machine.files() == set()


@pytest.mark.deep
def test_downgrade_to_1_0_and_back(machine: Machine, former: Path, deb: Path) -> None:
    machine.dpkg("--install", deb)
    machine.dpkg("--force-downgrade", "--install", former)
    assert healthy(machine, BOTH)
    machine.call("enumerate")
    assert machine.byte_code()
    machine.dpkg("--install", deb)
    assert not machine.byte_code()
    machine.dpkg("--remove", PACKAGE)
    assert healthy(machine, STOCK)
    machine.dpkg("--purge", PACKAGE)
    assert machine.files() == set()


@pytest.mark.deep
@pytest.mark.parametrize("way", ["install", "install-and-purge"])
def test_a_host_that_the_removal_of_1_0_broke_is_well_after_an_installation(
    machine: Machine, former: Path, deb: Path, way: str
) -> None:
    machine.dpkg("--install", former)
    machine.call("enumerate")
    machine.dpkg("--remove", PACKAGE)
    broken = machine.warmboot()
    assert (broken.returncode, NO_METHOD in broken.stderr) == (1, True)
    machine.dpkg("--install", deb)
    assert healthy(machine, BOTH)
    assert not machine.byte_code()
    if way == "install-and-purge":
        machine.dpkg("--purge", PACKAGE)
        assert healthy(machine, STOCK)
        assert machine.files() == set()
