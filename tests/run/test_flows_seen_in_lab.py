"""Tests that a flow is counted for its source, whatever its ports, and that a run without flows is
not valid.
"""

import re
from pathlib import Path

import polars as pl
import pytest

from ccmix.analysis.connections import SAME_PORT
from ccmix.model.results import FinishedRun
from support.lab_runs import make_in_lab, planned

pytestmark = pytest.mark.lab
PATH = """
[topology t]
host-root = on
rate = 10mbit
delay = 5ms
{more}

[commands]
type = iperf3
topology = t
duration = 4s
"""


# Connects from a port that a connection to 5201 has: the kernel gives a port again if it leads
# elsewhere
FROM_A_PORT_IN_USE = """
import socket, struct, sys, time
SO_LOCAL_PORTS = 51  # IP_LOCAL_PORT_RANGE, since Linux 6.3
lines = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
ports = [int(line[1][9:], 16) for line in lines if line[2].endswith(":1451")]
flows = []
for port in ports:
    flows.append(socket.socket())
    flows[-1].setsockopt(socket.IPPROTO_IP, SO_LOCAL_PORTS, struct.pack("I", port | port << 16))
    flows[-1].connect((sys.argv[1], 9999))
for _ in range(10):
    for flow in flows:
        flow.sendall(bytes(12500))
    time.sleep(0.1)
"""
SINK = """
import socket, threading
def drain(flow):
    while flow.recv(65536):
        pass
server = socket.create_server(("", 9999))
while True:
    threading.Thread(target=drain, args=[server.accept()[0]]).start()
"""
# Pretends to be a flow of a workload: a number and a size, and so many bytes
LIKE_A_WORKLOAD = """
import socket, struct, sys
with socket.create_connection((sys.argv[1], 5201)) as flow:
    flow.sendall(struct.pack("!QQ", 999, 250000) + bytes(250000 - 16))
    flow.shutdown(socket.SHUT_WR)
    flow.recv(1)
"""


def finished(flows: str, tmp_path: Path, more: str = "") -> FinishedRun:
    [run] = planned(PATH.format(more=more) + flows, tmp_path)
    return make_in_lab(run, tmp_path / "out").finished


def test_a_command_may_use_a_port_of_ccmix_s_servers_where_none_runs(tmp_path: Path) -> None:
    run = finished(
        "flows.server = receiver command iperf3 -s -p 5203\n"
        "flows.tool = h1 command sleep 0.5; exec iperf3 -c {dst} -p 5203 -t 3\n",
        tmp_path,
    )
    assert [finding.detail for finding in run.verdict.findings] == []
    assert {flow.group for flow in run.metrics.flows} == {"tool"}
    assert run.metrics.goodput_bps > 5e6


def test_a_connection_to_ccmix_s_own_server_is_not_the_command_s(tmp_path: Path) -> None:
    run = finished("flows.bulk = h1 cubic\nflows.idle = h1 command sleep 1\n", tmp_path)
    assert {flow.group for flow in run.metrics.flows} == {"bulk"}
    assert run.verdict.status == "unknown"
    assert [finding.detail for finding in run.verdict.findings] == [
        "a probe that lost samples: no connection of idle.h1 carried data"
    ]


