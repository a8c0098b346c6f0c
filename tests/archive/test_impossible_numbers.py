"""Numbers that no measurement has are refused when run.json or campaign.json is read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ccmix.analysis.results import load_results
from support.commands import invoke
from support.published_archives import DEMO

RUN = "mixed/delay=5ms,loss=0%/receiver/001/run.json"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    (folder / RUN).parent.mkdir(parents=True)
    shutil.copy(DEMO / RUN, folder / RUN)
    plan = json.loads((DEMO / "campaign.json").read_text())
    condition = {"delay": "5ms", "loss": "0%"}
    plan["runs"] = [
        run for run in plan["runs"] if run["entry"] == "mixed" and run["condition"] == condition
    ]
    (folder / "campaign.json").write_text(json.dumps(plan))
    return folder


def goodput(value: float) -> Callable[[Any], None]:
    return lambda run: run["metrics"].update(goodput_bps=value)


CHANGES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "negative goodput": (RUN, goodput(-1.0)),
    "infinite goodput": (RUN, goodput(1e307)),
    "group": (RUN, lambda run: run["metrics"]["groups"][0].update(goodput_bps=-1.0)),
    "flow": (RUN, lambda run: run["metrics"]["flows"][0].update(goodput_bps=1e307)),
    "start": (RUN, lambda run: run.update(started_s=1e300)),
    "begin": (RUN, lambda run: run.update(began_s=-1.0)),
    "end": (RUN, lambda run: run.update(ended_s=1e12)),
    "end of measuring": (RUN, lambda run: run["execution"].update(measured_s=1e300)),
    "RTT": (RUN, lambda run: run["metrics"].update(rtt_median_s=1e300)),
    "backlog": (RUN, lambda run: run["metrics"]["bottleneck"].update(drops=10**40)),
    "campaign": ("campaign.json", lambda plan: plan["origin"].update(started_s=1e300)),
}


@pytest.mark.parametrize("case", CHANGES)
def test_an_impossible_number_is_one_sentence(case: str, archive: Path) -> None:
    name, change = CHANGES[case]
    document = json.loads((archive / name).read_text())
    change(document)
    (archive / name).write_text(json.dumps(document))
    refused = invoke("report", archive)
    assert refused.exit_code == 2, refused
    assert f"{archive / name}: can't be read: " in refused.stderr
    assert "it has no plausible " in refused.stderr


def test_the_goodput_of_a_run_that_is_not_valid_may_be_anything(archive: Path) -> None:
    document = json.loads((archive / RUN).read_text())
    goodput(1e20)(document)
    finding = {"kind": "physics", "detail": "too much", "accepted": False}
    document["verdict"].update(status="limited", findings=[finding])
    (archive / RUN).write_text(json.dumps(document))
    assert load_results([archive]).runs
