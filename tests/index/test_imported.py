"""Tests that a real index, with its strict mappings, gets all imported runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ccmix.archive import Campaign
from ccmix.index import context
from ccmix.index.bulk import finished, run_lines
from support.commands import REPOSITORY, invoke
from support.elasticsearch_node import Node
from support.index import Index, documents, of_archive, of_index

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


ENDS = {  # as ss prints both ends of a socket: fields of its documents
    ("192.0.2.1%eth0", "192.0.2.2"): {
        "source": {"ip": "192.0.2.1", "port": 38423},
        "ccmix": {"source": {"scope": "eth0"}},
        "destination": {"ip": "192.0.2.2", "port": 5201},
    },
    ("[fe80::1]%eth0", "[fe80::2%eth1.7]"): {
        "source": {"ip": "fe80::1"},
        "destination": {"ip": "fe80::2"},
        "ccmix": {"source": {"scope": "eth0"}, "destination": {"scope": "eth1.7"}},
    },
    ("[::ffff:192.0.2.1]%vrf-a", "[::ffff:192.0.2.2]"): {
        "source": {"ip": "192.0.2.1"},
        "destination": {"ip": "192.0.2.2"},
        "ccmix": {"source": {"scope": "vrf-a"}},
    },
    ("dtn1.example.org", "dtn2%eth0"): {
        "ccmix": {
            "source": {"name": "dtn1.example.org"},
            "destination": {"name": "dtn2", "scope": "eth0"},
        },
    },
    ("010.0.0.1", "192.0.2.256"): {
        "ccmix": {"source": {"name": "010.0.0.1"}, "destination": {"name": "192.0.2.256"}},
    },
}


def contains(document: Any, part: Any) -> bool:
    """Whether a document has the values of a part of it."""
    if isinstance(part, dict):
        return all(contains(document.get(name, {}), below) for name, below in part.items())
    return bool(document == part)


def test_addresses_of_ss_have_their_device_apart(
    index: Index, server: Node, tmp_path: Path
) -> None:
    log = (DATA / "importing" / "reports" / "c5-scope.log").read_text()
    for number, (source, destination) in enumerate(ENDS):
        text = log.replace("192.0.2.1%eth0", source).replace("192.0.2.2", destination)
        (tmp_path / f"{number}.log").write_text(text)
    outdir = tmp_path / "imported"
    made = invoke("import", *sorted(tmp_path.glob("*.log")), "-o", outdir)
    assert made.exit_code == 0, made.output
    sent = index(outdir)
    assert sent.returncode == 0, sent.stderr
    assert of_index(server) == of_archive(outdir)
    campaign = Campaign.load(outdir)
    sockets = [
        document
        for result in finished(campaign)
        for kind, _, document in documents(run_lines("0", campaign, result))
        if kind == "sockets"
    ]
    for ends, fields in ENDS.items():
        assert any(contains(document, fields) for document in sockets), ends


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
