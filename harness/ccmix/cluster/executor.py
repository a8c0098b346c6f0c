"""Makes the runs of a campaign on the workers of a Dask cluster: Dask decides which worker makes which run, when."""

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from distributed import Client, KilledWorker, SpecCluster
from distributed.client import FutureCancelledError

from ccmix.cluster import worker as at_worker
from ccmix.cluster.arriving import arrived
from ccmix.cluster.connection import SchedulerConnection
from ccmix.cluster.files import hash_of, packed_userland
from ccmix.cluster.messages import MEMORY, Job, Reply, decoded
from ccmix.cluster.stragglers import Flight, Pace
from ccmix.generators.results import GeneratorError
from ccmix.lab.memory import guest_memory_bytes
from ccmix.lab.userlands import identify_userland
from ccmix.model.results import FinishedRun
from ccmix.run.executor import Attempt, in_thread
from ccmix.units import format_bytes

MOST_SUBMITTED = 10_000  # runs that the scheduler holds at the same time
LOST = "scheduler-connection-lost"  # as Dask says


@dataclass(frozen=True)
class Lab:
    """Holds the files that runs need of the lab."""

    kernels: Mapping[str, Path]  # by name in topologies
    programs: Mapping[str, Path]  # by their field of EmulationPrograms, and 'capflow' and 'confine'
    userland: Path  # the root of the guests

    @property
    def by_hash(self) -> dict[str, Path]:
        return {hash_of(file): file for file in (*self.kernels.values(), *self.programs.values())}

    @property
    def userland_sha256(self) -> str:
        return str(identify_userland(self.userland).userland_sha256)


@dataclass
class _Submitted(Flight):
    """Is a run that was submitted, with who waits for it."""

    began: Callable[[], None] = lambda: None
    straggles: asyncio.Event = field(default_factory=asyncio.Event)


