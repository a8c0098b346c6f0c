"""Runs in a guest: many flows over its loopback, with CCAs that change, and prints what came of
them as a line of JSON.

    guest_flows.py short CCAS COUNT      COUNT connections one after the other, a few kilobytes each
    guest_flows.py together CCAS COUNT   COUNT connections at once over a path with loss
    guest_flows.py switched CCAS COUNT   the same, and each flow changes its CCA every 20 ms
    guest_flows.py refused CCA COUNT     the same, and only the first connection gets state
    guest_flows.py failing CCA COUNT     the same, if every third request for memory fails

CCAS are separated by commas; both ends of the connections get them in turn. `grown_bytes` is the
growth of the kernel's own memory (slab), measured after all sockets are gone, and compared with its
size after earlier sockets of the same kind were gone. `left` is the number of sockets that still
have state of bbr2 or bbr3 then. Connections at once are made three times, one after the other.
"""

import json
import random
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SHORT_BYTES, TOGETHER_BYTES, SWITCHED_BYTES = 5_000, 100_000, 8_000_000
BLOCK = bytes(65536)
FORGOTTEN_S = 70  # after which no socket is left in TIME_WAIT
SWITCH_S = 0.02
LONGEST_S = 600  # of virtual time, in which all flows must end
ADDRESSES = 20  # each has ports of its own, as many as there are
WARM_UP = 2000  # connections
# of connections at once, since a leak grows with each, and what is kept for the next sockets does
# not
BATCHES = 3
PARAMETERS = "/sys/module/tcp_{}/parameters/{}"


def shell(*argv: str) -> None:
    subprocess.run(argv, check=True)


def slab_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Slab:"))


def use(sock: socket.socket, cca: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())


def used(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def sockets_with_state() -> int:
    return sum(int(Path(PARAMETERS.format(cca, "sockets")).read_text()) for cca in ("bbr2", "bbr3"))


def listening() -> socket.socket:
    return socket.create_server(("0.0.0.0", 5001), backlog=4096)


def connected(
    listener: socket.socket, cca: str, number: int
) -> tuple[socket.socket, socket.socket]:
    """Returns both ends of a new connection."""
    use(listener, cca)
    client = socket.socket()
    use(client, cca)
    assert used(client) == cca
    client.connect((f"127.0.0.{number % ADDRESSES + 1}", 5001))
    server, _ = listener.accept()
    return client, server


def short(ccas: Sequence[str], count: int) -> dict[str, int]:
    """Makes the connections one after the other; every third is reset instead of closed."""
    done = 0
    with listening() as listener:
        for number in range(count):
            client, server = connected(listener, ccas[number % len(ccas)], number)
            with client, server:
                client.sendall(BLOCK[:SHORT_BYTES])
                if number % 3:
                    client.shutdown(socket.SHUT_WR)
                    received = 0
                    while data := server.recv(len(BLOCK)):
                        received += len(data)
                    done += received == SHORT_BYTES
                else:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    done += 1
            if number % 1000 == 0:
                print(
                    number, file=sys.stderr, flush=True
                )  # a guest that prints nothing is taken for one that hangs
    return {"done": done}


def transferred(
    pairs: Sequence[tuple[socket.socket, socket.socket]],
    size: int,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Sends a number of bytes over each connection at the same time; returns how many connections
    completed.
    """
    left = {client: size for client, _ in pairs}
    received = {server: 0 for _, server in pairs}
    done = 0
    end = time.monotonic() + LONGEST_S
    with selectors.DefaultSelector() as ready:
        for client, server in pairs:
            client.setblocking(False)
            server.setblocking(False)
            ready.register(client, selectors.EVENT_WRITE)
            ready.register(server, selectors.EVENT_READ)
        while ready.get_map() and time.monotonic() < end:
            between()
            for key, _ in ready.select(SWITCH_S):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock in left:
                    left[sock] -= sock.send(BLOCK[: left[sock]])
                    if not left[sock]:
                        sock.shutdown(socket.SHUT_WR)
                        ready.unregister(sock)
                elif data := sock.recv(len(BLOCK)):
                    received[sock] += len(data)
                else:
                    ready.unregister(sock)
                    done += received[sock] == size
    for client, server in pairs:
        client.close()
        server.close()
    return done


def together(ccas: Sequence[str], count: int) -> dict[str, int]:
    with listening() as listener:
        pairs = [connected(listener, ccas[number % len(ccas)], number) for number in range(count)]
        return {"done": transferred(pairs, TOGETHER_BYTES)}


def switched(ccas: Sequence[str], count: int) -> dict[str, int]:
    drawn = random.Random(1)
    switches = 0
    last = time.monotonic()

    def switch() -> None:
        nonlocal switches, last
        if time.monotonic() - last < SWITCH_S:
            return
        last = time.monotonic()
        for client, _ in pairs:
            cca = drawn.choice(ccas)
            use(client, cca)
            assert used(client) == cca
            switches += 1

    with listening() as listener:
        pairs = [connected(listener, ccas[number % len(ccas)], number) for number in range(count)]
        return {"done": transferred(pairs, SWITCHED_BYTES, switch), "switches": switches}


def refused(ccas: Sequence[str], count: int) -> dict[str, int]:
    """Makes the CCA refuse state to all ends except two; the others must report that, and complete
    as well.
    """
    (cca,) = ccas
    limit = Path(PARAMETERS.format(cca, "max_sockets"))
    limit.write_text("2")
    with listening() as listener:
        pairs = [connected(listener, cca, number) for number in range(count)]
        limit.write_text("0")
        shown = [used(end) for pair in pairs for end in pair]
        fallback = f"{cca}-reno"
        assert set(shown) == {cca, fallback}, shown
        return {"done": transferred(pairs, TOGETHER_BYTES), "fallbacks": shown.count(fallback)}


def failing(ccas: Sequence[str], count: int) -> dict[str, int]:
    """Runs connections whose CCAs sometimes get no memory: sockets without state must report that,
    and complete as well.
    """
    (cca,) = ccas
    fallbacks, failures = (Path(PARAMETERS.format(cca, name)) for name in ("fallbacks", "failures"))
    fallbacks_before, failures_before = int(fallbacks.read_text()), int(failures.read_text())
    with listening() as listener:
        pairs = [connected(listener, cca, number) for number in range(count)]
        shown = [used(end) for pair in pairs for end in pair]
        counted = int(fallbacks.read_text()) - fallbacks_before
        done = transferred(pairs, TOGETHER_BYTES)
    assert set(shown) == {cca, f"{cca}-reno"}, shown
    return {
        "done": done,
        "fallbacks": shown.count(f"{cca}-reno"),
        "counted": counted,
        "failures": int(failures.read_text()) - failures_before,
    }


def main() -> None:
    kind, ccas, count = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_NOFILE, (10_000, 10_000))
    shell("sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=200000")
    if kind != "short":
        shell("ip", "link", "set", "lo", "mtu", "1500", "gso_max_segs", "1")
        netem = "delay 5ms loss 1% rate 200mbit limit 2000"
        shell("tc", "qdisc", "add", "dev", "lo", "root", "netem", *netem.split())
    kinds = (short, together, switched, refused, failing)
    make = next(function for function in kinds if function.__name__ == kind)
    make(ccas, min(count, WARM_UP))
    time.sleep(FORGOTTEN_S)
    before = slab_bytes()
    for _ in range(1 if kind == "short" else BATCHES):
        found = make(ccas, count)
        time.sleep(FORGOTTEN_S)
    print(json.dumps({**found, "grown_bytes": slab_bytes() - before, "left": sockets_with_state()}))


if __name__ == "__main__":
    main()
