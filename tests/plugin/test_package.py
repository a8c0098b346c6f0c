"""Tests the contents of the Debian package."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iperf3mix import VERSION, agreement, host, spec
from support.commands import REPOSITORY, Ccmix
from support.plugin_runner import CONF, IPERF3, TOOL, Tool

METHODS = ["can-run", "duration", "enumerate", "merged-results", "participant-data", "run"]
NAME = "pscheduler-tool-iperf3mix"


@pytest.fixture(scope="session")
def deb(package: Path) -> Path:
    (file,) = package.glob("*.deb")
    return file


def control(deb: Path, part: str = "") -> str:
    return subprocess.run(
        ["dpkg-deb", "-I", deb, *part.split()], capture_output=True, text=True, check=True
    ).stdout


def test_it_has_a_tool_with_all_methods(package: Path) -> None:
    files = {file.name for file in (package / TOOL).iterdir() if file.is_file()}
    assert files == {*METHODS, "allow-ccas"}
    for file in files:
        script = package / TOOL / file
        assert script.stat().st_mode & 0o777 == 0o755
        assert script.read_text().startswith("#!/usr/bin/python3 -B\n")  # which writes no byte code
    assert (
        package / IPERF3
    ).stat().st_mode & 0o7777 == 0o755  # and no file capability: nobody needs one
    assert "security.capability" not in os.listxattr(package / IPERF3)


def test_it_replaces_nothing(deb: Path) -> None:
    """The package does not replace stock iperf3, nor any other file."""
    listing = subprocess.run(
        ["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True
    ).stdout
    files = [
        line.split()[5].removeprefix(".")
        for line in listing.splitlines()
        if not line.startswith("d")
    ]
    own = (
        "/usr/lib/pscheduler/classes/tool/iperf3mix/",
        f"/usr/lib/{NAME}/",
        f"/usr/share/doc/{NAME}/",
    )
    others = [file for file in files if not file.startswith(own)]
    assert sorted(others) == [
        "/etc/pscheduler/tool/iperf3mix.conf",
        "/usr/lib/systemd/system/ccmix-cca@.service",
        f"/usr/lib/systemd/system/multi-user.target.wants/{NAME}.service",
        f"/usr/lib/systemd/system/{NAME}.service",
        "/usr/sbin/ccmix-cca",
        "/usr/share/man/man7/iperf3mix.7.gz",
    ]
    assert all(" root/root " in line for line in listing.splitlines())
    assert "__pycache__" not in listing


def test_control(deb: Path) -> None:
    fields = control(deb, "control")
    assert f"Package: {NAME}\n" in fields
    assert f"Version: {VERSION}\n" in fields
    depends = fields.split("Depends: ")[1].split("\n")[0]
    for dependency in ("python3 (>= 3.9)", "pscheduler-server", "pscheduler-test-throughput"):
        assert dependency in depends
    assert "libc6" not in depends, "its programs are static"
    assert control(deb, "triggers") == "activate-noawait pscheduler-warmboot\n"


def test_the_configuration_file_is_the_one_that_is_read(deb: Path, package: Path) -> None:
    assert control(deb, "conffiles") == f"{host.FILE}\n"
    assert f"/{CONF}" == host.FILE
    assert f"/{IPERF3}" == host.DEFAULT_IPERF3
    # As delivered, and with every commented default enabled, the file gives the defaults
    delivered = (REPOSITORY / "plugin/iperf3mix.conf").read_text()
    defaults = "\n".join(
        line[2:] if line.startswith("# ") and " = " in line else line
        for line in delivered.splitlines()
    )
    for text in (delivered, defaults):
        file = package / "as-delivered.conf"
        file.write_text(text)
        script = (
            "import dataclasses, json; from iperf3mix.host import load_settings; "
            "print(json.dumps(dataclasses.asdict(load_settings())))"
        )
        output = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": str(package / TOOL), "IPERF3MIX_CONF": str(file)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert json.loads(output) == {
            "iperf3": host.DEFAULT_IPERF3,
            "port": host.DEFAULT_PORT,
            "allow": list(host.DEFAULT_ALLOW),
        }


def test_sums(deb: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", deb, tmp_path], check=True)
    lines = control(deb, "md5sums").splitlines()
    assert len(lines) > 20
    for line in lines:
        digest, file = line.split()
        assert hashlib.md5((tmp_path / file).read_bytes()).hexdigest() == digest


def test_it_can_be_built_again(deb: Path, tmp_path: Path) -> None:
    """The same sources give the same package, byte by byte."""
    built = subprocess.run(
        [REPOSITORY / "plugin/build", tmp_path], capture_output=True, text=True, check=True
    )
    assert Path(built.stdout.strip()).read_bytes() == deb.read_bytes()


@pytest.mark.deep
@pytest.mark.namespaces
def test_the_rpm_can_be_built_again(tmp_path: Path) -> None:
    """Builds on a host of another name, and later, because an RPM can contain the host's name and
    the time in seconds.
    """
    on_another = [
        "unshare",
        "--uts",
        "sh",
        "-c",
        'hostname somewhere.else && sleep 1 && exec "$@"',
        "sh",
    ]
    first, second = (
        subprocess.run(
            [*prefix, REPOSITORY / "plugin/build", "--rpm", tmp_path / name],
            check=True,
            capture_output=True,
        )
        for name, prefix in (("first", []), ("second", on_another))
    )
    assert (
        Path(first.stdout.decode().strip()).read_bytes()
        == Path(second.stdout.decode().strip()).read_bytes()
    )


def test_the_service_and_the_script_of_the_package_call_what_is_there(
    deb: Path, package: Path
) -> None:
    units = package / "usr/lib/systemd/system"
    unit = (units / f"multi-user.target.wants/{NAME}.service").read_text()
    assert unit == (units / f"{NAME}.service").read_text()
    program = unit.split("ExecStart=")[1].split()[0]
    assert (package / program[1:]).exists()
    assert f"/{TOOL}" in control(deb, "postinst")
    assert program == f"/{TOOL}/allow-ccas"
    assert '"$tool/allow-ccas"' in control(deb, "postinst")


def test_the_documentation_of_the_units_is_in_the_package(package: Path) -> None:
    for unit in (package / "usr/lib/systemd/system").glob("*@.service"):
        [page] = re.findall(r"^Documentation=file:///(.*)$", unit.read_text(), re.MULTILINE)
        assert (package / page).is_file()


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemctl is not here")
def test_removing_it_disables_the_instances_of_its_units(
    deb: Path, package: Path, tmp_path: Path
) -> None:
    """Runs the command of the package's script on another root folder."""
    [disable] = re.findall(r"systemctl (disable \S+)", control(deb, "prerm"))
    assert f"systemctl {disable} " in (REPOSITORY / f"plugin/rpm/{NAME}.spec").read_text()
    units = tmp_path / "usr/lib/systemd/system"
    shutil.copytree(package / "usr/lib/systemd/system", units)
    links = tmp_path / "etc/systemd/system/multi-user.target.wants"
    systemctl = ("systemctl", f"--root={tmp_path}")
    subprocess.run([*systemctl, "enable", "ccmix-cca@bbr2", "ccmix-cca@bbr3"], check=True)
    assert len(list(links.iterdir())) == 2
    subprocess.run([*systemctl, *disable.split()], check=True)
    assert not links.exists() or not list(links.iterdir())


