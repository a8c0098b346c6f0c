"""Tests ccmix-sockmon in guests of the lab: with CCAs and qdiscs that the host may lack, in exact,
virtual time.

A guest's clock stops while its processor works, so ss, tc and the probe take samples of almost the
same moment, even during traffic.
"""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.ss_fields import differences, values_of

pytestmark = pytest.mark.lab

# a --- r --- b: r's device to b has the bottleneck, b's device 10 ms of delay for what goes back.
PATH = """
for name in a r b; do ip netns add $name; done
ip link add out netns a type veth peer name left netns r
ip link add right netns r type veth peer name in netns b
link() { ip -n $1 addr add $3 dev $2; ip -n $1 link set $2 up; ethtool_off="$1 $2"
         ip netns exec $1 ethtool -K $2 tso off gso off gro off >/dev/null; }
link a out 10.0.1.1/24; link r left 10.0.1.2/24; link r right 10.0.2.2/24; link b in 10.0.2.1/24
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
ip -n a route add default via 10.0.1.2
ip -n b route add default via 10.0.2.2
for name in a b; do ip netns exec $name sysctl -qw net.ipv4.tcp_ecn=1; done
tc -n b qdisc add dev in root netem delay 10ms limit 10000
"""

SERVER = """
import socket, sys, threading
def swallow(client):
    while client.recv(1 << 20):
        pass
    client.close()
listener = socket.socket(); listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
listener.bind(("10.0.2.1", 5000)); listener.listen(4096)
print("ready", flush=True)
while True:
    threading.Thread(target=swallow, args=(listener.accept()[0],), daemon=True).start()
"""

CLIENT = """
import socket, sys, time
cca, seconds = sys.argv[1], float(sys.argv[2])
client = socket.socket(); client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
client.connect(("10.0.2.1", 5000))
client.settimeout(0.05); end = time.monotonic() + seconds
while time.monotonic() < end:
    try:
        client.send(bytes(10000))
    except TimeoutError:
        pass
"""

START_SERVER = """
ip netns exec b python3 server.py ${server_cca:-cubic} >server.out & server=$!
until grep -q ready server.out; do sleep 0.1; done
"""


@pytest.fixture
def programs(guest: Any) -> None:
    (guest.job / "server.py").write_text(SERVER)
    (guest.job / "client.py").write_text(CLIENT)


SNAPSHOT = """
snapshot() {
    ip netns exec a ss -tinmoOH dport = 5000 >before-$1
    ./sockmon --sockets=a --remote-port=5000 --duration=0.001 -o stream-$1
    ip netns exec b ss -tinmoOH sport = 5000 >before-b$1
    ./sockmon --sockets=b --local-port=5000 --duration=0.001 -o stream-b$1
}
"""


MOMENTS = [str(number) for number in range(1, 13)]


