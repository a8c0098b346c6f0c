"""Tests the Logstash pipeline's logic on the message that a real pScheduler sent. Logstash itself is
not available here.
"""

import json
import re
from typing import Any

import pytest
import yaml

from ccmix.analysis.iperf3_tables import read_flows
from ccmix.generators.results import read_pscheduler_run
from ccmix.index.fields import FIELDS, KINDS
from ccmix.model import Group
from support.ccmix_indices import bulk, load_templates
from support.commands import REPOSITORY
from support.elasticsearch_node import Node
from support.logstash_filter import FILTER, Message, as_bulk, filtered, of_mix, recorded
from support.model import iperf3_traffic

PIPELINE = REPOSITORY / "elk" / "logstash" / "pipeline" / "ccmix.conf"
COMPOSE = yaml.safe_load((REPOSITORY / "elk" / "compose.yaml").read_text())

Events = list[dict[str, Any]]


def of(events: Events, kind: str) -> Events:
    return [event for event in events if event.get("event.dataset") == f"ccmix.{kind}"]


def iperf3_client(message: Message) -> dict[str, Any]:
    """Returns the report of the sending iperf3, which is in the message."""
    text = message["run"]["result-full"][0]["diags"]
    said: dict[str, Any] = json.loads(text[text.index("\n{") : text.rindex("}") + 1])
    return said


@pytest.fixture(scope="module")
def events() -> Events:
    return filtered([recorded()])


@pytest.fixture(scope="module")
def mix() -> Events:
    return filtered([of_mix()])


def test_a_run_makes_documents_of_all_its_parts(events: Events) -> None:
    counts = {kind: len(of(events, kind)) for kind in KINDS if of(events, kind)}
    assert counts == {"runs": 1, "groups": 1, "flows": 2, "intervals": 6}


def test_goodput_is_what_the_receiver_got_by_iperf3s_own_word(events: Events) -> None:
    got = [
        stream["receiver"]["bits_per_second"]
        for stream in iperf3_client(recorded())["end"]["streams"]
    ]
    assert [event["ccmix.goodput_bps"] for event in of(events, "flows")] == got
    assert of(events, "runs")[0]["ccmix.goodput_bps"] == pytest.approx(sum(got))
    assert of(events, "groups")[0]["ccmix.goodput_bps"] == pytest.approx(sum(got))


def test_units_are_those_of_the_table_of_fields(events: Events) -> None:
    flow = of(events, "flows")[0]
    sender = iperf3_client(recorded())["end"]["streams"][0]["sender"]
    assert flow["ccmix.rtt_median_s"] == pytest.approx(sender["mean_rtt"] / 1e6)
    assert flow["network.bytes"] == sender["bytes"]
    assert flow["ccmix.retransmits"] == sender["retransmits"]
    run = of(events, "runs")[0]
    assert (run["@timestamp"], run["event.duration"]) == (
        "2026-11-20T15:21:37.000Z",
        13_000_000_000,
    )
    assert run["ccmix.duration_s"] == 3.0


def test_flows_are_those_that_ccmix_itself_takes_from_the_run(events: Events) -> None:
    traffic = iperf3_traffic(
        groups=(Group("bbr"),), streams=2, duration_s=3.0, omit_s=0.0, interval_s=1.0
    )
    client = read_pscheduler_run(recorded()["run"]).client
    assert client
    ours = read_flows(traffic, client, "psa").to_dicts()
    fields = {
        "goodput_bps": "ccmix.goodput_bps",
        "throughput_bps": "ccmix.throughput_bps",
        "cca_used": "ccmix.cca",
        "group": "ccmix.group.name",
        "retransmits": "ccmix.retransmits",
        "bytes_sent": "network.bytes",
        "stream": "ccmix.flow.stream",
    }
    assert [
        {name: flow[field] for name, field in fields.items()} for flow in of(events, "flows")
    ] == [{name: flow[name] for name in fields} for flow in ours]


def test_intervals_follow_each_other(events: Events) -> None:
    ends = [
        event["ccmix.elapsed_s"]
        for event in of(events, "intervals")
        if event["ccmix.flow.id"].endswith(":0")
    ]
    assert ends == pytest.approx([1.007523, 2.005042, 3.073159], abs=0.002)
    assert of(events, "intervals")[0]["@timestamp"] == "2026-11-20T15:21:38.007Z"


def test_the_cca_of_each_stream_of_a_mix_is_kept(mix: Events) -> None:
    said = iperf3_client(of_mix())
    ccas = {one["socket"]: one["congestion"] for one in said["start"]["connected"]}
    streams = [
        (ccas[one["sender"]["socket"]], one["receiver"]["bits_per_second"])
        for one in said["end"]["streams"]
    ]
    assert [
        (event["ccmix.cca"], event["ccmix.goodput_bps"]) for event in of(mix, "flows")
    ] == streams
    assert {event["ccmix.cca"] for event in of(mix, "intervals")} == {"cubic", "bbr"}
    assert {event["ccmix.mix"] for event in mix} == {"cubic,bbr"}
    whole = sum(goodput_bps for _, goodput_bps in streams)
    for event in of(mix, "groups"):
        own = sum(goodput_bps for cca, goodput_bps in streams if cca == event["ccmix.cca"])
        assert event["ccmix.goodput_bps"] == pytest.approx(own)
        assert event["ccmix.goodput_share"] == pytest.approx(own / whole)


