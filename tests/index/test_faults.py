"""Tests that the index equals the archive in the end, whatever the server or the network does, and
that documents that are never accepted are kept aside.
"""

import asyncio
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ccmix.archive import Campaign, RunFolder
from support.commands import small_disk, wait_for
from support.elasticsearch_node import Node
from support.index import Index, of_archive, of_index
from support.proxy import CUT, Fault, Forward, Reply, Request, proxy, rejection, said
from support.published_archives import DEMO

KILLS, KILLS_IN_CI = 20, 1
OF_CAMPAIGNS = ("ccmix-campaigns", "ccmix-conditions")


def _first(times: int, reply: Reply | None) -> Fault:
    """Replaces the answer to the first requests, which the server still gets."""

    async def fault(request: Request, forward: Forward) -> Reply | None:
        answer = await forward()
        return reply if request.number < times else answer

    return fault


def _instead(times: int, reply: Reply | None) -> Fault:
    """Replaces the server for the first requests."""

    async def fault(request: Request, forward: Forward) -> Reply | None:
        return reply if request.number < times else await forward()

    return fault


async def _half_an_answer(request: Request, forward: Forward) -> Reply | None:
    answer = await forward()
    return (
        Reply(answer.status, answer.body, cut_at=len(answer.body) // 2)
        if request.number < 3
        else answer
    )


async def _half_a_body(request: Request, forward: Forward) -> Reply | None:
    """The server gets and answers the first half of the documents, but the answer is lost."""
    if request.number >= 3:
        return await forward()
    lines = request.body.splitlines(keepends=True)
    half = b"".join(lines[: len(lines) // 4 * 2])
    object.__setattr__(request, "body", half)
    await forward()
    return CUT


async def _slow(request: Request, forward: Forward) -> Reply | None:
    await asyncio.sleep(random.uniform(0, 0.5))
    return await forward()


async def _too_busy_for_some(request: Request, forward: Forward) -> Reply | None:
    """Of the first bulks the server takes every third document, and rejects the others for now."""
    if request.number >= 4:
        return await forward()
    lines = request.body.splitlines(keepends=True)
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    object.__setattr__(request, "body", b"".join(line for pair in pairs[::3] for line in pair))
    await forward()
    busy = rejection(429, "es_rejected_execution_exception")
    return said(
        [busy if number % 3 else {"index": {"status": 201}} for number in range(len(pairs))]
    )


FAULTS: dict[str, Fault] = {
    "connection cut before the request": _instead(3, CUT),
    "connection cut after the request": _first(3, CUT),
    "half an answer": _half_an_answer,
    "half a body": _half_a_body,
    "too busy": _instead(
        3, Reply(429, b'{"error":{"type":"es_rejected_execution_exception","reason":"full"}}')
    ),
    "gone for a while": _instead(4, Reply(503, b"no server")),
    "another answer": _instead(2, Reply(200, b"<html>hello</html>")),
    "too busy for some": _too_busy_for_some,
    "slow": _slow,
}


# A fault for each way in which the index can be wrong: documents twice, in part, or not at all
QUICKLY = ("connection cut after the request", "half a body", "too busy for some")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=name, marks=() if name in QUICKLY else pytest.mark.long)
        for name, fault in FAULTS.items()
    ],
)
def test_same_index_in_the_end(index: Index, server: Node, small: Path, fault: Fault) -> None:
    with proxy(server.port, fault) as between:
        made = index(small, url=between.url)
    assert made.returncode == 0, made.stderr
    assert of_index(server) == of_archive(small)
    assert index.spooled() == []
    assert index.rejected() == []


def test_body_too_large_is_sent_in_parts(index: Index, server: Node, small: Path) -> None:
    async def most(request: Request, forward: Forward) -> Reply | None:
        if len(request.body) > 100_000:
            return Reply(413, b'{"error":{"type":"x","reason":"too large"}}')
        return await forward()

    with proxy(server.port, most) as between:
        made = index(small, url=between.url)
    assert made.returncode == 0, made.stderr
    assert of_index(server) == of_archive(small)


@pytest.mark.deep
def test_a_document_too_large_is_kept_aside_with_what_to_do(
    index: Index, server: Node, small: Path
) -> None:
    async def none(request: Request, forward: Forward) -> Reply | None:
        if b"runs_planned" in request.body:
            return Reply(413, b'{"error":{"type":"x","reason":"too large"}}')
        return await forward()

    with proxy(server.port, none) as between:
        made = index(small, url=between.url)
    assert made.returncode == 1
    [kept] = index.rejected()
    assert "http.max_content_length" in kept["reason"]
    assert "client_max_body_size" in made.stderr


