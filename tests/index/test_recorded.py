"""Tests documents that the demo lacks: captures, RTT probes, requests, and runs between hosts and by
pScheduler.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.archive import Campaign
from ccmix.index import context
from ccmix.index.bulk import finished, run_lines
from ccmix.index.fields import FIELDS
from ccmix.index.summaries import campaign_documents, run_documents
from ccmix.twin.twin import twins_of_runs
from support.elasticsearch_node import Node
from support.filled_index import RECORDED
from support.index import Index, documents, of_archive, of_index

EMULATED, REAL, PSCHEDULER, LATER, PATH, TWIN = RECORDED
PACED = REAL / "paced" / "cca=reno:1@2M,bbr:1@2M" / "far" / "001"
VERSIONS = LATER / "later" / "all" / "receiver" / "001"
REQUESTS = EMULATED / "requests" / "all" / "receiver" / "001"


def of_run(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Returns the documents of a kind, in the order of their rows."""
    outdir = next(parent for parent in folder.parents if (parent / "campaign.json").exists())
    campaign = Campaign.load(outdir)
    result = next(result for result in finished(campaign) if result.folder == folder)
    found = [
        document
        for name, _, document in documents(run_lines("x", campaign, result))
        if name == kind
    ]
    return sorted(found, key=lambda document: int(document["ccmix"]["row"]))


def at(document: Mapping[str, Any], field: str) -> Any:
    """Returns the value of a field, or None."""
    value: Any = document
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def columns(found: list[dict[str, Any]], *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(at(document, field) for field in fields) for document in found]


def test_an_index_of_all_of_them_is_what_the_archives_are(index: Index, server: Node) -> None:
    assert index(*RECORDED).returncode == 0
    expected = of_archive(*RECORDED)
    assert of_index(server) == expected
    rows = {
        kind: sum(
            pl.read_parquet(file).height
            for outdir in RECORDED
            for file in outdir.rglob(f"{name}.parquet")
        )
        for kind, name in {
            "packets": "packets",
            "rtts": "rtt",
            "completions": "completions",
        }.items()
    }
    counted = {
        kind: sum(name.startswith(f"ccmix-{kind}-") for name, _ in expected) for kind in rows
    }
    assert counted == rows
    assert all(rows.values())


def test_a_measured_path_has_its_estimates() -> None:
    """The path has 20 Mbit/s, a base RTT of 20 ms, a buffer of 50 kB and a loss of 0.1%."""
    (run,) = of_run(PATH / "measured" / "all" / "receiver" / "001", "runs")
    stem = "ccmix.path.estimate"
    for name, unit, truth in (
        ("rate", "_bps", 20e6),
        ("base_rtt", "_s", 0.02),
        ("buffer", "_bytes", 5e4),
        ("loss", "", 0.001),
    ):
        low, value, high = (at(run, f"{stem}.{name}{end}{unit}") for end in ("_low", "", "_high"))
        assert low < value < high
        assert low < truth < high
    assert at(run, f"{stem}.queue") == "fifo"
    assert at(run, f"{stem}.receiver_window_bytes") is None
    assert at(run, f"{stem}.receiver_window_low_bytes") > 0
    assert {"burst of losses", "receiver's window"} <= set(at(run, f"{stem}.unknown"))


def test_every_estimate_has_fields() -> None:
    [result] = finished(Campaign.load(PATH))
    [twin] = twins_of_runs([(result.finished, result.folder)])
    names = {each.quantity for each in twin.estimates} - {"losses seen"}
    assert names == {*context.NAMES, *context.WORDS}
    assert set(context.estimates(result)) <= set(FIELDS)


def test_runs_of_no_path_have_no_estimates() -> None:
    assert at(of_run(PACED, "runs")[0], "ccmix.path.estimate") is None


def test_conditions_of_a_twin_say_what_is_not_known() -> None:
    """The conditions of a range have the known key of the real path's condition, and one is the
    best estimate.
    """
    found = [
        document
        for kind, document in campaign_documents(Campaign.load(TWIN))
        if kind == "conditions"
    ]
    real = [
        document
        for kind, document in campaign_documents(Campaign.load(REAL))
        if kind == "conditions"
    ]
    for document in found:
        assert document["ccmix.condition.unknown"] == ["buffer"]
        assert document["ccmix.condition.best_estimate"] == (
            "buffer=2bdp" in document["ccmix.condition.name"]
        )
        assert "buffer" not in document["ccmix.condition.known_key"]
        assert "buffer" in document["ccmix.condition.key"]
    paced = {
        document["ccmix.condition.key"] for document in real if document["ccmix.entry"] == "paced"
    }
    assert len(found) == 4
    assert {document["ccmix.condition.known_key"] for document in found} < paced
    for document in real:
        assert document["ccmix.condition.known_key"] == document["ccmix.condition.key"]
        assert (document["ccmix.condition.unknown"], document["ccmix.condition.best_estimate"]) == (
            None,
            True,
        )


