"""Tests to which source connections belong, by iperf3's report and by the addresses of the path."""

from typing import Any

import polars as pl
import pytest

from ccmix.analysis.connections import (
    CONNECTION_COLUMNS,
    command_sockets,
    control_connection,
    is_with_server,
    stream_connections,
)
from ccmix.model import Buffer, CommandSource, Group, HttpSource, Iperf3Source, Run, Traffic
from support.model import one_sender

HTTP = HttpSource("web", "h1", requests=1, size_bytes=1000, parallel=1, cca="-")
COMMAND = CommandSource("tool", "h1", "true")


@pytest.fixture
def run() -> Run:
    """Returns a run with a test on port 5201, an http source on port 5202, and a command."""
    topology = one_sender(
        rate_bps=1e9,
        delay_s=0.005,
        loss=None,
        buffer=Buffer(1.0, "bdp"),
        mtu_bytes=1500,
        offloads=False,
    )
    test = Iperf3Source("bulk", "h1", groups=(Group("cubic"),), streams=1)
    return Run("one", {}, "receiver", 1, 7, Traffic((test, HTTP, COMMAND), 2.0, 0.0, 1.0), topology)


def connections(*of: tuple[int, int, str]) -> pl.DataFrame:
    """Returns connections of h1, each with its port, and the port and address of the peer."""
    return pl.DataFrame([("h1", *each) for each in of], schema=CONNECTION_COLUMNS, orient="row")


def client(protocol: str = "TCP") -> dict[str, Any]:
    stream = {"local_port": 40000, "remote_port": 5201, "remote_host": "10.0.3.2"}
    return {"start": {"connected": [stream], "test_start": {"protocol": protocol}}}


def test_iperf3_names_the_connections_of_its_streams() -> None:
    assert stream_connections(client(), "h1").equals(connections((40000, 5201, "10.0.3.2")))


def test_streams_of_udp_are_no_connections_though_they_have_ports() -> None:
    assert stream_connections(client("UDP"), "h1").is_empty()


def test_the_server_names_its_control_connection(run: Run) -> None:
    server = {"start": {"accepted_connection": {"host": "10.0.1.1", "port": 39998}}}
    assert control_connection(run, 0, server).equals(connections((39998, 5201, "10.0.3.2")))


def test_what_is_nobody_else_s_is_a_command_s(run: Run) -> None:
    own_streams, own_control = (40000, 5201, "10.0.3.2"), (39998, 5201, "10.0.3.2")
    own_http = (5202, 41000, "10.0.3.2")
    others = (
        (40000, 9999, "10.0.3.2"),
        (40000, 5201, "10.0.2.2"),
        (40002, 5201, "10.0.3.2"),
        (5202, 41000, "10.0.2.2"),
    )
    every = connections(own_streams, own_control, own_http, *others)
    [(source, of_command)] = command_sockets(run, every, connections(own_streams, own_control))
    assert source == COMMAND
    assert of_command.equals(connections(*others))
    assert every.filter(is_with_server(run, 1, HTTP)).equals(connections(own_http))
