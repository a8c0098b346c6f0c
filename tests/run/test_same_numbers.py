"""Tests that the numbers of a run in the lab depend only on its seed, not on the machine."""

import asyncio
import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ccmix.config import load
from ccmix.lab import guest
from ccmix.lab.guest_code import LOADER
from ccmix.model import Run
from ccmix.plan import make_plan
from ccmix.probes.stream.reader import read_stream
from ccmix.run import machines
from ccmix.run.machines import OWN_ROOT_ENVIRONMENT, PACKAGE_FOLDER, EmulationPrograms, LabMachine
from ccmix.tools import (
    find_confine,
    find_iperf3,
    find_kernel,
    find_rtt,
    find_sockmon,
    find_userland,
)
from support.commands import CCMIX, NOT_EMULATED, REPOSITORY, Ccmix, long, run_program
from support.plugin_machine import debian_machine
from support.sensitive_runs import MIXED, SERVICES

pytestmark = pytest.mark.lab

DEMO = (REPOSITORY / "configs/demo.ini").read_text()
OF_DEMO = "mixed delay=5ms,loss=0% #1"  # a short one
PROBED = "logs/run.sockmon"
RAW = {
    "generators/h1-iperf3-client.json",
    "generators/h1-iperf3-server.json",
    PROBED,
}


# The rights to /dev/null, since not every machine lets others write there; another name of the
# host; another user
AS_ANOTHER = """
mount -t tmpfs tmpfs "$1" && mknod -m 666 "$1/null" c 1 3 && mount --bind "$1/null" /dev/null && shift || exit
hostname somewhere.else && umask 077 && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""
# A root of another distribution, with those folders of this machine that follow, and then the
# command in a folder
IN_CHROOT = """
root=$1 folder=$2 PATH=$PATH:/usr/sbin
shift 2
while [ "$1" != -- ]; do
    mkdir -p "$root$1" && mount --rbind "$1" "$root$1" || exit
    shift
