"""Tests the doctor's report in a container, from the rights of a container."""

import re
from pathlib import Path

import pytest

from ccmix.doctor import rights
from ccmix.doctor.report import DoctorFinding, Status
from ccmix.doctor.rights import (
    CAPTURES,
    NAMESPACES,
    PARAMETERS,
    USES,
    Rights,
    judge,
    judge_network,
)
from support.commands import REPOSITORY

ALL = frozenset(rights.CAPABILITIES)


def findings_of(rights: Rights, *needed: rights.Use) -> dict[str, DoctorFinding]:
    return {finding.check.removeprefix("container: "): finding for finding in judge(rights, needed)}


def test_a_container_with_everything() -> None:
    assert {finding.status for finding in judge(Rights(0, ALL, ()), USES)} == {Status.OK}


def test_what_an_entry_needs_fails_and_says_how_to_start_the_container() -> None:
    findings = findings_of(
        Rights(1000, frozenset(), ("/proc/sys", "/sys/module")), CAPTURES, PARAMETERS
    )
    assert findings["captures"].status is Status.FAIL
    assert findings["captures"].seen == "user 1000 is not root, no NET_RAW"
    assert findings["captures"].instead == ("docker run --user root --cap-add NET_RAW ...",)
    assert findings["module parameters"].instead == (
        "docker run --user root --security-opt systempaths=unconfined -v /sys/module:/sys/module "
        "...",
    )
    assert findings[NAMESPACES.feature].status is Status.WARN


@pytest.mark.parametrize("use", USES)
def test_each_capability_and_mount_is_named_where_it_alone_is_missing(use: rights.Use) -> None:
    for name in use.capabilities:
        [finding] = [
            candidate
            for candidate in judge(Rights(0, ALL - {name}, ()), ())
            if use.feature in candidate.check
        ]
        assert f"--cap-add {name} " in finding.instead[0]
    for tree in use.writes:
        [finding] = [
            candidate
            for candidate in judge(Rights(0, ALL, (tree,)), ())
            if use.feature in candidate.check
        ]
        assert finding.seen == f"{tree} is read-only"


def test_effective_capabilities() -> None:
    with pytest.raises(ValueError, match="no capability sets"):
        rights.capabilities("Name:\tx\n", "Eff")


def test_network(tmp_path: Path) -> None:
    for name, iflink in (("lo", 1), ("eth0", 77)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ifindex").write_text("1\n" if name == "lo" else "2\n")
        (tmp_path / name / "iflink").write_text(f"{iflink}\n")
    [private] = judge_network(rights.read_devices(tmp_path))
    assert private.status is Status.WARN
    assert "eth0" in private.seen
    (tmp_path / "eth0" / "iflink").write_text("2\n")
    [hosts] = judge_network(rights.read_devices(tmp_path))
    assert hosts.status is Status.OK


def test_journals_that_would_be_lost() -> None:
    """Looks below a folder that is not a volume, existing or not; /proc is a separate
    file system.
    """
    for folder in (Path("/"), Path("/no-such-folder/journals")):
        [lost] = rights.judge_state(folder)
        assert (lost.status, lost.instead) == (Status.WARN, (f"docker run -v state:{folder} ...",))
    [kept] = rights.judge_state(Path("/proc/journals"))
    assert kept.status is Status.OK


@pytest.mark.parametrize("use", USES)
def test_the_guide_has_every_use_with_its_options(use: rights.Use) -> None:
    guide = (REPOSITORY / "docs/howto/run-in-containers.md").read_text()
    [row] = [line for line in guide.splitlines() if line.startswith(f"| {use.feature}")]
    assert set(re.findall(r"`([A-Z_]+)`", row)) == set(use.capabilities)
    assert ("systempaths" in row) == bool(use.writes)
    assert ("/sys/module" in row) == ("/sys/module" in use.writes)
