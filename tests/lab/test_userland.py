"""Tests the guest's own userland: what a guest sees with it, and that its build is the same
everywhere.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ccmix.lab import CODE_DIR, GuestResult, GuestSpec, run_guest
from ccmix.lab.guest_code import HARNESS, guest_code
from ccmix.lab.spec import identify_userland
from ccmix.tools import find_iperf3, find_rtt, find_sockmon, find_userland
from support.commands import CCMIX, REPOSITORY, run_program

pytestmark = pytest.mark.lab

MIB = 1 << 20
BUILD = REPOSITORY / "lab" / "userland" / "build"
# The programs that the harness and the docs start in a guest
PROGRAMS = (
    "awk cat curl date ethtool find grep head hostname id ip mount nsenter ping prlimit "
    "ps python3 sed setpriv"
)
PROGRAMS += " sleep ss stat sysctl taskset tc tcpdump timeout unshare zstd"
COMMAND = """
[topology path]
rate = 10mbit
delay = 5ms
buffer = 1bdp
host-root = {host_root}

[entry]
type = iperf3
topology = path
flows.bulk = h1 cubic
flows.other = h1 command perl -e 1
duration = 2s
"""


def run(kernel: Path, job: Path, *argv: str, **more: object) -> GuestResult:
    spec = GuestSpec(argv, job, 256 * MIB, 1, userland=find_userland(), **more)  # type: ignore[arg-type]
    return asyncio.run(run_guest(kernel, spec))


def ccmix(*argv: object) -> subprocess.CompletedProcess[str]:
    return run_program([CCMIX, *map(str, argv)])


def test_all_programs_are_there_and_find_their_libraries(kernel: Path, job: Path) -> None:
    script = (
        f'for program in {PROGRAMS}; do command -v $program >/dev/null || echo "no $program"; done'
    )
    started = (
        "ss -V; tc -V; curl --version; tcpdump --version; ping -V; python3 -c 'import "
        "ctypes, ssl'; zstd --version"
    )
    result = run(kernel, job, "sh", "-ec", f"{{ {started}; }} >versions; {script}")
    assert (result.exit_status, result.console) == (0, "")


def test_a_guest_sees_nothing_of_the_host_but_the_job(
    kernel: Path, job: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("host")
    (job / "given").write_text("job\n")
    script = (
        f"cat given; ls -d {tmp_path} {REPOSITORY} /etc/shadow /etc/os-release; cat "
        "/proc/mounts >mounts; ls /home"
    )
    assert "job\n" in (console := run(kernel, job, "sh", "-c", script).console)
    assert console.count("No such file or directory") == 4
    assert str(tmp_path) not in (job / "mounts").read_text()


def test_the_code_of_ccmix_is_there_compiled(kernel: Path, job: Path) -> None:
    code = guest_code(
        find_userland(), {"iperf3": find_iperf3(), "sockmon": find_sockmon(), "rtt": find_rtt()}
    )
    assert sorted(path.name for path in code.iterdir()) == [
        "ccmix-iperf3",
        "ccmix-rtt",
        "ccmix-sockmon",
        HARNESS,
        "iperf3",
        "rtt",
        "sockmon",
    ]
    script = f"import ccmix.run.measure as m; print(m.__file__); open('{CODE_DIR}/new', 'w')"
    environment: Mapping[str, str] = {"PYTHONPATH": f"{CODE_DIR}/{HARNESS}"}
    result = run(kernel, job, "python3", "-S", "-c", script, code=code, environment=environment)
    assert result.console.startswith(f"{CODE_DIR}/{HARNESS}/ccmix/run/measure.pyc\n")
    assert "Read-only file system" in result.console


def test_a_guest_has_the_modules_that_it_imports_and_no_others() -> None:
    code = guest_code(
        find_userland(), {"iperf3": find_iperf3(), "sockmon": find_sockmon(), "rtt": find_rtt()}
    )
    with zipfile.ZipFile(code / HARNESS) as archive:
        names = archive.namelist()
    assert {
        "ccmix/run/measure.pyc",
        "ccmix/run/stage.pyc",
        "ccmix/generators/http_server.pyc",
    } <= set(names)
    assert not [
        name for name in names if name.startswith(("ccmix/cli/", "ccmix/report/", "ccmix/twin/"))
    ]


def test_a_guest_on_request_has_the_hosts_programs() -> None:
    argv = ("--", "sh", "-c", f"test -e {REPOSITORY}")
    assert ccmix("lab", "exec", *argv).returncode == 1
    assert ccmix("lab", "exec", "--host-root", *argv).returncode == 0


def test_a_guest_with_the_hosts_programs_finds_those_of_ccmix() -> None:
    done = ccmix("lab", "exec", "--host-root", "--", "ccmix-iperf3", "--version")
    assert "+ccmix" in done.stdout


def test_a_command_that_needs_a_program_of_the_host(tmp_path: Path) -> None:
    done = {}
    for host_root in ("off", "on"):
        file = tmp_path / f"{host_root}.ini"
        file.write_text(COMMAND.format(host_root=host_root))
        done[host_root] = ccmix("run", file, "--lab", "-o", tmp_path / host_root)
    # perl -e 1 makes no traffic, for which the verdict blames the other; but it is found
    assert done["off"].returncode != 0
    assert re.search(r"perl: not found; .* host-root = on", done["off"].stdout + done["off"].stderr)
    [ran] = (tmp_path / "on").rglob("run.json")
    root = {"userland_sha256": None, "repeatable_elsewhere": False}
    assert json.loads(ran.read_text())["facts"]["guest_root"] == root
    assert "repeatable_elsewhere" in (tmp_path / "on" / "report.html").read_text()


def built(cache: Path, *prefix: object, **environment: str) -> tuple[Path, str]:
    """Builds into the cache, by that command; returns the root and what the build said."""
    done = run_program(
        [*map(str, prefix), BUILD], env=os.environ | {"CCMIX_CACHE": str(cache)} | environment
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.rstrip("\n")), done.stderr


@pytest.mark.deep
@pytest.mark.root
def test_another_user_elsewhere_builds_the_same(tmp_path: Path) -> None:
    """Gives the other a /dev/null of its own, since not every machine lets others write there."""
    with_blank = Path(
        subprocess.run(
            ["mktemp", "-d"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    )
    try:
        with_blank.chmod(0o777)
        prepare = (
            'mount -t tmpfs t "$1" && mknod -m 666 "$1/null" c 1 3 && mount --bind '
            '"$1/null" /dev/null && shift'
        )
        as_other = 'umask 077; exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
        inner = tmp_path / "null"
        inner.mkdir()
        other, _ = built(
            with_blank / "a cache",
            "unshare",
            "--mount",
            "sh",
            "-c",
            f"{prepare} && {as_other}",
            "sh",
            inner,
            LC_ALL="tr_TR.UTF-8",
            TZ="Asia/Kolkata",
            HOME="/nonexistent",
        )
        mine, _ = built(tmp_path / "cache")
        assert (
            identify_userland(other)
            == identify_userland(mine)
            == identify_userland(find_userland())
        )
    finally:
        shutil.rmtree(with_blank)


@pytest.mark.deep
def test_its_folder_has_the_name_of_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = built(tmp_path / "cache")
    assert root.parent.name == str(identify_userland(root).userland_sha256)[:16]
    checkout = tmp_path / "checkout"
    shutil.copytree(REPOSITORY / "lab", checkout / "lab", symlinks=True)
    shutil.copytree(REPOSITORY / "tools", checkout / "tools")
    with (checkout / "lab/userland/build").open("a") as script:
        script.write("# the same content\n")
    noted = root.parent / "build.json"
    noted.write_text(noted.read_text().replace('"pinned": true', '"pinned": false'))
    made = root.stat().st_ino
    monkeypatch.setitem(globals(), "BUILD", checkout / "lab/userland/build")
    again, said = built(tmp_path / "cache")
    assert "building the lab's userland" in said
    assert (again, again.stat().st_ino) == (root, made)
    assert json.loads(noted.read_text())["pinned"] is True
    links = list((tmp_path / "cache/userland/keys").iterdir())
    assert len(links) == 2
    assert {link.resolve() for link in links} == {root.parent}


@pytest.mark.deep
def test_a_damaged_one_is_built_again(tmp_path: Path) -> None:
    root, _ = built(tmp_path)
    (root / "etc/hosts").write_text("other\n")
    again, said = built(tmp_path)
    assert again == root
    assert "is damaged: building it again" in said
    assert (root / "etc/hosts").read_text().startswith("127.0.0.1")


@pytest.mark.deep
def test_the_newest_is_taken_where_the_mirror_lacks_the_pinned_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(REPOSITORY / "lab", checkout / "lab", symlinks=True)
    shutil.copytree(REPOSITORY / "tools", checkout / "tools")
    lock = checkout / "lab/userland/packages.lock"
    lock.write_text(
        re.sub(r"^(hostname) \S+ \S+", rf"\1 1.0 {'0' * 64}", lock.read_text(), flags=re.MULTILINE)
    )
    monkeypatch.setitem(globals(), "BUILD", checkout / "lab/userland/build")
    root, said = built(tmp_path / "cache")
    assert re.search(
        r"warning: the mirror has hostname 1\.0 no more; with \S+ numbers may differ", said
    )
    noted = json.loads((root.parent / "build.json").read_text())
    assert noted["pinned"] is False
    assert not identify_userland(root).repeatable_elsewhere
    [package] = [package for package in noted["packages"] if package["name"] == "hostname"]
    assert package["version"] != "1.0"