done
shift
exec chroot "$root" env -C "$folder" "$@"
"""


@contextlib.contextmanager
def every_processor_busy() -> Iterator[None]:
    """Runs an endless loop on each processor that this process may use."""
    with contextlib.ExitStack() as ends:
        for cpu in os.sched_getaffinity(0):
            argv = [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "taskset",
                "-c",
                str(cpu),
                "sh",
                "-c",
                "while :; do :; done",
            ]
            hog = ends.enter_context(subprocess.Popen(argv))
            ends.callback(hog.kill)
        yield


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def differing(some: Mapping[str, bytes], others: Mapping[str, bytes]) -> list[str]:
    """Returns the files whose bytes differ."""
    return sorted(
        name for name in some.keys() | others.keys() if some.get(name) != others.get(name)
    )


@dataclass(frozen=True)
class Outcome:
    metrics: dict[str, Any]
    files: dict[str, bytes]
    """All that the run left but run.json, which says how long it took."""


@pytest.fixture
def outcome(ccmix: Ccmix, tmp_path: Path) -> Callable[[str, int], Outcome]:
    """Runs MIXED into a folder of that name, with that seed."""
    ini = tmp_path / "mixed.ini"
    ini.write_text(MIXED)

    def run(name: str, seed: int) -> Outcome:
        ccmix("run", ini, "--lab", "--seed", seed, "-o", tmp_path / name, status=0)
        files = contents(tmp_path / name / "mixed" / "all" / "receiver" / "001")
        return Outcome(json.loads(files.pop("run.json"))["metrics"], files)

    return run


@pytest.mark.deep
def test_16_mixed_flows_beside_a_busy_machine(outcome: Callable[[str, int], Outcome]) -> None:
    quiet = outcome("quiet", 7)
    with every_processor_busy():
        busy = outcome("busy", 7)
    other = outcome("other", 8)

    assert [(group["group"], group["streams"]) for group in quiet.metrics["groups"]] == [
        ("cubic", 8),
        ("bbr", 8),
    ]
    assert quiet.files.keys() >= RAW
    assert differing(quiet.files, busy.files) == []
    assert busy.metrics == quiet.metrics

    assert set(differing(quiet.files, other.files)) >= RAW
    assert other.metrics != quiet.metrics


@pytest.mark.deep
@pytest.mark.root
@pytest.mark.parametrize(
    ("ini", "options"),
    [(MIXED, ()), (SERVICES, ()), long(DEMO, ("--run", OF_DEMO))],
    ids=["mixed", "services", "demo"],
)
def test_another_user_with_another_environment_changes_nothing(
    ccmix: Ccmix, tmp_path: Path, ini: str, options: tuple[str, ...]
) -> None:
    """Changes locale, time zone, name of the host, HOME and TMPDIR, too."""
    place = Path(
        subprocess.run(
            ["mktemp", "-d"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    )
    try:
        for folder in (
            place,
            home := place / "a home",
            temporary := place / "temporary",
            null := place / "null",
        ):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
        file = place / "test.ini"
        file.write_text(ini)
        file.chmod(0o644)
        command = ("run", file, "--lab", "--seed", 7, *options)
        ours = ccmix(*command, "-o", tmp_path / "ours")
        assert (tmp_path / "ours/report.html").exists(), ours.stderr
        as_another = ["unshare", "--mount", "--uts", "sh", "-c", AS_ANOTHER, "sh", str(null)]
        if subprocess.run(
            [*as_another, CCMIX, "--version"], capture_output=True, check=False
        ).returncode:
            pytest.skip(f"NOT TESTED: another user can't run {CCMIX}")
        environment = [
            "env",
            "-i",
            "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
            f"HOME={home}",
            f"TMPDIR={temporary}",
        ]
        environment += [
            "LC_ALL=tr_TR.UTF-8",
            "TZ=Asia/Kolkata",
            "LOGNAME=nobody",
            f"CCMIX_CACHE={home}/cache",
        ]
        theirs = ccmix(*command, "-o", place / "theirs", prefix=[*as_another, *environment])
        assert (place / "theirs/report.html").exists(), theirs.stderr
        assert differing(of_run(tmp_path / "ours"), of_run(place / "theirs")) == []
    finally:
        shutil.rmtree(place)


# Adds up floats exactly, where 3.11's sum() rounds each time, and 3.12's and newer ones' rounds
# less often
ANOTHER_SUM = """
import builtins, math
plain = builtins.sum
def sum(values, /, start=0):
    values = list(values)
    return math.fsum([start, *values]) if any(type(value) is float for value in values) else plain(values, start)
