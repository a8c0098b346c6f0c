"""Tests what is written and read run by run, or only in part, against the archive's own encoding of the whole."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ccmix.analysis.results import Result
from ccmix.archive import ArchiveError, Campaign, codec, many, plans
from ccmix.archive.numbers import Setup
from ccmix.compare.declared import declared
from ccmix.model import Facts
from ccmix.model.results import CampaignPlan, FinishedRun
from published_archives import DEMO_60_FILE, EMULATED_FILE, unpacked


@pytest.fixture(scope="module", params=[DEMO_60_FILE, EMULATED_FILE], ids=["emulated", "of both kinds"])
def campaign(request: pytest.FixtureRequest) -> Campaign:
    return Campaign.load(unpacked(request.param))


def in_one_line(plan: CampaignPlan) -> bytes:
    return json.dumps({"schema": codec.SCHEMA, **codec.CAMPAIGN_PLAN.encode(plan)}).encode()


def runs_of(campaign: Campaign) -> Sequence[FinishedRun]:
    return [finished for finished, _ in campaign.finished()]


def test_a_plan_is_written_and_read_run_by_run(campaign: Campaign, tmp_path: Path) -> None:
    file, plan = tmp_path / "campaign.json", replace(campaign.plan, unknown={"alone": ("buffer",)})
    with file.open("wb") as out:
        many.write_plan(out, plan)
    assert file.read_bytes() == in_one_line(plan)
    assert plans._of_one_line(file.read_bytes()) == plan
    shared = plans.read(tmp_path, file).runs
    assert len({id(run.path) for run in shared}) == len(set(map(repr, (run.path for run in shared))))


def test_runs_are_written_as_the_codec_encodes_them(campaign: Campaign, tmp_path: Path) -> None:
    for number, finished in enumerate(runs_of(campaign)):
        file = tmp_path / str(number)
        many.write_finished(file, finished)
        expected = {"schema": codec.SCHEMA, **codec.FINISHED_RUN.encode(finished)}
        assert file.read_bytes() == json.dumps(expected).encode()


@pytest.mark.parametrize("text", ['", "traffic": ', '}, {"entry": ', '"runs": [{"entry": ', '}], "title": '])
def test_names_that_look_like_keys(text: str, campaign: Campaign, tmp_path: Path) -> None:
    first, *others = campaign.plan.runs
    named = replace(first, entry=text, condition={text: text, "traffic": text, "runs": text, "title": "x"}, dst=text)
    plan = replace(campaign.plan, runs=(named, *others), ini=text, title=text, unknown={text: (text, "buffer")})
    file = tmp_path / "campaign.json"
    with file.open("wb") as out:
        many.write_plan(out, plan)
    assert plans.read(tmp_path, file) == plan


@pytest.mark.parametrize("place", [*range(0, 4000, 97), -1, -2, -20])
def test_a_damaged_plan_is_refused(place: int, campaign: Campaign, tmp_path: Path) -> None:
    content = bytearray(in_one_line(replace(campaign.plan, runs=campaign.plan.runs[:3], file_order=())))
    content[place] = ord("\x00")
    file = tmp_path / "campaign.json"
    file.write_bytes(content)
    with pytest.raises(ArchiveError, match=f"^{file}: "):
        plans.read(tmp_path, file)


def test_numbers_are_those_of_the_whole_run(campaign: Campaign) -> None:
    for whole, (part, _) in zip(runs_of(campaign), campaign.finished(numbers_only=True), strict=True):
        metrics = replace(whole.metrics, flows=())
        assert (part.run, part.metrics, part.ping_rtt_s) == (whole.run, metrics, whole.ping_rtt_s)
        assert part.verdict.reasons == whole.verdict.reasons
        assert (part.verdict.status, part.verdict.not_verified) == (whole.verdict.status, whole.verdict.not_verified)
        assert repr(part.metrics) == repr(metrics)
        times = [(each.started_s, each.began_s, each.ended_s, each.settled_after_s) for each in (part, whole)]
        assert times[0] == times[1]


def with_facts_of_setup(result: Result, names: set[str]) -> Result:
    facts = Facts(**{name: getattr(result.finished.facts, name) for name in names})
    return replace(result, finished=replace(result.finished, facts=facts))


def test_numbers_have_what_a_comparison_lists_of_the_setup(campaign: Campaign) -> None:
    parts = [Result(part, folder) for part, folder in campaign.finished(numbers_only=True)]
    wholes = [Result(whole, folder) for whole, folder in campaign.finished()]
    names = {each.name for each in fields(Setup)} - {"imported"}
    for part, whole in zip(parts, wholes, strict=True):
        assert declared(part, {})["environment"] == declared(with_facts_of_setup(whole, names), {})["environment"]
    assert len({id(part.finished.facts) for part in parts}) <= len({repr(whole.finished.facts) for whole in wholes})
