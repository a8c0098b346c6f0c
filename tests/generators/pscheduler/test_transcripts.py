"""Replays answers of real pScheduler servers (tests/data/pscheduler) with the stand-in."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.raw_files import as_measured, read_tables
from ccmix.analysis.tables import RunTables
from ccmix.config.flows import GROUPS
from ccmix.generators.pscheduler import rest
from ccmix.generators.pscheduler.rest import PschedulerError
from ccmix.generators.pscheduler.runs import Tasks
from ccmix.generators.pscheduler.task import duration_s, task_document
from ccmix.generators.results import read_result
from ccmix.model import (
    Destination,
    Facts,
    HostPath,
    Measurement,
    PschedulerSource,
    PschedulerTask,
    Run,
    Traffic,
    run_files,
)
from ccmix.model.results import Metrics
from support.commands import REPOSITORY
from support.pscheduler_stand_in import Certificate, StandIn, certificate, serving

DATA = REPOSITORY / "tests" / "data" / "pscheduler"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def stand_in(shown: Certificate, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("CCMIX_STATE", str(state))
    monkeypatch.setattr(rest, "BACK_OFF_S", (0.05, 0.2))
    with serving(StandIn(lambda _: [], starts_after_s=0.2), shown) as server:
        yield server


def transcript(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((DATA / name).read_text())
    return recorded


def asked(record: dict[str, Any], lead: str, ca_file: str) -> Run:
    """Returns the run of the transcript, at another lead."""
    spec, schedule = record["task"]["test"]["spec"], record["task"]["schedule"]
    groups = GROUPS.read(spec["congestion"])
    repeat_s = duration_s(schedule["repeat"]) if "repeat" in schedule else None
    task = PschedulerTask(
        lead,
        spec["source"],
        False,
        record["task"]["tools"][0],
        300.0,
        180.0,
        None,
        repeat_s,
        schedule.get("max-runs", 1),
        ca_file,
    )
    source = PschedulerSource("", "src", groups, spec["parallel"], task)
    traffic = Traffic(
        (source,), duration_s(spec["duration"]), duration_s(spec.get("omit", "PT0S")), 0.5
    )
    about = record["task"]["reference"]["ccmix"]
    path = HostPath(
        spec["source"], Destination(spec["dest"], spec["dest"], spec["dest"]), "perfSONAR"
    )
    return Run(
        about["entry"], about["condition"], spec["dest"], about["iteration"], 7, traffic, path
    )


def again(name: str, stand_in: StandIn, shown: Certificate) -> tuple[Run, dict[str, Any]]:
    """Returns the run, and the client's record of the same answer, which comes sooner. Raises
    PschedulerError.
    """
    record = transcript(name)
    run = asked(record, stand_in.address, str(shown.certificate))
    stand_in.slot_s = 0.3 - run.seconds
    stand_in.carry = lambda _: record["run"]["result-full"]
    original = stand_in._run_document

    def real(task: str, value: Any) -> dict[str, Any]:
        as_it_was = {
            key: record["run"][key]
            for key in ("result-merged", "participant-data-full", "errors", "state")
        }
        return original(task, value) | (as_it_was if value.results else {})

    stand_in._run_document = real  # type: ignore[method-assign]
    with Tasks(lambda _: None).slot(run, None, lambda _: None) as slot:
        slot.finish(None)
    return run, slot.record


def read(run: Run, record: dict[str, Any], folder: Path) -> tuple[RunTables, Metrics]:
    (folder / "generators").mkdir()
    (folder / "logs").mkdir()
    (folder / "generators" / run_files.PSCHEDULER).write_text(json.dumps(record))
    measurement = Measurement(
        facts=Facts("unknown", hosts={}), started_s=0.0, ended_s=0.0, ping_rtt_s={}
    )
    measured = as_measured(run, folder, None)
    tables = read_tables(measured, folder, measurement)
    return tables, run_metrics(measured, tables, {}, measurement)


def test_what_is_asked_is_what_a_real_server_took() -> None:
    record = transcript("iperf3mix.json")
    document = task_document(
        asked(record, "psa", ""), record["task"]["reference"]["ccmix"]["id"], 300.0
    )
    assert {"href": record["task"]["href"], **document} == record["task"]


def test_groups_of_iperf3mix(stand_in: StandIn, shown: Certificate, tmp_path: Path) -> None:
    """Expects the tool's own sums over its groups."""
    run, record = again("iperf3mix.json", stand_in, shown)
    tables, metrics = read(run, record, tmp_path)
    groups = {
        group["congestion"]: group for group in record["run"]["result-merged"]["summary"]["groups"]
    }
    assert [(group.group, group.cca, group.streams) for group in metrics.groups] == [
        ("reno", "reno", 2),
        ("bbr", "bbr", 1),
    ]
    for group in metrics.groups:
        assert group.goodput_bps == pytest.approx(
            groups[group.group]["receiver-throughput-bits"], rel=1e-9
        )
        assert group.retransmission_rate == 0.0
        assert 1e-3 < group.rtt_median_s < 0.1
    assert metrics.bytes_sent == sum(group["throughput-bytes"] for group in groups.values())
    intervals = tables.intervals
    assert intervals.filter("omitted").height == 3
    assert intervals.filter(~pl.col("omitted"))["port"].n_unique() == 3
    of_reno = intervals.filter(~pl.col("omitted"), group="reno")
    received = (of_reno["goodput_bps"] * of_reno["seconds"]).sum() / 8
    assert received == pytest.approx(groups["reno"]["receiver-throughput-bytes"], rel=0.02)


