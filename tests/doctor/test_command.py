"""Tests `ccmix doctor` on this machine, as a user types it: tables, JSON, exit statuses, an
ordinary user; it changes nothing.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ccmix.agent.journal import Journal
from ccmix.doctor import rights, this_machine
from ccmix.doctor.checks import DoctorOptions
from ccmix.doctor.examine import examine
from ccmix.doctor.report import DoctorFinding, Report, Status, failed
from ccmix.hosts import NamespaceHost
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import connect
from ccmix.lab import host, limits
from ccmix.lab.host import LackError
from ccmix.model import Capture, Commands, CommandSource, ModuleParameter
from ccmix.tools import ToolError
from support.commands import REPOSITORY, SMALL, Ccmix
from support.model import host_run

NOBODY = "65534"


def checks(text: str, host: str = "localhost") -> dict[str, dict[str, Any]]:
    return {
        check["check"]: check
        for report in json.loads(text)
        if report["host"] == host
        for check in report["checks"]
    }


def test_this_machine_without_a_configuration(ccmix: Ccmix) -> None:
    done = ccmix("doctor")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert done.stdout.startswith("localhost\n  ok      lab: kernel ")
    assert done.stderr.strip().endswith(" ok")
    findings = checks(ccmix("doctor", "--format", "json").stdout)
    assert {check["status"] for check in findings.values()} <= {"ok", "warn", "unknown"}, (
        "nothing is needed, nothing fails"
    )
    assert all(check["why"] for check in findings.values() if check["status"] == "warn")
    for name in (
        "CCAs",
        "kernel: fq",
        "kernel: netem",
        "privileges",
        "patched iperf3",
        "cores",
        "programs",
    ):
        assert name in findings


def test_a_topology_needs_the_lab_or_a_kernel_that_has_it_all(
    ccmix: Ccmix, small_ini: Path
) -> None:
    in_lab = ccmix("doctor", small_ini, "--lab", "--format", "json")
    assert in_lab.returncode == 0
    assert set(checks(in_lab.stdout)) >= {"lab: kernel", "patched iperf3", "results"}
    assert not set(checks(in_lab.stdout)) & {"namespaces", "kernel: fq", "CCAs", "cores"}
    here = ccmix("doctor", small_ini, "--format", "json")
    findings = checks(here.stdout)
    assert set(findings) >= {
        "namespaces",
        "kernel: fq",
        "kernel: tbf",
        "CCA cubic",
        "CCA bbr",
        "lab: kernel",
    }
    assert "kernel: police" not in findings
    assert here.returncode == any(check["status"] == "fail" for check in findings.values())


def test_a_policer_needs_more_of_the_kernel(ccmix: Ccmix, tmp_path: Path) -> None:
    ini = tmp_path / "policed.ini"
    ini.write_text(SMALL.replace("delay = 5ms", "delay = 5ms\npolicer = 50mbit"))
    findings = checks(ccmix("doctor", ini, "--format", "json").stdout)
    assert set(findings) >= {"kernel: police", "kernel: matchall", "kernel: clsact"}
    assert not [
        name
        for name in checks(ccmix("doctor", ini, "--lab", "--format", "json").stdout)
        if "police" in name
    ]


def test_wrong_input(ccmix: Ccmix, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.ini"
    wrong.write_text(SMALL + "durration = 5s\n")
    for done, says in (
        (ccmix("doctor", wrong), "did you mean 'duration'?"),
        (ccmix("doctor", tmp_path / "none.ini"), "can't be read"),
        (
            ccmix("doctor", REPOSITORY / "configs" / "demo.ini", "--only", "mixd"),
            "did you mean 'mixed'?",
        ),
    ):
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


def test_what_dead_runs_have_left(
    ccmix: Ccmix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCMIX_STATE", str(tmp_path / "state"))
    ccmix = Ccmix(ccmix.folder)
    dies = f"""
