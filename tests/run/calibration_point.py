"""Runs in a guest: measures emulated paths from outside the emulation, and prints a JSON object per
line for each.

`calibration_point.py HARNESS IPERF3 POINTS`: POINTS is a JSON list of {"rate_bps", "rtt_s", "loss",
"buffer", "mtu", "queue", "shaper", "offloads", "protocol"}, optionally with "jitter_s", "reorder"
and "host_rate_bps". buffer is [amount, kind], queue as in an INI file. UDP sends a fifth more than
the bottleneck passes, so that its queue is full; TCP is for the size of packets; "pings" is for the
effect of netem and a slow device on single packets.
"""

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

sys.path.insert(0, sys.argv[1])

from ccmix.agent.journal import Journal
from ccmix.conditions import qdisc
from ccmix.conditions.dumbbell import Dumbbell, dumbbell
from ccmix.conditions.layout import NAMESPACE_PREFIX
from ccmix.config.queues import read_queue
from ccmix.hosts.local import entered
from ccmix.model import Buffer, Loss, Sender, Topology

PINGS = 20
PACKETS = 20_000  # of UDP, and at least LEAST_S of it
LEAST_S = 2.0
SAMPLES = 20
PORT = 7000
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
SOCKET_BUFFER_BYTES = 2**30
BEGINS_WITHIN_S = 20.0
DATAGRAMS = 5000
LOSSES = (
    800  # of a point: 25% more or fewer are then found with 95%, where 1e-6 of alarms are false
)
SMALL_BYTES, HANDFUL = 18, 20_000
BEGUN_PACKETS = 200  # more than a control connection has


def ping_rtts_s(path: Dumbbell) -> list[float]:
    """Returns round-trip times of 64-byte ICMP packets."""
    [pair] = path.pairs
    ping = ["ping", "-n", "-s", "56", "-i", "0.3", "-c", str(PINGS), pair.receiver_address]
    words = path.sender(pair).run(ping, timeout_s=120).split()
    return [float(word.removeprefix("time=")) / 1e3 for word in words if word.startswith("time=")]