def test_two_streams_of_stock_iperf3(stand_in: StandIn, shown: Certificate, tmp_path: Path) -> None:
    run, record = again("iperf3.json", stand_in, shown)
    _, metrics = read(run, record, tmp_path)
    summary = record["run"]["result-merged"]["summary"]["summary"]
    [group] = metrics.groups
    assert (group.group, group.cca, group.streams) == ("reno", "reno", 2)
    assert group.goodput_bps == pytest.approx(summary["receiver-throughput-bits"], rel=1e-3)
    assert group.throughput_bps == pytest.approx(summary["throughput-bits"], rel=1e-3)


def test_both_ends_are_kept(stand_in: StandIn, shown: Certificate) -> None:
    _, record = again("iperf3mix.json", stand_in, shown)
    assert [data["host"] for data in record["run"]["participant-data-full"]] == ["psa", "psb"]
    assert len(record["run"]["result-full"]) == 2
    assert transcript("iperf3mix.json")["clocks"]["psb"]["synchronized"] is False


def test_a_run_of_a_repeated_task(stand_in: StandIn, shown: Certificate, tmp_path: Path) -> None:
    run, record = again("repeated-second-run.json", stand_in, shown)
    assert stand_in.only_task.document["schedule"]["repeat"] == "PT40S"
    _, metrics = read(run, record, tmp_path)
    assert [group.group for group in metrics.groups] == ["reno", "bbr"]


def test_a_run_that_failed(stand_in: StandIn, shown: Certificate) -> None:
    with pytest.raises(PschedulerError) as caught:
        again("iperf3-failed.json", stand_in, shown)
    assert str(caught.value) == (
        f"{stand_in.address}: the run failed: iperf3 returned an error: unable to set "
        "TCP_CONGESTION: "
        "Supplied congestion control algorithm not supported on this host"
    )
    assert stand_in.only_task.cancelled


def test_what_the_command_of_a_src_cmd_printed() -> None:
    """Reads two outputs of commands whose exit status was 0."""
    good = read_result((DATA / "task-format-json.json").read_text())
    assert (good.kind, good.error) == ("pscheduler", None)
    assert good.client
    assert good.server
    assert [group["congestion"] for group in good.client["end"]["groups"]] == ["reno", "bbr"]
    bad = read_result((DATA / "task-format-json-failed.json").read_text())
    assert (bad.kind, bad.client) == ("pscheduler", None)
    assert (bad.error or "").endswith(
        "Supplied congestion control algorithm not supported on this host"
    )