def test_states_of_bbr_s_later_versions_are_their_phases() -> None:
    recorded = pl.read_parquet(VERSIONS / "sockets.parquet")
    bounds = ("cycle", "bw_lo_bps", "inflight_hi_packets", "inflight_lo_packets")
    found = columns(
        of_run(VERSIONS, "sockets"), "ccmix.bbr.state", *(f"ccmix.bbr.{name}" for name in bounds)
    )
    assert found == recorded.select("bbr_phase", *(f"bbr_{name}" for name in bounds)).rows()
    assert set(recorded["bbr_phase"]) >= {"startup", "drain", "probe_bw_refill", "probe_rtt"}


def test_packets_are_those_of_the_capture() -> None:
    captured = pl.read_parquet(PACED / "packets.parquet")
    began_s = json.loads((PACED / "run.json").read_text())["began_s"]
    found = of_run(PACED, "packets")
    names = (
        "payload_bytes",
        "retransmitted_bytes",
        "in_flight_max_bytes",
        "duplicate_acks",
        "ack_rtt_mean_s",
    )
    assert (
        columns(found, *(f"ccmix.packets.{name}" for name in names))
        == captured.select(names).rows()
    )
    ends = ("source_address", "source_port", "destination_address", "destination_port")
    assert (
        columns(found, "source.ip", "source.port", "destination.ip", "destination.port")
        == captured.select(ends).rows()
    )
    elapsed = [at(document, "ccmix.elapsed_s") for document in found]
    assert elapsed == pytest.approx((captured["time_s"] - began_s).to_list())
    assert 0 <= max(elapsed) < 7


def test_packets_of_a_flows_sender_say_which_flow() -> None:
    found = of_run(PACED, "packets")
    flows = {at(flow, "source.port"): flow for flow in of_run(PACED, "flows")}
    assert {at(flow, "ccmix.cca") for flow in flows.values()} == {"reno", "bbr"}
    of_flows = [document for document in found if at(document, "source.port") in flows]
    assert {at(document, "source.port") for document in of_flows} == set(flows)
    for document in of_flows:
        flow = flows[at(document, "source.port")]
        for field in ("ccmix.flow.id", "ccmix.cca", "ccmix.group.name"):
            assert at(document, field) == at(flow, field)
    others = [document for document in found if at(document, "source.port") not in flows]
    assert others
    assert {at(document, "ccmix.flow.id") for document in others} == {None}


def test_rtts_are_those_of_the_probe() -> None:
    asked = pl.read_parquet(PACED / "rtt.parquet")
    found = of_run(PACED, "rtts")
    fields = ("ccmix.elapsed_s", "ccmix.rtt_probe.sequence", "ccmix.rtt_s")
    assert columns(found, *fields) == asked.select("time_s", "sequence", "rtt_s").rows()
    (run,) = of_run(PACED, "runs")
    measured = json.loads((PACED / "run.json").read_text())["metrics"]["rtt_probe"]
    assert at(run, "ccmix.rtt_probe.median_s") == measured["median_s"] > 0


def test_a_run_has_what_it_could_not_show() -> None:
    """Gives sentences to a recorded run's verdict, which has none."""
    sentences = (
        "loss not verifiable in this run: 12 losses expected",
        "jitter: tc confirms it, no probe sees its effect",
    )
    campaign = Campaign.load(REAL)
    result = next(result for result in finished(campaign) if result.folder == PACED)
    verdict = replace(result.finished.verdict, not_verified=sentences)
    silent = replace(result, finished=replace(result.finished, verdict=verdict))
    values = [
        document["ccmix.validity.not_verified"]
        for a_result in (result, silent)
        for kind, document in run_documents(campaign, a_result)
        if kind == "runs"
    ]
    assert values == [None, list(sentences)]


def test_completions_are_those_of_requests_and_short_flows() -> None:
    completed = pl.read_parquet(REQUESTS / "completions.parquet")
    found = of_run(REQUESTS, "completions")
    names = ("number", "bytes", "connect_s", "first_byte_s")
    assert (
        columns(found, *(f"ccmix.completion.{name}" for name in names))
        == completed.select(names).rows()
    )
    times = columns(found, "ccmix.group.name", "host.name", "ccmix.seconds", "ccmix.elapsed_s")
    assert times == completed.select("group", "host", "seconds", "start_s").rows()
    assert {group for group, *_ in times} == {"web", "short"}
    assert None in completed["seconds"], "a flow that was cut off"
    ccas = dict(columns(found, "ccmix.group.name", "ccmix.cca"))
    assert ccas["web"] == "bbr"