@pytest.mark.parametrize(
    "cca",
    [
        "bbr",
        "cubic",
        *(pytest.param(cca, marks=pytest.mark.deep) for cca in ("vegas", "dctcp")),
        *(pytest.param(cca, marks=pytest.mark.long) for cca in ("illinois", "yeah", "htcp")),
    ],
)
@pytest.mark.usefixtures("programs")
def test_every_field_that_ss_prints_in_the_middle_of_traffic(cca: str, guest: Any) -> None:
    """The path has loss, reordering and ECN marks, so that SACK, retransmissions and CCA states
    are not zero.
    """
    guest.run(
        f"""{PATH}
        server_cca={cca}  # DCTCP falls back to Reno where the other end does not run it
        {START_SERVER} {SNAPSHOT}
        tc -n r qdisc add dev right root handle 1: tbf rate 10mbit burst 5000 limit 200000
        tc -n r qdisc add dev right parent 1: handle 2: codel limit 100 target 5ms ecn
        tc -n a qdisc add dev out root netem delay 2ms 1ms loss 2% limit 10000
        ip netns exec a python3 client.py {cca} 5 & client=$!
        for moment in {" ".join(MOMENTS)}; do sleep 0.33; snapshot $moment; done
        wait $client; kill $server"""
    )
    compared = 0
    fields: set[str] = set()
    for moment in [side + number for side in ("", "b") for number in MOMENTS]:
        line = (guest.job / f"before-{moment}").read_text()
        rows = guest.stream(f"stream-{moment}").sockets.rows(named=True)
        if not line or not rows:
            continue  # the connection was not there yet
        moved = tuple(values_of(line).get(name) for name in ("segs_in", "segs_out", "recv"))
        if moved != tuple(rows[0][name] for name in ("segs_in", "segs_out", "recv_queue_bytes")):
            continue  # a packet went by, or the server read, between the two
        # netem sends on what it has held, and gives its memory back, at any moment
        later = re.sub(r",t\d+,", ",t0,", line)
        assert differences(line, rows[0], later, clock_ms=2) == [], line
        compared += 1
        fields |= values_of(line).keys()
    assert compared > 10
    own = {"bbr": "bbr.bw", "dctcp": "dctcp.alpha", "vegas": "rtt"}.get(cca, "rtt")
    assert fields >= {"unacked", "retrans.all", "bytes_retrans", "notsent", own}
    if cca == "cubic":
        assert fields >= {"sacked", "retrans.now"}
    if cca == "vegas":
        samples = [guest.stream(f"stream-{moment}").sockets for moment in MOMENTS]
        # off in recovery, and without a minimum at the beginning of a round trip: tcp_vegas.c
        rows = pl.concat(samples).filter(
            pl.col("vegas_enabled") & pl.col("vegas_min_rtt_s").is_not_null()
        )
        assert rows.height
        # what the kernel calls its RTT is the base RTT, and the minimum is that of the last RTT
        assert rows.select((pl.col("vegas_rtt_s") > 0.009).all()).item()
        assert rows.select((pl.col("vegas_rtt_s") <= pl.col("vegas_min_rtt_s")).all()).item()
        assert rows.select((pl.col("vegas_min_rtt_s") < 1).all()).item()
    if cca == "dctcp":
        assert guest.stream("stream-12").sockets["dctcp_enabled"].all()


QDISCS = {
    "fq_codel": "fq_codel limit 100 target 1ms interval 10ms ce_threshold 3ms ecn",
    "fq_codel-drops": "fq_codel limit 10 noecn",
    "codel": "codel limit 50 target 1ms interval 10ms ecn ce_threshold 3ms",
    "red": "red limit 60000 min 5000 max 15000 avpkt 1000 burst 8 probability 0.1 bandwidth "
    "10mbit ecn",
    "pie": "pie limit 100 target 2ms tupdate 2ms ecn",
    "fq": "fq limit 1000 flow_limit 20 ce_threshold 1ms",
    "pfifo": "pfifo limit 20",
}


TC_NAMES = {
    "ecn_marks": ("ecn_mark", "marked"),
    "ce_threshold_marks": ("ce_mark",),
    "overlimit_drops": ("drop_overlimit", "pdrop", "overlimit"),
    "early_drops": ("early", "dropped"),
    "flow_limit_drops": ("flows_plimit", "flow_plimit"),
}


