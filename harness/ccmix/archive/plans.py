"""Reads campaign.json, that of an import run by run: it may have a hundred thousand, and the document as a whole would
take ten times its size in memory.

Such a file has one line (archive/many.py). Its runs share their traffic and their path, whose texts are decoded
once. The parts are found by keys: within a string a quotation mark has a backslash before it, so that a key's text
occurs nowhere else. Each part is checked as codec.read() checks the whole.
"""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ccmix.archive import codec
from ccmix.model import HostPath, Run, Topology, Traffic
from ccmix.model.results import CampaignPlan
from ccmix.model.run import RunSpread

RUNS_AT_ONCE = 1000
_FIRST, _NEXT, _LAST = b', "runs": [{"entry": ', b'}, {"entry": ', b'}], "title": '
_TRAFFIC, _PATH, _REST = b', "traffic": ', b', "path": ', b', "accept_limits": '


@dataclass(frozen=True)
class _OwnPart:
    """Holds what each run has for itself."""

    entry: str
    condition: dict[str, str]
    dst: str
    iteration: int
    seed: int | None
    accept_limits: tuple[str, ...]
    spread: RunSpread | None


_OWN_PARTS = TypeAdapter(tuple[_OwnPart, ...], config=codec.STRICT)
_TRAFFICS = TypeAdapter(tuple[Traffic], config=codec.STRICT)
_PATHS = TypeAdapter(tuple[Topology | HostPath], config=codec.STRICT)


def read(outdir: Path, file: Path) -> CampaignPlan:
    """Reads a plan. Raises ArchiveError for a damaged file or another schema, and FileNotFoundError for none."""
    content = codec.content(outdir, file, codec.CAMPAIGN_PLAN)
    plan = _of_one_line(content)
    return codec.decoded(file, content, codec.CAMPAIGN_PLAN) if plan is None else plan


def _of_one_line(content: bytes) -> CampaignPlan | None:
    """Returns the plan in a file of one line; None for any other file, and for one that is damaged."""
    begin, end = content.find(_FIRST), content.rfind(_LAST)
    if begin < 0 or end < 0:
        return None
    with contextlib.suppress(ValidationError, _NoRunError):
        runs = tuple(_runs(content, begin + len(_FIRST), end))
        without_runs = content[:begin] + b', "runs": [], "title": ' + content[end + len(_LAST) :]
        if rest := codec.CAMPAIGN_PLAN.decode_own(without_runs):
            return CampaignPlan(rest.origin, rest.ini, runs, rest.title, rest.file_order, rest.unknown)
    return None


class _NoRunError(Exception):
    """Says that a text has not the keys of a run, in their order."""


def _runs(content: bytes, begin: int, end: int) -> Iterator[Run]:
    traffics: dict[bytes, Traffic] = {}
    paths: dict[bytes, Topology | HostPath] = {}
    conditions: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    texts = _texts(content, begin, end)
    while some := list(itertools.islice(texts, RUNS_AT_ONCE)):
        own_parts = _OWN_PARTS.validate_json(b"[%b]" % b",".join(own for own, _, _ in some))
        for own, (_, traffic, path) in zip(own_parts, some, strict=True):
            if traffic not in traffics:
                [traffics[traffic]] = _TRAFFICS.validate_json(b"[%b]" % traffic)
            if path not in paths:
                [paths[path]] = _PATHS.validate_json(b"[%b]" % path)
            condition = conditions.setdefault(tuple(own.condition.items()), own.condition)
            yield Run(own.entry, condition, own.dst, own.iteration, own.seed, traffics[traffic], paths[path],
                      own.accept_limits, own.spread)  # fmt: skip


def _texts(content: bytes, begin: int, end: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yields the texts of each run: its own part, its traffic, and its path. Raises _NoRunError."""
    while begin < end:
        stop = content.find(_NEXT, begin, end)
        stop = end if stop < 0 else stop
        traffic = content.find(_TRAFFIC, begin, stop)
        path = content.find(_PATH + b"{", traffic, stop)
        rest = content.find(_REST, path, stop)
        if min(traffic, path, rest) < 0:
            raise _NoRunError
        own = b'{"entry": %b%b}' % (content[begin:traffic], content[rest:stop])
        yield own, content[traffic + len(_TRAFFIC) : path], content[path + len(_PATH) : rest]
        begin = stop + len(_NEXT)
