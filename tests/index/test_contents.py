"""Tests that the index has exactly the content of the archive: every document, with its values,
once.
"""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.archive import Campaign
from ccmix.archive.packed import opened
from ccmix.index.bulk import finished, run_lines
from ccmix.index.fields import KINDS, fields_of
from ccmix.index.server import ElasticsearchServer
from ccmix.index.target import Target
from ccmix.model import GuestRoot
from ccmix.model.results import Finding, Verdict
from support.elasticsearch_node import Node
from support.filled_index import RECORDED
from support.index import Index, documents, of_archive, of_index
from support.published_archives import DEMO, DEMO_60_FILE, EMULATED_FILE

SMALL_ONE = RECORDED[0]


def test_every_row_of_the_archive_is_there_with_its_values(index: Index, server: Node) -> None:
    made = index(DEMO)
    assert made.returncode == 0, made.stderr
    expected = of_archive(DEMO)
    assert of_index(server) == expected
    rows = sum(
        pl.read_parquet(file).height
        for name in ("sockets", "intervals", "queues")
        for file in DEMO.rglob(f"{name}.parquet")
    )
    summaries = [json.loads(file.read_text()) for file in DEMO.rglob("run.json")]
    others = sum(
        2 + len(one["metrics"]["groups"]) + len(one["metrics"]["flows"]) for one in summaries
    )
    conditions = sum(len(one["metrics"]["groups"]) for one in summaries)  # of one iteration each
    assert len(expected) == rows + others + 1 + conditions
    assert index.spooled() == []


def test_values_are_those_of_run_json_and_of_the_series(index: Index, server: Node) -> None:
    assert index(DEMO, "--only", "mixed").returncode == 0
    server("POST", "/ccmix-*/_refresh")
    folder = DEMO / "mixed/delay=44ms,loss=0.1%/receiver/001"
    summary = json.loads((folder / "run.json").read_text())
    chosen = {
        "bool": {
            "filter": [
                {"term": {"ccmix.condition.name": "delay=44ms,loss=0.1%"}},
                {"term": {"ccmix.entry": "mixed"}},
            ]
        }
    }
    run = server("POST", "/ccmix-runs/_search", {"query": chosen})["hits"]["hits"][0]["_source"][
        "ccmix"
    ]
    assert run["goodput_bps"] == summary["metrics"]["goodput_bps"]
    assert (run["path"]["loss"], run["path"]["base_rtt_s"], run["path"]["buffer_bdp"]) == (
        0.001,
        0.088,
        1.0,
    )
    sockets = pl.read_parquet(folder / "sockets.parquet")
    sums = {
        "sent": {"sum": {"field": "ccmix.socket.bytes_sent"}},
        "rtt": {"max": {"field": "ccmix.rtt_s"}},
    }
    found = server("POST", "/ccmix-sockets-*/_search?size=0", {"query": chosen, "aggs": sums})[
        "aggregations"
    ]
    sent = sockets.filter(pl.col("end") == "sender")
    assert found["sent"]["value"] == sent["bytes_sent"].sum()
    assert found["rtt"]["value"] == sockets["rtt_s"].max()
    intervals = pl.read_parquet(folder / "intervals.parquet")
    by_cca = {
        "of": {
            "terms": {"field": "ccmix.cca"},
            "aggs": {"sum": {"sum": {"field": "ccmix.goodput_bps"}}},
        }
    }
    buckets = server(
        "POST", "/ccmix-intervals-*/_search?size=0", {"query": chosen, "aggs": by_cca}
    )["aggregations"]["of"]["buckets"]
    for bucket in buckets:
        own = intervals.filter(pl.col("group") == bucket["key"])
        assert bucket["doc_count"] == own.height
        assert bucket["sum"]["value"] == pytest.approx(own["goodput_bps"].sum(), rel=1e-12)
    assert {bucket["key"] for bucket in buckets} == {"cubic", "bbr"}


