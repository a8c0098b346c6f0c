"""Finds the source of each TCP connection that the probes saw: an iperf3 test, a server, a command.

A connection is identified by its sending host and the addresses and ports of both ends. A port is
not enough: the kernel uses a port for several connections with different destinations, and other
servers may use the same ports as ccmix's.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW, FLOW_KEY
from ccmix.analysis.series import PEER
from ccmix.conditions.layout import layout
from ccmix.generators import iperf3
from ccmix.model import CommandSource, HttpSource, Run, WorkloadSource

CONNECTION = [*FLOW, *PEER]
CONNECTION_COLUMNS = FLOW_KEY | PEER
# The tables identify the flow of a connection by its host and `flow_port`, which usually is the
# port. `reverse`: its data go to that host
FLOW_CONNECTION_COLUMNS = CONNECTION_COLUMNS | {
    "group": pl.String,
    "flow_port": pl.Int64,
    "reverse": pl.Boolean,
}
_OTHER_END = pl.when(pl.col("end") == "sender").then(pl.lit("receiver")).otherwise(pl.lit("sender"))
_END_OF_DATA = pl.when("reverse").then(_OTHER_END).otherwise("end")
# Added to the port of a command's flow if a flow of iperf3 has the same port: TCP's ports are
# smaller
SAME_PORT = 65536


def join_flows(connections: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Adds two columns to the connections of iperf3's flows: the group, and the port by which other
    tables know the flow. Returns FLOW_CONNECTION_COLUMNS.

    connections: CONNECTION_COLUMNS
    flows: host, port and group of each flow
    """
    identities = flows.select(*FLOW, "group", flow_port="port", reverse=False)
    return connections.join(identities, on=FLOW, maintain_order="left")


def stream_connections(client: dict[str, Any], host: str) -> pl.DataFrame:
    """Returns the data connections of an iperf3 test, from the JSON of its client on `host`, as
    CONNECTION_COLUMNS. No rows for UDP, because the probes see only TCP.
    """
    streams = client["start"]["connected"]
    if client["start"].get("test_start", {}).get("protocol") == "UDP":
        streams = []
    rows = [
        (host, stream["local_port"], stream.get("remote_port"), stream.get("remote_host"))
        for stream in streams
    ]
    return pl.DataFrame(rows, schema=CONNECTION_COLUMNS, orient="row")


def control_connection(run: Run, number: int, server: dict[str, Any]) -> pl.DataFrame:
    """Returns the control connection of an iperf3 test as CONNECTION_COLUMNS, with one row, or none
    if the server's JSON does not say which connection it accepted.

    number: index of the test in run.traffic.sources; its server listens on iperf3's port + number
    server: the JSON of the test's iperf3 server
    """
    host, accepted = run.traffic.sources[number].host, server["start"].get("accepted_connection")
    rows = [
        (host, accepted["port"], iperf3.PORT + number, pair.receiver_address)
        for pair in layout(run.topology).pairs
        if accepted and pair.sender.name == host
    ]
    return pl.DataFrame(rows, schema=CONNECTION_COLUMNS, orient="row")


def is_with_server(run: Run, number: int, source: HttpSource | WorkloadSource) -> pl.Expr:
    """Returns a polars expression that selects the samples of connections to the server that ccmix
    runs for an http or workload source. The server listens on iperf3's port + `number`, the index
    of the source in run.traffic.sources.

    An http server runs on the sending host, a workload's on the receiver.
    """
    server_sends = isinstance(source, HttpSource)
    on_server_port = pl.col("port" if server_sends else "peer_port") == iperf3.PORT + number
    return (
        (pl.col("host") == source.host)
        & on_server_port
        & pl.col("peer_address").is_in(_receiver_addresses(run, source.host))
    )


def command_sockets(
    run: Run, sockets: pl.DataFrame, iperf3_connections: pl.DataFrame
) -> Iterator[tuple[CommandSource, pl.DataFrame]]:
    """Yields each source that is a user's command, with the samples of its sockets: those on the
    command's host that belong to no other source.

    iperf3_connections: the connections of all iperf3 tests, control connections included

    If a host has several commands, the first one gets all of the samples, because nothing tells
    which command made a connection.
    """
    with_servers = [
        is_with_server(run, number, source)
        for number, source in enumerate(run.traffic.sources)
        if isinstance(source, HttpSource | WorkloadSource)
    ]
    unassigned = sockets.filter(~pl.any_horizontal(False, *with_servers)).join(
        iperf3_connections, on=CONNECTION, how="anti"
    )
    for source in run.traffic.sources:
        if isinstance(source, CommandSource):
            yield source, unassigned.filter(pl.col("host") == source.host)
            unassigned = unassigned.filter(pl.col("host") != source.host)


def flow_samples(sockets: pl.DataFrame, connections: pl.DataFrame) -> pl.DataFrame:
    """Selects the samples of sockets that belong to these connections, and says to which flow each
    belongs: `group` is added, and `port` becomes the flow's port. `end` becomes 'sender' at the end
    that sends the flow's data, and 'receiver' at the other end.

    sockets: samples of both ends of connections on an emulated path
    connections: FLOW_CONNECTION_COLUMNS
    """
    return (
        sockets.join(connections, on=CONNECTION, maintain_order="left")
        .with_columns(port="flow_port", end=_END_OF_DATA)
        .drop(*PEER, "flow_port", "reverse")
    )


def flow_samples_between_hosts(
    sockets: pl.DataFrame, flows: pl.DataFrame, reported: pl.DataFrame | None
) -> pl.DataFrame:
    """Selects the samples of sockets that belong to these flows between two real hosts, and adds
    the `group` of each. `end` becomes 'sender' at the end that sends the flow's data, and
    'receiver' at the other end.

    sockets: samples of both ends
    flows: FLOW_COLUMNS
    reported: the connections that iperf3's client reports, as CONNECTION_COLUMNS; samples of
        connections to other ports are left out. None without iperf3's JSON

    Both ends of a connection are matched by the port of host `src` only, because address
    translation may change the other port and the addresses.
    """
    known = flows.select(*FLOW, "group", pl.col("reverse").fill_null(value=False))
    if reported is not None:
        peer_ports = reported.select(*FLOW, reported_port="peer_port")
        known = known.join(peer_ports, on=FLOW, how="left", maintain_order="left")
    else:
        known = known.with_columns(reported_port=pl.lit(None, pl.Int64))
    matched = sockets.join(known, on=FLOW, maintain_order="left")
    to_other_port = (pl.col("end") == "sender") & (pl.col("peer_port") != pl.col("reported_port"))
    return (
        matched.filter(~to_other_port.fill_null(value=False))
        .with_columns(end=_END_OF_DATA)
        .drop(*PEER, "reported_port", "reverse")
    )


def _receiver_addresses(run: Run, sender: str) -> list[str]:
    """Returns all addresses of the host that receives from `sender`: one for each of the sending
    hosts that share this receiver.
    """
    pairs = layout(run.topology).pairs
    receiver = next(pair.receiver for pair in pairs if pair.sender.name == sender)
    return [pair.receiver_address for pair in pairs if pair.receiver == receiver]
