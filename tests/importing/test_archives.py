"""Tests the files that an import writes: all of them or none, once, and never over foreign files."""

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.analysis.results import load_results
from ccmix.archive import ArchiveError, Campaign, codec
from ccmix.importing.runs import plan
from ccmix.importing.sources import ForeignFile
from ccmix.importing.values import ForeignRun, GroupSums
from ccmix.importing.write import origin_of_this_import, write
from ccmix.index.summaries import campaign_documents, run_documents
from ccmix.model.results import ImportIdentity, ImportOverrides
from support.commands import CCMIX
from support.finished_runs import campaign_plan
from support.imports import DATA, Here, Import, read_json, written

pytestmark = pytest.mark.slow

TIERNEY = DATA / "tierney-2021-excerpt.csv"


def test_the_same_again_changes_nothing(imported: Import, here: Here) -> None:
    first = imported(TIERNEY, "--src", "bost")
    before = {
        name: (content, (first.outdir / name).stat().st_mtime_ns)
        for name, content in first.files().items()
    }
    again = here("import", TIERNEY, "--src", "bost", "-o", first.outdir)
    assert (again.exit_code, again.stderr) == (
        0,
        f"{first.outdir}: already has these results: nothing to do\n",
    )
    after = {
        name: (content, (first.outdir / name).stat().st_mtime_ns)
        for name, content in first.files().items()
    }
    assert after == before


@pytest.mark.parametrize(
    "options", [(), ("--src", "other"), ("--rtt", "5ms"), ("--setting", "reordering")]
)
def test_another_import_is_not_overwritten(
    options: tuple[str, ...], imported: Import, here: Here
) -> None:
    first = imported(TIERNEY, "--src", "bost")
    before = first.files()
    again = here("import", TIERNEY, *options, "-o", first.outdir)
    assert again.exit_code == 2
    assert "has another import, of other files or with other options" in again.stderr
    assert first.files() == before


