"""Tests which parts of a finished run are kept if only its numbers are needed."""

from dataclasses import replace

import pytest

from ccmix.archive import Campaign
from support.published_archives import DEMO_60_FILE, EMULATED_FILE, unpacked


@pytest.fixture(
    scope="module", params=[DEMO_60_FILE, EMULATED_FILE], ids=["emulated", "of both kinds"]
)
def campaign(request: pytest.FixtureRequest) -> Campaign:
    return Campaign.load(unpacked(request.param))


def test_numbers_are_those_of_the_whole_run(campaign: Campaign) -> None:
    pairs = zip(campaign.finished(), campaign.finished(numbers_only=True), strict=True)
    for (whole, _), (part, _) in pairs:
        assert part.metrics == replace(whole.metrics, flows=())
        assert part.verdict.reasons == whole.verdict.reasons
        assert part.facts == replace(
            whole.facts, commands=(), capture=None, probes={}, pscheduler=None
        )
        same = replace(
            part,
            execution=whole.execution,
            facts=whole.facts,
            metrics=whole.metrics,
            verdict=whole.verdict,
        )
        assert same == whole


def test_equal_facts_are_one_object_in_memory(campaign: Campaign) -> None:
    facts = [part.facts for part, _ in campaign.finished(numbers_only=True)]
    assert len({id(each) for each in facts}) == len(set(map(repr, facts))) < len(facts)
