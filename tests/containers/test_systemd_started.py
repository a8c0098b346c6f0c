"""Starts ccmix@.service and its timer with a real systemd, which is process 1 of separate
namespaces: start, stop, resume, a kill, and the timer.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.commands import REPOSITORY
from support.commands import wait_for as wait_for_condition
from support.containers import DEFAULT, PARAMETER, SWEEP, Docker, wait_for, wait_for_change

pytestmark = pytest.mark.timeout(3000)
UNITS = REPOSITORY / "packaging/systemd"
SYSTEMD = Path("/lib/systemd/systemd")
GROUPS = Path("/sys/fs/cgroup")
NAME = "my-test"
DOCKER_SERVICE = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
# Nothing else of this machine starts
TARGETS = ("sysinit", "basic", "shutdown", "network-online", "time-sync", "timers")
# Each second, so that the test does not wait for the night
EACH_SECOND = "[Timer]\nOnCalendar=\nOnCalendar=*:*:*\nRandomizedDelaySec=0\n"
# $1: folder with the units, the docker client and the engine's socket; $2: 2 or 1, of cgroups
START = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run
if [ "$2" = 1 ]; then
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
else
    mount -t cgroup2 cgroup /sys/fs/cgroup
fi
mkdir /run/units
mount --bind "$1/units" /run/units
mount --bind "$1/bin" /usr/local/bin
touch /run/docker.sock
mount --bind "$1/socket" /run/docker.sock
exec env -i container=ccmix-test PATH=/usr/local/bin:/usr/bin:/bin SYSTEMD_UNIT_PATH=/run/units \
    "$3" --system --unit=docker.service --log-target=null --show-status=no
"""


@dataclass(frozen=True)
class Systemd:
    """Represents a systemd that runs, with a folder for the results of the unit's campaign."""

    pid: int
    results: Path

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs systemctl in the namespaces of this systemd."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--cgroup"]
        return subprocess.run(
            [*enter, "systemctl", *words], capture_output=True, text=True, timeout=200, check=False
        )

    def good(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self, unit: str = f"ccmix@{NAME}") -> tuple[str, str]:
        """Returns ActiveState and Result of a unit, such as ('inactive', 'success')."""
        shown = self.good("show", unit, "--property=ActiveState,Result")
        values = dict(line.split("=") for line in shown.split())
        return values["ActiveState"], values["Result"]

    def wait_for_state(self, *states: str) -> None:
        deadline = time.monotonic() + 150
        while (state := self.state()[0]) not in states:
            assert time.monotonic() < deadline, f"the unit is {state}, and not {states}"
            time.sleep(0.1)


def write_units(folder: Path, state: Path, socket: str) -> None:
    """Writes the units with paths of this test instead of /etc/ccmix and /var/lib/ccmix."""
    units = folder / "units"
    units.mkdir()
    for unit in UNITS.glob("ccmix@*"):
        text = unit.read_text().replace("/etc/ccmix", f"{folder}/etc")
        text = text.replace("ccmix-campaigns", f"{state.name}/campaigns")
        text = text.replace("/var/lib/ccmix:", f"{state}/state:")
        text = text.replace("%i ccmix\n", f"%i {state.name}/state\n")
        (units / unit.name).write_text(text)
    (units / "docker.service").write_text(DOCKER_SERVICE)
    for name in TARGETS:
        (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (units / f"ccmix@{NAME}.timer.d").mkdir()
    (units / f"ccmix@{NAME}.timer.d/often.conf").write_text(EACH_SECOND)
    (folder / "etc").mkdir()
    (folder / "etc" / f"{NAME}.ini").write_text(SWEEP)
    (folder / "bin").mkdir()
    (folder / "socket").symlink_to(socket.removeprefix("unix://"))


@pytest.fixture
def systemd(docker: Docker, harness: str, tmp_path: Path) -> Iterator[Systemd]:
    assert PARAMETER.read_text() == DEFAULT
    if not SYSTEMD.exists() and "CI" not in os.environ:
        pytest.skip("systemd is not here: THE UNITS ARE NOT STARTED")
    state = Path("/var/lib", f"ccmix-test-{os.getpid()}")
    write_units(tmp_path, state, docker.environment["DOCKER_HOST"])
    client = shutil.which("docker", path=docker.environment["PATH"])
    assert client
    shutil.copy(client, tmp_path / "bin/docker")
    version, group = (
        ("2", GROUPS) if (GROUPS / "cgroup.procs").exists() else ("1", GROUPS / "systemd")
    )
    group /= f"ccmix-test-{os.getpid()}"
    group.mkdir()
    namespaces = ("--mount", "--pid", "--cgroup", "--ipc", "--uts", "--mount-proc")
    process = subprocess.Popen(
        [
            *("sh", "-ec", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"),
            *("unshare", *namespaces, "--fork", "--kill-child", "--"),
            *("sh", "-ec", START, "sh", tmp_path, version, SYSTEMD),
        ],
        stdin=subprocess.DEVNULL,
    )
    try:
        yield Systemd(first_process(process), state / "campaigns" / NAME / "results")
    finally:
        process.kill()
        process.wait()
        docker("rm", "--force", f"ccmix-{NAME}")
        shutil.rmtree(state, ignore_errors=True)
        # The kernel ends the processes of the namespaces by themselves, after `process`
        wait_for_condition(lambda: not processes_in(group), 20, "systemd's processes have ended")
        for folder in sorted(group.rglob("*/"), reverse=True):
            folder.rmdir()
        group.rmdir()


def processes_in(group: Path) -> str:
    """Returns the numbers of the processes in a cgroup and in those below it."""
    return "".join(processes.read_text() for processes in group.rglob("cgroup.procs"))


def first_process(process: subprocess.Popen[bytes]) -> int:
    """Returns the number of a systemd that answers systemctl, which is the child of `process`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children and Systemd(int(children[0]), Path())("list-units").returncode == 0:
            return int(children[0])
        time.sleep(0.1)
    pytest.fail(f"systemd does not start; exit status {process.poll()}")


def test_campaign(systemd: Systemd, docker: Docker) -> None:
    """A stop ends the campaign, a start on the same day resumes it, a kill leaves nothing changed,
    and the timer starts it.
    """
    unit = f"ccmix@{NAME}"
    systemd.good("start", unit)
    wait_for_change()
    systemd.good("stop", unit)
    assert (PARAMETER.read_text(), systemd.state()) == (DEFAULT, ("inactive", "success"))
    assert not list(systemd.results.rglob("*.partial"))

    systemd.good("start", unit)
    wait_for_change()
    docker.good("kill", "--signal", signal.SIGKILL.name, f"ccmix-{NAME}")
    systemd.wait_for_state("failed")
    assert PARAMETER.read_text() == DEFAULT, "ExecStopPost does not restore"

    systemd.good("start", f"{unit}.timer")
    systemd.wait_for_state("active", "activating")
    systemd.good("stop", f"{unit}.timer")
    wait_for(systemd.results, "run.json", 2)
    systemd.wait_for_state("failed", "inactive")  # a run that only sleeps is not valid
    assert PARAMETER.read_text() == DEFAULT
