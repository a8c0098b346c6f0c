"""Reads of a run.json only what tables of results are made of: a campaign may have a hundred thousand runs.

The rest is as in a run of which nothing else is known. What is read is checked as by codec.read(), except that unknown
fields are left out. What runs have in common is one object in memory.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import ConfigDict

from ccmix.archive import codec
from ccmix.model import Execution, Facts, Finding, FinishedRun, ImportFacts, Metrics, Run, Verdict
from ccmix.model.measurement import PingRtts

_PARTLY: ConfigDict = {**codec.STRICT, "extra": "ignore"}
_NOT_READ = Execution("hosts")
_NO_PINGS: PingRtts = {}
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Imported:
    base_rtt_s: float | None
    rate_bps: float | None
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY


@dataclass(frozen=True)
class _Facts:
    imported: _Imported | None = None
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY


@dataclass(frozen=True)
class _Numbers:
    """Holds the fields of a FinishedRun that are read."""

    facts: _Facts
    ping_rtt_s: PingRtts
    metrics: Metrics
    verdict: Verdict
    __pydantic_config__: ClassVar[ConfigDict] = _PARTLY


_CODEC = codec.Codec(_Numbers)


def read(outdir: Path, file: Path, run: Run) -> FinishedRun:
    """Reads the numbers of a run of a plan. Raises ArchiveError, and FileNotFoundError if there is no such file."""
    content = codec.content(outdir, file, codec.FINISHED_RUN)
    numbers = _CODEC.decode_own(content)
    if numbers is None:  # of an older ccmix, or damaged
        whole = codec.decoded(file, content, codec.FINISHED_RUN)
        numbers = _Numbers(_facts_of(whole), whole.ping_rtt_s, whole.metrics, whole.verdict)
    return FinishedRun(
        run=run,
        execution=_NOT_READ,
        facts=_facts(numbers.facts),
        started_s=None,
        began_s=None,
        ended_s=None,
        ping_rtt_s=numbers.ping_rtt_s or _NO_PINGS,
        metrics=_metrics(numbers.metrics),
        verdict=_verdict(numbers.verdict),
    )


def _facts_of(finished: FinishedRun) -> _Facts:
    imported = finished.facts.imported
    return _Facts(_Imported(imported.base_rtt_s, imported.rate_bps) if imported else None)


def _metrics(metrics: Metrics) -> Metrics:
    return _small(metrics, groups=tuple(map(_small, metrics.groups)))


def _small(value: _T, **changes: object) -> _T:
    """Returns the object as its class would have made it: Pydantic gives each one a dictionary of its own, so that it
    takes three times the memory.
    """
    made = object.__new__(type(value))
    for name, of_field in vars(value).items():
        object.__setattr__(made, name, changes.get(name, of_field))
    return made


def _verdict(verdict: Verdict) -> Verdict:
    """Returns the verdict without the details of accepted findings, which tables leave out."""
    findings = (Finding(each.kind, "", accepted=True) if each.accepted else each for each in verdict.findings)
    return _same(Verdict(verdict.status, tuple(findings), verdict.not_verified))


@functools.lru_cache(maxsize=1024)
def _same(verdict: Verdict) -> Verdict:
    return verdict


@functools.lru_cache(maxsize=1024)
def _facts(facts: _Facts) -> Facts:
    known = facts.imported
    return Facts("", imported=ImportFacts("", "", (), (), known.base_rtt_s, known.rate_bps) if known else None)
