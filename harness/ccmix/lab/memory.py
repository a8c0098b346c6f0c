"""Shares memory among guests: a guest that finds too little left waits, so that a campaign never swaps."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

from ccmix.lab.host import available_memory_bytes
from ccmix.model import Topology

LEFT_TO_OTHERS = 0.1  # of what is available when the first guest comes: tables are made beside the guests


class SharedMemory:
    """Lends parts of the memory that was available when the first part was asked for, in the order of asking."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._returned = asyncio.Condition()
        self._capacity_bytes: float | None = None
        self._lent_bytes = 0

    @contextlib.asynccontextmanager
    async def part(self, size_bytes: int) -> AsyncIterator[None]:
        """Waits until `size_bytes` are left, or no other guest runs: what is too large for the machine is tried
        alone.
        """
        async with self._turn, self._returned:
            if self._capacity_bytes is None:
                available = available_memory_bytes()
                self._capacity_bytes = math.inf if available is None else (1 - LEFT_TO_OTHERS) * available
            most_bytes = max(size_bytes, self._capacity_bytes)
            await self._returned.wait_for(lambda: self._lent_bytes + size_bytes <= most_bytes)
            self._lent_bytes += size_bytes
        try:
            yield
        finally:
            async with self._returned:
                self._lent_bytes -= size_bytes
                self._returned.notify_all()


def guest_memory_bytes(topology: Topology) -> int:
    """Returns the memory for what is in flight and queued, with ample overhead of socket buffers, and for the guest
    itself.

    Sender's retransmission queue, netem, bottleneck and receiver's reordering queue each hold up to BDP and buffer, in
    buffers of up to 4 times the data's size at small MTUs.
    """
    return 2**29 + round(16 * (topology.bdp_bytes + topology.buffer_bytes))
