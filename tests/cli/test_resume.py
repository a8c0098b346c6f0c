"""Tests which changes of an INI file a campaign accepts when it is resumed."""

from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.archive.campaign import locked_folder
from ccmix.cli.resume import resumed
from ccmix.config import load
from ccmix.model.results import CampaignOrigin, CampaignPlan, Finding, Verdict
from ccmix.plan import make_plan
from support.commands import SMALL
from support.finished_runs import finished_run


def plan(folder: Path, ini: str = SMALL, seed: int = 1) -> CampaignPlan:
    config = folder / "a.ini"
    config.write_text(ini)
    return CampaignPlan(CampaignOrigin(seed=seed), ini, make_plan(load(config).entries, seed))


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """A campaign whose first run has finished, and is not valid because of the processor."""
    made = Campaign.create(tmp_path / "out", plan(tmp_path))
    folder = RunFolder.of(made.outdir, made.runs[0])
    folder.begin()
    finished = finished_run(made.runs[0])
    verdict = Verdict("limited", (Finding("cpu", "busy", accepted=False),))
    folder.finish(replace(finished, verdict=verdict))
    return made


MORE = "\n[more]\ntype = iperf3\ntopology = small\ncca = bbr\nduration = 1s\n"


@pytest.mark.parametrize(
    ("ini", "runs"),
    [
        (SMALL.replace("iterations = 2", "iterations = 5"), 5),
        (SMALL.replace("iterations = 2", "iterations = 1"), 1),
        (SMALL + MORE, 3),
        (f"# a comment\n{SMALL}", 2),
    ],
    ids=["more iterations", "fewer, which are still to be made", "another entry", "a comment"],
)
def test_a_campaign_grows(ini: str, runs: int, campaign: Campaign, tmp_path: Path) -> None:
    grown = resumed(campaign.outdir, plan(tmp_path, ini), tmp_path / "a.ini")
    assert len(grown.runs) == runs
    loaded = Campaign.load(campaign.outdir)
    assert (loaded.runs, loaded.ini) == (grown.runs, ini)
    assert [finished.run for finished, _ in loaded.finished()] == [campaign.runs[0]]


@pytest.mark.parametrize(
    ("accepted", "status"), [("cpu", "valid"), ("probe, cpu", "valid"), ("probe", "limited")]
)
def test_finished_runs_get_other_accept_limits(
    accepted: str, status: str, campaign: Campaign, tmp_path: Path
) -> None:
    for ini, expected in (
        (f"{SMALL}accept-limits = {accepted}\n", status),
        (SMALL, "limited"),
    ):
        grown = resumed(campaign.outdir, plan(tmp_path, ini), tmp_path / "a.ini")
        [(finished, _)] = grown.finished()
        assert finished.verdict.status == expected
        assert finished.run == grown.runs[0] == RunFolder.of(grown.outdir, grown.runs[0]).read().run


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate = 100mbit", "rate = 50mbit", r"\[topology small\] rate = 50mbit, was 100mbit"),
        ("omit = 1s\n", "", r"\[both\] omit = \(none\), was 1s"),
        ("[both]", "[all]", r"would be left out: \[both\] is missing"),
        (
            "iterations = 2",
            "iterations = 5\ninterval = 2s",
            r"would change: \[both\] interval = 2s, was \(none\)",
        ),
    ],
)
def test_a_change_of_a_finished_run_is_named(
    old: str, new: str, said: str, campaign: Campaign, tmp_path: Path
) -> None:
    before = (campaign.outdir / "campaign.json").read_bytes()
    with pytest.raises(ArchiveError, match=said):
        resumed(campaign.outdir, plan(tmp_path, SMALL.replace(old, new)), tmp_path / "a.ini")
    assert (campaign.outdir / "campaign.json").read_bytes() == before


def test_another_seed_is_named(campaign: Campaign, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="--seed is 2 and was 1"):
        resumed(campaign.outdir, plan(tmp_path, seed=2), tmp_path / "a.ini")


def test_runs_that_were_not_made_may_change(tmp_path: Path) -> None:
    made = Campaign.create(tmp_path / "out", plan(tmp_path))
    ini = SMALL.replace("rate = 100mbit", "rate = 50mbit")
    assert resumed(made.outdir, plan(tmp_path, ini), tmp_path / "a.ini").ini == ini


def test_one_process_has_a_new_folder_before_anything_is_written(tmp_path: Path) -> None:
    outdir = tmp_path / "results" / "new"
    with locked_folder(outdir):
        assert list(outdir.iterdir()) == []
        with (
            pytest.raises(ArchiveError, match="another ccmix run is at work"),
            locked_folder(outdir),
        ):
            pass
        Campaign.create(outdir, plan(tmp_path))
        (outdir / "campaign.json").write_bytes((outdir / "campaign.json").read_bytes())
        with (
            pytest.raises(ArchiveError, match="another ccmix run is at work"),
            locked_folder(outdir),
        ):
            pass
    with locked_folder(outdir):
        pass
    assert Campaign.load(outdir)


def test_a_folder_in_which_nothing_was_written_is_removed(tmp_path: Path) -> None:
    with locked_folder(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()
