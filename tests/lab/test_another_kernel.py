"""Tests the options of lab/build that add to the stock kernel: refused ones, and, marked deep,
kernels with a CCA, a patch and an option, which are built and started.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.commands import Ccmix, run_program

BUILD = Path(__file__).resolve().parents[2] / "lab" / "build"
CCA = """
#include <linux/module.h>
#include <net/tcp.h>
#include "factor.h"

static u32 half_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) / FACTOR, 2U);
}

static struct tcp_congestion_ops half = {
	.name = "half", .owner = THIS_MODULE,
	.ssthresh = half_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,
};

static int __init half_register(void)
{
	return tcp_register_congestion_control(&half);
}
module_init(half_register);
"""
PATCH = """\
--- a/net/ipv4/tcp_cubic.c
+++ b/net/ipv4/tcp_cubic.c
@@ -1,1 +1,2 @@
+static const char ccmix_marked[] __attribute__((used)) = "patched for a test of ccmix";
 // SPDX-License-Identifier: GPL-2.0-only
"""


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of the names of the test's own kernels."""
    folder = tmp_path / "named"
    monkeypatch.setenv("CCMIX_LAB_KERNELS", str(folder))
    return folder


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Returns a folder with a CCA."""
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / "tcp_half.c").write_text(CCA)
    (folder / "factor.h").write_text("#define FACTOR 2\n")
    return folder


def build(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_program([BUILD, *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--help",), 2, "lab/build --name NAME"),
        (("--name",), 2, "--name needs a value"),
        (
            ("--name", "own"),
            2,
            "say by --cca, --patch or --config what is not as in the stock kernel",
        ),
        (("--cca", "half"), 2, "--name NAME is missing"),
        (("--name", "stock", "--cca", "half"), 1, "--name stock: take up to 40 letters"),
        (("--name", "a/b", "--cca", "half"), 1, "--name a/b: take up to 40 letters"),
        (("--name", "own", "--cca", "none"), 1, "--cca none: is no folder"),
        (("--name", "own", "--cca", "empty"), 1, "--cca empty: has no C file"),
        (("--name", "own", "--cca", "capitals"), 1, "is named after no CCA"),
        (
            ("--name", "own", "--cca", "other"),
            1,
            'registers no CCA "other": name the file after its CCA',
        ),
        (
            ("--name", "own", "--cca", "half", "--cca", "half"),
            1,
            "is a second file of the CCA half",
        ),
        (("--name", "own", "--cca", "plain"), 1, "has no tcp_congestion_ops"),
        (("--name", "own", "--patch", "none.patch"), 1, "--patch none.patch: can't be read"),
        (("--name", "own", "--config", "none"), 1, "--config none: can't be read"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    arguments: tuple[str, ...],
    status: int,
    says: str,
    half: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: Path,
) -> None:
    monkeypatch.chdir(half.parent)
    for folder, file, text in (
        ("capitals", "tcp_Half.c", CCA),
        ("other", "tcp_other.c", CCA),
        ("plain", "half.c", '"half"'),
        ("empty", "a.h", ""),
    ):
        Path(folder).mkdir()
        Path(folder, file).write_text(text)
    refused = build(*arguments)
    assert (refused.returncode, refused.stdout) == (status, ""), refused.stderr
    assert says in refused.stderr
    assert not named.exists()


@pytest.mark.deep
@pytest.mark.timeout(3000)  # it may have to build the stock kernel first
def test_kernels_with_a_cca_a_patch_and_an_option(
    named: Path, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCMIX_LAB_KERNEL", build().stdout.strip())
    patch, config = tmp_path / "mark.patch", tmp_path / "options"
    patch.write_text(PATCH)
    config.write_text("CONFIG_TCP_CONG_NV=y\nCONFIG_TCP_CONG_BIC=n\n")
    folder = tmp_path / "commands"
    folder.mkdir()
    ccmix = Ccmix(folder)

    built = build("--name", "half", "--cca", half)
    assert built.returncode == 0, built.stderr
    kernel = Path(built.stdout.strip())
    assert (named / "half").resolve() == kernel
    assert ccas(ccmix, "half") - ccas(ccmix, "stock") == {"half"}
    release = ccmix("lab", "exec", "--kernel", "half", "--", "uname", "-r").stdout.strip()
    assert release.endswith(f"-ccmix-{kernel.parent.name}")
    assert b"patched for a test" not in kernel.read_bytes()

    again = build("--name", "half-again", "--cca", half)
    assert (again.stdout, again.stderr) == (built.stdout, "")  # the same content is the same kernel
    (half / "factor.h").write_text("#define FACTOR 4\n")

    all_three = build("--name", "all", "--cca", half, "--patch", patch, "--config", config)
    assert all_three.returncode == 0, all_three.stderr
    assert all_three.stdout != built.stdout
    assert b"patched for a test" in (named / "all").read_bytes()
    assert ccas(ccmix, "all") - ccas(ccmix, "stock") == {"half", "nv"}
    assert ccas(ccmix, "stock") - ccas(ccmix, "all") == {"bic"}
    shown = ccmix("lab", "kernels").stdout
    assert "added    CCA half; patch mark.patch; config options\n" in shown
    assert "older" not in shown

    (half / "tcp_half.c").write_text(CCA + "int broken(\n")
    failed = build("--name", "half", "--cca", half)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "error: expected declaration specifiers" in failed.stderr
    assert (named / "half").resolve() == kernel

    (half / "tcp_half.c").unlink()
    (half / "tcp_cubic.c").write_text(CCA.replace('"half"', '"cubic"'))
    taken = build("--name", "half", "--cca", half)
    assert taken.returncode == 1
    assert "the kernel has a CCA cubic already" in taken.stderr


def ccas(ccmix: Ccmix, kernel: str) -> set[str]:
    """Returns the CCAs of a guest with this kernel."""
    file = "/proc/sys/net/ipv4/tcp_available_congestion_control"
    return set(ccmix("lab", "exec", "--kernel", kernel, "--", "cat", file).stdout.split())