def test_rates_of_samples_add_up_to_the_counters() -> None:
    """Goodput by acknowledgements times the time between samples gives the acknowledged bytes."""
    campaign = Campaign.load(DEMO)
    result = next(result for result in finished(campaign) if result.run.entry == "mixed")
    samples = [
        sample
        for kind, _, sample in documents(run_lines("x", campaign, result))
        if kind == "sockets"
    ]
    of_flow: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        if sample["ccmix"]["end"] == "sender" and not sample["ccmix"]["final"]:
            of_flow.setdefault(sample["ccmix"]["flow"]["id"], []).append(sample["ccmix"])
    assert len(of_flow) == 8
    for flow in of_flow.values():
        flow.sort(key=lambda one: one["elapsed_s"])
        counted = flow[-1]["socket"]["bytes_acked"] - flow[0]["socket"]["bytes_acked"]
        pairs = itertools.pairwise(flow)
        summed = sum(
            one["goodput_bps"] / 8 * (one["elapsed_s"] - last["elapsed_s"]) for last, one in pairs
        )
        assert summed == pytest.approx(counted, rel=1e-9)
    states = {
        one["bbr"]["state"] for flow in of_flow.values() for one in flow if one["cca"] == "bbr"
    }
    assert "probe_bw" in states
    assert states <= {"startup", "drain", "probe_bw", "probe_rtt"}


def test_no_document_has_a_field_that_the_table_does_not_give_its_kind() -> None:
    """The server also rejects such a document; this checks each document of all kinds."""
    campaign = Campaign.load(DEMO)
    for result in finished(campaign):
        for kind, _, document in documents(run_lines("x", campaign, result)):
            known = {field.name for field in fields_of(kind)}
            assert set(_flat(document, known)) <= known


@pytest.mark.parametrize(("sha256", "repeatable"), [("abc", True), ("abc", False), (None, False)])
def test_a_run_of_the_lab_names_its_root(sha256: str | None, repeatable: bool) -> None:
    campaign = Campaign.load(DEMO)
    result = next(iter(finished(campaign)))
    facts = replace(result.finished.facts, guest_root=GuestRoot(sha256, repeatable))
    result = replace(result, finished=replace(result.finished, facts=facts))
    [run] = [
        document
        for kind, _, document in documents(run_lines("x", campaign, result))
        if kind == "runs"
    ]
    path = run["ccmix"]["path"]
    assert (path.get("userland_sha256"), path["repeatable_elsewhere"]) == (sha256, repeatable)
    assert path["host_root"] is False


def test_a_run_that_tables_do_not_count_says_what_its_goodput_means() -> None:
    campaign = Campaign.load(DEMO)
    result = next(iter(finished(campaign)))
    finding = Finding("cpu", "the processor: core 0 was idle 0% of the time", accepted=False)
    limited = replace(
        result, finished=replace(result.finished, verdict=Verdict("limited", (finding,)))
    )
    for one, status, meaning in ((result, "valid", None), (limited, "limited", "lower bound")):
        [run] = [
            document
            for kind, _, document in documents(run_lines("x", campaign, one))
            if kind == "runs"
        ]
        assert (run["ccmix"]["validity"]["status"], run["ccmix"]["validity"].get("meaning")) == (
            status,
            meaning,
        )
        assert run["ccmix"]["goodput_bps"] == result.finished.metrics.goodput_bps