import os
from pathlib import Path
from ccmix.agent.journal import Journal
journal = Journal(Path({str(tmp_path / "state")!r}))
journal.__enter__()
journal.made(journal.about_to("MTU of eth9", ["touch", {str(tmp_path / "undone")!r}]))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", dies], check=False).returncode == 9
    left = checks(ccmix("doctor", "--format", "json").stdout)["left by dead runs"]
    assert (left["status"], left["seen"], left["remedy"]) == (
        "warn",
        "1 changes: MTU of eth9",
        ["ccmix restore"],
    )
    assert not (tmp_path / "undone").exists(), "the doctor undoes nothing"
    assert ccmix(*left["remedy"][0].split()[1:]).returncode == 0
    assert (tmp_path / "undone").exists()
    with Journal(tmp_path / "state") as living:
        living.about_to("MTU of eth8", ["true"])
        assert (
            checks(ccmix("doctor", "--format", "json").stdout)["left by dead runs"]["status"]
            == "ok"
        )
        living.undone(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Returns a folder that any user may read."""
    with tempfile.TemporaryDirectory(prefix="ccmix-doctor-user-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_an_ordinary_user(folder: Path) -> None:
    """Without root's rights, with a home that is not writable, and without installed programs
    of ccmix.
    """
    shutil.copytree(REPOSITORY / "harness", folder / "harness")
    for library in (click, yaml):
        shutil.copytree(Path(library.__file__).parent, folder / "harness" / library.__name__)
    (folder / "small.ini").write_text(SMALL)
    argv = [
        str(Path(sys.executable).resolve()),
        "-c",
        "from ccmix.cli import main; main()",
        "doctor",
        "small.ini",
    ]
    if os.geteuid() == 0:
        drop = [
            "--reuid",
            NOBODY,
            "--regid",
            NOBODY,
            "--clear-groups",
            "--bounding-set=-all",
            "--no-new-privs",
        ]
        argv = ["setpriv", *drop, *argv]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/",
        "PYTHONPATH": str(folder / "harness"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [*argv, "--format", "json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    findings = checks(done.stdout)
    assert (findings["namespaces"]["status"], findings["namespaces"]["instead"]) == (
        "fail",
        ["ccmix run --lab ...", "sudo ccmix run ..."],
    )
    assert (findings["patched iperf3"]["status"], findings["patched iperf3"]["remedy"]) == (
        "fail",
        ["make setup"],
    )
    if os.geteuid() == 0:
        assert (findings["results"]["status"], findings["results"]["remedy"]) == (
            "fail",
            [f"sudo chown {NOBODY} {folder}"],
        )
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for cca in {"cubic", "bbr"} & set(available):
        assert findings[f"CCA {cca}"]["status"] == ("ok" if cca in allowed else "fail")
        assert cca in allowed or findings[f"CCA {cca}"]["remedy"][0].startswith("sudo sysctl -w ")


def found_by(*runs: Any, outdir: Path | None = None) -> dict[str, dict[str, Any]]:
    reports = examine(DoctorOptions(runs, outdir))
    return {
        report.host: {finding.check: finding for finding in report.findings} for report in reports
    }


def test_entries_between_hosts(tmp_path: Path) -> None:
    """Needs everything that an entry can ask for, on a machine that lacks most of it."""
    commands = Commands(
        pre_src="LANG=C /sbin/sysctl -w net.ipv4.tcp_congestion_control=vegas; x",
    )
    run = host_run(
        "localhost",
        "localhost",
        nic="eth9",
        commands=commands,
        capture=Capture((), 2**60),
        module_parameter=ModuleParameter("tcp_bbr2/parameters/loss_thresh", "2"),
    )
    command = CommandSource("", "src", "no-such-iperf -w 1G -P 4 -C dctcp")
    run = replace(run, traffic=replace(run.traffic, sources=(command,)))
    findings = found_by(run, outdir=tmp_path / "out")["localhost"]
    fails = {name: finding for name, finding in findings.items() if finding.status is Status.FAIL}
    assert fails["NIC eth9"].remedy == ("ip -br link",)
    assert fails["no-such-iperf"].remedy == ()
    assert fails["parameter tcp_bbr2/parameters/loss_thresh"].remedy == ("modprobe tcp_bbr2",)
    assert fails["net.core.wmem_max"].remedy == ("sysctl -w net.core.wmem_max=1073741824",)
    assert "room for captures" in fails
    assert findings["results"].status is Status.WARN
    assert {"CCA dctcp", "CCA vegas"} <= set(findings)
    assert "patched iperf3" not in findings, "the entry's own command makes the traffic"
    assert findings["IPv4 127.0.0.1"].status is Status.OK


def test_hosts_that_are_not_there() -> None:
    reports = found_by(host_run("localhost", "nobody@nowhere.invalid", "nowhere.invalid"))
    assert reports["localhost"]["name nowhere.invalid"].status is Status.FAIL
    assert reports["localhost"]["name nowhere.invalid"].remedy == ("getent ahosts nowhere.invalid",)
    assert reports["nobody@nowhere.invalid"]["connection"].status is Status.FAIL
    assert reports["nobody@nowhere.invalid"]["connection"].remedy == (
        "ssh nobody@nowhere.invalid true",
    )


def test_a_lab_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel() -> Path:
        raise ToolError("the lab's kernel is not at /x: run 'make setup'")

    def no_memory(size: int) -> Path:
        raise LackError(
            f"no folder can hold {size} bytes", "--tmpfs /tmp:exec", "set TMPDIR", host.REMOUNT
        )

    monkeypatch.setattr(this_machine, "find_kernel", no_kernel)
    monkeypatch.setattr(this_machine, "check_room", no_memory)
    monkeypatch.setattr(limits, "inside_container", lambda: False)
    for in_lab, status in ((True, Status.FAIL), (False, Status.WARN)):
        problems = [
            finding
            for finding in this_machine.judge_lab((), in_lab)
            if finding.status is not Status.OK
        ]
        assert [(finding.status, finding.remedy, finding.instead) for finding in problems] == [
            (status, ("make setup",), ()),
            (status, (), ("sudo mount -o remount,exec,size=75% /dev/shm",)),
        ]
    monkeypatch.setattr(limits, "inside_container", lambda: True)
    *_, memory = [
        finding for finding in this_machine.judge_lab((), True) if finding.status is not Status.OK
    ]
    assert (memory.remedy, memory.instead) == ((), ("docker run --tmpfs /tmp:exec ...",))


def test_namespaces_of_a_shell_without_system_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [finding] = this_machine.judge_namespaces(0)
    assert (finding.status, finding.remedy) == (Status.FAIL, ("export PATH=$PATH:/usr/sbin:/sbin",))


def test_a_running_campaign_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "LOCK", f"@ccmix-test-{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as lock:
        lock.bind(f"\0ccmix-test-{os.getpid()}")
        [finding] = rights.judge_lock(rights.read_sockets(), needed=True)
        assert finding.status is Status.FAIL
    [finding] = rights.judge_lock(rights.read_sockets(), needed=True)
    assert finding.status is Status.OK


def test_a_host_that_a_campaign_has_is_looked_at_all_the_same(
    namespace: NamespaceHost, state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CCMIX_STATE", str(state))
    name = f"netns:{namespace.name}"
    entry = tmp_path / "a.ini"
    entry.write_text(f"[a]\ntype = label\nsrc = {name}\ndst = 192.0.2.1\nsrc-cmd = true\n")
    doctor = Ccmix(tmp_path)
    campaign = connect(parse_host(name), "a test")
    beside = checks(doctor("doctor", entry, "--format", "json").stdout, name)
    campaign.close()
    afterwards = checks(doctor("doctor", entry, "--format", "json").stdout, name)
    assert [seen["other campaigns"]["status"] for seen in (beside, afterwards)] == ["fail", "ok"]
    assert beside.keys() == afterwards.keys()
    assert beside["left by dead runs"]["status"] == "ok"


def test_the_exit_status_is_of_what_fails() -> None:
    for status in Status:
        assert failed([Report("a"), Report("b", 0, [DoctorFinding("x", status, "y")])]) is (
            status is Status.FAIL
        )
