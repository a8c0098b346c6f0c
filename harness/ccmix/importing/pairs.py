"""Both ends' results of one test of iperf3, which share a cookie, to one run."""

from collections.abc import Sequence
from dataclasses import replace

from ccmix.importing.found import Found, Told
from ccmix.importing.iperf3_tests import cookie_of, found_in
from ccmix.importing.sources import Source


def paired(found: Sequence[tuple[Source, Found]], told: Told) -> list[tuple[Source, Found]]:
    """The same, with the server's result of a test joined to its client's, unless either is there twice."""
    ends: dict[tuple[str, str], list[Found]] = {}
    for _, one in found:
        if one.document is not None and (cookie := cookie_of(one.document)):
            ends.setdefault(cookie, []).append(one)
    servers: dict[int, Found] = {}
    for (cookie_itself, end), clients in ends.items():
        there = ends.get((cookie_itself, "server"), [])
        if end == "client" and len(clients) == len(there) == 1:
            servers[id(clients[0])] = there[0]
    joined = {id(server) for server in servers.values()}
    return [
        (source, _joined(one, servers[id(one)], told) if id(one) in servers else one)
        for source, one in found
        if id(one) not in joined
    ]


def _joined(client: Found, server: Found, told: Told) -> Found:
    assert client.document is not None
    whole = found_in(client.document, f"{client.source} and {server.source}", told, client.kind, server.document)
    assert isinstance(whole, Found)
    of_server = {name.replace("iperf3", "iperf3-server", 1): content for name, content in server.raw.items()}
    missing = tuple(dict.fromkeys((*whole.missing, *client.missing)))
    return replace(whole, raw={**client.raw, **of_server}, missing=missing, entry=client.entry)
