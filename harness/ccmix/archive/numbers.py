"""Reads of a run.json only what tables, comparisons and charts of results are made of: a campaign may have a hundred
thousand runs.

The rest is as in a run of which nothing else is known: there are no flows, commands and diagnostics. What is read is
checked as by codec.read(), except that unknown fields are left out. What runs have in common is one object in memory.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter

from ccmix.archive import codec
from ccmix.model import BpfCca, Facts, GuestRoot, HostFacts, ImportFacts, LabKernel, Run
from ccmix.model.measurement import PingRtts
from ccmix.model.results import Execution, Finding, FinishedRun, MachineKind, Metrics, Verdict

_PARTLY: ConfigDict = {**codec.STRICT, "extra": "ignore"}
_NO_PINGS: PingRtts = {}
MOST_SETUPS = 1024  # that are kept as one object each; campaigns have a few
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Imported:
    base_rtt_s: float | None
    rate_bps: float | None
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY


@dataclass(frozen=True)
class Setup:
    """Holds the facts that many runs of a campaign have in common."""

    kernel: str
    kernel_version: str | None = None
    iperf3: str = ""
    sysctls: dict[str, str] | None = None
    generator: str | None = None
    hosts: dict[str, HostFacts] | None = None
    device: str | None = None
    offloads: dict[str, bool] | None = None
    imported: _Imported | None = None
    sender_qdiscs: dict[str, str] | None = None
    lab_kernel: LabKernel | None = None
    guest_root: GuestRoot | None = None
    lab_programs: dict[str, str] | None = None
    bpf_ccas: dict[str, BpfCca] | None = None
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY


@dataclass(frozen=True)
class _Execution:
    machine: MachineKind
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Holds the fields of a FinishedRun that are read, but for the setup."""

    execution: _Execution
    started_s: float | None
    began_s: float | None
    ended_s: float | None
    settled_after_s: float | None = None
    ping_rtt_s: PingRtts
    metrics: Metrics
    verdict: Verdict
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY

    def finished(self, run: Run, facts: Facts) -> FinishedRun:
        """Returns the run with what is known of it here."""
        return FinishedRun(
            run=run,
            execution=_execution(self.execution.machine),
            facts=facts,
            started_s=self.started_s,
            began_s=self.began_s,
            ended_s=self.ended_s,
            settled_after_s=self.settled_after_s,
            ping_rtt_s=self.ping_rtt_s or _NO_PINGS,
            metrics=_small(self.metrics, flows=()),
            verdict=_verdict(self.verdict),
        )


@dataclass(frozen=True, kw_only=True)
class _WithSetup(Numbers):
    facts: Setup


_WITH_SETUP = codec.Codec(_WithSetup)
_SETUP: TypeAdapter[tuple[Setup]] = TypeAdapter(tuple[Setup], config=codec.STRICT)
_NUMBERS: TypeAdapter[tuple[Numbers, ...]] = TypeAdapter(tuple[Numbers, ...], config=codec.STRICT)


def read(outdir: Path, file: Path, run: Run) -> FinishedRun:
    """Reads the numbers of a run of a plan. Raises ArchiveError, and FileNotFoundError if there is no such file."""
    content = codec.content(outdir, file, codec.FINISHED_RUN)
    numbers = _WITH_SETUP.decode_own(content)
    if numbers is not None:
        return numbers.finished(run, facts_of(_SETUP.dump_json((numbers.facts,)).decode()))
    # damaged
    return of_whole(run, codec.decoded(file, content, codec.FINISHED_RUN))


def of_whole(run: Run, finished: FinishedRun) -> FinishedRun:
    """Returns the numbers of a whole run."""
    setup, numbers = texts(finished)
    [of_run] = decoded([numbers])
    return of_run.finished(run, facts_of(setup))


def texts(finished: FinishedRun) -> tuple[str, str]:
    """Returns the setup and the numbers of a whole run as JSON; those of the flows are left out."""
    facts, execution = finished.facts, _Execution(finished.execution.machine)
    shared = {each.name: getattr(facts, each.name) for each in fields(Setup) if each.name != "imported"}
    imported = _Imported(facts.imported.base_rtt_s, facts.imported.rate_bps) if facts.imported else None
    same = {each.name: getattr(finished, each.name) for each in fields(Numbers)}
    numbers = Numbers(**same | {"execution": execution, "metrics": replace(finished.metrics, flows=())})
    setup = Setup(**shared, imported=imported)
    return _SETUP.dump_json((setup,)).decode(), _NUMBERS.dump_json((numbers,)).decode()[1:-1]


def decoded(numbers: Iterable[str]) -> tuple[Numbers, ...]:
    """Returns what texts() made. Raises ValueError."""
    return _NUMBERS.validate_json("[" + ",".join(numbers) + "]")


@functools.lru_cache(maxsize=MOST_SETUPS)
def facts_of(setup: str) -> Facts:
    """Returns the facts that a setup holds, the same object for the same text. Raises ValueError."""
    [read_setup] = _SETUP.validate_json(setup)
    shared = {each.name: getattr(read_setup, each.name) for each in fields(Setup) if each.name != "imported"}
    known = read_setup.imported
    imported = ImportFacts("", "", (), (), known.base_rtt_s, known.rate_bps) if known else None
    return Facts(**shared, imported=imported)


def _small(value: _T, **changes: object) -> _T:
    """Returns the object as its class would have made it, and so those in it: Pydantic gives each one a dictionary of
    its own, so that it takes three times the memory.
    """
    made = object.__new__(type(value))
    for name, of_field in vars(value).items():
        object.__setattr__(made, name, changes[name] if name in changes else _smaller(of_field))
    return made


def _smaller(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_smaller, value))
    return _small(value) if is_dataclass(value) and not isinstance(value, type) else value


@functools.lru_cache(maxsize=8)
def _execution(machine: MachineKind) -> Execution:
    return Execution(machine)


def _verdict(verdict: Verdict) -> Verdict:
    """Returns the verdict without the details of accepted findings, which tables leave out."""
    findings = (Finding(each.kind, "", accepted=True) if each.accepted else each for each in verdict.findings)
    return _same(Verdict(verdict.status, tuple(findings), verdict.not_verified))


@functools.lru_cache(maxsize=1024)
def _same(verdict: Verdict) -> Verdict:
    return verdict
