"""Tests named kernels of the lab.

The named kernel here is a copy of the stock kernel. tests/lab/test_another_kernel.py builds kernels
that differ.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ccmix.tools import find_kernel
from support.commands import Ccmix

pytestmark = pytest.mark.lab

INI = """
[topology small]
rate = 20mbit
delay = 5ms

[one]
type = iperf3
topology = small
duration = 1s
sweep.kernel = stock, mine
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the kernel file with the name `mine`."""
    file = tmp_path / "kernel" / "linux"
    file.parent.mkdir()
    shutil.copy(find_kernel(), file)
    named = tmp_path / "named"
    named.mkdir()
    (named / "mine").symlink_to(file)
    (named / "removed").symlink_to(tmp_path / "nothing")
    monkeypatch.setenv("CCMIX_LAB_KERNELS", str(named))
    return file


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "kernels.ini"
    file.write_text(INI)
    return file


def change(config: Path, before: str, after: str) -> Path:
    text = config.read_text()
    assert before in text
    config.write_text(text.replace(before, after))
    return config


def test_the_list_has_names_ccas_and_hashes(ccmix: Ccmix) -> None:
    stock, mine = json.loads(ccmix("lab", "kernels", "--format", "json").stdout)
    assert (stock["name"], mine["name"]) == ("stock", "mine")
    assert stock["sha256"] == mine["sha256"]
    assert {"cubic", "bbr", "reno"} < set(mine["ccas"])
    assert (stock["current"], mine["current"]) == (
        True,
        False,
    )  # nothing says how the copy was built
    shown = ccmix("lab", "kernels").stdout
    assert (
        f"stock\n  release  {stock['release']}\n  sha256   {stock['sha256']}\n  CCAs     bbr "
        in shown
    )
    assert "\nmine\n" in shown
    assert "removed" not in shown


def test_both_run_and_say_what_they_were(ccmix: Ccmix, config: Path, tmp_path: Path) -> None:
    planned = ccmix("plan", config)
    assert "  kernel       of the lab: mine\n" in planned.stdout
    outdir = tmp_path / "out"
    done = ccmix("run", config, "--lab", "-o", outdir)
    assert done.returncode == 0, done.stderr
    described = {
        kernel["name"]: kernel
        for kernel in json.loads(ccmix("lab", "kernels", "--format", "json").stdout)
    }
    for name in ("stock", "mine"):
        run = json.loads((outdir / f"one/kernel={name}/receiver/001/run.json").read_text())
        expected = {key: described[name][key] for key in ("name", "sha256", "release")}
        assert run["facts"]["lab_kernel"] == expected
        assert run["facts"]["kernel"] == expected["release"]
        assert run["run"]["path"]["kernel"] == name
        assert run["verdict"]["status"] == "valid"
    page = (outdir / "report.html").read_text()
    assert "<dt>lab_kernel sha256</dt>" in page
    only_mine = tmp_path / "again"
    assert (
        ccmix("run", config, "--lab", "-o", only_mine, "--run", "one kernel=mine #1").returncode
        == 0
    )
    compared = ccmix("compare", outdir, only_mine).stdout
    assert (
        "kernel=stock" in compared
    )  # which only A has; the conditions that both have are of one kernel


def test_a_name_that_no_kernel_has_is_refused_with_those_that_there_are(
    ccmix: Ccmix, config: Path, tmp_path: Path
) -> None:
    change(config, "stock, mine", "stock, removed")
    outdir = tmp_path / "out"
    for refused in (ccmix("plan", config), ccmix("run", config, "--lab", "-o", outdir)):
        assert (refused.returncode, refused.stdout) == (2, "")
        assert (
            "[one] asks for kernel = removed: the lab has no kernel named removed "
            in refused.stderr
        )
        assert "(available: stock, mine)" in refused.stderr
    assert not outdir.exists()
    examined = ccmix("doctor", config, "--lab", "--format", "json")
    assert findings(examined.stdout)["lab: kernel removed"]["status"] == "fail"
    refused = ccmix("lab", "exec", "--kernel", "removed", "--", "true")
    assert (refused.returncode, refused.stdout) == (2, "")


def findings(printed: str) -> dict[str, Any]:
    return {check["check"]: check for report in json.loads(printed) for check in report["checks"]}


def test_another_kernel_needs_the_lab(ccmix: Ccmix, config: Path, tmp_path: Path) -> None:
    refused = ccmix("run", config, "-o", tmp_path / "out")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "[one] asks for kernel = mine, which runs only in the lab: give --lab" in refused.stderr


def test_a_cca_is_asked_of_the_kernel_that_runs(ccmix: Ccmix, config: Path) -> None:
    change(config, "sweep.kernel = stock, mine", "sweep.kernel = stock, mine\ncca = own")
    refused = ccmix("plan", config)
    assert refused.returncode == 2
    assert "'own' is not a known CCA" in refused.stderr  # while a condition has the stock kernel
    change(config, "sweep.kernel = stock, mine", "sweep.kernel = mine")
    refused = ccmix("plan", config)
    assert refused.returncode == 2
    assert "[one] asks for own: the lab's kernel mine has bbr " in refused.stderr
    examined = ccmix("doctor", config, "--lab", "--format", "json")
    assert findings(examined.stdout)["lab: CCA own of mine"]["status"] == "fail"


def test_a_campaign_is_not_resumed_with_another_kernel_of_the_name(
    ccmix: Ccmix, config: Path, mine: Path, tmp_path: Path
) -> None:
    outdir = tmp_path / "out"
    assert ccmix("run", config, "--lab", "-o", outdir).returncode == 0
    resumed = ccmix("run", config, "--lab", "-o", outdir, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    with mine.open("ab") as file:
        file.write(b"another")  # after all loaded parts
    refused = ccmix("run", config, "--lab", "-o", outdir, "--resume")
    assert refused.returncode == 2
    assert "was started with another kernel mine of the lab" in refused.stderr


def test_a_guest_by_hand_has_the_kernel_of_its_path(ccmix: Ccmix, config: Path) -> None:
    done = ccmix("lab", "exec", "--path", config, "--run", "kernel=mine", "--", "uname", "-r")
    assert done.returncode == 0, done.stderr
    assert ccmix("lab", "exec", "--kernel", "mine", "--", "uname", "-r").stdout == done.stdout
