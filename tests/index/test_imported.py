"""Imported runs in a real index: all of them, by its strict mappings."""

from pathlib import Path

from click.testing import CliRunner

from ccmix.cli.main import main
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
