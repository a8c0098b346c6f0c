"""Tests clusters that ccmix starts for a campaign: by SSH at a real sshd, and as jobs of a
stand-in for SLURM.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.cluster import started
from ccmix.cluster.messages import ClusterError
from ccmix.config.hostlist import HostRow
from support.cluster import expect_same_as_local, finished, grid
from support.commands import Ccmix, commands_in, run_program, wait_for
from support.dask_cluster import listening
from support.sshd import SshServer

pytestmark = [pytest.mark.lab, pytest.mark.deep]

LIMIT_S = 240
SBATCH = """#!/bin/sh
cp "$1" {folder}/job-$$.sh
setsid sh {folder}/job-$$.sh >{folder}/job-$$.log 2>&1 </dev/null &
echo $! >{folder}/job-$$.id
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
echo "$1" >>{folder}/cancelled
kill -TERM -- "-$1"
"""


@pytest.fixture
def hosts(sshd: SshServer, tmp_path: Path) -> Path:
    """A file with two names of one host, and a host that does not exist."""
    file = tmp_path / "hosts.csv"
    login, python = "root@dtn", sys.executable
    file.write_text(
        f"hostname,alias,python\n{login},one,{python}\n{login},two,{python}\nroot@192.0.2.1,gone,\n"
    )
    with sshd.client_config.open("a") as config:
        config.write("Host 192.0.2.1\n    ProxyCommand false\n")
    return file


def workers_at(sshd: SshServer) -> list[str]:
    return [command for command in commands_in(sshd.namespace.name) if "dask_worker" in command]


def test_workers_by_ssh(hosts: Path, sshd: SshServer, ccmix: Ccmix, tmp_path: Path) -> None:
    """Expects two workers, the same bytes, a sentence on the missing host, and only loopback."""
    ini, spread = grid(tmp_path / "grid.ini", 6), tmp_path / "spread"
    running = ccmix.start("run", ini, "--lab", "-o", spread, "--executor", f"ssh:{hosts}")
    wait_for(lambda: finished(spread), LIMIT_S, "a run")
    assert listening(running.pid) == {"127.0.0.1"}
    there = sshd.namespace.run(
        ["ss", "--tcp", "--listening", "--numeric", "--no-header", "--processes"]
    )
    by_workers = [line for line in there.splitlines() if "python" in line]
    assert by_workers
    assert all(line.split()[3].startswith("127.0.0.1:") for line in by_workers)
    assert len(workers_at(sshd)) == 2
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, errors
    assert "gone: no worker starts there: " in errors
    wait_for(lambda: not workers_at(sshd), LIMIT_S, "the end of the workers")
    expect_same_as_local(ccmix, ini, spread)


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_by_ssh_is_left(
    ended_by: signal.Signals, hosts: Path, sshd: SshServer, ccmix: Ccmix, tmp_path: Path
) -> None:
    ini, spread = grid(tmp_path / "grid.ini", 6), tmp_path / "spread"
    command = ("run", ini, "--lab", "-o", spread, "--executor", f"ssh:{hosts}")
    running = ccmix.start(*command)
    wait_for(lambda: finished(spread), LIMIT_S, "a run")
    running.send_signal(ended_by)
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == (130 if ended_by is signal.SIGINT else -signal.SIGKILL), errors
    wait_for(lambda: not workers_at(sshd), LIMIT_S, "the end of the workers")
    ccmix(*command, "--resume", status=0)
    expect_same_as_local(ccmix, ini, spread)


def test_a_worker_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for a host whose login never ends: a program that never ends."""
    monkeypatch.setattr(started, "REGISTERS_WITHIN_S", 0.5)
    monkeypatch.setattr(
        started, "ssh_command", lambda _: ("sh", "-c", "echo waits >&2; exec sleep 1000")
    )
    said: list[str] = []
    with pytest.raises(ClusterError, match="no worker could be started"):
        started.cluster_by_ssh([HostRow(1, "dtn", None, "192.0.2.1", None, ())], said.append)
    (sentence,) = said
    assert sentence.startswith(
        "dtn: no worker starts there: it did not reach the scheduler within 0.5 s"
    )
    assert sentence.endswith(": waits")


