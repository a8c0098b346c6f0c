"""Tests the systemd unit under a running systemd in separate namespaces."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cca_bpf import Loader
from support.commands import REPOSITORY, run_program

pytestmark = pytest.mark.deep

SYSTEMD = Path("/lib/systemd/systemd")
UNIT = REPOSITORY / "packaging/systemd/ccmix-cca@.service"
GUIDE = REPOSITORY / "docs/howto/try-bbr3-on-a-dtn.md"
NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc")


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup for the processes of the test's systemd."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    found = [Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"]
    if not SYSTEMD.exists() or not found:
        pytest.skip("there is no systemd, or no cgroup2 for it: THE UNIT IS NOT TESTED")
    made = found[0] / f"ccmix-test-{os.getpid()}"
    made.mkdir()
    yield made
    for folder, _, _ in os.walk(made, topdown=False):
        Path(folder).rmdir()


def under_systemd(
    script: str, loader: Loader, cgroup: Path, folder: Path, *more_units: Path
) -> str:
    """Returns the output of the script; all of its commands must succeed."""
    (folder / "script").write_text(script)
    argv = [
        "unshare",
        *NAMESPACES,
        Path(__file__).with_name("own_systemd.sh"),
        folder,
        loader.program,
        UNIT,
        *more_units,
    ]
    into_cgroup = ["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', cgroup]
    done = run_program([*into_cgroup, *argv], timeout=60)
    output = (folder / "output").read_text()
    assert done.returncode == 0, done.stderr + output
    return output


def test_the_unit_loads_and_unloads_it(loader: Loader, cgroup: Path, tmp_path: Path) -> None:
    script = """
mkdir /etc/ccmix
echo 'CCMIX_CCA_PARAMETERS="loss_thresh=7 beta=80"' >/etc/ccmix/cca-bbr3.env
systemctl start ccmix-cca@bbr3
test "$(systemctl is-active ccmix-cca@bbr3)" = active
printf '\\n%s\\n' "$(ccmix-cca list --json | tr -d '\\n')"
systemctl restart ccmix-cca@bbr3
systemctl stop ccmix-cca@bbr3
test "$(ccmix-cca list --json)" = "[]"
"""
    output = under_systemd(script, loader, cgroup, tmp_path)
    [loaded] = json.loads(re.findall(r"^\[.*\]$", output, re.MULTILINE)[0])
    assert (loaded["name"], loaded["parameters"]["loss_thresh"], loaded["parameters"]["beta"]) == (
        "bbr3",
        "7",
        "80",
    )
    assert loader.list() == {}


def test_a_unit_that_cannot_load_it_fails(loader: Loader, cgroup: Path, tmp_path: Path) -> None:
    script = """
mkdir /etc/ccmix
echo 'CCMIX_CCA_PARAMETERS=loss_thresh=0' >/etc/ccmix/cca-bbr3.env
! systemctl start ccmix-cca@bbr3
systemctl show --property=Result,ExecMainStatus ccmix-cca@bbr3
"""
    output = under_systemd(script, loader, cgroup, tmp_path)
    assert "Result=exit-code\n" in output
    assert "ExecMainStatus=2\n" in output  # of ccmix-cca: a wrong parameter
    assert loader.list() == {}


def test_it_is_unloaded_by_a_timer(loader: Loader, cgroup: Path, tmp_path: Path) -> None:
    """As the guide says, but after a second instead of an hour."""
    [command] = re.findall(r"^    sudo (systemd-run .*)$", GUIDE.read_text(), re.MULTILINE)
    command = command.replace("=1h", "=1s --timer-property=AccuracySec=100ms")
    command = command.replace("$PWD/.venv/bin/ccmix-cca", "/usr/sbin/ccmix-cca")
    script = f"""
ccmix-cca load bbr3
{command}
systemctl list-timers unload-bbr3.timer
until test "$(ccmix-cca list --json)" = "[]"; do sleep 0.2; done
"""
    assert "unload-bbr3.timer" in under_systemd(script, loader, cgroup, tmp_path)


ALLOWS = """
mkdir -p /classes/tool/iperf3mix
{ echo '#!/bin/sh -e'; cat; } >/classes/tool/iperf3mix/allow-ccas <<'END'
grep -qw bbr3 /proc/sys/net/ipv4/tcp_available_congestion_control
echo "bbr3 may be allowed"
END
chmod 755 /classes/tool/iperf3mix/allow-ccas
"""


def test_a_boot_allows_it_after_loading_it(loader: Loader, cgroup: Path, tmp_path: Path) -> None:
    """Stands in for pScheduler's tool with a program that fails if the CCA is not loaded."""
    allows = tmp_path / "pscheduler-tool-iperf3mix.service"
    text = (REPOSITORY / "plugin/allow-ccas.service").read_text()
    text = text.replace("@CLASSES@", "/classes")
    allows.write_text(text.replace("UMask=0077", "StandardOutput=append:/units/output"))
    boot = tmp_path / "boot.target"
    boot.write_text(
        f"[Unit]\nWants={allows.name} ccmix-cca@bbr3.service\nAfter={allows.name}\n"
        "DefaultDependencies=no\n"
    )
    script = f"""{ALLOWS}
systemctl start boot.target
systemctl restart ccmix-cca@bbr3
until test "$(grep -c '^bbr3 may' /units/output)" = 2; do sleep 0.2; done
test -z "$(systemctl list-units --failed --no-legend)"
systemctl stop ccmix-cca@bbr3
"""
    output = under_systemd(script, loader, cgroup, tmp_path, allows, boot)
    assert re.findall(r"^bbr3 may be allowed$", output, re.MULTILINE) == ["bbr3 may be allowed"] * 2