def offered(path: Dumbbell, topology: Topology, iperf3: str) -> dict[str, object]:
    """Returns the packets that iperf3 has sent, and samples of the bottleneck meanwhile."""
    [pair] = path.pairs
    sent_bps = 1.2 * topology.rate_bps
    seconds = max(LEAST_S, PACKETS * topology.mtu_bytes * 8 / sent_bps)
    length = topology.mtu_bytes - 28
    server = path.receiver(pair).command([iperf3, "-s", "-1"])
    client = path.sender(pair).command(
        [
            iperf3,
            "-c",
            pair.receiver_address,
            "-u",
            "-b",
            f"{sent_bps:.0f}",
            "-l",
            str(length),
            "-t",
            f"{seconds:.0f}",
            "-J",
            "--pacing-timer",
            "100",
        ]
    )
    before = {what: qdisc.root_of(qdiscs) for what, qdiscs in counters(path).items()}
    while True:
        listening = subprocess.Popen(server, stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        sending = subprocess.Popen(
            client, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        give_up_s = time.monotonic() + BEGINS_WITHIN_S
        while time.monotonic() < give_up_s and not begun(path, before):
            time.sleep(0.01)
        if begun(path, before):
            break
        for process in (
            sending,
            listening,
        ):  # iperf3 waits for ever for its first datagram, if that was lost
            process.kill()
            process.communicate()
        before = {what: qdisc.root_of(qdiscs) for what, qdiscs in counters(path).items()}
    begin_s = time.monotonic()
    samples = []
    for number in range(SAMPLES):
        at_s = begin_s + seconds * (0.3 + 0.6 * number / SAMPLES)
        time.sleep(max(0.0, at_s - time.monotonic()))
        root = bottleneck(path)
        samples.append([time.monotonic(), root["bytes"], root["backlog"], root["qlen"]])
    result = json.loads(sending.communicate()[0])
    listening.wait()
    after = {what: qdisc.root_of(qdiscs) for what, qdiscs in counters(path).items()}
    grown = {
        what: {name: root[name] - before[what][name] for name in ("bytes", "packets", "drops")}
        for what, root in after.items()
    }
    return {"samples": samples, "sent_packets": result["end"]["sum"]["packets"], "grown": grown}


def begun(path: Dumbbell, before: dict[str, Any]) -> bool:
    return bool(bottleneck(path)["packets"] >= before["bottleneck"]["packets"] + BEGUN_PACKETS)


def burst(path: Dumbbell, topology: Topology) -> int:
    """Returns how many datagrams of the largest packet's size get through of twice as many as the
    buffer holds, sent all in one moment: in the guest's time, for which its processor is infinitely
        fast.
    """
    [pair] = path.pairs
    with udp_socket(pair.sender.name) as sender, udp_socket(pair.receiver) as receiver:
        receiver.bind((pair.receiver_address, PORT))
        for _ in range(2 * topology.buffer_packets + 100):
            sender.sendto(bytes(topology.mtu_bytes - 28), (pair.receiver_address, PORT))
        time.sleep(topology.base_rtt_s + 1 + 2 * topology.buffer_bytes * 8 / topology.rate_bps)
        receiver.setblocking(False)
        received = 0
        with suppress(BlockingIOError):
            while receiver.recv(1):
                received += 1
    return received


def many_small(path: Dumbbell, topology: Topology, loss: float) -> dict[str, int]:
    """Sends small datagrams, a handful at a time, until the path should have lost LOSSES of them.

    The bottleneck, which is behind the loss, drops the datagrams that it can't pass. Returns how
    many left the sender, and how many came to the bottleneck.
    """
    [pair] = path.pairs
    before = {what: qdisc.root_of(qdiscs) for what, qdiscs in counters(path).items()}
    payload, to = bytes(SMALL_BYTES), (pair.receiver_address, PORT)
    left = round(LOSSES / loss)
    with udp_socket(pair.sender.name) as sender:
        while left > 0:
            for _ in range(min(left, HANDFUL)):
                sender.sendto(payload, to)
            left -= HANDFUL
            time.sleep(topology.base_rtt_s)  # so that netem holds no more than a handful
        time.sleep(1)
    after = {what: qdisc.root_of(qdiscs) for what, qdiscs in counters(path).items()}
    grown = {
        what: {name: root[name] - before[what][name] for name in ("packets", "drops")}
        for what, root in after.items()
    }
    return {
        "sent": grown["sender-queue"]["packets"],
        "arrived": grown["bottleneck"]["packets"] + grown["bottleneck"]["drops"],
    }


def udp_socket(namespace: str) -> socket.socket:
    with entered(NAMESPACE_PREFIX + namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
        made.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return made


def one_by_one(path: Dumbbell, topology: Topology) -> dict[str, object]:
    """Sends pings of 64 bytes, and of the largest size; returns datagrams apart from each other, in
    the order in which they come.
    """
    [pair] = path.pairs
    sender, to = path.sender(pair), pair.receiver_address
    argv = ["ping", "-n", "-q", "-c", "1", "-M", "do", "-s"]
    passes = []
    for size in (
        topology.mtu_bytes - 28,
        topology.mtu_bytes - 27,
    ):  # of ICMP's data, within IP's and ICMP's headers
        done = subprocess.run(
            sender.command([*argv, str(size), to]), capture_output=True, check=False
        )
        passes.append(done.returncode == 0)
    words = sender.run(["ping", "-n", "-c", "1000", "-i", "0.02", to], timeout_s=120).split()
    with udp_socket(pair.sender.name) as sending, udp_socket(pair.receiver) as receiving:
        receiving.bind((to, PORT))
        for number in range(DATAGRAMS):
            sending.sendto(number.to_bytes(4), (to, PORT))
            time.sleep(0.001)
        time.sleep(1)
        receiving.setblocking(False)
        order = [int.from_bytes(receiving.recv(4)) for _ in range(DATAGRAMS)]
        for number in range(DATAGRAMS // 10):  # at once, and so at the rate of the host's device
            sending.sendto(number.to_bytes(4) + bytes(topology.mtu_bytes - 32), (to, PORT))
        receiving.settimeout(1)
        came_s = [(receiving.recv(4), time.monotonic())[1] for _ in range(DATAGRAMS // 10)]
    return {
        "pings_s": [
            float(word.removeprefix("time=")) / 1e3 for word in words if word.startswith("time=")
        ],
        "passes": passes,
        "order": order,
        "came_s": came_s,
    }


def bytes_a_packet(path: Dumbbell, iperf3: str) -> dict[str, float]:
    """Returns the mean size of packets of TCP data behind each router: its device counts joined
    packets as one.
    """
    [pair] = path.pairs
    with subprocess.Popen(
        path.receiver(pair).command([iperf3, "-s", "-1"]), stdout=subprocess.DEVNULL
    ):
        time.sleep(0.5)
        path.sender(pair).run([iperf3, "-c", pair.receiver_address, "-t", "1"])
    sizes = {}
    for router in ("delay", "bottleneck"):
        [link] = json.loads(
            path.host(router).run(["ip", "-s", "-j", "link", "show", "dev", "east"])
        )
        sent = link["stats64"]["tx"]
        sizes[router] = sent["bytes"] / sent["packets"]
    return sizes


def bottleneck(path: Dumbbell) -> dict[str, Any]:
    root = qdisc.root_of(qdisc.qdiscs(path.host("bottleneck"), "east"))
    assert root
    return root


def counters(path: Dumbbell) -> dict[str, list[dict[str, object]]]:
    return {
        what: qdisc.qdiscs(path.host(device.place.namespace), device.place.device)
        for what, device in path.devices.items()
    }


def main() -> None:
    iperf3 = sys.argv[2]
    for point in json.loads(sys.argv[3]):
        topology = Topology(
            rate_bps=point["rate_bps"],
            buffer=Buffer(*point["buffer"]),
            mtu_bytes=point["mtu"],
            offloads=point["offloads"],
            queue=read_queue(point["queue"]),
            shaper=point["shaper"],
            senders=(
                Sender(
                    "h1",
                    point["rtt_s"] / 2,
                    Loss("random", (point["loss"],)) if point["loss"] else None,
                    point.get("jitter_s", 0.0),
                    point.get("reorder", 0.0),
                    point.get("host_rate_bps"),
                ),
            ),
        )
        with Journal() as journal, dumbbell(topology, journal) as path:
            if point["protocol"] == "tcp":
                values: dict[str, Any] = {"bytes_a_packet": bytes_a_packet(path, iperf3)}
            elif point["protocol"] == "pings":
                values = one_by_one(path, topology)
            else:
                values = {"pings_s": ping_rtts_s(path), "burst_packets": burst(path, topology)}
                values |= offered(path, topology, iperf3)
                if point["loss"]:
                    values["small"] = many_small(path, topology, point["loss"])
        bucket_packets = topology.bucket_bytes(topology.rate_bps) // topology.packet_bytes
        sizes = {"buffer_bytes": topology.buffer_bytes, "packet_bytes": topology.packet_bytes}
        print(json.dumps(values | sizes | {"bucket_packets": bucket_packets}))


main()
