"""Joins both ends' results of one test of iperf3, which share a cookie, to one run."""

from collections.abc import Sequence
from dataclasses import replace

from ccmix.importing.foreign_run import ForeignRun, LeftOut
from ccmix.importing.iperf3_tests import cookie_of, read_run
from ccmix.importing.sources import ForeignFile
from ccmix.model.results import ImportOverrides


def without_copies(
    runs: Sequence[tuple[ForeignFile, ForeignRun]],
) -> tuple[list[tuple[ForeignFile, ForeignRun]], list[LeftOut]]:
    """Returns the runs, of several with one document the first, and the others as what is left out: the same test
    several times is one observation.
    """
    firsts: dict[tuple[str, str] | bytes, list[ForeignRun]] = {}
    kept, copies = [], []
    for source, run in runs:
        # The text of a result of pScheduler has all that a cookie would tell apart: its moment and its counts
        mark = run.raw.get("pscheduler.json") if run.document is None else cookie_of(run.document)
        alike = firsts.setdefault(mark, []) if mark else []
        first = next((other for other in alike if other.document == run.document), None)
        if first is None:
            alike.append(run)
            kept.append((source, run))
        else:
            copies.append(LeftOut(run.source, f"is a copy of {first.source}"))
    return kept, copies


def paired(
    runs: Sequence[tuple[ForeignFile, ForeignRun]], overrides: ImportOverrides
) -> list[tuple[ForeignFile, ForeignRun]]:
    """Returns the runs, the server's result of a test joined to its client's unless either is there twice."""
    ends: dict[tuple[str, str], list[ForeignRun]] = {}
    for _, run in runs:
        if run.document is not None and (cookie := cookie_of(run.document)):
            ends.setdefault(cookie, []).append(run)
    servers: dict[int, ForeignRun] = {}
    for (cookie_itself, end), clients in ends.items():
        there = ends.get((cookie_itself, "server"), [])
        if end == "client" and len(clients) == len(there) == 1:
            servers[id(clients[0])] = there[0]
    joined = {id(server) for server in servers.values()}
    return [
        (source, _joined(run, servers[id(run)], overrides) if id(run) in servers else run)
        for source, run in runs
        if id(run) not in joined
    ]


def _joined(client: ForeignRun, server: ForeignRun, overrides: ImportOverrides) -> ForeignRun:
    assert client.document is not None
    known = replace(overrides, cca=client.of_name.get("cca", overrides.cca))
    whole = read_run(client.document, f"{client.source} and {server.source}", known, client.kind, server.document)
    assert isinstance(whole, ForeignRun)
    of_server = {name.replace("iperf3", "iperf3-server", 1): content for name, content in server.raw.items()}
    missing = tuple(dict.fromkeys((*whole.missing, *client.missing)))
    return replace(whole, raw={**client.raw, **of_server}, missing=missing, entry=client.entry, of_name=client.of_name)