def test_same_rows_whatever_is_in_memory_at_once(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = of_archive(small)
    monkeypatch.setattr("ccmix.index.samples.ROWS_AT_ONCE", 37)
    monkeypatch.setattr("ccmix.index.bulk.DOCUMENTS_AT_ONCE", 10)
    assert of_archive(small) == whole


def test_twice_is_once(index: Index, server: Node, small: Path) -> None:
    assert index(small).returncode == 0
    once = of_index(server)
    assert index(small).returncode == 0
    assert of_index(server) == once


def test_a_new_analysis_replaces_the_old_one(
    index: Index, server: Node, small: Path, tmp_path: Path
) -> None:
    """Also if it found less: fields that are gone are removed."""
    changed = tmp_path / "changed"
    shutil.copytree(small, changed)
    assert index(changed).returncode == 0
    before = of_index(server)
    folder = changed / "mixed/delay=5ms,loss=0%/receiver/001"
    summary = json.loads((folder / "run.json").read_text())
    summary["verdict"] = {
        "status": "limited",
        "findings": [{"kind": "cpu", "detail": "a core", "accepted": False}],
    }
    summary["metrics"]["flows"].pop()
    (folder / "run.json").write_text(json.dumps(summary))
    sockets = pl.read_parquet(folder / "sockets.parquet")
    sockets.head(100).write_parquet(folder / "sockets.parquet")
    (folder / "queues.parquet").unlink()
    assert index(changed).returncode == 0
    after = of_index(server)
    assert after == of_archive(changed)
    assert len(before) - len(after) == 1 + sockets.height - 100 + _rows(
        small / folder.relative_to(changed) / "queues.parquet"
    )


@pytest.mark.deep
def test_two_analyses_in_one_go_leave_the_later_one(
    index: Index, server: Node, tmp_path: Path
) -> None:
    """This also holds if the later one found more: the end of the first must not remove that."""
    short = tmp_path / "short"
    shutil.copytree(SMALL_ONE, short)
    for file in short.glob("*/*/*/*/sockets.parquet"):
        pl.read_parquet(file).head(10).write_parquet(file)
    assert index(short, SMALL_ONE).returncode == 0
    assert of_index(server) == of_archive(SMALL_ONE)
    assert index(SMALL_ONE, short).returncode == 0
    assert of_index(server) == of_archive(short)


def test_a_copy_of_an_archive_is_the_same_campaign(tmp_path: Path) -> None:
    copy = tmp_path / DEMO.name  # the campaign's folder, because `ccmix demo` has no INI file
    shutil.copytree(DEMO, copy)
    assert of_archive(copy) == of_archive(DEMO)


@pytest.mark.long  # 121 runs
def test_packed_archives_fill_a_fresh_server(index: Index, server: Node) -> None:
    server.clear()
    made = index("--setup", DEMO_60_FILE, EMULATED_FILE)
    assert made.returncode == 0, made.stderr
    with opened([DEMO_60_FILE, EMULATED_FILE]) as archives:
        assert of_index(server) == of_archive(*archives.folders)


def test_a_server_that_was_not_set_up_gets_nothing(server: Node, tmp_path: Path) -> None:
    """Else it would guess the types of fields."""
    made = Index(server, tmp_path)(SMALL_ONE)
    assert made.returncode == 1
    assert "--setup" in made.stderr
    assert server("GET", "/_cat/indices/ccmix-*?format=json") == []


def test_set_up_by_another_version_is_told_and_mended(index: Index, server: Node) -> None:
    server("PUT", "/ccmix-runs/_mapping", {"_meta": {"ccmix": "of another version"}})
    refused = index(SMALL_ONE)
    assert refused.returncode == 1
    assert "ccmix-runs is not set up for this version" in refused.stderr
    assert index("--setup").returncode == 0
    assert index(SMALL_ONE).returncode == 0


def test_every_pattern_of_the_dashboards_matches_an_index_after_the_set_up(
    index: Index, server: Node
) -> None:
    """Kibana reports an error for a pattern without an index, such as captures if no run has any."""
    for kind in KINDS.values():
        there = server("GET", f"/{kind.index_pattern}/_count")
        assert (there["_shards"]["total"], there["count"]) == (1, 0), kind.name
    assert index("--setup").returncode == 0


def test_set_up_over_foreign_indices_and_templates_says_what_to_do(
    server: Node, tmp_path: Path
) -> None:
    foreign = Index(server, tmp_path)
    server(
        "PUT", "/_index_template/ccmix-of-others", {"index_patterns": ["ccmix-r*"], "priority": 200}
    )
    refused = foreign("--setup")
    assert refused.returncode == 1
    assert "ccmix-of-others" in refused.stderr
    assert "remove or rename" in refused.stderr
    server("DELETE", "/_index_template/ccmix-of-others")
    server("PUT", "/ccmix-runs", {"mappings": {"properties": {"host": {"type": "keyword"}}}})
    refused = foreign("--setup")
    assert refused.returncode == 1
    assert "the index ccmix-runs is not ccmix's" in refused.stderr
    assert f"curl -X DELETE {server.url}/ccmix-runs" in refused.stderr


def _rows(file: Path) -> int:
    return pl.read_parquet(file).height


def _flat(document: dict[str, object], known: set[str], prefix: str = "") -> list[str]:
    """Returns names with dots; the content of a field that takes any object does not count as
    fields.
    """
    names = []
    for name, value in document.items():
        whole = f"{prefix}{name}"
        if isinstance(value, dict) and whole not in known:
            names += _flat(value, known, f"{whole}.")
        else:
            names.append(whole)
    return names


def test_the_times_of_all_indexed_runs(index: Index, small: Path) -> None:
    server = ElasticsearchServer(Target(index.node.url))
    assert server.times_s() is None
    assert index(small).returncode == 0
    first_s, last_s = server.times_s() or (0.0, 0.0)
    server.close()
    assert 1.5e9 < first_s <= last_s < 2e9
