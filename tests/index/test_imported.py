"""Tests that a real index, with its strict mappings, gets all imported runs."""

from datetime import UTC, datetime
from pathlib import Path

from ccmix.archive import Campaign
from ccmix.index import context
from support.commands import REPOSITORY, invoke
from support.elasticsearch_node import Node
from support.index import Index, of_archive, of_index

DATA = REPOSITORY / "tests" / "data"


def test_imported_runs_are_taken(index: Index, server: Node, tmp_path: Path) -> None:
    outdir = tmp_path / "imported"
    files = [DATA / "importing" / "tierney-2021-excerpt.csv", DATA / "pscheduler" / "iperf3mix"]
    told = ["--rtt", "88ms", "--rate", "40gbit", "-o", outdir]
    made = invoke("import", *files, *told)
    assert made.exit_code == 0, made.output
    sent = index(outdir)
    assert sent.returncode == 0, sent.stderr
    assert of_index(server) == of_archive(outdir)


def test_imported_runs_lie_at_the_times_of_their_tests(tmp_path: Path) -> None:
    """The time of the import does not count."""
    rows = "2021-03-01T10:00:00Z,h,cubic,1\n2021-03-02T10:00:00Z,h,cubic,2\n"
    (tmp_path / "timed.csv").write_text("timestamp,host,cca,goodput_gbps\n" + rows)
    made = invoke("import", tmp_path / "timed.csv", "-o", tmp_path / "out")
    assert made.exit_code == 0, made.output
    campaign = Campaign.load(tmp_path / "out")
    days = [
        datetime.fromtimestamp(context.begin_s(campaign, run), UTC).day
        for run, _ in campaign.finished()
    ]
    assert days == [1, 2]