def test_no_host_can_be_reached(
    sshd: SshServer, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("hostname,python\nroot@dtn,/no/python\n")
    done = ccmix(
        "run", small_ini, "--lab", "-o", tmp_path / "spread", "--executor", f"ssh:{hosts}", status=2
    )
    assert "dtn: no worker starts there: " in done.stderr
    assert "/no/python" in done.stderr
    assert done.stderr.splitlines()[1:] == ["no worker could be started"]
    assert not (tmp_path / "spread").exists()


@pytest.fixture
def stand_in_for_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an sbatch that runs the job's script as a process of this machine, and
    its scancel.
    """
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, script in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (folder / name).write_text(script.format(folder=folder))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv(
        "HOME", str(tmp_path)
    )  # dask-jobqueue writes an example of its configuration there
    for name, value in {
        "CORES": "1",
        "MEMORY": "2GB",
        "INTERFACE": "lo",
        "SHARED_TEMP_DIRECTORY": str(folder / "certificates"),
    }.items():
        monkeypatch.setenv(f"DASK_JOBQUEUE__SLURM__{name}", value)
    return folder


def test_workers_by_a_stand_in_for_slurm(
    stand_in_for_slurm: Path, small_ini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job begins in the working directory, whose Python files it must not run."""
    (tmp_path / "with-slurm").mkdir()
    monkeypatch.chdir(tmp_path / "with-slurm")
    Path("distributed.py").write_text("raise SystemExit('a file of the working directory')")
    ccmix, spread = Ccmix(tmp_path / "with-slurm"), tmp_path / "spread"
    done = ccmix("run", small_ini, "--lab", "-o", spread, "--executor", "slurm:2")
    assert done.returncode == 0, done.stderr
    jobs = list(stand_in_for_slurm.glob("job-*.sh"))
    assert len(jobs) == 2
    assert all("--tls-cert" in job.read_text() and "tls://" in job.read_text() for job in jobs)
    assert not list((stand_in_for_slurm / "certificates").iterdir())
    assert all("#SBATCH --cpus-per-task=1" in job.read_text() for job in jobs)
    assert len((stand_in_for_slurm / "cancelled").read_text().split()) == 2
    wait_for(lambda: not _running(jobs), LIMIT_S, "the end of the jobs")
    expect_same_as_local(ccmix, small_ini, spread)


def test_a_job_that_ends_is_submitted_again(
    stand_in_for_slurm: Path, small_ini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the only job like SLURM at the end of its time, and expects the campaign to report it
    and to continue.
    """
    monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "1s")
    (tmp_path / "with-slurm").mkdir()
    ccmix, spread, ini = (
        Ccmix(tmp_path / "with-slurm"),
        tmp_path / "spread",
        grid(tmp_path / "grid.ini", 6),
    )
    running = ccmix.start("run", ini, "--lab", "-o", spread, "--executor", "slurm")
    wait_for(lambda: finished(spread), LIMIT_S, "a run")
    (number,) = stand_in_for_slurm.glob("job-*.id")
    os.killpg(int(number.read_text()), signal.SIGTERM)
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, errors
    assert "has no worker now: ccmix waits for a worker" in errors
    assert len(list(stand_in_for_slurm.glob("job-*.sh"))) == 2
    expect_same_as_local(ccmix, ini, spread)


def _running(jobs: list[Path]) -> list[str]:
    listed = run_program(["ps", "-eo", "args"], check=True).stdout.splitlines()
    return [line for line in listed if any(str(job) in line for job in jobs)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda folder, _: (folder / "sbatch").write_text(
                "#!/bin/sh\necho no partition >&2; exit 1\n"
            ),
            "no partition",
        ),
        (lambda folder, _: (folder / "sbatch").unlink(), "there is no sbatch here"),
        (
            lambda _, patch: patch.delenv("DASK_JOBQUEUE__SLURM__INTERFACE"),
            "jobqueue.slurm.interface",
        ),
        (lambda _, patch: patch.delenv("DASK_JOBQUEUE__SLURM__CORES"), "how much cores and memory"),
    ],
)
def test_what_a_stand_in_for_slurm_refuses(
    change: Callable[[Path, pytest.MonkeyPatch], object],
    said: str,
    stand_in_for_slurm: Path,
    small_ini: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(stand_in_for_slurm, monkeypatch)
    (tmp_path / "with-slurm").mkdir()
    done = Ccmix(tmp_path / "with-slurm")(
        "run", small_ini, "--lab", "-o", tmp_path / "spread", "--executor", "slurm", timeout=LIMIT_S
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1:] in ([], ["no worker could be started"])
    assert not (tmp_path / "spread").exists()
