"""`index = URL` in an entry: runs are sent as they finish; no server can fail or stop a campaign."""

import socket
from pathlib import Path

import pytest

from ccmix.index import beside
from cluster_support import executor
from dask_cluster import dask_cluster
from elasticsearch_node import Node
from index_support import Index, of_archive, of_index
from ports import free_port
from proxy import Forward, Reply, Request, proxy
from published_archives import DEMO
from support import SMALL, Ccmix


def _ini(folder: Path, url: str) -> Path:
    file = folder / "indexed.ini"
    file.write_text(f"{SMALL}index = {url}\n")
    return file


@pytest.mark.lab
def test_runs_are_sent_as_they_finish(index: Index, server: Node, ccmix: Ccmix, tmp_path: Path) -> None:
    """The first ones before the last one ends: here a run takes longer than to send the one before."""
    out = tmp_path / "out"
    seen_before_the_end: list[bool] = []

    async def look(request: Request, forward: Forward) -> Reply | None:
        if b'"_index":"ccmix-runs"' in request.body:
            seen_before_the_end.append(len(list(out.rglob("run.json"))) < 6)
        return await forward()

    with proxy(server.port, look) as between:
        ini = _ini(tmp_path, between.url)
        ini.write_text(ini.read_text().replace("iterations = 2", "iterations = 6"))
        made = ccmix("run", ini, "--lab", "-j", "1", "-o", out)
    assert made.returncode == 0, made.stderr
    assert "has 6 runs" in made.stderr
    assert seen_before_the_end[0]
    assert of_index(server) == of_archive(out)


@pytest.mark.lab
@pytest.mark.deep
def test_runs_of_a_cluster_are_sent_as_they_finish(index: Index, server: Node, ccmix: Ccmix, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with dask_cluster(tmp_path / "cluster") as cluster:
        cluster.start_worker()
        made = ccmix("run", _ini(tmp_path, server.url), "--lab", "-o", out, *executor(cluster))
    assert made.returncode == 0, made.stderr
    assert "has 2 runs" in made.stderr
    assert of_index(server) == of_archive(out)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCMIX_INDEX_PATIENCE", "1")


@pytest.mark.lab
@pytest.mark.usefixtures("impatient")
def test_no_server_fails_no_campaign(ccmix: Ccmix, tmp_path: Path, server: Node, index: Index) -> None:
    """What was not sent is told with the command that sends it."""
    url = f"http://127.0.0.1:{free_port()}"
    ini = _ini(tmp_path, url)
    out = tmp_path / "out"
    made = ccmix("run", ini, "--lab", "-o", out)
    assert made.returncode == 0, made.stderr
    assert "2 runs valid, 0 not valid, 0 failed" in made.stderr
    assert f"ccmix index {out} --url {url}" in made.stderr
    assert index(out).returncode == 0
    assert of_index(server) == of_archive(out)


def test_a_server_that_never_answers_is_not_waited_for_without_a_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server accepts connections, and is silent: longer than the campaign waits."""
    monkeypatch.setenv("CCMIX_STATE", str(tmp_path))
    monkeypatch.setattr(beside, "MOST_WAIT_S", 1.0)
    reports: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with beside.sending(DEMO, {url: []}, reports.append):
            pass
    assert f"'ccmix index {DEMO} --url {url}' sends it" in reports[-1]