builtins.sum = sum
"""


@pytest.mark.deep
def test_how_python_adds_up_floats_changes_nothing(ccmix: Ccmix, tmp_path: Path) -> None:
    (tmp_path / "test.ini").write_text(MIXED)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(ANOTHER_SUM)
    for name, prefix in (("ours", ()), ("theirs", ("env", f"PYTHONPATH={tmp_path / 'site'}"))):
        ccmix(
            "run",
            tmp_path / "test.ini",
            "--lab",
            "--seed",
            7,
            "-o",
            tmp_path / name,
            prefix=list(prefix),
            status=0,
        )
    assert differing(of_run(tmp_path / "ours"), of_run(tmp_path / "theirs")) == []


def of_run(outdir: Path) -> dict[str, bytes]:
    """Returns the files of the one run of a campaign, with its metrics instead of the rest
    of run.json.
    """
    [run_json] = outdir.rglob("run.json")
    files = contents(run_json.parent)
    finished = json.loads(files.pop("run.json"))
    assert finished["facts"]["guest_root"]["repeatable_elsewhere"] is True
    return files | {"metrics": json.dumps(finished["metrics"]).encode()}


@pytest.mark.deep
@pytest.mark.root
@pytest.mark.parametrize(
    "suite",
    ["trixie", *(long(suite) for suite in ("bookworm", "sid"))],
)
def test_another_distribution_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite: str
) -> None:
    """Starts only the guest in a chroot of the distribution; the harness stays outside."""
    runs = [planned(MIXED, tmp_path), planned(SERVICES, tmp_path), planned(DEMO, tmp_path, OF_DEMO)]
    (work := tmp_path / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    monkeypatch.setenv("TMPDIR", str(work))
    here = [measured(run, work / f"here-{number}") for number, run in enumerate(runs)]
    with debian_machine(tmp_path / "root", suite) as machine:
        started = starting_in(machine.root, work)
        monkeypatch.setattr(guest.asyncio, "create_subprocess_exec", started)
        there = [measured(run, work / f"there-{number}") for number, run in enumerate(runs)]
    assert started.count == len(runs)
    for mine, theirs in zip(here, there, strict=True):
        assert mine.keys() >= {PROBED}
        assert differing(mine, theirs) == []


class starting_in:
    """Starts a process in a chroot, with the folders of this machine that a guest's
    process needs.
    """

    def __init__(self, root: Path, work: Path) -> None:
        programs = (find_kernel(), find_confine(), find_userland().parent)
        self._prefix = ["unshare", "--mount", "sh", "-c", IN_CHROOT, "sh", root]
        self._folders = ["/dev", "/proc", work, *(program.parent for program in programs)]
        self._start = asyncio.create_subprocess_exec
        self.count = 0

    async def __call__(self, *argv: Any, cwd: Path, **more: Any) -> asyncio.subprocess.Process:
        self.count += 1
        return await self._start(*self._prefix, cwd, *self._folders, "--", *argv, cwd=cwd, **more)


def planned(ini: str, folder: Path, name: str | None = None) -> Run:
    """Returns the only run of the file, or the run with this name."""
    file = folder / "test.ini"
    file.write_text(ini)
    [run] = (run for run in make_plan(load(file).entries, seed=7) if name in (None, run.name))
    return run


@pytest.mark.root
@pytest.mark.parametrize("tmpdir", ["/tmp", "/dev/shm"])
def test_what_the_host_has_in_run_changes_nothing(tmpdir: str) -> None:
    """Guards against programs that look into /run before the guest has its own: a system call that
    fails takes virtual time.
    """
    outputs = [
        run_program(
            [
                *(
                    "unshare",
                    "--mount",
                    "sh",
                    "-c",
                    f'mount -t tmpfs tmpfs /run && {prepare} && exec "$@"',
                    "sh",
                ),
                *(
                    CCMIX,
                    "lab",
                    "exec",
                    "--host-root",
                    "--",
                    "sh",
                    "-c",
                    "date +%s.%N; od -An -tx1 -N32 /dev/urandom",
                ),
            ],
            env=os.environ | {"TMPDIR": tmpdir},
            check=True,
        ).stdout
        for prepare in (
            "true",
            "cd /run && mkdir mount systemd && touch mount/utab systemd/systemd-units-load",
        )
    ]
    assert outputs[0].startswith("1767225600.")
    assert outputs[0] == outputs[1]


@pytest.fixture
def sensitive() -> Run:
    """Describes 8 BBR flows for 90 s, because in shorter runs a difference may still be small."""
    runs = make_plan(load(REPOSITORY / "configs" / "demo.ini").entries, seed=1)
    return next(
        run for run in runs if run.entry == "all-bbr" and run.condition_name == "delay=44ms,loss=0%"
    )


def measured(run: Run, folder: Path, iperf3: Path | None = None) -> dict[str, bytes]:
    """Returns the files that measuring the run leaves in the folder."""
    folder.mkdir()
    programs = EmulationPrograms(iperf3 or find_iperf3(), find_sockmon(), find_rtt())
    asyncio.run(LabMachine(find_kernel(), programs).measure(run, folder))
    return contents(folder)


@pytest.mark.deep
def test_a_longer_path_of_iperf3_changes_nothing(sensitive: Run, tmp_path: Path) -> None:
    far = tmp_path / "where" / "somebody" / "else" / "installed" / "it"
    far.mkdir(parents=True)
    moved = Path(shutil.copy(find_iperf3(), far))
    assert (
        differing(
            measured(sensitive, tmp_path / "near"), measured(sensitive, tmp_path / "moved", moved)
        )
        == []
    )


def same_but_for_resident_memory(folder: Path, other: Path) -> None:
    """Ignores the resident memory of processes: on another processor the C library touches other
    pages of itself.
    """
    assert set(differing(contents(folder), contents(other))) <= {PROBED}
    streams = read_stream(folder / PROBED), read_stream(other / PROBED)
    for table in ("sockets", "queues", "links", "counters", "cpu"):
        first, second = (getattr(stream, table) for stream in streams)
        assert first.equals(second), table
    first, second = (stream.processes.drop("memory_bytes") for stream in streams)
    assert first.equals(second)
    assert streams[0].report == streams[1].report


def usable_features(tunables: str) -> str:
    help_text = run_program(
        [find_userland() / LOADER, "--list-diagnostics"],
        env={"GLIBC_TUNABLES": tunables},
        check=True,
    )
    return "\n".join(line for line in help_text.stdout.splitlines() if "cpu_features" in line)


@pytest.mark.deep
def test_the_c_librarys_routines_for_an_older_processor_change_nothing(
    sensitive: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets GLIBC_TUNABLES as a command could by itself."""
    features = ("AVX512F", "AVX512VL", "AVX2", "AVX", "ERMS", "BMI2", "SSSE3")
    older = "glibc.cpu.hwcaps=" + ",".join(f"-{feature}" for feature in features)
    # The C library knows no such names, and does not say so; a longer environment would move the
    # stack
    newer = "glibc.cpu.hwcaps=" + ",".join(f"-{feature.lower()}" for feature in features)
    assert usable_features(older) != usable_features(newer)
    folders = (tmp_path / "older", tmp_path / "newer")
    for folder, tunables in zip(folders, (older, newer), strict=True):
        environment = {**OWN_ROOT_ENVIRONMENT, "GLIBC_TUNABLES": tunables}
        monkeypatch.setattr(machines, "OWN_ROOT_ENVIRONMENT", environment)
        measured(sensitive, folder)
    same_but_for_resident_memory(*folders)


