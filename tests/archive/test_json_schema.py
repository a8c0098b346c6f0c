"""Compares the published JSON Schema with the types of the archive."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ccmix.archive import Campaign, RunFolder
from ccmix.archive.json_schema import SCHEMAS, schema_text
from ccmix.model import Destination, Group, HostPath, Run
from support.commands import REPOSITORY
from support.finished_runs import campaign_plan, finished_run, group_metrics, metrics
from support.model import TOPOLOGY, iperf3_traffic

PUBLISHED = REPOSITORY / "docs" / "reference" / "schema"
TRAFFIC = iperf3_traffic((Group("cubic"),), 1, 10.0, 0.0, 1.0)
EMULATED = Run("one", {"delay": "5ms"}, "receiver", 1, 7, TRAFFIC, TOPOLOGY)
BETWEEN_HOSTS = replace(
    EMULATED, path=HostPath("localhost", Destination("far", "192.0.2.1", "far"), "iperf3")
)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_that_of_the_types(name: str) -> None:
    """`python -m ccmix.archive.json_schema docs/reference/schema` writes it again."""
    assert (PUBLISHED / name).read_text() == schema_text(name)


def published(name: str) -> Any:
    return json.loads((PUBLISHED / name).read_text())


@pytest.mark.parametrize("run", [EMULATED, BETWEEN_HOSTS])
def test_what_is_written_follows_the_published_schema(run: Run, tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    Campaign.create(outdir, campaign_plan([run], seed=1, command=("ccmix", "run")))
    folder = RunFolder.of(outdir, run)
    folder.begin()
    folder.finish(finished_run(run, metrics([group_metrics("cubic")])))
    document = json.loads((folder.path / "run.json").read_text())
    jsonschema.validate(document, published("run.schema.json"))
    jsonschema.validate(
        json.loads((outdir / "campaign.json").read_text()), published("campaign.schema.json")
    )
    del document["metrics"]["groups"][0]["goodput_bps"]
    with pytest.raises(jsonschema.ValidationError, match="'goodput_bps' is a required property"):
        jsonschema.validate(document, published("run.schema.json"))