def test_hosts_say_what_their_processors_and_counters_did() -> None:
    folder = REAL / "unpaced" / "all" / "far" / "001"
    hosts = {at(host, "ccmix.host.role"): host for host in of_run(folder, "hosts")}
    assert set(hosts) == {"src", "dst"}
    counters = pl.read_parquet(folder / "counters.parquet").sort("time_s")
    for role, host in hosts.items():
        assert 0.5 < at(host, "ccmix.host.cpu_busy") <= 1
        assert at(host, "ccmix.host.cpu_busiest_core") >= at(host, "ccmix.host.cpu_busy")
        own = counters.filter(pl.col("host") == role, pl.col("name") == "Tcp.RetransSegs")["value"]
        assert at(host, "ccmix.host.retransmitted_segments") == own.last() - own.first()  # type: ignore[operator]
    (run,) = of_run(folder, "runs")
    assert at(run, "ccmix.validity.status") == "limited"
    assert "cpu" in at(run, "ccmix.validity.kinds")
    assert at(run, "ccmix.validity.counted") is False


PATHS = {
    "a path between hosts": (PACED, "real", "netns:near > far", "netns:near", "10.213.7.2", "far"),
    "an emulated path": (
        EMULATED / "paced" / "cca=reno:1@2M,bbr:1@2M" / "receiver" / "001",
        "emulated",
        "h1 > receiver",
        "h1",
        "receiver",
        "receiver",
    ),
    "a path of pScheduler's": (
        PSCHEDULER / "mix" / "all" / "psb" / "001",
        "pscheduler",
        "psa > psb",
        "psa",
        "10.88.0.2",
        "psb",
    ),
}


@pytest.mark.parametrize(
    ("folder", "kind", "pair", "source", "address", "domain"), PATHS.values(), ids=PATHS.keys()
)
def test_each_document_says_from_where_to_where(
    folder: Path, kind: str, pair: str, source: str, address: str, domain: str
) -> None:
    for name in ("runs", "groups", "flows", "intervals"):
        for document in of_run(folder, name):
            assert at(document, "ccmix.path.kind") == kind
            assert at(document, "ccmix.path.pair") == pair
            assert at(document, "source.address") == source
            assert (at(document, "destination.address"), at(document, "destination.domain")) == (
                address,
                domain,
            )


def test_addresses_of_sockets_between_hosts_are_the_wires() -> None:
    sampled = columns(
        of_run(PACED, "sockets"), "source.ip", "destination.ip", "destination.port", "host.name"
    )
    assert set(sampled) == {("10.213.7.1", "10.213.7.2", 5201, "netns:near")}


def test_a_path_and_its_emulated_twin_have_the_same_condition() -> None:
    emulated = PATHS["an emulated path"][0]
    (real_run,), (emulated_run,) = of_run(PACED, "runs"), of_run(emulated, "runs")
    assert at(real_run, "ccmix.condition.key") == at(emulated_run, "ccmix.condition.key")
    assert at(real_run, "ccmix.path.machine") == "hosts"
    assert at(emulated_run, "ccmix.path.machine") == "lab"
    assert at(emulated_run, "ccmix.path.base_rtt_s") == 0.002
    ping_s = min(json.loads((PACED / "run.json").read_text())["ping_rtt_s"]["src"])
    assert at(real_run, "ccmix.path.base_rtt_s") == ping_s < 0.002


def test_runs_of_pscheduler_are_what_the_real_servers_said() -> None:
    folder = PATHS["a path of pScheduler's"][0]
    (run,) = of_run(folder, "runs")
    assert (at(run, "ccmix.generator"), at(run, "ccmix.validity.status")) == (
        "pscheduler",
        "unknown",
    )
    goodput_bps = {
        at(group, "ccmix.cca"): at(group, "ccmix.goodput_bps") for group in of_run(folder, "groups")
    }
    assert goodput_bps == pytest.approx(
        {"reno": 369e6, "bbr": 109e6}, rel=0.01
    )  # tests/data/pscheduler/README.md
    assert at(run, "ccmix.goodput_bps") == pytest.approx(sum(goodput_bps.values()))
    assert len(of_run(folder, "flows")) == 3