def test_rejected_documents_are_kept_aside_with_the_reason(
    index: Index, server: Node, small: Path
) -> None:
    """The server has another mapping of a field: only documents with it are left out, and reported."""
    assert index(small).returncode == 0
    _break_field(server, "ccmix-flows", "ccmix.flow.stream")
    made = index(small)
    assert made.returncode == 1
    rejected = index.rejected()
    expected = of_archive(small)
    flows = {place: value for place, value in expected.items() if place[0] == "ccmix-flows"}
    assert {(one["action"]["_index"], one["action"]["_id"]) for one in rejected} == set(flows)
    assert all(
        "strict" in one["reason"] and one["document"]["event"]["dataset"] == "ccmix.flows"
        for one in rejected
    )
    assert f"{len(flows)} documents were not accepted" in made.stderr
    assert of_index(server) == {
        place: value for place, value in expected.items() if place not in flows
    }
    # indexing again changes nothing, and keeps the documents aside only once; with a repaired
    # server none is kept aside
    assert index(small).returncode == 1
    assert len(index.rejected()) == len(flows)
    server("DELETE", "/ccmix-flows")
    assert index("--setup").returncode == 0
    assert index(small).returncode == 0
    assert index.rejected() == []
    assert of_index(server) == expected


def _break_field(server: Node, index: str, field: str) -> None:
    """Makes the index again, which is strict, without this field."""
    mapping = server("GET", f"/{index}/_mapping")[index]["mappings"]
    server("DELETE", f"/{index}")
    place = mapping["properties"]
    *objects, leaf = field.split(".")
    for name in objects:
        place = place[name]["properties"]
    del place[leaf]
    server("PUT", f"/{index}")
    server("DELETE", f"/{index}")
    template = server("GET", f"/_index_template/{index}")["index_templates"][0]["index_template"]
    template["template"]["mappings"] = mapping
    server("PUT", f"/_index_template/{index}", template)
    server("PUT", f"/{index}")


def test_index_without_room_is_waited_for(index: Index, server: Node, small: Path) -> None:
    """Sets the block that Elasticsearch sets on indices when its disk is nearly full."""
    server("PUT", "/ccmix-flows/_settings", {"index.blocks.read_only_allow_delete": True})
    running = index.start(small)
    assert running.stderr
    assert "waiting" in running.stderr.readline()
    assert not server("GET", "/ccmix-flows/_count")["count"]
    server("PUT", "/ccmix-flows/_settings", {"index.blocks.read_only_allow_delete": None})
    _, told = running.communicate(timeout=200)
    assert running.returncode == 0, told
    assert of_index(server) == of_archive(small)


async def _flood_stage(request: Request, forward: Forward) -> Reply | None:
    """A server at the flood stage of its disk answers 200, with a refusal for each document."""
    lines = request.body.splitlines()
    return said([rejection(429, "cluster_block_exception") for _ in lines[::2]])


def test_patience_ends_with_a_server_that_answers_and_takes_nothing(
    index: Index, server: Node, small: Path
) -> None:
    with proxy(server.port, _flood_stage) as between:
        made = index(small, "--patience", "2", url=between.url)
    assert made.returncode == 1
    assert "nothing was accepted for 2 s" in made.stderr
    assert index(small).returncode == 0
    assert of_index(server) == of_archive(small)


def test_ctrl_c_ends_the_wait_for_a_server_that_takes_nothing(
    index: Index, server: Node, small: Path
) -> None:
    with proxy(server.port, _flood_stage) as between:
        running = index.start(small, "--patience", "10000", url=between.url)
        assert running.stderr
        assert "waiting" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert index.spooled() or index(small).returncode == 0


def test_server_that_is_down_loses_nothing_and_patience_ends(
    index: Index, server: Node, small: Path, tmp_path: Path
) -> None:
    """All documents are then in the spool, and the next process sends them, whatever else it
    indexes.
    """
    with proxy(server.port, _instead(10**6, Reply(503, b"down"))) as between:
        made = index(small, "--patience", "2", "--spool", tmp_path / "spool", url=between.url)
    assert made.returncode == 1
    assert "nothing was accepted for 2 s" in made.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(small / "campaign.json", empty)
    assert _spooled(tmp_path)
    assert index(empty, "--spool", tmp_path / "spool").returncode == 0
    runs = {
        place: value for place, value in of_archive(small).items() if place[0] not in OF_CAMPAIGNS
    }
    assert {
        place: value for place, value in of_index(server).items() if place[0] not in OF_CAMPAIGNS
    } == runs
    assert _spooled(tmp_path) == []


def _spooled(folder: Path) -> list[Path]:
    return [
        file
        for file in (folder / "spool").rglob("*")
        if file.suffix in (".bulk", ".end", ".partial")
    ]


def test_killed_client_goes_on(index: Index, server: Node, small: Path) -> None:
    """SIGKILL at several moments, and then once to the end."""
    for seconds in (0.5, 1.0, 1.5, 2.0):
        running = index.start(small)
        try:
            running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.communicate()
    assert index(small).returncode == 0
    assert of_index(server) == of_archive(small)
    assert index.spooled() == []


def _hundreds(small: Path, outdir: Path, count: int) -> Path:
    """Makes a campaign of copies of a run, without series."""
    original = Campaign.load(small)
    finished, _ = next(original.finished())
    runs = [replace(finished.run, iteration=number) for number in range(1, count + 1)]
    Campaign.create(outdir, replace(original.plan, runs=tuple(runs), file_order=()))
    for run in runs:
        folder = RunFolder.of(outdir, run)
        folder.begin()
        folder.finish(replace(finished, run=run))
    return outdir


