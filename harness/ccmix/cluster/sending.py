"""Sends kernels, programs and userlands to the workers that lack them."""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from ccmix.cluster import worker as at_worker
from ccmix.cluster.files import hash_of, packed_userland
from ccmix.cluster.messages import MOST_THROUGH_DASK_BYTES, SentFile
from ccmix.cluster.shared_folder import SharedFolder
from ccmix.lab.userlands import identify_userland

AT_A_TIME = 2  # workers, of which hundreds may come at once
SENT_WITHIN_S = 300.0  # as long as Dask waits for a sign of life of a worker


@dataclass(frozen=True)
class Lab:
    """Holds the files that runs need of the lab."""

    kernels: Mapping[str, Path]  # by name in topologies
    programs: Mapping[str, Path]  # by their field of EmulationPrograms, and 'capflow' and 'confine'
    userland: Path  # the root of the guests

    @functools.cached_property
    def by_hash(self) -> dict[str, Path]:
        return {hash_of(file): file for file in (*self.kernels.values(), *self.programs.values())}

    @property
    def userland_sha256(self) -> str:
        return str(identify_userland(self.userland).userland_sha256)


class FileSender:
    """Sends each file to a worker once, through the shared folder what is too large for Dask."""

    def __init__(self, lab: Lab, shared: SharedFolder | None) -> None:
        self._lab = lab
        self._shared = shared
        self._at_worker: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._few = asyncio.Semaphore(AT_A_TIME)
        self._sent: defaultdict[str, set[str]] = defaultdict(set)  # hashes, by the worker's id

    async def send(self, client: Client, worker: str, worker_id: str, hashes: Collection[str]) -> str:
        """Sends those of the files that were not sent to the worker. Returns why it can't keep them, or nothing.

        Raises OSError if the worker has gone.
        """
        async with self._at_worker[worker_id], self._few:
            left = set(hashes) - self._sent[worker_id]
            if not left:
                return ""
            files = [await self._file(sha256) for sha256 in sorted(left)]
            try:
                replies = await asyncio.wait_for(client.run(at_worker.keep, files, workers=[worker]), SENT_WITHIN_S)
            except TimeoutError:
                return f"it did not take files within {SENT_WITHIN_S:g} s"
            self._sent[worker_id] |= left
            return str(replies.get(worker, ""))

    def forget_others(self, worker_ids: Collection[str]) -> None:
        """Forgets what was sent to workers that have left."""
        for left in self._sent.keys() - set(worker_ids):
            del self._sent[left]
            self._at_worker.pop(left, None)

    async def _file(self, sha256: str) -> SentFile:
        is_userland = sha256 == self._lab.userland_sha256
        content = await asyncio.to_thread(self._content, sha256, is_userland)
        if self._shared and len(content) > MOST_THROUGH_DASK_BYTES:
            return SentFile(sha256, is_userland, shared=await self._shared.put(sha256, content))
        return SentFile(sha256, is_userland, content)

    def _content(self, sha256: str, is_userland: bool) -> bytes:
        return packed_userland(self._lab.userland) if is_userland else self._lab.by_hash[sha256].read_bytes()