@pytest.mark.parametrize("kind", QDISCS)
@pytest.mark.usefixtures("programs")
def test_what_tc_prints_of_queues(kind: str, guest: Any) -> None:
    """Compares at moments of the traffic, with a backlog, and at its end."""
    guest.run(
        f"""{PATH} {START_SERVER}
        tc -n r qdisc add dev right root handle 1: htb default 1
        tc -n r class add dev right parent 1: classid 1:1 htb rate 5mbit burst 3000 cburst 3000
        tc -n r qdisc add dev right parent 1:1 handle 10: {QDISCS[kind]}
        ip netns exec a python3 client.py cubic 4 &
        ip netns exec a python3 client.py cubic 4 & client=$!
        for moment in 1 2 3 4 5 6 7 8; do
            sleep 0.4
            tc -n r -s -j qdisc show dev right >tc-$moment
            ./sockmon --queue=r/right --duration=0.001 -o stream-$moment
            tc -n r -s -j qdisc show dev right >tc-after-$moment
        done
        wait $client; kill $server"""
    )
    backlogs, own = 0, 0
    for moment in "12345678":
        rows = {
            row["handle"]: row
            for row in guest.stream(f"stream-{moment}").queues.head(2).iter_rows(named=True)
        }
        before, after = (
            json.loads((guest.job / f"{name}-{moment}").read_text()) for name in ("tc", "tc-after")
        )
        assert len(before) == len(after) == len(rows) == 2
        for low, high in zip(before, after, strict=True):
            row = rows[low["handle"]]
            assert (row["netns"], row["device"], row["kind"]) == ("r", "right", low["kind"])
            assert row["parent"] == ("root" if low.get("root") else low["parent"])
            for name in ("bytes", "packets", "drops", "overlimits", "requeues"):
                assert low[name] <= row[name] <= high[name]
            if low["packets"] == high["packets"]:
                assert (row["backlog_bytes"], row["backlog_packets"]) == (
                    low["backlog"],
                    low["qlen"],
                )
                backlogs += low["backlog"]
            for name, keys in TC_NAMES.items():
                for key in keys:
                    if key in low and row[name] is not None:
                        assert low[key] <= row[name] <= high[key], name
                        own += row[name]
    assert backlogs > 0
    assert own > 0 or kind == "pfifo"


@pytest.mark.usefixtures("programs")
def test_a_queue_that_is_replaced_and_queues_without_handles(guest: Any) -> None:
    guest.run(
        """
        ip link add d0 numtxqueues 3 type dummy
        ip link set d0 up
        tc qdisc add dev d0 root handle 1: mq
        ./sockmon --queue=d0 --rate=100 --duration=1 -o stream & probe=$!
        sleep 0.5
        tc qdisc del dev d0 root
        tc qdisc add dev d0 root handle 1: pfifo
        wait $probe"""
    )
    queues = guest.stream().queues
    first, last = queues["monotonic_s"].min(), queues["monotonic_s"].max()
    before = queues.filter(pl.col("monotonic_s") < first + 0.45)
    assert set(before["kind"]) >= {"mq"}
    assert set(before.filter(pl.col("kind") != "mq")["parent"]) == {"1:1", "1:2", "1:3"}
    after = queues.filter(pl.col("monotonic_s") > last - 0.2)
    assert set(after["kind"]) == {"pfifo"}
    assert after["handle"].unique().to_list() == ["1:"]


@pytest.mark.usefixtures("programs")
def test_the_bottleneck_at_1_khz(guest: Any) -> None:
    """Samples every millisecond of 10 s: the backlog fits the buffer, and nothing leaves faster
    than the rate.
    """
    guest.run(
        f"""{PATH} {START_SERVER}
        tc -n r qdisc add dev right root tbf rate 10mbit burst 3100 limit 50000
        ./sockmon --sockets=a --remote-port=5000 --queue=r/right --link=r/right --rate=1000 -o stream & probe=$!
        ip netns exec a python3 client.py cubic 10
        sleep 1
        tc -n r -s -j qdisc show dev right >tc
        kill $probe; wait $probe
        kill $server"""
    )
    stream = guest.stream()
    queues = stream.queues
    assert stream.report["missed"] == stream.report["lost_replies"] == 0
    # system calls of other processes take virtual time, and a sample waits for those at the same
    # moment, which are few
    late_s = (queues["monotonic_s"][1:-1].diff().drop_nulls() - 0.001).abs()
    assert late_s.quantile(0.999) < 2e-6
    assert late_s.max() < 10e-6
    assert queues.height > 11_000
    assert 45_000 < queues["backlog_bytes"].max() <= 50_000
    per_ms = queues["bytes"].cast(pl.Int64).diff().drop_nulls()
    assert per_ms.max() <= 10e6 / 8 / 1000 + 3100
    assert (per_ms > 0).sum() > 8000  # a packet takes 1.2 ms
    [tbf] = json.loads((guest.job / "tc").read_text())
    assert (queues["bytes"][-1], queues["drops"][-1]) == (tbf["bytes"], tbf["drops"])
    assert tbf["drops"] > 0
    # what the sockets sent is what the queue passed and dropped: headers of 66 bytes with time
    # stamps, and SYN and FIN
    last = stream.sockets.filter(~pl.col("final")).row(-1, named=True)
    assert stream.sockets["data_segs_out"].max() == pytest.approx(
        tbf["packets"] + tbf["drops"], abs=30
    )  # with ARP and the like
    assert stream.links["tx_bytes"][-1] == tbf["bytes"]
    assert last["bytes_sent"] + 66 * last["segs_out"] == pytest.approx(
        tbf["bytes"] + tbf["drops"] * 1514, rel=1e-3
    )