def test_hundreds_of_runs_are_all_there_after_a_kill(
    index: Index, server: Node, small: Path, tmp_path: Path
) -> None:
    """SIGKILL when some of them can be searched, and then once to the end."""
    count = 200
    outdir = _hundreds(small, tmp_path / "hundreds", count)

    def searched() -> int:
        server("POST", "/ccmix-runs/_refresh")
        return int(server("GET", "/ccmix-runs/_count")["count"])

    running = index.start(outdir)
    wait_for(lambda: searched() > 0, 120, "the first runs")
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert 0 < searched() < count
    assert index(outdir).returncode == 0
    assert of_index(server) == of_archive(outdir)
    assert index.spooled() == []


def _kill_node_in_bulks(index: Index, server: Node, outdir: Path, times: int) -> None:
    """The node is killed when it has received the first half of a bulk request, and again when it
    has sent an answer that is lost.
    """
    chosen = random.Random(8)
    longest_s = 240 + 150 * times
    killed = 0
    # the client has several bulk requests under way: while one kills the node, others find no node
    dead = False

    async def fault(request: Request, forward: Forward) -> Reply | None:
        nonlocal killed, dead
        if not dead and killed < times and chosen.random() < 0.5:
            dead = True
            killed += 1
            sent = asyncio.ensure_future(forward())
            await asyncio.sleep(chosen.uniform(0.0, 0.2))
            server.kill()
            await asyncio.gather(sent, return_exceptions=True)
            await asyncio.to_thread(server.start)
            dead = False
            return CUT
        return await forward()

    with proxy(server.port, fault) as between:
        while killed < times:
            running = index.start(
                outdir, "--patience", longest_s, url=between.url
            )  # a slow node may accept nothing for a long time
            said = running.communicate(timeout=longest_s)
            assert running.returncode == 0, said
    assert killed == times
    assert of_index(server) == of_archive(outdir)


@pytest.mark.deep
def test_node_killed_in_the_middle_of_bulks(index: Index, server: Node, small: Path) -> None:
    _kill_node_in_bulks(index, server, small, KILLS_IN_CI)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_node_killed_in_the_middle_of_many_bulks(index: Index, server: Node) -> None:
    _kill_node_in_bulks(index, server, DEMO, KILLS)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB: less than a bulk."""
    with small_disk(tmp_path / "tiny", "256k") as folder:
        yield folder


def test_full_disk_of_the_spool_costs_nothing(
    index: Index, server: Node, small: Path, tiny_disk: Path
) -> None:
    made = index(small, "--spool", tiny_disk)
    assert made.returncode == 0, made.stderr
    assert "No space left" in made.stderr
    assert of_index(server) == of_archive(small)
    assert [file for file in tiny_disk.rglob("*") if file.suffix in (".bulk", ".partial")] == []


@pytest.mark.long
def test_memory_is_bounded(index: Index, server: Node, small: Path, tmp_path: Path) -> None:
    """A run with two hundred times as many samples needs little more memory."""
    large = tmp_path / "large"
    shutil.copytree(small, large)
    rows = 0
    for file in large.glob("*/delay=5ms,loss=0%/receiver/001/sockets.parquet"):
        table = pl.read_parquet(file)
        many = pl.concat(
            [table.with_columns(pl.col("time_s") + 100 * number) for number in range(200)]
        )
        many.write_parquet(file)
        rows += many.height
    usages = [_peak_bytes(index, outdir) for outdir in (small, large)]
    assert usages[1] < usages[0] + 400 * 2**20
    server("POST", "/ccmix-*/_refresh")
    assert server("GET", "/ccmix-sockets-*/_count")["count"] == rows


def _peak_bytes(index: Index, outdir: Path) -> int:
    running = index.start(outdir)
    peak = 0
    while running.poll() is None:
        status = Path(f"/proc/{running.pid}/status").read_text()
        peak = max(
            [
                peak,
                *(
                    int(line.split()[1]) * 1024
                    for line in status.splitlines()
                    if line.startswith("VmHWM")
                ),
            ]
        )
        time.sleep(0.05)
    assert running.returncode == 0
    return peak


def test_two_clients_at_once(index: Index, server: Node, small: Path) -> None:
    """Each process has its own spool."""
    running = [index.start(small) for _ in range(2)]
    for one in running:
        one.communicate(timeout=250)
        assert one.returncode == 0
    assert of_index(server) == of_archive(small)


def test_spool_left_by_a_dead_client_is_found(
    index: Index, small: Path, server: Node, tmp_path: Path
) -> None:
    with proxy(server.port, _instead(10**6, CUT)) as between:
        running = index.start(small, "--spool", tmp_path / "spool", url=between.url)
        wait_for(lambda: len(_spooled(tmp_path)) > 2, 60, "documents in the spool")
        running.kill()
        running.communicate()
    assert index(small, "--spool", tmp_path / "spool").returncode == 0
    assert _spooled(tmp_path) == []
    assert of_index(server) == of_archive(small)
