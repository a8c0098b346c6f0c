"""Tests the file by which a guest learns its run."""

import pickle
from pathlib import Path

import pytest

from ccmix.archive import Campaign
from ccmix.config import load
from ccmix.model import HostPath
from ccmix.plan import make_plan
from ccmix.run.machines import pickled
from finished_runs import campaign_plan

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("name", ["demo", "real-and-emulated", "papers/tierney-fig15", "papers/zeynali-convergence"])
def test_equal_runs_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Takes runs as they are planned, as they are when a campaign is resumed, and as they come to a worker."""
    entries = load(CONFIGS / f"{name}.ini").entries
    planned = tuple(run for run in make_plan(entries, seed=1) if not isinstance(run.path, HostPath))
    Campaign.create(tmp_path / "out", campaign_plan(planned))
    jobs = [pickled(run) for run in planned]
    assert [pickled(run) for run in Campaign.load(tmp_path / "out").runs] == jobs
    assert [pickled(pickle.loads(pickle.dumps(run))) for run in planned] == jobs
    assert tuple(map(pickle.loads, jobs)) == planned
