"""Tests that faults around a campaign in the lab cost only the affected runs, and are reported."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from support.commands import CCMIX, Ccmix, deep, long, run_program, small_disk, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SHM = Path("/dev/shm")
NOEXEC_MOUNTS = (
    'for folder in $NOEXEC; do mount -t tmpfs -o noexec tmpfs "$folder" || exit 99; done; exec "$@"'
)


@pytest.mark.root
# The disk becomes full while these are written: the raw files of the first run, its tables, the
# second run or the report
@pytest.mark.parametrize(
    "size",
    [
        "100k",
        deep("160k"),
        *(long(f"{kib}k") for kib in range(8, 400, 24)),
    ],
)
def test_a_full_disk_is_reported_with_its_place(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path, size: str
) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        done = ccmix("run", small_ini, "--lab", "-o", disk / "out")
        kept = [file.name for file in disk.rglob("run.json*")]
    assert done.returncode == 1
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip().startswith("/")]
    assert lines
    for line in lines:
        assert re.fullmatch(
            f"{disk}/out[^:]*: No space left on device: make room on that disk, or .*", line
        )
    runs = "run" if len(kept) == 1 else "runs"
    assert f"{len(kept)} {runs} valid, 0 not valid, {2 - len(kept)} failed" in done.stderr
    assert kept in ([], ["run.json"], 2 * ["run.json"])
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, deep(signal.SIGHUP)])
def test_a_signal_while_the_report_is_made(
    number: signal.Signals, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 1"))
    running = ccmix.start("run", small_ini, "--lab", "-o", tmp_path / "out")
    assert running.stderr
    assert any("1 run valid, 0 not valid, 0 failed" in line for line in running.stderr)
    running.send_signal(number)
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 130
    assert (
        errors
        == f"interrupted: finished runs are kept; their report: {CCMIX} report {tmp_path}/out "
        "--format html\n"
    )


def test_a_folder_that_is_removed_while_the_report_is_made_is_said(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 1"))
    running = ccmix.start("run", small_ini, "--lab", "-o", tmp_path / "out")
    assert running.stderr
    assert any("1 run valid, 0 not valid, 0 failed" in line for line in running.stderr)
    (tmp_path / "out").rename(tmp_path / "removed")
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 1
    assert f"{tmp_path}/out: its campaign.json was removed" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


HOSTILE = {
    "nested": "open('facts.json', 'w').write('[' * 200000)",
    "deep": "import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(1500)]",
    "byte": "import os; os.symlink(b'/etc', b'l' + bytes([255]))",
    "sparse": "open('logs/more.log', 'wb').truncate(3 << 30)",
    "pipe": "import os; os.mkfifo('logs/more')",
}


def test_a_hostile_command_costs_its_own_run(ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    """Makes the runs a second time with --resume, which removes what the first has left."""
    text = small_ini.read_text().replace("iterations = 2", "iterations = 1")
    for name, code in HOSTILE.items():
        text += f"\n[{name}]\ntype = iperf3\ntopology = small\nduration = 1s\n"
        text += f'flows.bulk = h1 cubic\nflows.x = h1 command python3 -c "{code}"\n'
    small_ini.write_text(text)
    command = ("run", small_ini, "--lab", "-j", 2, "-o", tmp_path / "out")
    for options in ((), ("--resume",)):
        done = ccmix(*command, *options, timeout=600, status=1)
        assert "Traceback" not in done.stderr
        # the measuring process replaces the facts that the first command wrote
        assert "1 run valid, 1 not valid, 4 failed" in done.stderr


def test_a_guest_that_dies_takes_its_own_run_only(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    outdir = tmp_path / "out"
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 4"))
    running = ccmix.start("run", small_ini, "--lab", "-j", 2, "-o", outdir)
    wait_for(lambda: len(ccmix.guest_groups()) == 2, 300, "two guests")
    os.killpg(ccmix.guest_groups().pop(), signal.SIGKILL)
    _, errors = running.communicate(timeout=600)
    assert running.returncode == 1
    assert "3 runs valid, 0 not valid, 1 failed" in errors
    assert "killed by signal 9" in errors

    ccmix("run", small_ini, "--lab", "-o", outdir, "--resume", status=0)
    assert len(list(outdir.rglob("run.json"))) == 4


@pytest.fixture
def noexec(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ccmix with some folders as private file systems that are mounted noexec.

    TMPDIR and CCMIX_CACHE are `tmp_path / "tmp"` and `tmp_path / "cache"`.
    """
    places = {"TMPDIR": tmp_path / "tmp", "CCMIX_CACHE": tmp_path / "cache"}
    for place in places.values():
        place.mkdir()

    def run(folders: Iterable[Path], *arguments: object) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {name: str(place) for name, place in places.items()}
        environment["NOEXEC"] = " ".join(map(str, folders))
        argv = ["unshare", "--mount", "sh", "-c", NOEXEC_MOUNTS, "sh", CCMIX, *map(str, arguments)]
        return run_program(argv, env=environment, timeout=600)

    return run


@pytest.mark.parametrize(
    "folders",
    [
        *(deep(folders) for folders in ((SHM,), ("tmp",))),
        (SHM, "tmp"),
    ],
    ids=str,
)
def test_noexec_has_no_effect_where_another_folder_will_do(
    noexec: Callable[..., subprocess.CompletedProcess[str]],
    small_ini: Path,
    tmp_path: Path,
    folders: Sequence[str | Path],
) -> None:
    small_ini.write_text(small_ini.read_text().replace("iterations = 2", "iterations = 1"))
    done = noexec(
        (tmp_path / folder for folder in folders), "run", small_ini, "--lab", "-o", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    assert "1 run valid, 0 not valid, 0 failed" in done.stderr


def test_noexec_everywhere_is_reported_with_the_places(
    noexec: Callable[..., subprocess.CompletedProcess[str]], small_ini: Path, tmp_path: Path
) -> None:
    everywhere = (SHM, tmp_path / "tmp", tmp_path / "cache")
    for command, status in (
        (("run", small_ini, "--lab", "-o", tmp_path / "out"), 2),  # before anything is started
        (("lab", "exec", "true"), 1),
    ):
        done = noexec(everywhere, *command)
        assert done.returncode == status
        assert "can be executed in none of them" in done.stderr
        assert all(str(place) in done.stderr for place in everywhere)
        assert "Traceback" not in done.stderr
