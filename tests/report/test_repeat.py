"""Tests the commands that repeat a campaign, or one run of it."""

import shlex
from dataclasses import replace

import pytest

from ccmix.model import Group, Run
from ccmix.model.results import CampaignOrigin
from ccmix.report.heading import Origin
from support.model import TOPOLOGY, iperf3_traffic

RUN = Run(
    "mixed",
    {"delay": "44ms", "loss": "0.1%"},
    "receiver",
    3,
    7,
    iperf3_traffic((Group("cubic"),), 8, 10.0, 0.0, 1.0),
    TOPOLOGY,
)


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ("run a/demo.ini --lab -o results/demo", "run demo.ini --lab --seed 5"),
        (
            "run --lab --jobs=2 --only mixed --resume --seed 5 a/demo.ini",
            "run demo.ini --lab --seed 5",
        ),
        ("run -H h.csv dtn.ini -i eth0 -j 2 --outdir x", "run dtn.ini -H h.csv -i eth0 --seed 5"),
        ("run dtn.ini --netem-at=n1:eth0,eth1", "run dtn.ini --netem-at n1:eth0,eth1 --seed 5"),
        ("run -j4 dtn.ini -Hh.csv -ox --lab", "run dtn.ini -H h.csv --lab --seed 5"),
        ("run my-tests --run 'mixed all #1'", "run campaign.ini --seed 5"),
        ("demo -o results/demo", "run demo.ini --lab --seed 5"),
        ("demo --quick -j 2", "run demo-quick.ini --lab --seed 5"),
    ],
)
def test_of_one_run(given: str, again: str) -> None:
    origin = Origin(CampaignOrigin(command=("/opt/ccmix", *shlex.split(given)), seed=5))
    command = origin.run(RUN)
    assert command == f"ccmix {again} --run 'mixed delay=44ms,loss=0.1% #3' -o again"


def test_odd_names_stay_one_word() -> None:
    command = Origin(CampaignOrigin(command=("ccmix", "run", "x.ini"), seed=1)).run(
        replace(RUN, entry="it's; rm")
    )
    assert command
    assert shlex.split(command)[-3] == "it's; rm delay=44ms,loss=0.1% #3"


def test_of_a_campaign() -> None:
    origin = Origin(
        CampaignOrigin(command=(".venv/bin/ccmix", "run", "configs/demo.ini", "--lab"), seed=1)
    )
    assert (origin.campaign, origin.config) == ("ccmix run configs/demo.ini --lab", "demo.ini")


@pytest.mark.parametrize(
    "origin",
    [
        CampaignOrigin(),
        CampaignOrigin(command=("ccmix", "import", "x"), seed=1),
        CampaignOrigin(command=("ccmix", "run", "x")),
    ],
)
def test_what_ccmix_did_not_run_has_no_command(origin: CampaignOrigin) -> None:
    assert Origin(origin).campaign is None
    assert Origin(origin).run(RUN) is None


def test_options_that_nobody_knows_make_no_command() -> None:
    assert (
        Origin(CampaignOrigin(command=("ccmix", "run", "x.ini", "--turbo", "9"), seed=1)).run(RUN)
        is None
    )
