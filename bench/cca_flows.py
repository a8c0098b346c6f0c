"""Flows of iperf3 between two network namespaces of this machine, for the benches of bbr2 and bbr3
as BPF programs.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ccmix.tools import find, find_iperf3

SENDER, ROUTER, RECEIVER = (f"ccmix-bench-{role}{os.getpid()}" for role in ("s", "x", "r"))
ADDRESSES = {SENDER: "10.89.0.1", RECEIVER: "10.89.0.2"}
# The router's links to them, and their networks
LINKS = {SENDER: ("sender", "10.89.1"), RECEIVER: ("receiver", "10.89.2")}


def run(*argv: str) -> None:
    subprocess.run(argv, check=True)


def ip(line: str) -> None:
    run("ip", *line.split())


@contextmanager
def namespaces(*names: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name in names:
            ip(f"netns add {name}")
            stack.callback(ip, f"netns del {name}")
            ip(f"-n {name} link set lo up")
        yield


@contextmanager
def linked(*queue: str) -> Iterator[None]:
    """Makes the namespaces, with a veth between them. With a queue, a packet holds at most one
    segment.
    """
    whole = "gso_max_segs 1" if queue else ""
    with namespaces(*ADDRESSES):
        ip(f"link add v netns {SENDER} type veth peer name v netns {RECEIVER}")
        for name, address in ADDRESSES.items():
            ip(f"-n {name} addr add {address}/24 dev v")
            ip(f"-n {name} link set v up {whole}")
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
            ip(f"link add v netns {name} type veth peer name {link} netns {ROUTER}")
            ip(f"-n {name} addr add {network}.2/24 dev v")
            ip(f"-n {name} addr add {ADDRESSES[name]}/32 dev lo")
            ip(f"-n {name} link set v up gso_max_segs 1")
            ip(f"-n {name} route add default via {network}.1 src {ADDRESSES[name]}")
            ip(f"-n {ROUTER} addr add {network}.1/24 dev {link}")
            ip(f"-n {ROUTER} link set {link} up")
            ip(f"-n {ROUTER} route add {ADDRESSES[name]} via {network}.2")
        run("tc", "-n", ROUTER, "qdisc", "add", "dev", LINKS[RECEIVER][0], "root", *queue)
        yield


def options_of_turns(description: str | None, seconds: int) -> argparse.Namespace:
    """Parses the options of a bench in which CCAs have turns: rounds, seconds, and loader, the path
    of ccmix-cca. `seconds` is the default duration of a turn.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds in which each CCA has a turn (default: 5)"
    )
    parser.add_argument(
        "--seconds", type=int, default=seconds, help=f"duration of a turn (default: {seconds})"
    )
    parser.add_argument("--loader", type=Path, help="another ccmix-cca than this checkout's")
    options = parser.parse_args()
    options.loader = options.loader or find("ccmix-cca", "CCMIX_CCA", "ccmix-cca")
    return options


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