SHORT = """
import socket
for number in range(500):
    client = socket.create_connection(("10.0.2.1", 5000))
    client.sendall(bytes(1000 + number))
    client.shutdown(socket.SHUT_WR)
    client.recv(1)
    client.close()
"""


@pytest.mark.usefixtures("programs")
def test_short_flows_are_not_missed(guest: Any) -> None:
    """500 connections of some 20 ms each, with dumps every 10 s."""
    (guest.job / "short.py").write_text(SHORT)
    guest.run(
        f"""{PATH} {START_SERVER}
        ./sockmon --sockets=a --sockets=b --port=5000 --rate=10 --discover-rate=0.1 -o stream & probe=$!
        sleep 1
        ip netns exec a python3 short.py
        sleep 1
        kill $probe; wait $probe
        kill $server"""
    )
    stream = guest.stream()
    final = stream.sockets.filter("final")
    sent = final.filter(pl.col("netns") == "a")
    assert sorted(sent["bytes_sent"]) == list(range(1000, 1500))
    assert sent["cookie"].n_unique() == 500
    assert sent["min_rtt_s"].is_between(0.0099, 0.0111).all()
    received = final.filter(pl.col("netns") == "b", pl.col("bytes_received") > 0)
    assert sorted(received["bytes_received"]) == list(range(1001, 1501))  # with the FIN
    assert stream.report["dumps"] < 30
    assert stream.report["lost_events"] == 0


HOUR = """
import socket, time
progress = open("progress", "w")  # so that nobody takes the guest for one that hangs
long = [socket.create_connection(("10.0.2.1", 5000)) for _ in range(4)]
end = time.monotonic() + 3600
while time.monotonic() < end:
    with socket.create_connection(("10.0.2.1", 5000)) as short:
        short.sendall(bytes(100))
    for client in long:
        client.sendall(bytes(100))
    print(".", file=progress, flush=True)
    time.sleep(0.2)
"""


@pytest.mark.long
@pytest.mark.usefixtures("programs")
def test_memory_does_not_grow_over_an_hour(guest: Any) -> None:
    """Samples an hour of virtual time at 1 kHz, with four long flows and five short
    ones a second.
    """
    (guest.job / "hour.py").write_text(HOUR)
    guest.run(
        f"""{PATH} {START_SERVER}
        ./sockmon --sockets=a --port=5000 --queue=r/right --counters --cpu --rate=1000 --slow-rate=5 --duration=3600 |
            tail -c 4096 >end &
        ip netns exec a python3 hour.py
        sleep 5
        kill $server"""
    )
    text = (guest.job / "end").read_bytes().rpartition(b"cpu_us=")[2].rstrip(b"\0").decode()
    report = {
        key: int(value) for key, _, value in (line.partition("=") for line in text.split()[1:])
    }
    assert report["samples"] + report["missed"] == pytest.approx(3_600_000, abs=2)
    assert report["sockets_closed"] > 15_000
    assert report["memory_bytes"] - report["memory_start_bytes"] < 200_000


def test_the_static_binary_is_all_that_a_host_needs(sockmon_binary: str) -> None:
    built = Path(sockmon_binary).read_bytes()
    assert b"/ld-linux" not in built or b"__asan" in built
