"""Tests one guest: its input, its output, and its end."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from shutil import ignore_patterns

import pytest

from ccmix.lab import GuestError, GuestResult, GuestSpec, run_guest
from ccmix.lab import guest as guest_module
from ccmix.tools import find_confine, find_userland
from support.commands import run_program

pytestmark = pytest.mark.lab

HARNESS = Path(guest_module.__file__).resolve().parents[2]
MIB = 1 << 20
Processes = Callable[[Path], dict[int, str]]
BUSY = ("sh", "-c", "echo busy; while :; do :; done")


def spec(job: Path, *argv: str, memory_mib: int = 128, seed: int = 1, **more: object) -> GuestSpec:
    return GuestSpec(argv=argv, job_dir=job, memory_bytes=memory_mib * MIB, seed=seed, **more)  # type: ignore[arg-type]


def run(kernel: Path, job: Path, *argv: str, **more: object) -> GuestResult:
    return asyncio.run(run_guest(kernel, spec(job, *argv, **more)))  # type: ignore[arg-type]


def shell(kernel: Path, job: Path, script: str, **more: object) -> GuestResult:
    return run(kernel, job, "sh", "-c", script, **more)


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_exit_status_console_and_environment_come_and_go(
    kernel: Path, job: Path, launch_parent: Path
) -> None:
    awkward = "a  'b' \"c\" $d \\ é\nend"
    result = run(
        kernel,
        job,
        "sh",
        "-c",
        'printf "%s|" "$@" "$WORD" "$PWD" "$(id -u)"; exit 3',
        "sh",
        awkward,
        "",
        environment={"WORD": awkward},
    )
    assert result.exit_status == 3
    assert result.console == f"{awkward}||{awkward}|/run/ccmix/job|0|"
    assert 0 < result.real_seconds < 10
    assert list(launch_parent.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("kill -9 $$", 137), ("no-such-program", 127)]
)
def test_exit_status_of_a_failed_command_is_no_error(
    kernel: Path, job: Path, script: str, status: int
) -> None:
    assert shell(kernel, job, script).exit_status == status


def test_only_the_job_folder_can_be_written(kernel: Path, job: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("host")
    script = f"""
        echo guest > result || exit 9
        for place in / /root /tmp /usr /var/tmp {tmp_path} {job.parent}; do
            touch $place/ccmix-lab-was-here 2>/dev/null && echo "could write to $place"
        done
        {{ echo guest > {tmp_path}/mine; }} 2>/dev/null && echo "could overwrite"
        cat {tmp_path}/mine"""
    assert shell(kernel, job, script).console == "host"
    assert (job / "result").read_text() == "guest\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "launch", "mine"]


def test_time_is_virtual(kernel: Path, job: Path) -> None:
    result = shell(kernel, job, "begin=$(date +%s); sleep 3600; echo $(($(date +%s) - begin))")
    assert result.console == "3600\n"
    assert result.real_seconds < 5


def test_same_seed_same_bytes(kernel: Path, job: Path) -> None:
    script = (
        "head -c 48 /dev/urandom | od -An -v -tx1; cat /proc/sys/kernel/random/uuid; sleep "
        "0.1; env; date +%s%N"
    )
    first, again, other = (
        shell(kernel, job, script, seed=seed).console for seed in (7, 7, 2**32 - 1)
    )
    assert first == again
    numbers, times = zip(*(text.rsplit("\n", 2)[:2] for text in (first, other)), strict=True)
    assert numbers[0] != numbers[1]
    assert all(re.fullmatch(r"17672256\d{11}", text) for text in times)


def test_netem_delays_exactly(kernel: Path, job: Path) -> None:
    script = """
        ip netns add a && ip netns add b
        ip link add va netns a type veth peer name vb netns b
        for side in a:va:1 b:vb:2; do
            IFS=: read -r name device number <<END