MEASURE = """
import asyncio, functools, pickle, shutil, sys, tempfile
from pathlib import Path
from ccmix.run import machines
from ccmix.run.machines import EmulationPrograms, LabMachine
# An emulated processor takes minutes for what another does in seconds, and more where others keep this machine busy.
machines.GuestSpec = functools.partial(machines.GuestSpec, stall_seconds=3600)
job, folder, kernel, *programs = map(Path, sys.argv[1:])
machine = LabMachine(kernel, EmulationPrograms(*programs))
with tempfile.TemporaryDirectory() as own:
    asyncio.run(machine.measure(pickle.loads(job.read_bytes()), Path(own)))
    shutil.copytree(own, folder)
"""


@pytest.mark.long
@pytest.mark.parametrize("model", ["SandyBridge", "max"])
@pytest.mark.parametrize("ini", [None, MIXED, SERVICES], ids=["demo", "mixed", "services"])
def test_another_processor_changes_nothing(
    sensitive: Run, tmp_path: Path, ini: str | None, model: str
) -> None:
    """Emulates processors: SandyBridge has AVX and nothing newer, max is an AMD processor
    with AVX2.
    """
    run = planned(ini, tmp_path) if ini else sensitive
    measured(run, tmp_path / "here")
    away = tmp_path / "away"
    away.mkdir()
    (away / "job.pickle").write_bytes(pickle.dumps(run))
    # Python's real path, as in a run, is outside the virtual environment, which has what the lab's
    # machine imports
    modules = f"{PACKAGE_FOLDER}:{sysconfig.get_path('purelib')}"
    found = (f"CCMIX_USERLAND={find_userland()}", f"CCMIX_CONFINE={find_confine()}")
    python = (
        "env",
        *found,
        f"PYTHONPATH={modules}",
        "PYTHONDONTWRITEBYTECODE=1",
        str(Path(sys.executable).resolve()),
    )
    programs = (find_kernel(), find_iperf3(), find_sockmon(), find_rtt())
    argv = (*python, "-c", MEASURE, away / "job.pickle", away / "run", *programs)
    done = run_program([REPOSITORY / "lab" / "emulate", model, away, *argv])
    if done.returncode == NOT_EMULATED:
        pytest.skip(f"NOT TESTED: no processor could be emulated here: {done.stderr}")
    assert done.returncode == 0, done.stdout
    same_but_for_resident_memory(tmp_path / "here", away / "run")
