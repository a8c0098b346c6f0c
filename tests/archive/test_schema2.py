"""Archives of schema 2, which commit 9dd6605 wrote, are read with the same numbers."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccmix.archive import Campaign
from ccmix.archive.schema2 import convert_finished_run
from ccmix.model import Command, ProbeReport
from ccmix.model.results import FinishedRun
from support import REPOSITORY, Ccmix

FOLDER = REPOSITORY / "tests" / "data" / "schema-2"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Today's 12 runs of the demo, as they were in the repository."""
    outdir = tmp_path_factory.mktemp("schema2") / "demo"
    Ccmix(tmp_path_factory.mktemp("launch"))("archive", "unpack", FOLDER / "demo.zip", "-o", outdir)
    return outdir


@pytest.fixture(scope="module")
def runs(demo: Path) -> list[FinishedRun]:
    return [run for run, _ in Campaign.load(demo).finished()]


def numbers(text: str) -> Iterator[list[Any]]:
    for row in csv.reader(text.splitlines()):
        yield [float(cell) if cell.replace(".", "").isdigit() else cell for cell in row]


def test_the_table_is_that_of_the_code_that_wrote_it(demo: Path, ccmix: Ccmix) -> None:
    """demo.csv is what `ccmix report archive/demo --format csv` of 9dd6605 printed."""
    printed = list(numbers(ccmix("report", demo, "--format", "csv").stdout))
    before = list(numbers((FOLDER / "demo.csv").read_text()))
    newer = printed[0].index("not_settled")
    assert {row.pop(newer) for row in printed} == {"not_settled", 0.0}
    assert printed[0] == before[0]
    assert len(printed) == len(before) == 17
    for row, expected in zip(printed, before, strict=True):
        assert row == [pytest.approx(cell, rel=1e-9) if isinstance(cell, float) else cell for cell in expected]


def test_facts_keep_their_meaning(runs: list[FinishedRun]) -> None:
    mixed = next(run for run in runs if run.run.entry == "mixed")
    assert len(runs) == 12
    assert (mixed.execution.machine, mixed.execution.diagnostics, mixed.facts.hosts) == ("lab", (), None)
    assert mixed.facts.probes["sockmon"] == ProbeReport(28, 0, None, 7.68e-07)
    roles = [command.role for command in mixed.facts.commands]
    assert roles == ["h1 client", "h1 server"]
    assert mixed.facts.commands[0].line.startswith("/run/ccmix/job/iperf3 --client 10.0.3.2 --port 5201 --json")
    assert list(mixed.ping_rtt_s) == ["h1"]


def old(**changed: Any) -> dict[str, Any]:
    """A run between hosts as schema 2 had it, with little in it."""
    run = {
        "entry": "one", "condition": {}, "dst": "far", "iteration": 1, "seed": 7, "accept_limits": [],
        "traffic": {"groups": [], "streams": 0, "duration_s": 2.0, "omit_s": 0.0, "interval_s": 1.0, "flows": []},
        "path": {
            "src": "localhost", "dst": {"name": "far", "address": "192.0.2.1", "host": "far"}, "label": "x",
            "commands": {"src": "iperf3 -c far"},
        },
    }  # fmt: skip
    return {
        "run": run,
        "where": {"machine": "hosts", "real_seconds": 3.0, "retries": ["lost"], "notices": ["left changed: x"]},
        "facts": {"kernel": "6.1.0", "iperf3": "", "hosts": {}, "commands": ["iperf3 -c far | tee x", None]},
        "started_s": 1.0, "ended_s": 3.0, "ping_rtt_s": [0.1, 0.2],
        "metrics": {"goodput_bps": 1.0, "utilisation": None, "fairness": None, "groups": []},
        "validity": {"status": "valid", "findings": []},
    } | changed  # fmt: skip


def test_what_got_another_shape() -> None:
    new = convert_finished_run(old())
    assert new["ping_rtt_s"] == {"src": [0.1, 0.2]}
    assert new["began_s"] == 1.0
    assert new["execution"]["diagnostics"] == ["left changed: x"]
    assert new["execution"]["retries"] == ["lost"]
    assert new["facts"]["commands"] == [{"role": "", "line": "iperf3 -c far | tee x"}]
    assert convert_finished_run(old(ping_rtt_s=[]))["ping_rtt_s"] == {}


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([["iperf3", "-c", "a b"], ["iperf3", "-s"]],
         [Command("client", "iperf3 -c 'a b'"), Command("server", "iperf3 -s")]),
        ([["iperf3", "-c", "a"], None], [Command("client", "iperf3 -c a")]),
        ({"web.h2": {"clients": [["curl", "a"], ["curl", "b"]], "server": ["http"]}},
         [Command("web.h2 clients", "curl a"), Command("web.h2 clients", "curl b"), Command("web.h2 server", "http")]),
        ({"noise.h1": {"command": "ping x"}}, [Command("noise.h1 command", "ping x")]),
        (None, []),
    ],
)  # fmt: skip
def test_commands_of_every_kind(commands: Any, expected: list[Command]) -> None:
    facts = {"kernel": "6.1.0", "iperf3": "", "commands": commands}
    assert [Command(**command) for command in convert_finished_run(old(facts=facts))["facts"]["commands"]] == expected