class DaskExecutor:
    """Submits each attempt to the scheduler, and puts what comes back into its folder."""

    slots = MOST_SUBMITTED

    def __init__(
        self, connection: SchedulerConnection, lab: Lab, shared: Path | None, started: SpecCluster | None = None
    ) -> None:
        """Takes the cluster that was started for this campaign alone, if one was."""
        self._connection = connection
        self._started = started
        self._lab = lab
        self._shared = shared
        self._topic = f"ccmix-{uuid.uuid4().hex}"
        self._flights: dict[str, _Submitted] = {}  # by key
        self._pace = Pace()
        self._sending: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._sent: set[tuple[str, str]] = set()  # workers and hashes

    async def make(self, attempt: Attempt) -> FinishedRun:
        number = 0
        sent_to: set[str] = set()
        while True:
            number += 1
            reply = await self._reply(attempt, f"{self._topic}-{attempt.run.name}-{number}")
            if reply is None:
                continue
            if reply.outcome == "lacks" and reply.worker not in sent_to:
                sent_to.add(reply.worker)
                await self._send(reply.worker, reply.lacks)
            elif reply.outcome == "lacks":
                self._connection.found_unfit(reply.worker, "it does not keep what is sent to it")
            elif reply.outcome == "unfit":
                self._connection.found_unfit(reply.worker, reply.reason)
            else:
                return await in_thread(partial(arrived, attempt, reply, self._shared))

    async def close(self) -> None:
        await self._connection.close()
        if self._started:
            await asyncio.to_thread(self._started.close)

    async def _client(self) -> Client:
        return await self._connection.client(
            lambda client: client.subscribe_topic(self._topic, self._event), self._start_stragglers_again
        )

    async def _reply(self, attempt: Attempt, key: str) -> Reply | None:
        """Returns what a worker replies; None where the scheduler was lost meanwhile. Raises GeneratorError."""
        client = await self._client()
        flight = self._flights[key] = _Submitted(attempt.run.seconds or 0.0, began=attempt.began)
        copies = [asyncio.create_task(self._copy(client, attempt, key, ()))]
        straggles = asyncio.create_task(flight.straggles.wait())
        try:
            await asyncio.wait({*copies, straggles}, return_when=asyncio.FIRST_COMPLETED)
            if straggles.done() and not copies[0].done():
                elsewhere = await self._workers_of(client, key)
                copies.append(asyncio.create_task(self._copy(client, attempt, f"{key}-again", elsewhere)))
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            reply = next(copy for copy in copies if copy.done()).result()
        finally:
            del self._flights[key]
            for task in (*copies, straggles):
                task.cancel()
        if reply and reply.outcome == "finished" and flight.since_s is not None:
            self._pace.add(flight.traffic_s, time.monotonic() - flight.since_s)
        return reply

    async def _copy(self, client: Client, attempt: Attempt, key: str, elsewhere: Collection[str]) -> Reply | None:
        """Submits the run, not to the workers `elsewhere`, and returns the reply as _reply() does."""
        job = Job(
            key=key,
            topic=self._topic,
            run=attempt.started,
            kernels={name: hash_of(file) for name, file in self._lab.kernels.items()},
            programs={name: hash_of(file) for name, file in self._lab.programs.items()},
            userland=self._lab.userland_sha256,
            shared=str(self._shared) if self._shared else None,
        )
        memory_bytes = guest_memory_bytes(attempt.started.topology)
        future = client.submit(
            at_worker.make_run, job, key=key, pure=False, workers=self._chosen(memory_bytes, elsewhere),
            resources={self._connection.identity: 1.0, MEMORY: float(memory_bytes)},
        )  # fmt: skip
        try:
            return decoded(await future)
        except FutureCancelledError as error:
            if error.reason == LOST or client.status != "running":
                await self._connection.lost(client)
            return None
        except KilledWorker as error:
            last = error.last_worker.address
            raise GeneratorError(f"each worker that began this run died, the last {last}") from error
        finally:
            future.release()

    def _chosen(self, memory_bytes: int, elsewhere: Collection[str]) -> list[str] | None:
        """Returns the workers that a run may be given to; None: all. Raises GeneratorError where none can make it."""
        workers = self._connection.workers
        if workers.unfit and workers.good and not workers.fit:
            worker, reason = next(iter(workers.unfit.items()))
            raise GeneratorError(f"no worker can make it: {worker}: {reason}")
        most_bytes = max((of.memory_bytes for of in workers.good.values()), default=float(memory_bytes))
        if most_bytes < memory_bytes:
            self._connection.tell_once(
                f"runs of {format_bytes(memory_bytes)} of memory wait for a worker that has so much: the largest has "
                f"{format_bytes(most_bytes)}"
            )
        others = [address for address in workers.fit if address not in elsewhere]
        return others if workers.unfit or elsewhere else None

    async def _workers_of(self, client: Client, key: str) -> list[str]:
        """Returns the workers to which the scheduler has given a run."""
        given = await client.processing()
        return [worker for worker, keys in given.items() if key in keys]

    async def _start_stragglers_again(self, client: Client) -> None:
        workers = self._connection.workers
        threads = sum(workers.good[address].threads for address in workers.fit)
        for key in self._pace.stragglers(dict(self._flights), threads):
            flight = self._flights.get(key)
            if flight and len(workers.fit) > len(await self._workers_of(client, key)) and not flight.straggles.is_set():
                self._connection.tell_once(
                    f"{key.removeprefix(self._topic)[1:]}: takes long: it is started again elsewhere"
                )
                flight.straggles.set()

    async def _send(self, worker: str, hashes: Collection[str]) -> None:
        """Sends files to a worker once."""
        client = await self._client()
        async with self._sending[worker]:
            left = {sha256 for sha256 in hashes if (worker, sha256) not in self._sent}
            if not left:
                return
            contents = {sha256: self._lab.by_hash[sha256].read_bytes() for sha256 in left - {self._lab.userland_sha256}}
            userlands = {
                sha256: await asyncio.to_thread(packed_userland, self._lab.userland)
                for sha256 in left - contents.keys()
            }
            try:
                replies = await client.run(at_worker.keep, contents, userlands, workers=[worker])
            except (OSError, ValueError):
                return  # the worker is gone
            if reason := replies.get(worker):
                self._connection.found_unfit(worker, reason)
            self._sent |= {(worker, sha256) for sha256 in left}

    def _event(self, event: tuple[float, dict[str, str]]) -> None:
        _, said = event
        if flight := self._flights.get(said.get("began", "")):
            flight.since_s = time.monotonic()
            flight.began()
