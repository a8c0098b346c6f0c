"""Checks whether a host's kernel can load BBRv2 and BBRv3 as BPF programs, by the program that loads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ccmix import foreign_json
from ccmix.doctor.findings import DoctorFinding, Status, line, problem
from ccmix.doctor.reading import transcript
from ccmix.hosts import Host
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.sent import sent
from ccmix.tools import ToolError, find_cca

WHY = "ccmix loads BBRv2 and BBRv3 into kernels that lack them as BPF programs."
MEND = {"JIT": line("sysctl", "-w", "net.core.bpf_jit_enable=1")}  # by the need's name; a kernel can't be mended by one


@dataclass(frozen=True)
class BpfNeed:
    """Describes something that the program needs of a host, as its command `check` prints it."""

    name: str
    ok: bool
    seen: str


def read_needs(host: Host, sudo: bool) -> list[BpfNeed]:
    """Asks ccmix-cca on the host, by sudo where the login has it. Raises CommandError and ValueError."""
    try:
        program = find_cca()
    except ToolError as error:
        raise ValueError(str(error)) from error
    as_root = ("sudo", "-n") if sudo else ()
    if not isinstance(host, AgentHost):
        return _read(transcript(host, [*as_root, str(program), "check", "--json"])[1])
    with sent(host, program) as there:
        return _read(transcript(host, [*as_root, there, "check", "--json"])[1])


def _read(output: str) -> list[BpfNeed]:
    try:
        return [BpfNeed(str(row["need"]), bool(row["ok"]), str(row["word"])) for row in foreign_json.loads(output)]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"ccmix-cca says {output.strip()[:200]!r}") from error


def judge_needs(needs: Sequence[BpfNeed], ccas: Sequence[str]) -> Iterator[DoctorFinding]:
    """Judges what the host has; `ccas` are those that entries load there, which may be none."""
    lacks = [need for need in needs if not need.ok]
    for need in lacks:
        mend = (MEND[need.name],) if need.name in MEND else ()
        yield DoctorFinding(f"BPF: {need.name}", problem(bool(ccas)), need.seen, WHY, mend)
    if not lacks:
        yield DoctorFinding("BPF", Status.OK, f"{' and '.join(ccas) or 'bbr2 and bbr3'} can be loaded")
