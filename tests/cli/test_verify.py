"""Tests of `ccmix verify`, with real runs of the lab."""

import hashlib
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from ccmix.tools import find_iperf3
from support.commands import Ccmix
from support.published_archives import DEMO_60_FILE

pytestmark = pytest.mark.lab

INI = """
[topology path]
rate = 10mbit
delay = 5ms
buffer = 1bdp

[entry]
type = iperf3
topology = path
cca = bbr
duration = 1s
interval = 100ms
iterations = 2
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified")
    (folder / "verified.ini").write_text(INI)
    done = Ccmix(folder)("run", folder / "verified.ini", "--lab", "-o", folder / "results")
    assert done.returncode == 0
    return folder / "results"


@pytest.fixture
def campaign(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "results")


def test_names_the_file_and_the_run_whose_bytes_differ(ccmix: Ccmix, campaign: Path) -> None:
    repeated = ccmix("verify", campaign)
    assert (repeated.returncode, repeated.stdout.splitlines()[-1]) == (
        0,
        "2 of 2 runs gave the same bytes",
    ), repeated

    series = campaign / "entry/all/receiver/002/intervals.parquet"
    table = pl.read_parquet(series)
    column = next(name for name, kind in table.schema.items() if kind == pl.Float64)
    table.with_columns(pl.col(column) * (1 + 1e-12)).write_parquet(series)
    repeated = ccmix("verify", campaign)
    assert repeated.returncode == 1
    first, second, last = repeated.stdout.splitlines()
    assert first.startswith("entry all #1: the same (")
    assert second == "entry all #2: differs in intervals.parquet"
    assert last == "1 of 2 runs gave the same bytes"


def test_a_packed_archive_and_a_sample_of_it(ccmix: Ccmix, campaign: Path, tmp_path: Path) -> None:
    packed = tmp_path / "mailed.zip"
    assert ccmix("archive", "pack", campaign, "--no-raw", "-o", packed).returncode == 0
    kept = tmp_path / "kept"
    repeated = ccmix("verify", packed, "--sample", 1, "-o", kept)
    assert (repeated.returncode, repeated.stdout.splitlines()[-1]) == (
        0,
        "1 of 1 runs gave the same bytes",
    ), repeated
    assert len(list(kept.rglob("run.json"))) == 1
    assert ccmix("verify", packed, "-o", kept).returncode == 2  # there is something in it


def test_says_which_settings_and_programs_differ(ccmix: Ccmix, campaign: Path) -> None:
    summary = campaign / "entry/all/receiver/001/run.json"
    run = json.loads(summary.read_text())
    assert (
        run["facts"]["lab_programs"]["iperf3"]
        == hashlib.sha256(find_iperf3().read_bytes()).hexdigest()
    )
    run["facts"]["lab_programs"]["iperf3"] = "0" * 64
    run["facts"]["iperf3"] = "iperf 2.0"
    summary.write_text(json.dumps(run))
    (summary.parent / "intervals.parquet").write_bytes(b"")
    repeated = ccmix("verify", campaign)
    assert repeated.returncode == 1
    assert "iperf 2.0" in repeated.stderr
    assert "differs: lab-program.iperf3: 000000000000 or " in repeated.stderr
    assert "lab-program.sockmon" not in repeated.stderr


def test_refuses_runs_that_were_not_made_in_the_lab(ccmix: Ccmix, campaign: Path) -> None:
    description = campaign / "campaign.json"
    description.write_text(description.read_text().replace('"lab": true', '"lab": false'))
    refused = ccmix("verify", campaign)
    assert refused.returncode == 2
    assert "was not made in the lab" in refused.stderr


@pytest.mark.deep
def test_the_published_demo_repeats_to_the_byte(ccmix: Ccmix) -> None:
    """Fails if a change of programs in the guest has changed README's numbers. Then make
    archive/demo.zip again.
    """
    repeated = ccmix("verify", DEMO_60_FILE, "--sample", 2, timeout=280)
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr


def test_starts_no_command_of_an_archive_unasked(ccmix: Ccmix, tmp_path: Path) -> None:
    config = tmp_path / "commands.ini"
    config.write_text(
        INI.replace("cca = bbr", "flows.theirs = h1 bbr:1\nflows.mine = h1 command true").replace(
            "iterations = 2", ""
        )
    )
    outdir = tmp_path / "results"
    made = ccmix(
        "run", config, "--lab", "-o", outdir
    )  # not valid, since a command without flows can't be judged
    assert len(list(outdir.rglob("run.json"))) == 1, made
    refused = ccmix("verify", outdir)
    assert refused.returncode == 2
    assert "its runs start commands" in refused.stderr
    assert "'true'" in refused.stderr
    repeated = ccmix("verify", outdir, "--commands")
    assert (repeated.returncode, repeated.stdout.splitlines()[-1]) == (
        0,
        "1 of 1 runs gave the same bytes",
    ), repeated


@pytest.mark.parametrize(
    ("found", "put"), [('"delay_s": 0.005', '"delay_s": 0.006'), ('"cca": "bbr"', '"cca": "reno"')]
)
def test_refuses_runs_that_the_archive_s_own_text_does_not_plan(
    found: str, put: str, ccmix: Ccmix, campaign: Path
) -> None:
    description = campaign / "campaign.json"
    text = description.read_text()
    assert found in text
    description.write_text(text.replace(found, put))
    refused = ccmix("verify", campaign)
    assert refused.returncode == 2
    assert "can't be repeated" in refused.stderr


def test_a_packed_archive_whose_text_is_refused_is_named(
    ccmix: Ccmix, campaign: Path, tmp_path: Path
) -> None:
    file = campaign / "campaign.json"
    document = json.loads(file.read_text())
    document["ini"] = document["ini"].replace("[", "[[", 1)
    file.write_text(json.dumps(document))
    packed = tmp_path / "packed.zip"
    assert ccmix("archive", "pack", campaign, "-o", packed).returncode == 0
    refused = ccmix("verify", packed)
    assert refused.returncode == 2
    assert str(packed) in refused.stderr


def test_a_damaged_archive_is_refused_before_runs_are_made(ccmix: Ccmix, campaign: Path) -> None:
    (campaign / "entry/all/receiver/001/run.json").write_text("{")
    refused = ccmix("verify", campaign)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "001/run.json" in refused.stderr


def test_a_damaged_series_and_a_link_differ(ccmix: Ccmix, campaign: Path) -> None:
    run = campaign / "entry/all/receiver/001"
    (run / "processes.parquet").write_bytes(b"PAR1")
    (run / "cpu.parquet").unlink()
    (run / "cpu.parquet").symlink_to("/etc/passwd")
    repeated = ccmix("verify", campaign)
    assert repeated.returncode == 1
    assert "entry all #1: differs in cpu.parquet, processes.parquet\n" in repeated.stdout


def test_missing_series_and_runs_and_another_title_are_a_failure(
    ccmix: Ccmix, campaign: Path
) -> None:
    runs = campaign / "entry/all/receiver"
    (runs / "001/intervals.parquet").unlink()
    shutil.rmtree(runs / "001/logs")
    shutil.rmtree(runs / "002")
    description = campaign / "campaign.json"
    description.write_text(description.read_text().replace('"title": ""', '"title": "forged"'))
    repeated = ccmix("verify", campaign)
    assert repeated.returncode == 1
    assert repeated.stdout.splitlines() == [
        "entry all #1: lacks intervals.parquet",
        "campaign.json: title: differs from its INI text",
        "entry all #2: is missing in the archive",
        "0 of 1 runs gave the same bytes",
    ]
    assert "not checked: 0 runs left out by --sample, " in repeated.stderr
    assert " raw files that the archive does not have" in repeated.stderr
