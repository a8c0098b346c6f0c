"""The units of packaging/systemd: systemd understands them, and they start containers as
compose.yaml does.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.commands import REPOSITORY, run_program

UNITS = REPOSITORY / "packaging/systemd"
INSTANCES = {"ccmix@.service": "my-test", "ccmix@.timer": "my-test", "ccmix-cca@.service": "bbr3"}
MOST_EXPOSURE = 1.5
MOST_EXPOSURE_OF_ROOT = 2.5  # of a unit that writes to /proc/sys and loads modules
# In CI it must be there
ANALYZED = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None and "CI" not in os.environ,
    reason="systemd-analyze is not here: UNITS NOT VERIFIED",
)


def verify(folder: Path, changed: str = "") -> subprocess.CompletedProcess[str]:
    """Verifies an instance of each unit with systemd-analyze, together with a docker.service that
    this machine need not have.
    """
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/usr/sbin/ccmix-cca", f"{folder}/ccmix-cca")
        if unit.suffix == ".service":  # before [Install]
            text = text.replace("UMask=0077\n", f"UMask=0077\n{changed}")
        (folder / unit.name).write_text(text)
        (folder / unit.name.replace("@", f"@{INSTANCES[unit.name]}")).write_text(text)
    (folder / "docker.service").write_text("[Service]\nExecStart=/bin/true\n")
    for program in (folder / "docker", folder / "ccmix-cca"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    names = [
        str(folder / name.replace("@", f"@{instance}")) for name, instance in INSTANCES.items()
    ]
    return run_program(
        ["systemd-analyze", "verify", "--man=no", *names],
        env={"PATH": f"{folder}:/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{folder}:"},
    )


@ANALYZED
def test_systemd_understands_them(tmp_path: Path) -> None:
    done = verify(tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    wrong = verify(tmp_path, "NoSuchSetting=1\n")
    assert "NoSuchSetting" in wrong.stderr


@ANALYZED
@pytest.mark.parametrize(
    ("file", "most"),
    [
        (UNITS / "ccmix@.service", MOST_EXPOSURE),
        (UNITS / "ccmix-cca@.service", MOST_EXPOSURE),
        (REPOSITORY / "plugin/allow-ccas.service", MOST_EXPOSURE_OF_ROOT),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_the_units_own_processes_may_do_little(file: Path, most: float, tmp_path: Path) -> None:
    """Tests the exposure, of 10, that `systemd-analyze security` reports. The container is not a
    process of the unit.
    """
    for changed, allowed in (
        ("", True),
        ("CapabilityBoundingSet=~\nNoNewPrivileges=no\nDynamicUser=no\n", False),
    ):
        unit = tmp_path / file.name.replace("@", f"@{INSTANCES.get(file.name)}")
        text = file.read_text().replace(
            "@CLASSES@", "/usr/lib"
        )  # which building the package fills in
        unit.write_text(text.replace("UMask=0077\n", f"UMask=0077\n{changed}"))
        argv = [
            "systemd-analyze",
            "security",
            "--offline=yes",
            f"--threshold={most * 10:.0f}",
            unit,
        ]
        done = run_program(argv)
        assert (done.returncode == 0) is allowed, done.stdout + done.stderr


def test_a_container_gets_what_the_service_dtn_gets() -> None:
    dtn = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())["services"]["dtn"]
    [start] = re.findall(
        r"^ExecStart=(.*?[^\\])$", (UNITS / "ccmix@.service").read_text(), re.MULTILINE | re.DOTALL
    )
    assert re.findall(r"--cap-add (\w+)", start) == dtn["cap_add"]
    assert re.findall(r"--security-opt (\S+)", start) == [
        one.removesuffix(":true") for one in dtn["security_opt"]
    ]
    assert re.findall(r"--network (\w+)", start) == [dtn["network_mode"]]
    assert "--volume /sys/module:/sys/module" in start
    assert "/sys/module:/sys/module" in dtn["volumes"]
