"""Tests a campaign and its runs on disk."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccmix.archive import ArchiveError, Campaign, RunFolder, parquet
from ccmix.model import Group, Run
from ccmix.model.run_files import SUMMARY
from support.finished_runs import campaign_plan, finished_run
from support.model import TOPOLOGY, iperf3_traffic

RUN = Run(
    entry="one",
    condition={"delay": "5ms", "loss": "0.1%"},
    dst="receiver",
    iteration=1,
    seed=7,
    path=TOPOLOGY,
    traffic=iperf3_traffic(
        (Group("cubic"), Group("bbr")), streams=2, duration_s=10.0, omit_s=0.0, interval_s=0.5
    ),
    accept_limits=("rtt",),
)
RUNS = [RUN, replace(RUN, iteration=2), replace(RUN, entry="über / two")]
PLAN = campaign_plan(RUNS, "[one]\n# ü\n", seed=1, command=("ccmix", "run"))


def test_a_campaign_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = Campaign.create(tmp_path / "new" / "out", PLAN)
    read = Campaign.load(tmp_path / "new" / "out")
    assert read == written
    assert read.plan == PLAN
    assert [file.name for file in read.outdir.iterdir()] == ["campaign.json"]


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(
        ArchiveError, match="is not empty: give another folder with -o, or continue"
    ):
        Campaign.create(tmp_path, PLAN)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert Campaign.create(tmp_path, PLAN).outdir == tmp_path


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "has no campaign.json: name the folder that ccmix run wrote"),
        ('{"schema": 99, "new": true}', "has schema 99, but this ccmix reads 4"),
        ('{"schema": "1"}', 'has schema "1", but this ccmix reads 4'),
        ('{"schema": "1\\n2"}', r'has schema "1\n2", but this ccmix reads 4'),
        (
            '{"schema": 2}',
            "has schema 2, but this ccmix reads 4: the last commit that reads it is 529f4275",
        ),
        ('{"schema": 2, "about": {}, "runs": []}', "the last commit that reads it is 529f4275"),
        (
            '{"schema": 3, "origin": {}, "ini": "", "runs": []}',
            "has schema 3, but this ccmix reads 4: the last commit that reads it is a883b578",
        ),
        ('{"schema": 4', "can't be read: it is not JSON: "),
        (
            '{"schema": 4, "runs": }',
            "can't be read: it is not JSON: expected value at line 1 column 23",
        ),
        ('{\n "schema": 4,\n "runs": [}', "it is not JSON: expected value at line 3 column 11"),
        ("", "can't be read: it has no schema number"),
        ("[]", "can't be read"),
        ("null", "can't be read"),
        ("{}", "can't be read: it has no schema number"),
        ('{"schema": 4}', "can't be read: origin: Field required"),
        (
            '{"schema": 4, "origin": {}, "ini": 7, "traffics": [], "paths": [], "runs": []}',
            "can't be read: ini: Input should be a valid string",
        ),
        (
            '{"schema": 4, "origin": {}, "ini": "", "traffics": [], "paths": [], "runs": [], "more": 1}',
            "can't be read: more: Unexpected",
        ),
        (
            '{"schema": 4, "origin": {"started_s": NaN}, "ini": "", "runs": []}',
            "should be a finite number",
        ),
        (
            '{"schema": 4, "origin": {"started_s": 1e999}, "ini": "", "runs": []}',
            "should be a finite number",
        ),
        ("[" * 100_000, "can't be read"),
        ("\xff", "can't be read"),
    ],
)
def test_what_is_no_campaign_is_told_in_one_line(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    if text is not None:
        (tmp_path / "campaign.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ArchiveError) as caught:
        Campaign.load(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="is not a folder"):
        Campaign.load(tmp_path / "file")


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "campaign.json")
    with pytest.raises(
        ArchiveError, match=r"campaign.json: can't be read: it is not a regular file: put back"
    ):
        Campaign.load(tmp_path)


def test_an_unfinished_run_is_never_read(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path, PLAN)
    unfinished = RunFolder.of(tmp_path, RUNS[0])
    (unfinished.begin() / SUMMARY).write_text('{"wrong": true}')
    finished = RunFolder.of(tmp_path, RUNS[1])
    finished.begin()
    finished.finish(finished_run(RUNS[1]))
    assert list(campaign.finished()) == [(finished_run(RUNS[1]), finished.path)]
    assert not unfinished.finished


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 4, "met', '{"schema": 4}', '{"schema": 2}', '{"schema": 3}']
)
def test_a_damaged_run_is_named(text: str, tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, RUN)
    folder.begin()
    folder.finish(finished_run(RUN))
    (folder.path / SUMMARY).write_text(text)
    with pytest.raises(ArchiveError, match=re.escape(str(folder.path / SUMMARY))):
        folder.read()


def test_a_number_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, RUN)
    folder.begin()
    folder.finish(finished_run(RUN, ping_rtt_s={"h1": (0.1,)}))
    text = (folder.path / SUMMARY).read_text()
    for number in ("NaN", "Infinity", "1e999"):
        (folder.path / SUMMARY).write_text(text.replace("0.1\n", f"{number}\n"))
        with pytest.raises(
            ArchiveError, match=r"ping_rtt_s\.h1\.0: Input should be a finite number"
        ):
            folder.read()


def test_a_folder_whose_result_was_removed_is_not_measured_again_before_it_is_gone(
    tmp_path: Path,
) -> None:
    folder = RunFolder.of(tmp_path, RUN)
    folder.begin()
    folder.finish(finished_run(RUN))
    (folder.path / SUMMARY).unlink()
    with pytest.raises(ArchiveError, match="so it is not a finished run: remove the folder"):
        folder.begin()


def test_a_series_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.parquet")
    with pytest.raises(
        ArchiveError, match=r"fifo\.parquet: can't be read: it is not a regular file"
    ):
        parquet.read(tmp_path / "fifo.parquet", ["seconds"])
    for content in (b"", b"PAR1", b"x" * 1000):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(ArchiveError, match=r"a\.parquet: can't be read"):
            parquet.read(tmp_path / "a.parquet", ["seconds"])


def test_a_crash_while_the_plan_is_written_is_no_campaign(tmp_path: Path) -> None:
    (tmp_path / "campaign.json.partial").write_text('{"sch')
    campaign = Campaign.create(tmp_path, PLAN)
    assert Campaign.load(tmp_path).runs == campaign.runs
    assert [file.name for file in tmp_path.iterdir()] == ["campaign.json"]


def test_runs_are_told_in_the_order_of_the_plan(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path, PLAN)
    for number in (2, 0, 1):
        folder = RunFolder.of(tmp_path, RUNS[number])
        folder.begin()
        folder.finish(finished_run(RUNS[number]))
    assert [finished.run for finished, _ in campaign.finished()] == RUNS


def test_a_run_is_whole_when_its_final_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.of(tmp_path, RUN)
    (folder.begin() / "raw").write_text("data")
    seen: list[tuple[bool, dict[str, Any]]] = []
    rename = Path.rename

    def looked_at(source: Path, target: Path) -> Path:
        if source == folder.partial:
            seen.append((target.exists(), json.loads((source / SUMMARY).read_text())))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", looked_at)
    folder.finish(finished_run(RUN))
    [(exists, document)] = seen
    assert (exists, document["schema"], document["verdict"]["status"]) == (False, 4, "valid")
    assert folder.read() == finished_run(RUN)
    assert sorted(file.name for file in folder.path.iterdir()) == ["raw", SUMMARY]
    assert not folder.partial.exists()


def test_a_run_begins_anew(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, RUN)
    (folder.begin() / "old").mkdir()
    assert list(folder.begin().iterdir()) == []
    folder.discard()
    assert not folder.partial.exists()
    folder.discard()


def test_where_a_run_lies(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, replace(RUN, iteration=12))
    assert folder.path == tmp_path / "one" / "delay=5ms,loss=0.1%" / "receiver" / "012"
    assert folder.partial == tmp_path / "one" / "delay=5ms,loss=0.1%" / "receiver" / "012.partial"
    assert RunFolder.of(tmp_path, replace(RUN, condition={})).path.parts[-3] == "all"


ODD = [
    "a/b",
    "a%2Fb",
    "a%252Fb",
    "..",
    ".",
    "...",
    "%2E%2E",
    "%2E",
    "a b",
    " ",
    "a\nb",
    "/etc",
    "~",
    "-o",
    "50%",
    "%",
    "é",
]


def test_odd_names_stay_inside_and_apart(tmp_path: Path) -> None:
    outdir = tmp_path / "out"
    paths = [RunFolder.of(outdir, replace(RUN, entry=name)).path for name in ODD]
    assert len(set(paths)) == len(ODD)
    for number, path in enumerate(paths):
        assert path.resolve().parts[: len(outdir.parts)] == outdir.parts
        assert len(path.parts) == len(outdir.parts) + 4
        folder = RunFolder(path)
        folder.begin()
        folder.finish(finished_run(replace(RUN, iteration=number)))
    assert [RunFolder(path).read().run.iteration for path in paths] == list(range(len(ODD)))
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@given(st.text("ab%2Ff./ é", min_size=1, max_size=6))
def test_a_folder_s_name_gives_the_entry_s_name_back(name: str) -> None:
    path = RunFolder.of(Path("/out"), replace(RUN, entry=name)).path
    assert len(path.parts) == 6
    assert path.parts[2] not in (".", "..")
    assert unquote(path.parts[2]) == name