$side
END
            ip -n $name addr add 10.0.0.$number/24 dev $device
            ip -n $name link set $device up
            tc -n $name qdisc add dev $device root netem delay 20ms
        done
        ip netns exec a ping -q -c 10 -i 0.2 10.0.0.2"""
    console = shell(kernel, job, script).console
    times = re.search(r"rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)", console)
    assert times, console
    # The first packet waits for ARP, which is delayed too.
    assert float(times[1]) == pytest.approx(40, abs=0.1)
    assert float(times[2]) == pytest.approx(40 + 40 / 10, abs=0.2)


def test_every_congestion_control_and_queue_is_there(kernel: Path, job: Path) -> None:
    algorithms = {
        "reno",
        "cubic",
        "bbr",
        "bbr2",
        "bbr3",
        "vegas",
        "dctcp",
        "westwood",
        "htcp",
        "bic",
        "yeah",
        "illinois",
        "veno",
        "cdg",
    }
    queues = [
        "netem",
        "tbf rate 1mbit burst 10k limit 10k",
        "htb",
        "fq",
        "fq_codel",
        "codel",
        "pfifo",
        "bfifo",
        "pie",
    ]
    queues += ["red limit 100k avpkt 1000 bandwidth 10mbit", "cake", "prio", "ingress", "clsact"]
    script = "cat /proc/sys/net/ipv4/tcp_available_congestion_control\n"
    script += "ip link add dum0 type dummy; ip link add ifb7 type ifb\n"
    for queue in queues:
        place = "" if queue in {"ingress", "clsact"} else "root"
        script += (
            f"tc qdisc add dev dum0 {place} {queue} || echo no {queue}; tc qdisc del dev "
            f"dum0 {place or queue}\n"
        )
    first, *rest = shell(kernel, job, script).console.splitlines()
    assert set(first.split()) == algorithms
    assert rest == []


def test_panic(kernel: Path, job: Path, launch_parent: Path, processes_in: Processes) -> None:
    with pytest.raises(GuestError, match="panicked: sysrq triggered crash") as error:
        shell(kernel, job, "echo before; echo c > /proc/sysrq-trigger")
    assert error.value.reason == "panic"
    assert "before" in error.value.last_lines
    assert list(launch_parent.iterdir()) == []
    assert wait_for(lambda: not processes_in(launch_parent))


def test_power_off_by_the_command_is_not_taken_for_success(kernel: Path, job: Path) -> None:
    with pytest.raises(GuestError) as error:
        shell(kernel, job, "echo o > /proc/sysrq-trigger; sleep 1000")
    assert error.value.reason == "panic"


def test_out_of_memory(kernel: Path, job: Path) -> None:
    with pytest.raises(GuestError) as error:
        run(kernel, job, "tail", "/dev/zero", memory_mib=64)
    assert error.value.reason == "out of memory"
    assert error.value.last_lines


def test_hang(kernel: Path, job: Path, launch_parent: Path, processes_in: Processes) -> None:
    begin = time.monotonic()
    with pytest.raises(GuestError, match="for 3 s") as error:
        run(kernel, job, *BUSY, stall_seconds=3.0)
    assert error.value.reason == "hang"
    assert error.value.last_lines == ("busy",)
    assert time.monotonic() - begin >= 3
    assert wait_for(lambda: processes_in(launch_parent) == {})


def test_a_command_that_writes_is_no_hang(kernel: Path, job: Path) -> None:
    # Each turn of the loop takes some real time, and all of them take more than the limit.
    script = "for i in $(seq 20); do head -c 30M /dev/urandom > /dev/null; echo $i >> file; done"
    result = shell(kernel, job, script, stall_seconds=1.5)
    assert result.exit_status == 0
    assert result.real_seconds > 1.5


def test_cancelling_leaves_nothing(
    kernel: Path, job: Path, launch_parent: Path, processes_in: Processes
) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(run_guest(kernel, spec(job, *BUSY)))
        while "uml-userspace" not in processes_in(launch_parent).values():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancel(), 20))
    assert wait_for(lambda: not processes_in(launch_parent), 30)
    assert list(launch_parent.iterdir()) == []


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.1])
def test_cancelling_at_any_moment_leaves_nothing(
    kernel: Path, job: Path, launch_parent: Path, processes_in: Processes, delay: float
) -> None:
    async def cancel() -> None:
        async with asyncio.timeout(delay):
            await run_guest(kernel, spec(job, *BUSY))

    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert wait_for(lambda: not processes_in(launch_parent), 30)
    assert list(launch_parent.iterdir()) == []


@pytest.mark.parametrize(
    ("parent", "output"), [(os.getpid(), "guest\n"), (1, "")], ids=["alive", "dead"]
)
def test_a_guest_whose_harness_died_too_early_does_not_start(parent: int, output: str) -> None:
    cpu = min(os.sched_getaffinity(0))
    started = subprocess.run(
        [
            find_confine(),
            f"--parent={parent}",
            f"--processor={cpu}",
            "--read=/",
            "--",
            "/bin/echo",
            "guest",
        ],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout == output


RUN_AS_A_PROGRAM = """
import asyncio, json, os, sys
from pathlib import Path
from ccmix.lab import GuestSpec, run_guest
kernel, job, *argv = sys.argv[1:]
root = Path(os.environ["ROOT"]) if "ROOT" in os.environ else None
result = asyncio.run(run_guest(Path(kernel), GuestSpec(tuple(argv), Path(job), 128 << 20, 1, userland=root)))
print(json.dumps([result.exit_status, result.console, result.confinement]))
"""


def test_a_killed_harness_leaves_no_guest(
    kernel: Path, job: Path, launch_parent: Path, processes_in: Processes
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HARNESS), "TMPDIR": str(launch_parent)}
    with subprocess.Popen(
        [sys.executable, "-c", RUN_AS_A_PROGRAM, kernel, job, *BUSY], env=environment
    ) as harness:
        try:
            assert wait_for(lambda: "uml-userspace" in processes_in(launch_parent).values())
        finally:
            os.kill(harness.pid, signal.SIGKILL)
    assert wait_for(lambda: not processes_in(launch_parent), 10)
    # The launch folder remains, and the next guest removes it.
    (left,) = launch_parent.iterdir()
    os.utime(left, (0, 0))
    assert run(kernel, job, "true").exit_status == 0
    assert list(launch_parent.iterdir()) == []


def test_a_running_guest_keeps_its_launch_folder(
    kernel: Path, job: Path, launch_parent: Path, processes_in: Processes
) -> None:
    async def both() -> list[str]:
        task = asyncio.create_task(run_guest(kernel, spec(job, *BUSY)))
        while "uml-userspace" not in processes_in(launch_parent).values():
            await asyncio.sleep(0.02)
        for folder in launch_parent.iterdir():
            os.utime(folder, (0, 0))
        await run_guest(kernel, spec(job, "true"))
        left = [path.name for path in launch_parent.iterdir()]
        task.cancel()
        return left

    assert len(asyncio.run(both())) == 1


def test_two_guests_at_once(kernel: Path, tmp_path: Path) -> None:
    jobs = [tmp_path / name for name in ("one", "two")]

    async def both() -> list[GuestResult]:
        for folder in jobs:
            folder.mkdir()
        return await asyncio.gather(
            *(
                run_guest(
                    kernel,
                    spec(
                        folder,
                        "sh",
                        "-c",
                        f"echo {folder.name} > file; echo {folder.name}; sleep 60",
                    ),
                )
                for folder in jobs
            )
        )

    results = asyncio.run(both())
    assert [result.console for result in results] == ["one\n", "two\n"]
    assert [(folder / "file").read_text() for folder in jobs] == ["one\n", "two\n"]


@pytest.mark.parametrize("way", ["landlock", "namespaces", "none"])
def test_runs_as_an_ordinary_user_without_any_capability(kernel: Path, way: str) -> None:
    # Not pytest's folder, which others cannot enter. /root may be closed too, so take copies.
    folder = Path(
        subprocess.run(
            ["mktemp", "-d"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    )
    try:
        folder.chmod(0o755)
        shutil.copy(kernel, folder / "kernel")
        shutil.copy(find_confine(), folder / "confine")
        shutil.copytree(find_userland(), folder / "root", symlinks=True)
        shutil.copytree(HARNESS / "ccmix", folder / "ccmix", ignore=ignore_patterns("*.pyc"))
        (folder / "job").mkdir()
        drop: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(folder / "job", 65534, 65534)
            drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
            drop += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
        pythons = (
            python
            for python in (sys.executable, "/usr/bin/python3")
            if not subprocess.run([*drop, python, "-c", ""], check=False).returncode
        )
        script = "id -u; ip link add dum0 type dummy; echo x > y; exit 5"
        ran = run_program(
            [
                *drop,
                next(pythons),
                "-c",
                RUN_AS_A_PROGRAM,
                folder / "kernel",
                folder / "job",
                "sh",
                "-c",
                script,
            ],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/nonexistent",
                "PYTHONPATH": str(folder),
                "CCMIX_CONFINE": str(folder / "confine"),
                "CCMIX_CONFINEMENT": way,
                "ROOT": str(folder / "root"),
            },
            cwd="/",
        )
        assert ran.returncode == 0, ran.stderr
        status, console, confined = json.loads(ran.stdout)
        assert (status, console, confined.split()[0].rstrip(":")) == (5, "0\n", way)
        assert (folder / "job" / "y").read_text() == "x\n"
    finally:
        shutil.rmtree(folder)


def test_nothing_is_written_to_the_home_of_the_user(
    kernel: Path, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    run(kernel, job, "true")
    assert list(home.iterdir()) == []


def test_a_long_console_keeps_its_end(kernel: Path, job: Path) -> None:
    console = shell(kernel, job, "seq 400000; echo end").console
    assert guest_module.CONSOLE_BYTES / 2 < len(console) <= guest_module.CONSOLE_BYTES
    assert console.endswith("400000\nend\n")


def test_an_endless_console_fills_no_disk(
    kernel: Path, job: Path, monkeypatch: pytest.MonkeyPatch, launch_parent: Path
) -> None:
    monkeypatch.setattr(guest_module, "CONSOLE_BYTES", 1000)
    sizes: list[int] = []

    async def watch() -> GuestResult:
        task = asyncio.create_task(
            run_guest(kernel, spec(job, "sh", "-c", "seq 1500000; echo end", stall_seconds=0.4))
        )
        while not task.done():
            sizes.extend(path.stat().st_blocks for path in launch_parent.glob("*/console"))
            await asyncio.sleep(0.05)
        return await task

    console = asyncio.run(watch()).console
    assert console.endswith("1500000\nend\n")
    assert len(console) <= 1000
    assert any(later < earlier for earlier, later in itertools.pairwise(sizes))


def test_wrong_specifications_say_what_is_wrong(kernel: Path, job: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    cases = [
        (tmp_path / "none", spec(job, "true"), r"none: No such file"),
        (file, spec(job, "true"), r"file is not a program .*make setup"),
        (kernel, spec(tmp_path / "nowhere", "true"), r"nowhere: No such file"),
        (kernel, spec(file, "true"), r"file is not a folder"),
        (kernel, spec(job), r"give the lab a command"),
        (kernel, spec(job, "a\0b"), r"NUL"),
        (kernel, spec(job, "true", environment={"A-B": "1"}), r"'A-B'"),
        (kernel, spec(job, "true", seed=-1), r"seed -1"),
        (kernel, spec(job, "true", memory_mib=1), r"at least"),
        (kernel, spec(job, "true", memory_mib=1 << 30), r"available"),
        (kernel, spec(job, "true", cpu=100_000), r"processor 100000"),
        (Path("/bin/true"), spec(job, "true"), r"did not start"),
    ]
    for program, wrong, message in cases:
        with pytest.raises(GuestError, match=message) as error:
            asyncio.run(run_guest(program, wrong))
        assert error.value.reason == "start"
