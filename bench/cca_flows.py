"""Flows of iperf3 between two network namespaces of this machine, for the benches of bbr2 and bbr3
as BPF programs.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ccmix.tools import find_iperf3

SENDER, ROUTER, RECEIVER = (f"ccmix-bench-{role}{os.getpid()}" for role in ("s", "x", "r"))
ADDRESSES = {SENDER: "10.89.0.1", RECEIVER: "10.89.0.2"}
# The router's links to them, and their networks
LINKS = {SENDER: ("sender", "10.89.1"), RECEIVER: ("receiver", "10.89.2")}


def run(*argv: str) -> None:
    subprocess.run(argv, check=True)


@contextmanager
def namespaces(*names: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield


@contextmanager
def linked(*queue: str) -> Iterator[None]:
    """Makes the namespaces, with a veth between them. With a queue, a packet holds at most one
    segment.
    """
    whole = ("gso_max_segs", "1") if queue else ()
    with namespaces(*ADDRESSES):
        run(
            "ip",
            "link",
            "add",
            "v",
            "netns",
            SENDER,
            "type",
            "veth",
            "peer",
            "name",
            "v",
            "netns",
            RECEIVER,
        )
        for name, address in ADDRESSES.items():
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "v")
            run("ip", "-n", name, "link", "set", "v", "up", *whole)
        if queue:
            run("tc", "-n", SENDER, "qdisc", "add", "dev", "v", "root", *queue)
        yield


@contextmanager
def routed(*queue: str) -> Iterator[None]:
    """Puts the queue into a router between the two, because TCP would notice a drop in its own host
    at once.
    """
    with namespaces(*ADDRESSES, ROUTER):
        run("ip", "netns", "exec", ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for name, (link, network) in LINKS.items():
            run(
                "ip",
                "link",
                "add",
                "v",
                "netns",
                name,
                "type",
                "veth",
                "peer",
                "name",
                link,
                "netns",
                ROUTER,
            )
            run("ip", "-n", name, "addr", "add", f"{network}.2/24", "dev", "v")
            run("ip", "-n", name, "addr", "add", f"{ADDRESSES[name]}/32", "dev", "lo")
            run("ip", "-n", name, "link", "set", "v", "up", "gso_max_segs", "1")
            run(
                "ip",
                "-n",
                name,
                "route",
                "add",
                "default",
                "via",
                f"{network}.1",
                "src",
                ADDRESSES[name],
            )
            run("ip", "-n", ROUTER, "addr", "add", f"{network}.1/24", "dev", link)
            run("ip", "-n", ROUTER, "link", "set", link, "up")
            run("ip", "-n", ROUTER, "route", "add", ADDRESSES[name], "via", f"{network}.2")
        run("tc", "-n", ROUTER, "qdisc", "add", "dev", LINKS[RECEIVER][0], "root", *queue)
        yield


def transfer(
    ccas: Sequence[str],
    seconds: int,
    flows: int = 1,
    server: str = RECEIVER,
    address: str = ADDRESSES[RECEIVER],
) -> list[dict[str, Any]]:
    """Sends with each congestion control at the same time, and returns the JSON of the senders'
    iperf3.
    """
    iperf3 = str(find_iperf3())
    ports = [str(5201 + number) for number in range(len(ccas))]
    with ExitStack() as stack:
        for port in ports:
            serve = ["ip", "netns", "exec", server, iperf3, "-s", "-1", "--forceflush", "-p", port]
            process = stack.enter_context(
                subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout
            process.stdout.readline()
        clients = []
        for cca, port in zip(ccas, ports, strict=True):
            words = (
                "-c",
                address,
                "-p",
                port,
                "-C",
                cca,
                "-t",
                str(seconds),
                "-P",
                str(flows),
                "-J",
            )
            command = ["ip", "netns", "exec", SENDER, iperf3, *words]
            clients.append(
                stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            )
        results = [json.loads(client.communicate()[0]) for client in clients]
    for cca, result in zip(ccas, results, strict=True):
        if result.get("error") or result["end"]["sender_tcp_congestion"] != cca:
            raise RuntimeError(
                f"{cca}: {result.get('error') or result['end']['sender_tcp_congestion']}"
            )
    return results
