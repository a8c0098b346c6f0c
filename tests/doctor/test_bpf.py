"""Tests the checks for BPF programs, with the real ccmix-cca on this machine."""

import os

import pytest

from ccmix.doctor.examine import ExaminedMachine
from ccmix.doctor.kernel import BpfNeed, judge_needs, read_needs
from ccmix.doctor.report import Status

NEEDS = ("kernel", "BTF", "JIT", "rights")


def test_the_program_says_what_this_machine_has() -> None:
    needs = {need.name: need for need in read_needs(ExaminedMachine(), sudo=False)}
    assert tuple(needs) == NEEDS
    if os.geteuid() != 0:
        assert "CAP_SYS_ADMIN" in needs["rights"].seen
        assert not needs["rights"].ok


def test_a_machine_that_has_everything() -> None:
    everything = [BpfNeed(name, ok=True, seen="") for name in NEEDS]
    [finding] = judge_needs(everything, ["bbr3"])
    assert (finding.check, finding.status, finding.seen) == ("BPF", Status.OK, "bbr3 can be loaded")


@pytest.mark.parametrize(("ccas", "status"), [(["bbr3"], Status.FAIL), ([], Status.WARN)])
def test_what_is_missing_is_named(ccas: list[str], status: Status) -> None:
    needs = [BpfNeed(name, name not in ("BTF", "JIT"), f"no {name}") for name in NEEDS]
    btf, jit = judge_needs(needs, ccas)
    assert [(finding.check, finding.status, finding.seen) for finding in (btf, jit)] == [
        ("BPF: BTF", status, "no BTF"),
        ("BPF: JIT", status, "no JIT"),
    ]
    assert (btf.remedy, jit.remedy) == ((), ("sysctl -w net.core.bpf_jit_enable=1",))


def test_an_answer_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCMIX_CCA", "/bin/true")
    with pytest.raises(ValueError, match="ccmix-cca says"):
        read_needs(ExaminedMachine(), sudo=False)
