"""Tests that a guest starts, with the same clock and random numbers, where the host has an
older kernel.
"""

from pathlib import Path

import pytest

from ccmix.tools import find_confine, find_kernel, find_userland
from support.commands import CCMIX, NOT_EMULATED, REPOSITORY, Ccmix, run_program

pytestmark = pytest.mark.lab

GUEST = ("lab", "exec", "--", "sh", "-c", "date +%s.%N; od -An -tx1 -N32 /dev/urandom; uname -r")
ON_HOST = 'uname -r && exec "$0" "$@" 2>errors'
BEGINNING = "1767225600."


@pytest.mark.parametrize(
    ("release", "host_kernel"),
    [
        # refuses memfd_create() with MFD_EXEC (lab/patches/0005)
        pytest.param("bookworm", "6.1.", marks=(pytest.mark.deep, pytest.mark.timeout(1800))),
        # this kernel has neither Landlock nor the mount namespaces that lab/confine makes
        pytest.param("bullseye", "5.10.", marks=(pytest.mark.long, pytest.mark.timeout(1800))),
    ],
)
def test_a_guest_starts_on_the_kernel_of(release: str, host_kernel: str, tmp_path: Path) -> None:
    """Emulates a machine with the kernel of a Debian release, and with a processor that has AVX
    and nothing newer.
    """
    (away := tmp_path / "away").mkdir()
    programs = (f"CCMIX_USERLAND={find_userland()}", f"CCMIX_CONFINE={find_confine()}")
    environment = (
        "env",
        "-C",
        away,
        *programs,
        f"CCMIX_LAB_KERNEL={find_kernel()}",
        "PYTHONDONTWRITEBYTECODE=1",
    )
    emulate = (REPOSITORY / "lab/emulate", "--kernel", release, "SandyBridge", away)
    done = run_program([*emulate, *environment, "sh", "-c", ON_HOST, CCMIX, *GUEST])
    if done.returncode == NOT_EMULATED:
        pytest.skip(
            f"NOT TESTED: the kernel of {release} could not be emulated here: {done.stderr}"
        )
    running, _, guest = done.stdout.partition("\n")
    assert running.startswith(host_kernel)
    assert done.returncode == 0, (away / "errors").read_text()
    assert guest == Ccmix(away)(*GUEST).stdout
    assert guest.startswith(BEGINNING)
