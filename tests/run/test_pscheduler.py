"""Tests campaigns whose traffic a stand-in for pScheduler makes, with real iperf3 between two
namespaces of this machine.
"""

import datetime
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.generators.pscheduler.task import SLOT_S, duration_s
from support.commands import Ccmix, Pair, RunIni, Write, rows, summaries, wait_for
from support.pscheduler_stand_in import (
    Certificate,
    Fault,
    StandIn,
    by_iperf3,
    certificate,
    fails,
    serving,
    succeeds,
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def stand_in(pair: Pair, shown: Certificate) -> Iterator[StandIn]:
    server = StandIn(by_iperf3(pair), starts_after_s=1.0)
    server.slot_s = 1.0
    with serving(server, shown):
        yield server


@pytest.fixture
def config(tmp_path: Path, pair: Pair, stand_in: StandIn, shown: Certificate) -> Write:
    """Writes an entry of type perfSONAR from the near host to the far one, with more keys and
    further entries.
    """

    def write(text: str, seen: bool = True) -> Path:
        src = f"netns:{pair.near}" if seen else "ps1.example.invalid"
        limits = "cpu, probe" if seen else "cpu"  # what a busy machine does to a run
        file = tmp_path / "mesh.ini"
        file.write_text(
            f"[DEFAULT]\nsrc = {src}\ndst = {pair.address}\ninterval = 100ms\naccept-limits = "
            f"{limits}\n"
            f"lead = {stand_in.address}\ntls-ca = {shown.certificate}\n"
            f"[mesh]\ntype = perfSONAR\nduration = 1s\n{text}"
        )
        return file

    return write


def test_groups_in_a_task_of_a_stand_in(
    run_ini: RunIni, config: Write, stand_in: StandIn, pair: Pair, tmp_path: Path
) -> None:
    file = config(
        "streams = 4\ncca = reno:3,bbr\ntool = iperf3mix\nslip = 20s\npriority = 7\nspec.mss = "
        "1400\n"
    )
    run_ini(file)
    reno, bbr = rows(tmp_path / "out")
    assert (reno["cca"], reno["streams"], reno["runs"], reno["invalid"]) == ("reno", 3, 1, 0)
    assert (bbr["cca"], bbr["streams"], bbr["dst"]) == ("bbr", 1, pair.address)
    assert reno["goodput_mean_bps"] == pytest.approx(90e6, rel=0.1)
    assert reno["retransmission_rate_mean"] is not None
    document = stand_in.only_task.document
    assert document["test"]["spec"] == {
        "schema": 4,
        "dest": pair.address,
        "duration": "PT1S",
        "interval": "PT1S",
        "parallel": 4,
        "congestion": "reno:3,bbr",
        "mss": 1400,
    }
    assert (document["schedule"], document["priority"], document["tools"]) == (
        {"slip": "PT20S"},
        7,
        ["iperf3mix"],
    )
    assert document["reference"]["ccmix"]["entry"] == "mesh"
    folder = tmp_path / "out" / "mesh" / "all" / pair.address / "001"
    kept = json.loads((folder / "generators" / "pscheduler.json").read_text())
    assert len(kept["run"]["result-full"]) == 2
    assert kept["run"]["result-merged"]["succeeded"] is True
    assert kept["clocks"][stand_in.address]["synchronized"] is True
    assert (folder / "intervals.parquet").exists()
    assert (folder / "sockets.parquet").exists()
    [summary] = summaries(tmp_path / "out")
    assert summary["verdict"]["status"] == "valid"
    assert set(summary["facts"]["hosts"]) == {"src"}
    assert not any(
        "nobody looked" in finding["detail"] for finding in summary["verdict"]["findings"]
    )
    assert summary["facts"]["generator"] == "pscheduler"
    assert summary["facts"]["pscheduler"]["lead"] == stand_in.address
    assert summary["started_s"] == pytest.approx(
        stand_in.only_task.runs[0].begins_s, abs=20
    )  # read from a slow clock


def test_a_bandwidth_that_was_asked_for_is_no_slow_application(
    run_ini: RunIni, config: Write
) -> None:
    run_ini(config("spec.bandwidth = 20M\n"))


def test_a_source_that_nobody_looks_at_is_unknown(
    run_ini: RunIni, config: Write, stand_in: StandIn, tmp_path: Path
) -> None:
    """Gets both ends' results from pScheduler, and nothing about the sockets."""
    done = run_ini(config("cca = reno\n", seen=False), status=1)
    assert (
        "no probe sampled the sockets of ps1.example.invalid: ccmix has no shell there"
        in done.stderr
    )
    [summary] = summaries(tmp_path / "out")
    assert summary["verdict"]["status"] == "unknown"
    assert stand_in.only_task.document["test"]["spec"]["source"] == "ps1.example.invalid"
    [row] = rows(tmp_path / "out")
    assert (row["runs"], row["invalid"]) == (1, 1)


def test_unseen_runs_that_the_entry_accepts_are_in_the_table(
    run_ini: RunIni, ccmix: Ccmix, config: Write, pair: Pair, tmp_path: Path
) -> None:
    file = config("cca = reno,bbr\nstreams = 2\nomit = 1s\naccept-limits = probe\n", seen=False)
    run_ini(file)
    reno, bbr = rows(tmp_path / "out")
    assert [(row["group"], row["streams"], row["runs"], row["invalid"]) for row in (reno, bbr)] == [
        ("reno", 1, 1, 0),
        ("bbr", 1, 1, 0),
    ]
    assert bbr["goodput_mean_bps"] == pytest.approx(30e6, rel=0.15)
    folder = tmp_path / "out" / "mesh" / "all" / pair.address / "001"
    intervals = pl.read_parquet(folder / "intervals.parquet")
    assert set(intervals["group"]) == {"reno", "bbr"}
    assert intervals["omitted"].any()
    assert ccmix("report", tmp_path / "out", "--format", "html").returncode == 0


def test_a_result_without_iperf3_s_json(
    run_ini: RunIni, config: Write, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.carry = succeeds
    file = config("cca = cubic,bbr\nstreams = 2\naccept-limits = probe\n", seen=False)
    run_ini(file)
    results = [
        (row["group"], row["goodput_mean_bps"], row["streams"]) for row in rows(tmp_path / "out")
    ]
    assert results == [("cubic", 72e6, 1), ("bbr", 18e6, 1)]


def test_a_failed_run_is_tried_again_and_keeps_what_pscheduler_said(
    run_ini: RunIni, config: Write, stand_in: StandIn, pair: Pair, tmp_path: Path
) -> None:
    stand_in.carry = fails
    done = run_ini(config("retries = 1\n"), status=1)
    assert done.stderr.count("the run failed: iperf3 returned an error: unable to connect") == 2
    assert [task.cancelled for task in stand_in.tasks.values()] == [True, True]
    partial = tmp_path / "out" / "mesh" / "all" / pair.address / "001.partial"
    kept = json.loads((partial / "generators" / "pscheduler.json").read_text())
    assert kept["run"]["state"] == "failed"
    assert "the task was cancelled" in (partial / "logs" / "run.log").read_text()
    assert pair.running() == []


def test_ctrl_c_cancels_the_task_and_resume_goes_on(
    run_ini: RunIni, ccmix: Ccmix, config: Write, stand_in: StandIn, pair: Pair, tmp_path: Path
) -> None:
    file = config("iterations = 2\nslip = 20m\n")
    stand_in.first_start_after_s = [1.0, 600.0]
    running = ccmix.start("run", file, "-o", tmp_path / "out")
    wait_for(lambda: len(stand_in.tasks) == 2, 60, "the second task is posted")
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    assert len(summaries(tmp_path / "out")) == 1
    assert [task.cancelled for task in stand_in.tasks.values()] == [False, True]
    assert pair.running() == []
    run_ini(file, "--resume")
    assert [row["runs"] for row in rows(tmp_path / "out")] == [2]
    assert len(stand_in.tasks) == 3


@pytest.mark.deep
def test_restore_cancels_the_task_of_a_killed_campaign(
    own_state: Path, ccmix: Ccmix, config: Write, stand_in: StandIn, pair: Pair, tmp_path: Path
) -> None:
    stand_in.starts_after_s = 600.0
    running = ccmix.start("run", config("slip = 20m\n"), "-o", tmp_path / "out")
    log = tmp_path / "out" / "mesh" / "all" / pair.address / "001.partial" / "logs" / "run.log"
    wait_for(
        lambda: log.exists() and "posted https://" in log.read_text(), 60, "the task is posted"
    )
    running.kill()
    running.communicate()
    [name] = stand_in.tasks
    url = f"https://{stand_in.address}/pscheduler/tasks/{name}"
    assert f"pscheduler cancel --key {stand_in.only_task.document['_key']} {url}" in log.read_text()
    assert not stand_in.only_task.cancelled
    done = ccmix("restore", status=0)
    assert f"pScheduler task {url}: cancelled" in done.stderr
    assert stand_in.only_task.cancelled
    assert "pScheduler" not in ccmix("restore").stderr


def test_the_iterations_are_the_runs_of_a_repeated_task(
    run_ini: RunIni, config: Write, stand_in: StandIn, tmp_path: Path
) -> None:
    file = config(
        "iterations = 2\nrepeat = 30s\naccept-limits = probe\n", seen=False
    )  # a late probe spoils no run

    def sooner(document: dict[str, Any]) -> tuple[int, Any]:
        """Lets the stand-in repeat every 8 s, so that a test does not wait half a minute."""
        asked.append(document["schedule"])
        return post(document | {"schedule": document["schedule"] | {"repeat": "PT8S"}})

    asked: list[dict[str, Any]] = []
    post = stand_in._post
    stand_in._post = sooner  # type: ignore[method-assign]
    run_ini(file)
    assert asked == [{"slip": "PT300S", "repeat": "PT30S", "max-runs": 2}]
    first, second = summaries(tmp_path / "out")
    assert second["started_s"] - first["started_s"] == pytest.approx(8, abs=0.001)
    hrefs = [finished["facts"]["pscheduler"]["href"] for finished in (first, second)]
    assert [href.rpartition("/")[2] for href in hrefs] == [
        run.identity for run in stand_in.only_task.runs
    ]
    assert stand_in.only_task.cancelled, "what is repeated is cancelled at the end of its entry"


def test_a_budget_holds_for_pscheduler_s_runs(
    run_ini: RunIni, config: Write, stand_in: StandIn
) -> None:
    settings = "iterations = 2\nspec.bandwidth = 20M\nrate-budget = 4mb/day\n"
    done = run_ini(config(settings), status=1)
    assert done.stderr.count("rate-budget") == 1
    assert len(stand_in.tasks) == 1


def test_no_slot_begins_that_would_not_end_in_the_time_window(
    run_ini: RunIni, config: Write, stand_in: StandIn
) -> None:
    """Opens a window with 4 to 5 minutes left, so the start may not slip by 20."""
    now = datetime.datetime.now(datetime.UTC)
    begin, end = now - datetime.timedelta(hours=1), now + datetime.timedelta(minutes=5)
    run_ini(config(f"slip = 20m\ntime-window = {begin:%H:%M}-{end:%H:%M} UTC\n"))
    slip_s = duration_s(stand_in.only_task.document["schedule"]["slip"])
    assert 4 * 60 - 1 - SLOT_S - 20 < slip_s < 5 * 60 - 1 - SLOT_S


def test_the_plan_says_what_pscheduler_is_asked(
    ccmix: Ccmix, config: Write, stand_in: StandIn
) -> None:
    done = ccmix(
        "plan",
        config("tool = iperf3mix\ncca = reno,bbr\nstreams = 2\npriority = 3\nrepeat = 1h\n"),
        status=0,
    )
    assert f"task at {stand_in.address}: 2 streams, reno,bbr, iperf3mix, priority 3" in done.stdout
    assert "one task, repeated every 3600 s" in done.stdout
    assert stand_in.asked == []


def test_the_doctor_asks_pscheduler(ccmix: Ccmix, config: Write, stand_in: StandIn) -> None:
    done = ccmix("doctor", config("tool = iperf3\n", seen=False), "--format", "json")
    reports = {host["host"]: host["checks"] for host in json.loads(done.stdout)}
    assert [
        (host["check"], host["status"]) for host in reports[f"pScheduler at {stand_in.address}"]
    ] == [
        ("REST interface", "ok"),
        ("clock", "ok"),
        ("test", "ok"),
        ("tool", "ok"),
    ]
    assert done.returncode == 0
    assert {what.partition(" ")[0] for what in stand_in.asked} == {"GET"}


def test_the_doctor_finds_a_tool_that_is_not_there_and_a_test_that_is_refused(
    ccmix: Ccmix, config: Write, stand_in: StandIn
) -> None:
    reason = {"can-run": False, "reasons": ["congestion is no list of groups"]}
    stand_in.tools.append({"can-run": reason, "tool": {"name": "iperf3mix"}})
    stand_in.faults = [Fault("is-valid", body='{"valid": false, "error": "what is this"}')]
    done = ccmix("doctor", config("tool = iperf3mix\n", seen=False), "--format", "json", status=1)
    checks = {
        check["check"]: check
        for report in json.loads(done.stdout)
        for check in report["checks"]
        if report["host"] == f"pScheduler at {stand_in.address}"
    }
    assert (checks["tool"]["status"], checks["tool"]["seen"]) == (
        "fail",
        "iperf3mix: congestion is no list of groups",
    )
    assert (checks["test"]["status"], checks["test"]["seen"]) == ("fail", "what is this")


def test_the_doctor_finds_a_lead_that_nobody_trusts(
    ccmix: Ccmix, config: Write, stand_in: StandIn
) -> None:
    file = config("")
    file.write_text(re.sub("tls-ca = .*\n", "", file.read_text()))
    done = ccmix("doctor", file, "--format", "json", status=1)
    checks = {report["host"]: report["checks"] for report in json.loads(done.stdout)}
    [check] = checks[f"pScheduler at {stand_in.address}"]
    assert check["status"] == "fail"
    assert "tls-ca = FILE" in check["seen"]


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (
            {"succeeded": False, "error": "Run was preempted", "diags": "", "intervals": []},
            "Run was preempted",
        ),
        (None, "pscheduler printed no result: its run did not take place"),
    ],
)
def test_the_original_command_whose_exit_status_says_nothing(
    run_ini: RunIni, result: dict[str, Any] | None, sentence: str, pair: Pair, tmp_path: Path
) -> None:
    """Exits with 0 for a failed run, and for one that was missed, as real
    `pscheduler task --format json` did.
    """
    program = tmp_path / "pscheduler"
    program.write_text(
        f"#!/bin/sh\ncat <<'E'\n{json.dumps(result)}\nE\n" if result else "#!/bin/sh\n"
    )
    program.chmod(0o755)
    file = tmp_path / "original.ini"
    file.write_text(
        f"[mesh]\ntype = perfSONAR\nsrc = netns:{pair.near}\ndst = {pair.address}\n"
        f"src-cmd = {program} task --format json throughput --dest {{dst}}\n"
    )
    done = run_ini(file, status=1)
    assert sentence in done.stderr
