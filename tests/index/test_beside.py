"""Tests `index = URL` in an entry: runs are sent as they finish, and no server can fail or stop a
campaign.
"""

import signal
import socket
from pathlib import Path

import pytest

from ccmix.index import target
from support.cluster import executor
from support.commands import SMALL, Ccmix, wait_for
from support.dask_cluster import dask_cluster
from support.elasticsearch_node import Node
from support.index import Index, of_archive, of_index
from support.ports import free_port
from support.proxy import Forward, Reply, Request, proxy
from support.published_archives import DEMO

LIMIT_S = 240  # the sender has the lowest priority


def _ini(folder: Path, url: str) -> Path:
    file = folder / "indexed.ini"
    file.write_text(f"{SMALL}index = {url}\n")
    return file


@pytest.mark.lab
@pytest.mark.timeout(900)
def test_runs_are_sent_as_they_finish(
    index: Index, server: Node, ccmix: Ccmix, tmp_path: Path
) -> None:
    """The campaign is stopped after its first run until the index has that run."""
    out = tmp_path / "out"
    sent: list[bytes] = []

    async def look(request: Request, forward: Forward) -> Reply | None:
        if b'"_index":"ccmix-runs"' in request.body:
            sent.append(request.body)
        return await forward()

    with proxy(server.port, look) as between:
        ini = _ini(tmp_path, between.url)
        ini.write_text(ini.read_text().replace("iterations = 2", "iterations = 6"))
        campaign = ccmix.start("run", ini, "--lab", "-j", "1", "-o", out)
        wait_for(lambda: any(out.rglob("run.json")), LIMIT_S, "a run")
        campaign.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: bool(sent), LIMIT_S, "a run in the index")
            assert len(list(out.rglob("run.json"))) < 6
        finally:
            campaign.send_signal(signal.SIGCONT)
        _, errors = campaign.communicate(timeout=LIMIT_S)
    assert campaign.returncode == 0, errors
    assert "has 6 runs" in errors
    assert of_index(server) == of_archive(out)


@pytest.mark.lab
@pytest.mark.deep
def test_runs_of_a_cluster_are_sent_as_they_finish(
    index: Index, server: Node, ccmix: Ccmix, tmp_path: Path
) -> None:
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
def test_no_server_fails_no_campaign(
    ccmix: Ccmix, tmp_path: Path, server: Node, index: Index
) -> None:
    """A message names the command that sends the rest."""
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
    monkeypatch.setattr(target, "MOST_WAIT_S", 1.0)
    reports: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with target.sending(DEMO, {url: []}, reports.append):
            pass
    assert f"To send the rest: ccmix index {DEMO} --url {url}" in reports[-1]