def test_a_command_may_send_from_the_port_of_an_iperf3_flow(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(FROM_A_PORT_IN_USE)
    (tmp_path / "sink.py").write_text(SINK)
    run = finished(
        "flows.bulk = h1 cubic\n"
        f"flows.server = receiver command exec python3 {tmp_path / 'sink.py'}\n"
        f"flows.tool = h1 command sleep 1; exec python3 {tmp_path / 'send.py'} {{dst}}\n",
        tmp_path,
    )
    assert run.verdict.status == "valid"
    flows = [(flow.group, flow.port) for flow in run.metrics.flows]
    [bulk] = [port for group, port in flows if group == "bulk"]
    assert ("tool", bulk + SAME_PORT) in flows
    assert len(flows) == 3, "the control connection's port came again, too"
    [file] = (tmp_path / "out").rglob("sockets.parquet")
    sockets = pl.read_parquet(file)
    peers = sockets.filter(pl.col("end") == "sender").select("group", "remote_port").unique()
    assert set(peers.iter_rows()) == {("bulk", 5201), ("tool", 9999)}


def test_a_server_of_others_may_have_the_port_of_ccmix_s_own_at_another_address(
    tmp_path: Path,
) -> None:
    run = finished(
        "flows.bulk = h1 cubic\n"
        "flows.server = h2-receiver command iperf3 -s -p 5201\n"
        "flows.tool = h1 command sleep 0.5; exec iperf3 -c 10.1.3.2 -p 5201 -t 3 -b 1M\n",
        tmp_path,
        "host.h1 = delay 5ms\nhost.h2 = delay 5ms\n",
    )
    assert run.verdict.status == "valid"
    goodputs = {group.group: group.goodput_bps for group in run.metrics.groups}
    assert goodputs["tool"] == pytest.approx(1e6, rel=0.1)  # over the 3 s in which it sends


def test_a_command_that_ccmix_s_own_server_refuses_has_a_flow_nevertheless(tmp_path: Path) -> None:
    run = finished(
        "flows.bulk = h1 cubic\nflows.tool = h1 command sleep 1; iperf3 -c {dst} -p 5201 -t 1 || "
        "sleep 1\n",
        tmp_path,
    )
    assert run.verdict.status == "valid"
    [bulk, tool] = run.metrics.flows
    assert (bulk.group, tool.group) == ("bulk", "tool")
    assert tool.goodput_bps < 1000 < bulk.goodput_bps


@pytest.mark.parametrize(
    ("flows", "sentence"),
    [
        pytest.param(
            "flows.load = h1 workload {folder}/sizes.txt rate 500kbit\n"
            "flows.tool = h1 command sleep 1; exec python3 {folder}/send.py {{dst}}\n",
            r"(\d+) connections led to the server of load.h1, but the source made only (\d+)",
            id="workload",
        ),
        pytest.param(
            "flows.load = h1 http requests 3 size 10kb\n"
            "flows.tool = receiver command sleep 1; exec curl -s -o /dev/null "
            "http://{{src}}:5201/1\n",
            r"(\d+) connections led to the server of load.h1, but the source made only (\d+)",
            id="http",
        ),
    ],
)
def test_a_run_is_unknown_if_others_used_the_server_of_a_source(
    flows: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "sizes.txt").write_text("10000 0\n10000 1\n")
    (tmp_path / "send.py").write_text(LIKE_A_WORKLOAD)
    run = finished(flows.format(folder=tmp_path), tmp_path)
    assert run.verdict.status == "unknown"
    found = re.search(sentence, run.verdict.findings[0].detail)
    assert found
    assert int(found[1]) == int(found[2]) + 1


def test_connections_of_two_commands_of_one_host_are_not_counted_twice(tmp_path: Path) -> None:
    run = finished(
        "flows.one-server = receiver command iperf3 -s -p 9001\n"
        "flows.other-server = receiver command iperf3 -s -p 9002\n"
        "flows.one = h1 command iperf3 -c {dst} -p 9001 -t 3 -b 1M\n"
        "flows.other = h1 command iperf3 -c {dst} -p 9002 -t 3 -b 1M\n",
        tmp_path,
    )
    assert run.verdict.status == "unknown"
    assert [finding.detail.partition(": ")[2] for finding in run.verdict.findings] == [
        "the connections of other.h1 can't be distinguished from those of one.h1"
    ]
    assert [flow.group for flow in run.metrics.flows] == ["one", "one"]


def test_a_run_without_a_flow_is_not_valid(tmp_path: Path) -> None:
    """At best it is unknown; here netem saw no packet, either."""
    run = finished("flows.idle = h1 command sleep 1\n", tmp_path)
    assert run.verdict.status == "limited"
    assert [finding.detail.partition(": ")[2] for finding in run.verdict.findings] == [
        "no packet passed netem",
        "no flow was seen",
    ]