def test_its_python_is_that_of_enterprise_linux_9(package: Path) -> None:
    """The tool has the syntax of Python 3.9, and imports only its standard library.

    tests/plugin/test_rpm.py runs it with a real Python 3.9.
    """
    files = sorted((package / TOOL).rglob("*.py"))
    assert len(files) > 5
    for file in files:
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        modules = [
            node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not node.level
        ]
        modules += [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        ]
        assert all(module.partition(".")[0] in sys.stdlib_module_names for module in modules), (
            file,
            modules,
        )


def test_its_group_grammar_is_that_of_ccmix(package: Path) -> None:
    """The build copies the one file; the source tree has a link."""
    source = REPOSITORY / "harness/ccmix/model/group_grammar.py"
    assert (package / TOOL / "iperf3mix/group_grammar.py").read_bytes() == source.read_bytes()
    assert (REPOSITORY / "plugin/tool/iperf3mix/group_grammar.py").is_symlink()


def test_every_option_and_key_is_in_the_manual() -> None:
    manual = (REPOSITORY / "plugin/iperf3mix.7").read_text().replace("\\-", "-")
    assert host.FILE in manual
    assert host.DEFAULT_IPERF3 in manual
    options = [
        line.split('self._option("')[1].split('"')[0]
        for line in Path(spec.__file__).read_text().splitlines()
        if 'self._option("' in line
    ]
    assert len(options) > 20
    for option in [
        *options,
        "udp",
        "loopback",
        "reverse-connections",
        "bandwidth-strict",
        "burst-size",
    ]:
        assert option in manual, option


