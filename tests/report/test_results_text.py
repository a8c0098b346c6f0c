"""Tests the result table in the terminal, as CSV and as JSON."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ccmix.analysis.counting import LEGEND, OTHERWISE, accept_findings
from ccmix.analysis.results import Results, load_results
from ccmix.archive import ArchiveError, Campaign
from ccmix.cli.main import main
from ccmix.report.results_text import cells, csv_table, headings, left_out, lines, notes, render
from support.finished_runs import campaign_plan


def test_streams_that_differ_are_a_range(results: Results) -> None:
    """Only completed short flows are counted."""
    [row, *_] = results.rows
    assert cells(replace(row, streams=94, most_streams=117))[1] == "94 to 117"


def test_without_a_valid_run_the_goodput_has_a_sign(results: Results) -> None:
    limited = Results(results.runs[:1], 12)
    assert lines(limited)[0][3:] == ["1", "≠ 100 Mbit/s", "–", "–", "–", "–", "1", "1", "0"]
    row = next(csv.DictReader(io.StringIO(csv_table(limited.rows, limited.swept))))
    assert (row["goodput_mean_bps"], row["goodput_ci95_low_bps"], row["invalid"]) == ("", "", "1")
    assert (
        row["status"],
        row["not_as_configured_goodput_mean_bps"],
        row["lower_bound_goodput_mean_bps"],
    ) == ("limited", "100000000.0", "")


def test_below_the_table_is_what_runs_that_are_not_valid_mean(results: Results) -> None:
    """The only run that is not valid shares its condition with a valid run, whose mean has no sign."""
    below = render(results).splitlines()[-4:]
    assert below == [
        "alone delay=5ms: 1 of 3 runs was not as configured (a path whose RTT is not the one "
        "configured): 300 Mbit/s, which is not a number of this path",
        LEGEND,
        f"to remove the limit rtt: {OTHERWISE}",
        "if the limit is what you want to measure: accept-limits = rtt in the entry, and for "
        "existing runs: ccmix report OUTDIR --accept-limits rtt",
    ]
    valid = Results(results.runs[1:], 12)
    assert LEGEND not in render(valid)
    assert render(valid).rstrip().endswith("CV: coefficient of variation")


@pytest.mark.parametrize("form", ["table", "csv", "json", "html"])
def test_a_report_accepts_limits(
    form: str, make_campaign: Callable[..., Path], tmp_path: Path
) -> None:
    outdir, out = make_campaign("alone"), tmp_path / "out"
    command = ["report", str(outdir), "--format", form, "-o", str(out), "--accept-limits"]
    for limits, valid in (("loss, cpu", 2), ("loss,rtt", 3)):
        done = CliRunner().invoke(main, [*command, limits])
        assert done.exit_code == 0, done.stderr
        text = out.read_text()
        assert ("a path whose RTT is not the one configured" in text) == (
            form in ("table", "html") and valid == 2
        )
        if form in ("csv", "json"):
            read = json.loads(text) if form == "json" else list(csv.DictReader(io.StringIO(text)))
            assert int(read[0]["invalid"]) == 3 - valid
            assert float(read[0]["goodput_mean_bps"]) == (110e6 if valid == 3 else 115e6)


def test_an_accepted_limit_stays_accepted_in_the_whole_run(
    make_campaign: Callable[..., Path],
) -> None:
    """The page of a large campaign loads only numbers, and a whole run only to show it."""
    result = load_results([make_campaign("alone")], numbers_only=True).runs[0]
    accepted = replace(result, finished=accept_findings(result.finished, ["rtt"])).whole()
    assert (result.whole().verdict.status, accepted.verdict.status) == ("limited", "valid")
    assert accepted.facts.commands


@pytest.mark.parametrize("name", ["[bold]x", "a[/b]", "[/]", "x" * 250, "[red]", "a\\"])
def test_any_entry_s_name_is_shown_as_it_is(make_campaign: Callable[..., Path], name: str) -> None:
    text = render(load_results([make_campaign(name)]))
    assert f"{name} " in text
    assert "…" not in text


def test_results_of_several_campaigns_are_joined(make_campaign: Callable[..., Path]) -> None:
    joined = load_results([make_campaign("alone"), make_campaign("mixed")])
    assert (joined.planned, len(joined.runs)) == (12, 10)
    assert {row.entry for row in joined.rows} == {"alone", "mixed"}


def test_a_folder_counts_once(make_campaign: Callable[..., Path]) -> None:
    outdir = make_campaign("one")
    with pytest.raises(ArchiveError, match="named twice"):
        load_results([outdir, outdir / "."])


def test_paths_that_differ_are_not_pooled(make_campaign: Callable[..., Path]) -> None:
    one, other = make_campaign("one"), make_campaign("one")
    plan = other / "campaign.json"
    plan.write_text(
        plan.read_text().replace('"rate_bps": 1000000000.0', '"rate_bps": 2000000000.0')
    )
    assert len(load_results([one, other]).rows) == 2 * len(load_results([one]).rows)


@pytest.mark.parametrize("lacks", ["metrics", "facts", "execution", "verdict"])
def test_a_damaged_run_is_named(lacks: str, make_campaign: Callable[..., Path]) -> None:
    outdir = make_campaign("one")
    file = next(outdir.rglob("run.json"))
    data = json.loads(file.read_text())
    del data[lacks]
    file.write_text(json.dumps(data))
    results = load_results([outdir])
    assert len(results.runs) == len(load_results([make_campaign("one")]).runs) - 1
    [sentence] = left_out(results.unread)
    assert re.fullmatch(
        r"left out: .*run.json: can't be read: .*Field required.*--resume' makes the run again",
        sentence,
    )
    assert sentence == next(notes(results))


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["FIFO", "folder"])
def test_what_is_no_file_is_left_out(
    make: Callable[[Path], None], make_campaign: Callable[..., Path]
) -> None:
    outdir = make_campaign("one")
    file = next(outdir.rglob("run.json"))
    file.unlink()
    make(file)
    assert [text.partition(": can't")[0] for text in load_results([outdir]).unread] == [str(file)]


def test_a_campaign_of_damaged_runs_alone_is_refused(make_campaign: Callable[..., Path]) -> None:
    outdir = make_campaign("one")
    for file in outdir.rglob("run.json"):
        file.write_text("")
    with pytest.raises(ArchiveError, match=r"run.json: can't be read"):
        load_results([outdir])


def test_a_campaign_without_a_finished_run(tmp_path: Path) -> None:
    Campaign.create(tmp_path / "out", campaign_plan([]))
    with pytest.raises(
        ArchiveError,
        match=r"has no finished run: 'ccmix run CONFIG\.ini -o .*out --resume' makes them",
    ):
        load_results([tmp_path / "out"])


def test_iterations_with_one_goodput_are_told_to_be_one_observation(results: Results) -> None:
    first = results.runs[-1].finished
    equal = replace(
        results,
        runs=tuple(replace(run, finished=replace(first, run=run.run)) for run in results.runs),
    )
    told = (
        "8 of 8 rows have the same goodput in all iterations: nothing random happened on "
        "their path, "
    )
    assert any(note.startswith(told) for note in notes(equal))
    assert not any("same goodput" in note for note in notes(results))


def test_rtt_buckets_have_a_column_of_their_own(results: Results) -> None:
    pooled = replace(results, rtt_buckets=True)
    assert headings(pooled)[:3] == ["entry", "base RTT", "group"]
    assert lines(pooled)[0][:3] == ["alone", "< 30ms", "cubic"]


def test_what_runs_could_not_show_is_noted_once_for_an_entry(results: Results) -> None:
    """The first of the runs of `alone` is not valid, and counted elsewhere."""
    short = [
        replace(
            result,
            finished=replace(
                result.finished,
                verdict=replace(
                    result.finished.verdict,
                    not_verified=tuple(
                        f"loss not verifiable in this run: {losses} losses expected"
                        for losses in (number, number + 1)
                    ),
                ),
            ),
        )
        for number, result in enumerate(results.runs)
    ]
    alone = sum(result.run.entry == "alone" and result.valid for result in short)
    told = [note for note in notes(replace(results, runs=short)) if "verifiable" in note]
    assert told[0] == f"alone: in {alone} runs, loss not verifiable: longer runs have more losses"
    assert len(told) == 2