def test_a_reversed_test_goes_from_its_destination_to_its_source(mix: Events) -> None:
    assert {event["ccmix.path.pair"] for event in mix} == {"psa > psb"}
    backwards = filtered([of_mix("reverse")])
    assert {(event["source.address"], event["destination.address"]) for event in backwards} == {
        ("psb", "psa")
    }
    assert {event["host.name"] for event in of(backwards, "flows")} == {"psb"}


def test_the_names_of_streams_tell_their_cca_where_the_summary_was_dropped() -> None:
    message = of_mix()
    del message["result"]["summary"]["congestion"]
    message["run"]["result-full"] = None
    assert [event["ccmix.cca"] for event in of(filtered([message]), "flows")] == [
        "cubic",
        "bbr",
        "cubic",
        "bbr",
    ]


def test_the_sums_that_iperf3mix_adds_for_pschedulers_text_are_no_flows(mix: Events) -> None:
    message = of_mix()
    summary = message["result"]["summary"]
    summary["streams"] += [
        {key: group[key] for key in ("start", "end", "throughput-bits", "throughput-bytes")}
        | {"stream-id": f"SUM:{group['congestion']}:{group['group']}"}
        for group in summary["groups"]
    ]
    assert filtered([message]) == mix


def test_without_any_word_on_ccas_there_is_none() -> None:
    message = recorded()
    message["run"]["result-full"] = None
    message["test"]["spec"]["congestion"] = "cubic:4,bbr:2"
    flows = of(filtered([message]), "flows")
    assert all("ccmix.cca" not in flow for flow in flows)


def test_without_iperf3s_own_json_the_receivers_sum_is_shared_as_was_sent() -> None:
    message = recorded()
    message["run"]["result-full"] = None
    summary = message["result"]["summary"]["summary"]
    (run,) = of(filtered([message]), "runs")
    assert run["ccmix.goodput_bps"] == pytest.approx(summary["receiver-throughput-bits"])


def test_what_ccmix_wrote_into_its_task_is_found_again() -> None:
    message = recorded()
    message["reference"] = {
        "ccmix": {"id": "1", "entry": "mesh", "condition": {"cca": "bbr"}, "iteration": 3}
    }
    (run,) = of(filtered([message]), "runs")
    assert (run["ccmix.entry"], run["ccmix.condition.name"], run["ccmix.run.iteration"]) == (
        "mesh",
        "cca=bbr",
        3,
    )
    assert run["ccmix.condition.key"] == run["ccmix.condition.known_key"] == "mesh cca=bbr bbr 2"


def test_a_failed_run_is_kept_with_its_reason() -> None:
    message = recorded()
    message["result"] = {"succeeded": False, "error": "the server\nis busy", "diags": ""}
    (run,) = filtered([message])
    assert run["event.dataset"] == "ccmix.runs"
    assert (run["event.outcome"], run["event.reason"]) == ("failure", ["the server is busy"])


def test_a_test_of_udp_has_its_own_words() -> None:
    """Replaces a recorded message: a TCP run, changed to pScheduler's specification of UDP tests."""
    message = recorded()
    message["test"]["spec"] |= {"udp": True}
    message["test"]["spec"].pop("congestion", None)
    del message["run"]["result-full"]
    events = filtered([message])
    assert {event["network.transport"] for event in of(events, "runs") + of(events, "flows")} == {
        "udp"
    }
    assert {(event["ccmix.cca"], event["ccmix.group.name"]) for event in of(events, "flows")} == {
        ("-", "udp")
    }
    assert {event["ccmix.mix"] for event in events} == {"-"}


@pytest.mark.parametrize(
    "change", [{"test": {"type": "latency", "spec": {}}}, {"run": None}, {"id": None}]
)
def test_other_messages_are_put_aside(change: dict[str, Any]) -> None:
    (event,) = filtered([recorded() | change])
    assert event["tags"] == ["_ccmix_unusable"]
    assert event["@metadata"].keys() == {"reason"}


def test_every_field_is_in_the_table(events: Events, mix: Events) -> None:
    for event in events + mix:
        kind = event["event.dataset"].removeprefix("ccmix.")
        unknown = {name for name in event if name != "@metadata" and kind not in FIELDS[name].kinds}
        assert not unknown, (kind, unknown)


def test_a_real_elasticsearch_takes_all_once(
    elasticsearch: Node, events: Events, mix: Events
) -> None:
    try:
        load_templates(elasticsearch)
        for _ in range(2):
            bulk(elasticsearch, as_bulk(events))
            assert elasticsearch("GET", "/ccmix-*/_count")["count"] == len(events)
        bulk(elasticsearch, as_bulk(mix))
    finally:
        elasticsearch.clear()


def test_the_pipeline_fits_the_compose_file() -> None:
    pipeline, service = PIPELINE.read_text(), COMPOSE["services"]["logstash"]
    (port,) = re.findall(r"port => (\d+)", pipeline)
    assert service["ports"][0].endswith(f":{port}")
    (path,) = re.findall(r'path => "([^"]+)"', pipeline)
    mounted = dict(mount.split(":")[:2] for mount in service["volumes"])
    assert path == f"{mounted['./logstash/ruby']}/{FILTER.name}"
    assert set(re.findall(r"\$\{(\w+)\}", pipeline)) <= {*service["environment"], "CCMIX_PASSWORD"}
    assert pipeline.count("{") == pipeline.count("}")
