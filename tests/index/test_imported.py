"""Imported runs in a real index: all of them, by its strict mappings."""

from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from ccmix.archive import Campaign
from ccmix.cli.main import main
from ccmix.index import context
from elasticsearch_node import Node
from index_support import Index, of_archive, of_index
from support import REPOSITORY

DATA = REPOSITORY / "tests" / "data"


def test_imported_runs_are_taken(index: Index, server: Node, tmp_path: Path) -> None:
    outdir = tmp_path / "imported"
    files = [DATA / "importing" / "tierney-2021-excerpt.csv", DATA / "pscheduler" / "iperf3mix"]
    told = ["--rtt", "88ms", "--rate", "40gbit", "-o", outdir]
    made = CliRunner().invoke(main, list(map(str, ["import", *files, *told])))
    assert made.exit_code == 0, made.output
    sent = index(outdir)
    assert sent.returncode == 0, sent.stderr
    assert of_index(server) == of_archive(outdir)


def test_imported_runs_lie_at_the_times_of_their_tests(tmp_path: Path) -> None:
    """Not at the time of the import."""
    rows = "2021-03-01T10:00:00Z,h,cubic,1\n2021-03-02T10:00:00Z,h,cubic,2\n"
    (tmp_path / "timed.csv").write_text("timestamp,host,cca,goodput_gbps\n" + rows)
    made = CliRunner().invoke(main, ["import", str(tmp_path / "timed.csv"), "-o", str(tmp_path / "out")])
    assert made.exit_code == 0, made.output
    campaign = Campaign.load(tmp_path / "out")
    days = [datetime.fromtimestamp(context.begin_s(campaign, run), UTC).day for run, _ in campaign.finished()]
    assert days == [1, 2]
