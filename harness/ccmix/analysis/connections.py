"""Assigns the connections that the probes saw to their source: a test of iperf3, a server of ccmix,
or a command.

A connection is identified by its sending host and the addresses and ports of both ends. A port is
not enough: the kernel uses a port for several connections with different destinations, and other
servers may use the same ports as ccmix's.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.series import PEER
from ccmix.conditions.layout import layout
from ccmix.generators import iperf3
from ccmix.model import CommandSource, HttpSource, Run, WorkloadSource

CONNECTION = [*FLOW, *PEER]
CONNECTION_COLUMNS: dict[str, Any] = {"host": pl.String, "port": pl.Int64, **PEER}
# The tables identify the flow of a connection by its host and `flow_port`, which usually is the
# port. `reverse`: its data go to that host
FLOW_CONNECTION_COLUMNS: dict[str, Any] = CONNECTION_COLUMNS | {
    "group": pl.String,
    "flow_port": pl.Int64,
    "reverse": pl.Boolean,
}
_OTHER_END = pl.when(pl.col("end") == "sender").then(pl.lit("receiver")).otherwise(pl.lit("sender"))
_END_OF_DATA = pl.when("reverse").then(_OTHER_END).otherwise("end")
# Added to the port of a command's flow if a flow of iperf3 has the same port: TCP's ports are
# smaller
SAME_PORT = 65536


def numbered(connections: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Returns the connections of these flows of iperf3, each with its group and number:
    FLOW_CONNECTION_COLUMNS.
    """
    own = flows.select(*FLOW, "group", flow_port="port", reverse=pl.lit(value=False))
    return connections.join(own, on=FLOW, maintain_order="left")


def of_streams(client: dict[str, Any], host: str) -> pl.DataFrame:
    """Returns the connections of a test's streams, as its client's JSON names them:
    CONNECTION_COLUMNS.

    The probes see only TCP, so a test over UDP has none.
    """
    streams = client["start"]["connected"]
    if client["start"].get("test_start", {}).get("protocol") == "UDP":
        streams = []
    rows = [
        (host, stream["local_port"], stream.get("remote_port"), stream.get("remote_host"))
        for stream in streams
    ]
    return pl.DataFrame(rows, schema=CONNECTION_COLUMNS, orient="row")


def control(run: Run, number: int, server: dict[str, Any]) -> pl.DataFrame:
    """Returns the control connection of the test that is the source with that number:
    CONNECTION_COLUMNS.

    The server's JSON names the connection that it accepted for its test.
    """
    host, accepted = run.traffic.sources[number].host, server["start"].get("accepted_connection")
    rows = (
        [(host, accepted["port"], iperf3.PORT + number, _receiver(run, host))] if accepted else []
    )
    return pl.DataFrame(rows, schema=CONNECTION_COLUMNS, orient="row")


def of_server(run: Run, number: int, source: HttpSource | WorkloadSource) -> pl.Expr:
    """Returns the expression that selects the connections to a source's own server. An http server
    runs on the sending host, the others on the receiver.
    """
    at_sender = isinstance(source, HttpSource)
    port = pl.col("port" if at_sender else "peer_port") == iperf3.PORT + number
    return (
        (pl.col("host") == source.host)
        & port
        & pl.col("peer_address").is_in(_addresses(run, source.host))
    )


def of_commands(
    run: Run, sockets: pl.DataFrame, of_iperf3: pl.DataFrame
) -> Iterator[tuple[CommandSource, pl.DataFrame]]:
    """Yields the commands, each with the sockets of its host that belong to no other source.

    If a host has several commands, the first one gets all sockets, because nothing tells which
    command made a connection. `of_iperf3` are the connections of all tests, including their control
    connections.
    """
    servers = [
        of_server(run, number, source)
        for number, source in enumerate(run.traffic.sources)
        if isinstance(source, HttpSource | WorkloadSource)
    ]
    others = sockets.filter(~pl.any_horizontal(pl.lit(value=False), *servers)).join(
        of_iperf3, on=CONNECTION, how="anti"
    )
    seen: set[str] = set()
    for source in run.traffic.sources:
        if isinstance(source, CommandSource):
            yield (
                source,
                others.filter(pl.col("host") == source.host)
                if source.host not in seen
                else others.clear(),
            )
            seen.add(source.host)


def of_flows(sockets: pl.DataFrame, connections: pl.DataFrame) -> pl.DataFrame:
    """Returns the samples of these connections, FLOW_CONNECTION_COLUMNS, with the group and the
    number of each.

    `end` says which end of a flow was sampled, whichever host it is.
    """
    return (
        sockets.join(connections, on=CONNECTION, maintain_order="left")
        .with_columns(port="flow_port", end=_END_OF_DATA)
        .drop(*PEER, "flow_port", "reverse")
    )


def of_flows_between_hosts(
    sockets: pl.DataFrame, flows: pl.DataFrame, named: pl.DataFrame | None
) -> pl.DataFrame:
    """Returns the samples of flows, with the `group` of each. `named` are the connections that
    iperf3's client named.

    `end` says which end of a flow was sampled, whichever host it is. Address translation may change
    an address or a port, so only the port of `src` is compared for the sockets of the far end.
    """
    known = flows.select(*FLOW, "group", pl.col("reverse").fill_null(value=False))
    if named is not None:
        known = known.join(
            named.select(*FLOW, named_port="peer_port"), on=FLOW, how="left", maintain_order="left"
        )
    else:
        known = known.with_columns(named_port=pl.lit(None, pl.Int64))
    found = sockets.join(known, on=FLOW, maintain_order="left")
    elsewhere = (pl.col("end") == "sender") & (pl.col("peer_port") != pl.col("named_port"))
    return (
        found.filter(~elsewhere.fill_null(value=False))
        .with_columns(end=_END_OF_DATA)
        .drop(*PEER, "named_port", "reverse")
    )


def _receiver(run: Run, sender: str) -> str:
    """Returns the address to which a sender's own sources send."""
    return next(
        pair.receiver_address for pair in layout(run.topology).pairs if pair.sender.name == sender
    )


def _addresses(run: Run, sender: str) -> list[str]:
    """Returns the addresses of a sender's receiver, which has one for each of its senders."""
    pairs = layout(run.topology).pairs
    receiver = next(pair.receiver for pair in pairs if pair.sender.name == sender)
    return [pair.receiver_address for pair in pairs if pair.receiver == receiver]
