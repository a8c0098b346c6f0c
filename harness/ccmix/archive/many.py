"""Writes runs of which there are very many, such as those of an imported table: what they share is encoded once.

A file has the content that codec.write() would give it, in one line. It lies in a folder that has no reader yet, and is
not yet on the disk: staging.staged() puts all files there together. Both make it ten times as fast.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter

from ccmix.archive import codec
from ccmix.archive.replacing import write_new
from ccmix.model import HostPath, Run, Topology, Traffic
from ccmix.model.results import CampaignPlan, FinishedRun
from ccmix.model.run import RunSpread

_TRAFFIC = codec.Codec(Traffic)
_SPREAD = codec.Codec(RunSpread)
_PATH: TypeAdapter[tuple[Topology | HostPath]] = TypeAdapter(tuple[Topology | HostPath])


def write_finished(file: Path, finished: FinishedRun) -> None:
    """Writes a new run.json. Raises OSError."""
    others = json.dumps(codec.FINISHED_RUN.encode(finished, without="run"))
    text = f'{{"schema": {codec.SCHEMA}, "run": {_run_text(finished.run)}, {others[1:]}'
    write_new(file, text.encode())


def write_plan(out: IO[bytes], plan: CampaignPlan) -> None:
    """Writes the content of a campaign.json, which plans.read() reads run by run. Raises OSError."""
    out.writelines(text.encode() for text in _plan_texts(plan))


def _plan_texts(plan: CampaignPlan) -> Iterator[str]:
    encoded = {"schema": codec.SCHEMA, **codec.CAMPAIGN_PLAN.encode(plan, without="runs")}
    before = {name: encoded[name] for name in ("schema", "origin", "ini")}
    after = {name: value for name, value in encoded.items() if name not in before}
    yield f'{json.dumps(before)[:-1]}, "runs": ['
    for number, run in enumerate(plan.runs):
        yield f", {_run_text(run)}" if number else _run_text(run)
    yield f"], {json.dumps(after)[1:]}"


def _run_text(run: Run) -> str:
    own = {
        "entry": run.entry, "condition": run.condition, "dst": run.dst, "iteration": run.iteration, "seed": run.seed,
    }  # fmt: skip
    accept_limits = json.dumps(run.accept_limits) if run.accept_limits else "[]"
    spread = json.dumps(_SPREAD.encode(run.spread)) if run.spread else "null"
    return (
        f'{json.dumps(own)[:-1]}, "traffic": {_traffic_text(run.traffic)}, "path": {_path_text(run.path)}, '
        f'"accept_limits": {accept_limits}, "spread": {spread}}}'
    )


@functools.lru_cache(maxsize=1024)
def _traffic_text(traffic: Traffic) -> str:
    return json.dumps(_TRAFFIC.encode(traffic))


@functools.lru_cache(maxsize=1024)
def _path_text(path: Topology | HostPath) -> str:
    return json.dumps(_PATH.dump_python((path,), mode="json")[0])
