"""Tests that a CCA which no kernel on the path has is refused before anything starts."""

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from ccmix.cli.lacking import refuse_on_hosts
from ccmix.hosts import LocalHost
from ccmix.lab.spec import ccas_of_kernel
from ccmix.model import Commands, Group
from ccmix.tools import find_kernel
from support.commands import REPOSITORY, SMALL, Ccmix
from support.model import host_run, with_groups

LAB_LACKS = "hybla"
NONE = "bbr3"  # no released Linux kernel has it


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "new.ini"
    file.write_text(SMALL.replace("cca = cubic,bbr", f"cca = cubic,{LAB_LACKS}"))
    return file


def test_the_lab_s_kernel_says_what_it_has(ccmix: Ccmix) -> None:
    built_in = ccas_of_kernel(find_kernel())
    assert built_in
    guest = ccmix("lab", "exec", "--", "cat", "/proc/sys/net/ipv4/tcp_available_congestion_control")
    assert set(guest.stdout.split()) == built_in
    config = (REPOSITORY / "lab" / "kernel.config").read_text()
    assert {
        name.lower()
        for name in re.findall(r"^CONFIG_TCP_CONG_(?!ADVANCED)(\w+)=y", config, re.MULTILINE)
    } == (built_in - {"reno"})
    page = (REPOSITORY / "docs" / "explanation" / "lab.md").read_text()
    [listed] = re.findall(r"^\| CCAs \| (.*) \|$", page, re.MULTILINE)
    assert listed == ", ".join(f"`{cca}`" for cca in sorted(built_in))


def test_a_file_that_is_no_kernel_says_nothing(tmp_path: Path) -> None:
    for content in (b"", b"IKCFG_ST and no gzip"):
        (tmp_path / "file").write_bytes(content)
        assert ccas_of_kernel(tmp_path / "file") is None


def test_plan_and_run_refuse_before_anything_starts(
    ccmix: Ccmix, config: Path, tmp_path: Path
) -> None:
    outdir = tmp_path / "out"
    for refused in (ccmix("run", config, "--lab", "-o", outdir), ccmix("plan", config)):
        assert (refused.returncode, refused.stdout) == (2, "")
        assert (
            f"[both] asks for {LAB_LACKS}: the lab's kernel has bbr bbr2 bbr3 bic cdg cubic "
            in refused.stderr
        )
    assert not outdir.exists()


def test_doctor_fails(ccmix: Ccmix, config: Path) -> None:
    done = ccmix("doctor", config, "--lab", "--format", "json")
    findings = {
        check["check"]: check for report in json.loads(done.stdout) for check in report["checks"]
    }
    assert done.returncode == 1
    assert findings[f"lab: CCA {LAB_LACKS}"]["status"] == "fail"
    assert "cubic" in findings["lab: CCAs"]["seen"]


def test_a_sending_host_that_lacks_it() -> None:
    run = host_run("localhost", "localhost")
    wanted = replace(run, traffic=with_groups(run.traffic, Group("cubic"), Group(NONE)))
    with pytest.raises(
        click.UsageError, match=rf"\[one\] asks for {NONE}: the kernel of localhost has .*cubic"
    ):
        refuse_on_hosts([wanted], lambda _: LocalHost())
    loads = replace(wanted.host_path, commands=Commands(pre_src="insmod it.ko"))
    refuse_on_hosts([replace(wanted, path=loads)], lambda _: LocalHost())
    refuse_on_hosts(
        [replace(run, traffic=with_groups(run.traffic, Group("cubic")))], lambda _: LocalHost()
    )
