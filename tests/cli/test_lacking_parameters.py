"""Tests that a parameter of bbr2 or bbr3 which the lab's own kernel would refuse is refused before
anything starts.
"""

import json
import re
from pathlib import Path

import pytest

from ccmix.lab.spec import PARAMETERS
from ccmix.tools import find_kernel
from support.commands import REPOSITORY, Ccmix

INI = """
[topology small]
rate = 20mbit
delay = 5ms

[one]
type = iperf3
topology = small
duration = 1s
param-sweep = SWEEP
"""
CCA = REPOSITORY / "cca"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a kernel of the lab a name, in addition to the stock kernel."""
    named = tmp_path / "named"
    named.mkdir()
    (named / "mine").symlink_to(find_kernel())
    monkeypatch.setenv("CCMIX_LAB_KERNELS", str(named))


def config(folder: Path, sweep: str) -> Path:
    file = folder / "sweep.ini"
    file.write_text(INI.replace("SWEEP", sweep))
    return file


def test_the_table_is_that_of_the_modules() -> None:
    """Returns names and bounds from cca/core/bbr_constants.h, and those that
    cca/module/tcp_bbr_parameters.h adds.
    """
    table = (CCA / "core" / "bbr_constants.h").read_text()
    settings = re.findall(r"^\tSETTING\((\w+), \d+, \d+, \d+, (\d+), (\d+), ", table, re.MULTILINE)
    module = (CCA / "module" / "tcp_bbr_parameters.h").read_text()
    added = re.findall(r"module_param(?:_cb|_named)\((\w+), .*, (0\d+)\);", module)
    expected = {name: (int(least), int(most), False) for name, least, most in settings}
    assert len(expected) > 30
    for name, access in added:
        if name != "name":  # that of the table's macro
            expected[name] = (0, 2**32 - 1, access == "0444")
    gains = re.findall(r"^#define BBR_PACING_GAIN_(?:MIN|MAX) (\d+)$", table, re.MULTILINE)
    expected |= {"pacing_gain": (int(gains[0]), int(gains[1]), False), "draft": (0, 1, False)}
    for module_name, parameters in PARAMETERS.items():
        of_module = {name: (it.least, it.most, it.read_only) for name, it in parameters.items()}
        assert of_module == {
            name: it
            for name, it in expected.items()
            if name != "draft" or module_name == "tcp_bbr2"
        }
    assert PARAMETERS["tcp_bbr2"]["pacing_gain"].elements == len(
        re.findall(r"BBR_GAIN_\w+", table.partition("enum bbr_gain {")[2].partition("BBR_GAINS")[0])
    )


@pytest.mark.lab
def test_the_lab_s_kernel_has_these_parameters(ccmix: Ccmix) -> None:
    for module, parameters in PARAMETERS.items():
        listed = ccmix("lab", "exec", "--", "ls", f"/sys/module/{module}/parameters").stdout.split()
        assert set(listed) == set(parameters)


@pytest.mark.parametrize(
    ("sweep", "says"),
    [
        (
            "tcp_bbr2/parameters/loss_tresh, sys-module-list,3",
            "no parameter 'loss_tresh'; did you mean 'loss_thresh'?",
        ),
        ("tcp_bbr3/parameters/draft, sys-module-list,1", "tcp_bbr3 has no parameter 'draft'"),
        (
            "tcp_bbr2/parameters/loss_thresh, sys-module-list,5,0",
            "loss_thresh takes no 0: it takes 1 to 255",
        ),
        (
            "tcp_bbr2/parameters/beta, sys-module-vector-list,2,77",
            "beta has no element 2: it has 1",
        ),
        (
            "tcp_bbr2/parameters/pacing_gain, sys-module-list,320",
            "has 4 elements: name one, by sys-module-vector-list",
        ),
        (
            "tcp_bbr2/parameters/pacing_gain, sys-module-vector-list,5,320",
            "pacing_gain has no element 5: it has 4",
        ),
        ("tcp_bbr2/parameters/fallbacks, sys-module-list,0", "fallbacks can only be read"),
    ],
)
def test_plan_and_run_refuse_and_doctor_fails(
    ccmix: Ccmix, tmp_path: Path, sweep: str, says: str
) -> None:
    file, outdir = config(tmp_path, sweep), tmp_path / "out"
    for refused in (ccmix("plan", file), ccmix("run", file, "--lab", "-o", outdir)):
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "[one]: tcp_bbr" in refused.stderr
        assert says in refused.stderr
    assert not outdir.exists()
    examined = json.loads(ccmix("doctor", file, "--lab", "--format", "json").stdout)
    seen = [
        check
        for report in examined
        for check in report["checks"]
        if check["check"].startswith("lab: parameter")
    ]
    assert [(check["status"], says in check["seen"]) for check in seen] == [("fail", True)]


@pytest.mark.parametrize(
    "sweep",
    [
        "tcp_bbr2/parameters/loss_thresh, sys-module-increment,1,5,1",
        "tcp_bbr3/parameters/pacing_gain, sys-module-vector-list,4,256,300",
        "tcp_mine/parameters/anything, sys-module-list,-1",
    ],
)
def test_what_a_kernel_may_take_is_planned(ccmix: Ccmix, tmp_path: Path, sweep: str) -> None:
    planned = ccmix("plan", config(tmp_path, sweep))
    assert planned.returncode == 0, planned.stderr


@pytest.mark.usefixtures("mine")  # first, because the fixture of the command copies the environment
def test_another_kernel_is_asked_by_the_run_alone(ccmix: Ccmix, tmp_path: Path) -> None:
    file = config(tmp_path, "tcp_bbr2/parameters/of_mine, sys-module-list,1")
    file.write_text(file.read_text().replace("delay = 5ms", "delay = 5ms\nkernel = mine"))
    planned = ccmix("plan", file)
    assert planned.returncode == 0, planned.stderr