def test_ccas_are_allowed_and_none_is_taken_away(ccmix: Ccmix, package: Path) -> None:
    """The kernel of the lab's guest has more CCAs than it allows."""
    conf = package / "allow.conf"
    conf.write_text("[iperf3mix]\nallow = htcp bbr nosuch vegas\n")
    allowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
    program = f"IPERF3MIX_CONF={conf} {package / TOOL}/allow-ccas"
    done = ccmix(
        "lab",
        "exec",
        "--host-root",
        "--",
        "sh",
        "-c",
        f"cat {allowed}; {program}; echo $?; cat {allowed}; {program}; cat {allowed}",
    )
    before, *rest = done.stdout.splitlines()
    assert "htcp" not in before
    missing = (
        "iperf3mix: this kernel has no nosuch; see allow in /etc/pscheduler/tool/iperf3mix.conf"
    )
    after = sorted([*before.split(), "htcp", "vegas"])  # the kernel has an order of its own
    assert [rest[0], rest[1], rest[3]] == [missing, "1", missing]
    assert [sorted(line.split()) for line in (rest[2], rest[4])] == [after, after]
    assert len(rest) == 5


@pytest.mark.parametrize(
    ("streams", "direction"),
    [
        (16, ""),
        (1, "reverse"),
        pytest.param(1, "", marks=pytest.mark.long),
        pytest.param(16, "reverse", marks=pytest.mark.long),
        pytest.param(64, "", marks=pytest.mark.long),
    ],
)
def test_the_slot_is_enough_for_a_long_path_and_not_much_too_long(
    ccmix: Ccmix, package: Path, streams: int, direction: str
) -> None:
    """The path has an RTT of 200 ms, the default of link-rtt, in a guest of the lab, in
    virtual time.
    """
    script = [
        sys.executable,
        REPOSITORY / "tests/plugin/guest_long_path.py",
        package,
        streams,
        *direction.split(),
    ]
    done = ccmix(
        "lab", "exec", "--host-root", "--", "env", f"PYTHONPATH={REPOSITORY / 'tests'}", *script
    )
    got = json.loads(done.stdout)
    assert got["succeeded"], got
    round_trips = (got["took_s"] - 1.0) / 0.2
    assert agreement.ROUND_TRIPS + streams - 3 < round_trips < agreement.ROUND_TRIPS + streams
    assert got["took_s"] + agreement.WRITING_S < got["slot_s"]


@pytest.mark.root
def test_without_root_it_is_as_good(tool: Tool) -> None:
    """All of these tests run the tool as a user without privileges, like pScheduler's runner."""
    output = subprocess.run(
        [*tool.command("enumerate")[:-1], "id", "-u"], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "65534"
