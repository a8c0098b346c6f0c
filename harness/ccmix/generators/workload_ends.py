"""Sends and receives the flows of a workload: each starts at a given time and has a given size.

`python -m ccmix.generators.workload_ends send ADDRESS PORT CCA SCHEDULE` reads lines 'SECONDS
BYTES' and prints 'NUMBER START' when it begins to connect; `... receive ADDRESS PORT` prints
'NUMBER BYTES END' when the last byte of a flow has arrived. Times are in seconds of
CLOCK_MONOTONIC, which all namespaces of a machine share. Standard library only, because it runs in
a guest.
"""

import asyncio
import socket
import struct
import sys
import time
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.model.group_grammar import DEFAULT_CCA

HEADER = struct.Struct("!QQ")  # number of the flow, and its bytes, this header included
BLOCK_BYTES = 2**18


async def send(address: str, port: int, cca: str, schedule: Path) -> None:
    """Starts each flow of a schedule at its time, and waits until all flows have been received. The
    file `schedule` has a line 'SECONDS BYTES' for each flow.
    """
    begin = Deadline(0.0)
    async with asyncio.TaskGroup() as flows:
        for number, line in enumerate(schedule.read_text().splitlines()):
            at_s, size_bytes = line.split()
            await asyncio.sleep(begin.plus(float(at_s)).remaining_s)
            flows.create_task(_send_flow(address, port, cca, number, int(size_bytes)))


async def _send_flow(address: str, port: int, cca: str, number: int, size_bytes: int) -> None:
    """Sends one flow over a new connection, and waits until the receiver has all of its bytes.
    Prints 'NUMBER START' before it connects.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as flow:
        flow.setblocking(False)
        if cca != DEFAULT_CCA:
            flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
        print(number, f"{time.monotonic():.9f}", flush=True)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(flow, (address, port))
        await loop.sock_sendall(flow, HEADER.pack(number, size_bytes))
        left, block = size_bytes - HEADER.size, bytes(BLOCK_BYTES)
        while left > 0:
            await loop.sock_sendall(flow, block[:left] if left < BLOCK_BYTES else block)
            left -= BLOCK_BYTES
        flow.shutdown(socket.SHUT_WR)
        await loop.sock_recv(flow, 1)  # until the receiver has all bytes and closes


async def receive(address: str, port: int) -> None:
    """Receives flows, each over its own connection, until the process is ended."""
    server = await asyncio.start_server(
        _receive_flow, address, port, limit=2 * BLOCK_BYTES, backlog=1024
    )
    async with server:
        await server.serve_forever()


async def _receive_flow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Receives a flow, and prints 'NUMBER BYTES END' if all of its bytes have arrived."""
    try:
        number, size_bytes = HEADER.unpack(await reader.readexactly(HEADER.size))
        left = size_bytes - HEADER.size
        while left > 0 and (block := await reader.read(BLOCK_BYTES)):
            left -= len(block)
        if left <= 0:
            print(number, size_bytes, f"{time.monotonic():.9f}", flush=True)
    except (asyncio.IncompleteReadError, OSError):
        pass  # an incomplete flow is not reported
    finally:
        writer.close()


def main() -> None:
    """Sends or receives flows, according to the command's arguments (see the top of this
    module).
    """
    match sys.argv[1:]:
        case ["send", address, port, cca, schedule]:
            asyncio.run(send(address, int(port), cca, Path(schedule)))
        case ["receive", address, port]:
            asyncio.run(receive(address, int(port)))


if __name__ == "__main__":
    main()
