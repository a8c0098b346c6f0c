"""Tests that the lab needs no root: a whole campaign as a user without any privilege."""

import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ccmix.tools import (
    find_confine,
    find_iperf3,
    find_kernel,
    find_rtt,
    find_sockmon,
    find_userland,
)
from support.commands import REPOSITORY, SMALL, run_program

pytestmark = [pytest.mark.lab, pytest.mark.deep]

NOBODY = "65534"
PROGRAMS = {
    "ccmix-iperf3": find_iperf3,
    "ccmix-lab-kernel": find_kernel,
    "ccmix-sockmon": find_sockmon,
    "ccmix-rtt": find_rtt,
    "ccmix-confine": find_confine,
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Returns a folder outside pytest's own, which every new session of pytest closes to
    other users.
    """
    with tempfile.TemporaryDirectory(prefix="ccmix-ordinary-user-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def installation(folder: Path) -> Path:
    """Makes copies that any user can read, since root's cache and checkout may not be readable
    for others.
    """
    installation = folder / "installation"
    installation.mkdir()
    for name, program in PROGRAMS.items():
        shutil.copy(program(), installation / name)
    shutil.copytree(find_userland().parent, installation / "userland", symlinks=True)
    shutil.copytree(REPOSITORY / "harness", installation / "harness")
    shutil.copytree(sysconfig.get_paths()["purelib"], installation / "site-packages")
    return installation


def as_ordinary_user(argv: Sequence[str]) -> list[str]:
    """Runs as nobody where the tests run as root, with no capability left that could be used
    or regained.
    """
    if os.geteuid() != 0:
        return list(argv)
    drop = [
        "--reuid",
        NOBODY,
        "--regid",
        NOBODY,
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]
    return ["setpriv", *drop, "--no-new-privs", *argv]


def test_a_campaign_in_the_lab(installation: Path, folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    (home / "small.ini").write_text(SMALL)
    python = Path(sys.executable).resolve()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{installation / 'harness'}:{installation / 'site-packages'}",
        **{name.upper().replace("-", "_"): str(installation / name) for name in PROGRAMS},
        "CCMIX_USERLAND": str(installation / "userland" / "root"),
    }
    argv = [
        str(python),
        "-c",
        "from ccmix.cli import main; main()",
        "run",
        "small.ini",
        "--lab",
        "-o",
        "out",
    ]
    who = run_program(as_ordinary_user(["id", "-u"]), check=True)
    assert who.stdout.strip() != "0"
    done = run_program(as_ordinary_user(argv), cwd=home, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "2 runs valid, 0 not valid, 0 failed" in done.stderr
    summary = json.loads((home / "out/both/all/receiver/001/run.json").read_text())
    assert summary["execution"]["machine"] == "lab"
    assert (home / "out/campaign.json").stat().st_uid == int(who.stdout)

    without_lab = [*(word for word in argv if word != "--lab"), "-o", "other"]
    refused = run_program(as_ordinary_user(without_lab), cwd=home, env=environment, timeout=60)
    assert refused.returncode == 2
    assert "is not root" in refused.stderr
    assert "give --lab" in refused.stderr
    assert not (home / "other").exists()
