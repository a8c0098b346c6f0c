"""Runs real TCP over netem inside a guest of the lab, captures at both ends, and asks the sender's
kernel.

    python3 traffic.py SCENARIO...

Leaves in the working folder, for each scenario, SCENARIO-sender.pcap, SCENARIO-receiver.pcap and
SCENARIO.json: the sender's tcp_info at the end.
"""

import ctypes
import json
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PORT = 5201
CLONE_NEWNET = 0x40000000
TCP_INFO_BYTES = 224


@dataclass(frozen=True)
class Scenario:
    netem: str = "delay 10ms"  # of the way to the receiver; the way back has a delay of 10 ms
    back: str = "delay 10ms"
    size: int = 1_000_000
    ipv6: bool = False
    ecn: bool = False
    offloads: bool = False
    replies: bool = False  # the receiver answers every 100 kB with 30 kB
    pause_s: float = 0  # the receiver reads nothing for this time
    receive_buffer: int = 0  # of the receiver; 0 leaves it to the kernel


SCENARIOS = {
    "clean": Scenario(),
    "loss": Scenario("delay 10ms loss 2% rate 50mbit limit 1000"),
    "heavy-loss": Scenario("delay 10ms loss 8%", "delay 10ms loss 4%"),
    "loss-v6": Scenario("delay 10ms loss 3%", ipv6=True),
    "reorder": Scenario("delay 10ms reorder 5%"),
    "duplicate": Scenario("delay 10ms duplicate 2%"),
    "ecn": Scenario("delay 10ms loss 2% ecn", ecn=True),
    "super": Scenario("delay 10ms rate 200mbit", offloads=True, size=10_000_000),
    "super-loss": Scenario("delay 10ms loss 1%", offloads=True, size=4_000_000),
    "replies": Scenario("delay 10ms loss 2%", "delay 10ms loss 2%", replies=True),
    "zero-window": Scenario(pause_s=3, receive_buffer=50_000),
}


def run(line: str) -> None:
    subprocess.run(shlex.split(line), check=True)


def enter(namespace: str) -> None:
    """Moves this thread into the namespace; it opens its sockets there from now on."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def build_path() -> None:
    """Builds s - r - d; r forwards and has netem, so that both ends capture what they really
    sent and got.
    """
    for name in "srd":
        run(f"ip netns add {name}")
    run("ip link add eth0 netns s type veth peer name west netns r")
    run("ip link add eth0 netns d type veth peer name east netns r")
    for number, (end, port) in enumerate((("s", "west"), ("d", "east")), start=1):
        for name, interface, last in ((end, "eth0", 1), ("r", port, 2)):
            run(f"ip -n {name} addr add 10.0.{number}.{last}/24 dev {interface}")
            run(f"ip -n {name} addr add fd00:{number}::{last}/64 dev {interface} nodad")
            run(f"ip -n {name} link set {interface} up")
        run(f"ip -n {end} route add default via 10.0.{number}.2")
        run(f"ip -n {end} route add default via fd00:{number}::2")
        run(f"tc -n r qdisc add dev {port} root netem delay 10ms")
    run("ip netns exec r sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")


def set_offloads(state: str) -> None:
    for name, interface in (("s", "eth0"), ("d", "eth0"), ("r", "west"), ("r", "east")):
        run(f"ip netns exec {name} ethtool -K {interface} tso {state} gso {state} gro {state}")


class Capture:
    def __init__(self, namespace: str, file: str) -> None:
        self._log = Path(file + ".log")
        # tcpdump gives a file that it opens to another owner, which root of a guest may do only as
        # root of the host
        argv = (
            f"ip netns exec {namespace} tcpdump -Z root -i eth0 -s 128 -B 65536 -w - tcp "
            f"port {PORT}"
        )
        with self._log.open("w") as log, Path(file).open("wb") as packets:
            self._process = subprocess.Popen(shlex.split(argv), stdout=packets, stderr=log)
        while "listening on" not in self._log.read_text():
            if self._process.poll() is not None:
                raise SystemExit(f"tcpdump: {self._log.read_text()}")
            time.sleep(0.02)

    def end(self) -> None:
        time.sleep(
            2.5
        )  # the kernel gives tcpdump a block of packets when it is full, or a second old
        self._process.terminate()
        self._process.wait()
        if "\n0 packets dropped by kernel" not in self._log.read_text():
            raise SystemExit(f"tcpdump lost packets: {self._log.read_text()}")


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """Returns fields of struct tcp_info (include/uapi/linux/tcp.h)."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    fields = {
        "total_retrans": ("I", 100),
        "bytes_acked": ("Q", 120),
        "bytes_received": ("Q", 128),
        "segs_out": ("I", 136),
        "segs_in": ("I", 140),
        "min_rtt_us": ("I", 148),
        "data_segs_in": ("I", 152),
        "data_segs_out": ("I", 156),
        "delivered_ce": ("I", 196),
        "bytes_sent": ("Q", 200),
        "bytes_retrans": ("Q", 208),
        "snd_mss": ("I", 16),
    }
    return {name: struct.unpack_from("=" + kind, raw, at)[0] for name, (kind, at) in fields.items()}


def transfer(scenario: Scenario, sender: socket.socket, receiver: socket.socket) -> dict[str, int]:
    def receive() -> None:
        got = 0
        time.sleep(scenario.pause_s)
        while chunk := receiver.recv(100_000 if not scenario.replies else 100_000 - got % 100_000):
            got += len(chunk)
            if scenario.replies and got % 100_000 == 0:
                receiver.sendall(bytes(30_000))
        receiver.shutdown(socket.SHUT_WR)

    def send() -> None:
        for _ in range(scenario.size // 100_000):
            sender.sendall(bytes(100_000))
            if scenario.replies:
                sender.recv(30_000, socket.MSG_WAITALL)

    reader = threading.Thread(target=receive)
    reader.start()
    send()
    while tcp_info(sender)["bytes_acked"] < scenario.size:  # with the SYN it may be one more
        time.sleep(0.01)
    info = tcp_info(sender)
    sender.shutdown(socket.SHUT_WR)
    while sender.recv(100_000):
        pass
    reader.join()
    return info


def play(name: str, scenario: Scenario) -> None:
    run(f"tc -n r qdisc replace dev east root netem {scenario.netem}")
    run(f"tc -n r qdisc replace dev west root netem {scenario.back}")
    for end in "sd":
        run(f"ip netns exec {end} sysctl -qw net.ipv4.tcp_ecn={int(scenario.ecn)}")
        run(f"ip -n {end} tcp_metrics flush all")
    set_offloads("on" if scenario.offloads else "off")
    captures = [Capture("s", f"{name}-sender.pcap"), Capture("d", f"{name}-receiver.pcap")]
    family, address = (
        (socket.AF_INET6, "fd00:2::1") if scenario.ipv6 else (socket.AF_INET, "10.0.2.1")
    )
    enter("d")
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if scenario.receive_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, scenario.receive_buffer)
    listener.bind((address, PORT))
    listener.listen()
    enter("s")
    sender = socket.create_connection((address, PORT))
    receiver = listener.accept()[0]
    with listener, sender, receiver:
        info = transfer(scenario, sender, receiver)
    for capture in captures:
        capture.end()
    Path(f"{name}.json").write_text(json.dumps(info))


def main(names: Sequence[str]) -> None:
    build_path()
    for name in names:
        play(name, SCENARIOS[name])


if __name__ == "__main__":
    main(sys.argv[1:])
