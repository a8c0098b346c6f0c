"""Runs of schema 2 become runs of today that ask for the same."""

import json
from typing import Any

import pytest

from ccmix.archive.codec import Codec
from ccmix.archive.schema2_run import convert_run
from ccmix.model import (
    Buffer,
    CommandSource,
    DelayChange,
    Group,
    HostPath,
    HttpSource,
    ImportedSource,
    Iperf3Source,
    Loss,
    LossChange,
    Netem,
    PschedulerSource,
    RateChange,
    Run,
    Sender,
    UdpSource,
    WorkloadSource,
)
from support import REPOSITORY

RUN = Codec(Run)
GROUPS = [{"cca": "cubic", "weight": 1, "pacing_bps": None, "delay_s": 0.0}]
EMULATED = {"rate_bps": 1e8, "delay_s": 0.005, "loss": None, "buffer": {"amount": 1.0, "kind": "bdp"},
            "mtu_bytes": 1500, "offloads": False, "name": "small"}  # fmt: skip
HOSTS = {"src": "localhost", "dst": {"name": "b", "address": "10.0.0.1", "host": "10.0.0.1"}, "label": "iperf3"}
TASK = {"lead": "ps1", "source": None, "observed": True, "tool": None, "slip_s": 300.0, "wait_s": 900.0}


def converted(path: dict[str, Any], **traffic: Any) -> Run:
    asked = {"groups": GROUPS, "streams": 2, "duration_s": 10.0, "omit_s": 1.0, "interval_s": 0.5}
    run = {"entry": "one", "condition": {}, "dst": "b", "iteration": 1, "seed": 7, "traffic": asked | traffic}
    return RUN.decode(json.loads(json.dumps(convert_run(run | {"path": path}))))


def hosts(**settings: Any) -> dict[str, Any]:
    return HOSTS | settings


def test_a_path_without_hosts_has_the_sender_h1() -> None:
    run = converted(EMULATED | {"jitter_s": 0.001, "loss": {"model": "random", "parameters": [0.01]}})
    assert run.topology.senders == (Sender("h1", 0.005, Loss("random", (0.01,)), 0.001),)
    assert run.topology.buffer == Buffer(1.0, "bdp")
    assert run.traffic.sources == (Iperf3Source("", "h1", (Group("cubic"),), 2),)


def test_each_sender_has_the_test() -> None:
    senders = [{"name": name, "delay_s": 0.001, "loss": None, "rate_bps": 1e6} for name in ("a", "b")]
    run = converted(EMULATED | {"hosts": senders})
    assert run.topology.senders == (Sender("a", 0.001, rate_bps=1e6), Sender("b", 0.001, rate_bps=1e6))
    assert [source.host for source in run.traffic.sources] == ["a", "b"]


def test_changes() -> None:
    unset = {"sender": None, "rate_bps": None, "delay_s": None, "loss": None}
    changes = [
        unset | {"at_s": 1.0, "rate_bps": 5e7}, unset | {"at_s": 2.0, "sender": "h1", "delay_s": 0.0},
        unset | {"at_s": 3.0, "loss": {"model": "random", "parameters": [0.0]}},
    ]  # fmt: skip
    assert converted(EMULATED | {"changes": changes}).topology.changes == (
        RateChange(1.0, 5e7), DelayChange(2.0, "h1", 0.0), LossChange(3.0, None, None),
    )  # fmt: skip


def test_all_kinds_of_named_sources() -> None:
    flows = [
        {"name": name, "host": "h1", "what": what, "start_s": 1.0}
        for name, what in {
            "a": {"groups": GROUPS, "streams": 1}, "b": {"rate_bps": 1e6, "udp_streams": 3},
            "c": {"requests": 5, "size_bytes": 10, "parallel": 2, "http_cca": "bbr"},
            "d": {"distribution": "x", "sizes": [[1.0, 1.0]], "offered_bps": 1e6, "workload_cca": "-"},
            "e": {"line": "./tool"},
        }.items()
    ]  # fmt: skip
    traffic = converted(EMULATED, groups=[], streams=0, flows=flows).traffic
    assert traffic.sources == (
        Iperf3Source("a", "h1", (Group("cubic"),), 1, start_s=1.0), UdpSource("b", "h1", 1e6, 3, start_s=1.0),
        HttpSource("c", "h1", 5, 10, 2, "bbr", start_s=1.0),
        WorkloadSource("d", "h1", "x", ((1.0, 1.0),), 1e6, "-", start_s=1.0),
        CommandSource("e", "h1", "./tool", start_s=1.0),
    )  # fmt: skip
    assert (traffic.groups, traffic.streams) == ((), None)


def test_a_command_of_unknown_length() -> None:
    path = hosts(commands={"src": "scp x b:", "src_once": True, "dst": "y", "dst_once": True})
    run = converted(path, groups=[], streams=0, duration_s=0.0, omit_s=0.0)
    assert run.traffic.sources == (CommandSource("", "src", "scp x b:", kept=True),)
    assert (run.traffic.duration_s, run.seconds) == (None, None)
    assert (run.host_path.commands.dst, run.host_path.commands.dst_once) == ("y", True)


def test_a_task_of_pscheduler_and_an_import() -> None:
    [source] = converted(hosts(task=TASK)).traffic.sources
    assert isinstance(source, PschedulerSource)
    assert (source.streams, source.task.lead, source.task.wait_s) == (2, "ps1", 900.0)
    imported = converted(hosts(label="imported"), streams=0).traffic
    assert imported.sources == (ImportedSource("", "src", (Group("cubic"),), None),)


@pytest.mark.parametrize("parameters", [None, ["random", 0.0], ["gemodel", 0.0], ["gemodel", 0.1, 0.5, 0.0]])
def test_no_loss_is_none(parameters: list[Any] | None) -> None:
    loss = parameters and {"model": parameters[0], "parameters": parameters[1:]}
    path = converted(hosts(netem={"delay_s": 0.01, "loss": loss, "limit_packets": 100, "rate_bps": None})).path
    assert isinstance(path, HostPath)
    assert path.netem == Netem(0.01, None, 100)


@pytest.mark.parametrize("archive", ["real-and-emulated", "tierney-2021", "demo"])
def test_runs_of_published_archives(archive: str) -> None:
    """A run of each entry or destination of what was published asks for the same groups, streams and senders."""
    runs = json.loads((REPOSITORY / "tests" / "data" / "schema2-runs.json").read_text())[archive]
    for data in runs:
        run = RUN.decode(convert_run(data))
        assert [group.cca for group in run.traffic.groups] == [group["cca"] for group in data["traffic"]["groups"]]
        assert (run.traffic.streams or 0) == data["traffic"]["streams"]
        assert (run.entry, run.condition, run.seed) == (data["entry"], data["condition"], data["seed"])
        if not isinstance(run.path, HostPath):
            hosts = data["path"].get("hosts") or [data["path"]]
            assert [sender.delay_s for sender in run.path.senders] == [host["delay_s"] for host in hosts]
