"""Tests how a guest is confined if the host's kernel lacks a way to do it, and that the run reports
this.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccmix.tools import find_confine
from support.commands import CCMIX, SMALL, run_program

pytestmark = pytest.mark.lab

# Executes the command that follows, as if the kernel lacked these system calls (numbers and
# errors). A third number is a flag of the second argument: then only calls with that flag fail.
WITHOUT = """
import ctypes, os, struct, sys
calls = [tuple(map(int, pair.split(":"))) for pair in sys.argv[1].split(",")]
code = struct.pack("HBBI", 0x20, 0, 0, 0)
for number, error, *flags in calls:
    answer = struct.pack("HBBI", 0x06, 0, 0, 0x50000 | error)
    for flag in flags:
        test = struct.pack("HBBI", 0x20, 0, 0, 24) + struct.pack("HBBI", 0x45, 0, 1, flag)
        answer = test + answer + struct.pack("HBBI", 0x20, 0, 0, 0)
    code += struct.pack("HBBI", 0x15, 0, len(answer) // 8, number) + answer
code += struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept := ctypes.create_string_buffer(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""
LANDLOCK = "444:38"  # ENOSYS: a kernel before 5.13; one without it in lsm= says EOPNOTSUPP
DISABLED = "444:95"
NO_MFD_EXEC = "319:22:16"  # memfd_create() of a kernel before 6.3
NO_LANDLOCK = (sys.executable, "-c", WITHOUT, LANDLOCK)
# A user namespace in which no mount namespace can be made, as after an administrator's sysctl
NO_NAMESPACES = (
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    'echo 0 >/proc/sys/user/max_mnt_namespaces; exec "$@"',
    "sh",
)
WAYS = {
    "all": ((), "landlock "),
    "disabled": ((sys.executable, "-c", WITHOUT, DISABLED), "namespaces"),
    "before-6.3": ((sys.executable, "-c", WITHOUT, NO_MFD_EXEC), "landlock "),
    "disabled-before-6.3": (
        (sys.executable, "-c", WITHOUT, f"{DISABLED},{NO_MFD_EXEC}"),
        "namespaces",
    ),
    "old": (NO_LANDLOCK, "namespaces"),
    "no-namespaces": (NO_NAMESPACES, "landlock "),
    "neither": (
        (*NO_NAMESPACES, *NO_LANDLOCK),
        "none: Landlock: Function not implemented; namespaces: No space left on device",
    ),
}


@pytest.mark.parametrize(("machine", "way"), WAYS.values(), ids=WAYS.keys())
def test_the_best_way_of_the_machine_is_taken(
    tmp_path: Path, machine: tuple[str, ...], way: str
) -> None:
    once = SMALL if way.startswith("none") else SMALL.replace("iterations = 2", "iterations = 1")
    (tmp_path / "small.ini").write_text(once)
    ran = run_program(
        [*machine, CCMIX, "run", "small.ini", "--lab", "--outdir", "results"], cwd=tmp_path
    )
    runs = [json.loads(file.read_text()) for file in (tmp_path / "results").rglob("run.json")]
    assert runs, ran.stderr
    assert all(run["execution"]["confinement"].startswith(way) for run in runs)
    assert ran.stderr.count("GUESTS ARE NOT CONFINED") == way.startswith("none")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_guest_that_is_ended_by_a_signal_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    argv = [CCMIX, "lab", "exec", "--", "sh", "-c", "echo >started; while :; do :; done"]
    with subprocess.Popen(
        argv, env=os.environ | {"TMPDIR": str(place)}, stderr=subprocess.PIPE
    ) as process:
        end = time.monotonic() + 60
        while not list(place.glob("*/started")):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == 130
    assert list(place.iterdir()) == []


# Capabilities by their bits (include/uapi/linux/capability.h)
DAC_OVERRIDE, NET_ADMIN, SYS_CHROOT = 1 << 1, 1 << 12, 1 << 18
ROOTS = {
    "all": ((), DAC_OVERRIDE, ""),
    "inherited": (
        ("setpriv", "--inh-caps=+net_admin", "setpriv", "--bounding-set=-all,+dac_override"),
        DAC_OVERRIDE,
        "",
    ),
    "no-setpcap": (
        ("setpriv", "--bounding-set=-all,+dac_override,+sys_chroot"),
        DAC_OVERRIDE | SYS_CHROOT,
        f" root keeps the capabilities {SYS_CHROOT:016x}, since it lacks CAP_SETPCAP",
    ),
}


@pytest.mark.parametrize(("prefix", "kept", "reported"), ROOTS.values(), ids=ROOTS.keys())
def test_root_keeps_only_capabilities_that_it_can_not_drop(
    prefix: tuple[str, ...], kept: int, reported: str
) -> None:
    root = ("unshare", "--user", "--map-root-user") if os.geteuid() else ()
    program = (str(find_confine()), "--processor=0", "--report=2", "--read=/", "--parent=$$")
    script = " ".join((*program, "-- /bin/cat /proc/self/status; true"))
    done = run_program([*root, *prefix, "sh", "-c", script], check=True)
    sets = {
        name: int(value, 16)
        for name, value in re.findall(r"^(Cap...):\s*(\w+)$", done.stdout, re.MULTILINE)
    }
    assert sets["CapPrm"] & (DAC_OVERRIDE | NET_ADMIN | SYS_CHROOT) == kept
    assert sets["CapEff"] == sets["CapPrm"]
    assert sets["CapInh"] == sets["CapAmb"] == 0
    assert done.stderr.partition("\n")[0].partition(";")[2] == reported


PLANTED = {
    "a link that is written to": "rm -r logs; ln -s {outside} logs",
    "a link that is read": "ln -s {outside}/secret planted",
    "a pipe": "mkfifo pipe",
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_what_a_command_plants_in_its_folder_is_not_followed(tmp_path: Path, planted: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("host's\n")
    main = "flows.main = h1 cubic:1\n"
    hostile = (
        "flows.hostile = h1 command cd /run/ccmix/job && "
        f"{planted.format(outside=outside)}; sleep 9\n"
    )
    path = SMALL.partition("[both]")[0]
    (tmp_path / "small.ini").write_text(
        f"{path}[hostile]\ntype = iperf3\ntopology = small\nduration = 2s\n{main}{hostile}"
    )
    ran = run_program([CCMIX, "run", "small.ini", "--lab", "--outdir", "results"], cwd=tmp_path)
    assert ran.returncode == 1
    assert "is neither a file nor a folder: a command of the run has made it" in ran.stderr
    assert [path.name for path in outside.iterdir()] == ["secret"]