def test_a_file_that_changed_is_another_import(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    table = written(tmp_path / "t.csv", "host,throughput_Gbps\na,1\n")
    first = imported(table)
    table.write_text("host,throughput_Gbps\na,2\n")
    again = here("import", table, "-o", first.outdir)
    assert (again.exit_code, "has another import" in again.stderr) == (2, True)


def test_a_campaign_of_ccmix_is_not_touched(outdir: Path, here: Here) -> None:
    Campaign.create(outdir, campaign_plan([], started_s=0.0))
    content = (outdir / "campaign.json").read_bytes()
    done = here("import", TIERNEY, "-o", outdir)
    assert done.exit_code == 2
    assert "has runs that ccmix made" in done.stderr
    assert (outdir / "campaign.json").read_bytes() == content


def test_a_folder_with_anything_in_it_is_refused(outdir: Path, here: Here) -> None:
    outdir.mkdir()
    (outdir / "mine.txt").write_text("mine")
    done = here("import", TIERNEY, "-o", outdir)
    assert (done.exit_code, "is not empty" in done.stderr) == (2, True)
    assert [file.name for file in outdir.iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_taken(outdir: Path, imported: Import) -> None:
    outdir.mkdir()
    assert len(imported(TIERNEY).summaries) == 50


def test_a_dry_run_writes_nothing(outdir: Path, here: Here) -> None:
    done = here("import", TIERNEY, "-o", outdir, "--dry-run")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + 50
    assert lines[1].split() == [
        "tierney-2021-excerpt",
        "cca=bbr2,streams=1",
        "unknown",
        "psl01.pic.es",
        "1",
        "279",
        "Mbit/s",
        "table",
        "tierney-2021-excerpt.csv:2",
    ]
    assert not list(outdir.parent.glob("*imported*"))


def test_a_killed_import_leaves_nothing_that_is_read(
    outdir: Path, tmp_path: Path, here: Here
) -> None:
    table = tmp_path / "many.csv"
    table.write_text("host,throughput_Gbps\n" + "".join(f"h{number},1\n" for number in range(3000)))
    process = subprocess.Popen([CCMIX, "import", table, "-o", outdir], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(outdir.parent.glob(".imported.import-*/archive/*/*/*/*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not outdir.exists()
    assert list(outdir.parent.glob(".imported.import-*"))
    done = here("import", TIERNEY, "-o", outdir)
    assert done.exit_code == 0, done.stderr
    assert not list(outdir.parent.glob(".imported.import-*"))
    assert len(Campaign.load(outdir).runs) == 50


def test_a_full_disk_leaves_nothing(
    outdir: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_staged(file: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.setattr(codec, "write_staged", write_staged)
    done = here("import", TIERNEY, "-o", outdir)
    assert done.exit_code == 2
    assert "run.json: No space left on device: make room on that disk" in done.stderr
    assert not list(outdir.parent.glob(f"*{outdir.name}*"))


def put_something_there(outdir: Path) -> None:
    outdir.mkdir()
    (outdir / "mine.txt").write_text("mine")


def remove_what_was_written(outdir: Path) -> None:
    for folder in outdir.parent.glob(".imported.import-*"):
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("meanwhile", "raised", "said"),
    [
        (put_something_there, ArchiveError, "something was put there meanwhile"),
        (remove_what_was_written, FileNotFoundError, "No such file or directory"),
    ],
)
def test_why_an_archive_can_t_take_its_place(
    meanwhile: Callable[[Path], None], raised: type[Exception], said: str, outdir: Path
) -> None:
    found = ForeignRun("table", "t.csv:2", (GroupSums("bbr", 1, 1e9),))
    runs = plan([(ForeignFile(Path("t.csv"), "t.csv", "table", "t"), found)], ImportOverrides())
    with pytest.raises(raised, match=said):
        write(
            outdir,
            runs,
            ImportOverrides(),
            origin_of_this_import(ImportIdentity(())),
            lambda _: meanwhile(outdir),
        )


def test_what_is_named_twice_or_not_there(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "there is no such file or folder" in refused(tmp_path / "nothing")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "nothing to import: there is no result of a known kind" in refused(empty)
    assert "unknown kind" in refused(TIERNEY, "--as", "excel")
    assert "is named twice" in refused(TIERNEY, TIERNEY)
    assert "or within another" in refused(TIERNEY.parent, TIERNEY)


def test_links_and_devices_in_a_folder_are_left_out(imported: Import, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "t.csv").write_text("host,throughput_Gbps\na,1\n")
    (folder / "link.csv").symlink_to(TIERNEY)
    (folder / "loop").symlink_to(folder)
    (folder / "passwd.csv").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.csv")
    outcome = imported(folder)
    assert len(outcome.summaries) == 1
    assert "left out: results/link.csv and 2 more .csv: is not a regular file" in outcome.stderr


def test_the_archive_names_no_path_of_the_machine(imported: Import, tmp_path: Path) -> None:
    outcome = imported(TIERNEY)
    campaign = read_json(outcome.outdir / "campaign.json")
    (file,) = campaign["origin"]["imported"]["files"]
    assert file["name"] == "tierney-2021-excerpt.csv"
    runs = b"".join(
        content for name, content in outcome.files().items() if name.endswith("run.json")
    )
    assert str(tmp_path).encode() not in runs
    assert str(DATA).encode() not in runs


def test_what_nobody_told_is_unknown_and_no_zero(
    imported: Import, here: Here, tmp_path: Path
) -> None:
    table = written(tmp_path / "t.csv", "host,cca,throughput_Gbps\nh,bbr,1\n")
    outcome = imported(table)
    [line] = [
        line for line in here("report", outcome.outdir).stdout.splitlines() if "1.00 Gbit/s" in line
    ]
    assert [cell.strip() for cell in line.split("│")][5:7] == ["bbr", "–"]
    page = tmp_path / "page.html"
    here("report", outcome.outdir, "--format", "html", "-o", page)
    text = page.read_text()
    for what, told in (
        ("seed", "unknown"),
        ("traffic", "an unknown number of flows of bbr"),
        ("measured time", "unknown"),
        ("iperf3", "unknown"),
        ("sysctls", "unknown"),
        ("path src", "unknown"),
    ):
        assert f"<dt>{what}</dt><dd>{told}</dd>" in text, what
    assert "path port" not in text
    assert "imported, Linux unknown<" in text
    assert "seed 0" not in text
    campaign = Campaign.load(outcome.outdir)
    assert (campaign.runs[0].seed, campaign.origin.seed) == (None, None)
    [document] = [
        document for kind, document in campaign_documents(campaign) if kind == "campaigns"
    ]
    assert document["ccmix.campaign.seed"] is None
    [result] = load_results([outcome.outdir]).runs
    unknown = {
        "ccmix.run.seed",
        "ccmix.duration_s",
        "ccmix.omit_s",
        "ccmix.interval_s",
        "ccmix.streams",
    }
    [of_run] = [document for kind, document in run_documents(campaign, result) if kind == "runs"]
    assert {name for name in unknown if of_run[name] is not None} == set()
    compared = here("compare", outcome.outdir, outcome.outdir, "--format", "json")
    assert '"differences": []' in compared.stdout


def test_many_runs_go_to_the_disk_together(
    imported: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync for each run took most of the time of an import."""
    syncs: list[str] = []
    monkeypatch.setattr("os.fsync", lambda _: syncs.append("file"))
    monkeypatch.setattr("os.sync", lambda: syncs.append("all"))
    rows = "".join(f"host{row % 20},cubic,{row + 1}\n" for row in range(200))
    (tmp_path / "many.csv").write_text(f"dst,cca,goodput_mbps\n{rows}")
    assert len(imported(tmp_path / "many.csv").folders) == 200
    assert syncs == ["file", "all"]  # campaign.json, and then the runs
