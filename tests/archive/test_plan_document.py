"""Tests that campaign.json has each path and each traffic once, and that runs refer to them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import ArchiveError, Campaign, codec
from support.published_archives import DEMO_60_FILE, EMULATED_FILE, unpacked


@pytest.fixture(
    scope="module", params=[DEMO_60_FILE, EMULATED_FILE], ids=["emulated", "of both kinds"]
)
def campaign(request: pytest.FixtureRequest) -> Campaign:
    return Campaign.load(unpacked(request.param))


def test_each_path_and_each_traffic_is_in_the_file_once(campaign: Campaign, tmp_path: Path) -> None:
    file, plan = tmp_path / "campaign.json", replace(campaign.plan, unknown={"alone": ("buffer",)})
    codec.write_plan(file, plan)
    document = json.loads(file.read_text())
    for name in ("paths", "traffics"):
        texts = [json.dumps(each) for each in document[name]]
        assert len(set(texts)) == len(texts) < len(plan.runs)
    read = codec.read_plan(tmp_path, file)
    assert read == plan
    assert len({id(run.path) for run in read.runs}) == len(document["paths"])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"path": 1000}, r"runs\.0 refers to a path or traffic that the file does not have"),
        ({"traffic": 1000}, r"runs\.0 refers to a path or traffic that the file does not have"),
        ({"path": -1}, r"runs\.0\.path: Input should be greater than or equal to 0"),
        ({"traffic": {}}, r"runs\.0\.traffic: Input should be a valid integer"),
    ],
)
def test_a_reference_to_nothing_is_refused(
    changed: dict[str, Any], sentence: str, campaign: Campaign, tmp_path: Path
) -> None:
    file = tmp_path / "campaign.json"
    codec.write_plan(file, campaign.plan)
    document = json.loads(file.read_text())
    document["runs"][0] |= changed
    file.write_text(json.dumps(document))
    with pytest.raises(ArchiveError, match=f"^{file}: can't be read: {sentence}"):
        codec.read_plan(tmp_path, file)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda document: document["runs"].append(document["runs"][0]), "appears twice"),
        (
            lambda document: document.update(file_order=[0] * len(document["runs"])),
            "file_order does not name each run once",
        ),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(
    change: Callable[[Any], None], sentence: str, campaign: Campaign, tmp_path: Path
) -> None:
    file = tmp_path / "campaign.json"
    codec.write_plan(file, replace(campaign.plan, file_order=()))
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    with pytest.raises(ArchiveError, match=sentence):
        codec.read_plan(tmp_path, file)


def test_a_plan_that_could_not_be_read_is_not_written(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = codec.Codec(codec.PlanDocument, most_values=100)
    monkeypatch.setattr(codec, "CAMPAIGN_PLAN", small)
    file = tmp_path / "campaign.json"
    with pytest.raises(ArchiveError, match="split these runs into several campaigns"):
        codec.write_plan(file, campaign.plan)
    assert not file.exists()
