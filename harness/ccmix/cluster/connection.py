"""The connection to a scheduler of Dask, and what is known of its workers."""

import asyncio
import contextlib
import importlib.metadata
import logging
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from distributed import Client, Security

from ccmix.cluster import worker as at_worker
from ccmix.cluster.errors import ClusterError
from ccmix.cluster.identity import differences, fingerprint, parts
from ccmix.cluster.messages import IDENTITY, MEMORY, WORKER_ID

CONNECTS_WITHIN_S = 10.0
ANSWERS_WITHIN_S = 10.0  # a worker, or the scheduler
LOOKS_EACH_S = 5.0
TRIES_EACH_S = 2.0
PRELOAD = "--preload ccmix.cluster.worker"


@dataclass(frozen=True)
class KnownWorker:
    """Describes a worker that may make runs."""

    worker_id: str  # of Dask, which another worker at that address would not have
    threads: int
    memory_bytes: float


@dataclass
class Workers:
    """Lists the workers that the scheduler has."""

    good: dict[str, KnownWorker] = field(default_factory=dict)  # by address
    unfit: dict[str, str] = field(default_factory=dict)  # why a worker could not make a run, by worker_id
    refused: dict[str, str] = field(default_factory=dict)  # a sentence each, by worker_id

    @property
    def fit(self) -> list[str]:
        return [address for address, of in self.good.items() if of.worker_id not in self.unfit]


class SchedulerConnection:
    """Holds a client of the scheduler, and makes another when the scheduler was lost."""

    def __init__(
        self, address: str, tell: Callable[[str], None], host_root: bool, security: Security | None = None
    ) -> None:
        """Takes the scheduler's address as Dask has it, tcp://HOST:PORT or tls://HOST:PORT, whether the root of some
        guests is the host's file system, and the certificates, unless Dask's configuration has them.
        """
        self.address = address
        self._host_root = host_root
        self._security = security
        self.identity = IDENTITY + fingerprint(parts(host_root))
        self.workers = Workers()
        self._tell = tell
        self._told: set[str] = set()
        self._waits = False  # for a worker, since there is none
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its sentences are about itself

    async def check(self) -> None:
        """Raises ClusterError if there is no scheduler, or if it has workers and none of them may make runs."""
        client = await self._connect()
        try:
            await self._look(client)
        except OSError as error:
            raise ClusterError(f"{self.address}: the scheduler does not answer any more: {error!r}") from error
        finally:
            await client.close()
        if self.workers.refused and not self.workers.good:
            reason = next(iter(self.workers.refused.values()))
            raise ClusterError(f"{self.address}: none of its workers can be used: {reason}")

    async def client(self, began: Callable[[Client], None], looked: Callable[[Client], Awaitable[None]]) -> Client:
        """Returns the client, once there is a scheduler; calls `began` with a new one, `looked` each few seconds."""
        async with self._connecting:
            while self._client is None:
                try:
                    client = await self._connect()
                except ClusterError as error:
                    self.tell_once(f"{error}; ccmix waits for it, and Ctrl-C ends that")
                    await asyncio.sleep(TRIES_EACH_S)
                    continue
                try:
                    await self._look_and_tell(client)
                except OSError:  # the scheduler was lost again
                    await client.close()
                    continue
                began(client)
                self._client = client
                self._watching = asyncio.create_task(self._watch(self._client, looked))
        return self._client

    async def lost(self, client: Client) -> None:
        """Gives up a client whose scheduler was lost."""
        async with self._connecting:
            if self._client is client:
                self._tell(f"{self.address}: the scheduler was lost: the runs that it had are started again")
                await self.close()

    async def close(self) -> None:
        if self._watching:
            self._watching.cancel()
        if self._client:
            await self._client.close()
        self._client = self._watching = None

    def found_unfit(self, worker: str, worker_id: str, reason: str) -> None:
        """Gives a worker no more runs, as long as there are others."""
        if worker_id:
            self.workers.unfit[worker_id] = reason
            self.tell_once(f"worker {worker} gets no more runs while others are there: {reason}")

    def found_fit(self, worker_id: str) -> None:
        """Gives a worker runs again."""
        self.workers.unfit.pop(worker_id, None)

    def tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)

    async def _connect(self) -> Client:
        """Raises ClusterError."""
        client = Client(
            self.address, asynchronous=True, timeout=CONNECTS_WITHIN_S, set_as_default=False, security=self._security,
            serializers=["dask", "pickle", "msgpack"], deserializers=["dask", "msgpack", "pickle"],
        )  # fmt: skip
        with warnings.catch_warnings(action="ignore"):  # of other versions, for which there is a sentence
            try:
                await client
                assert client.scheduler
                versions = await asyncio.wait_for(client.scheduler.versions(), ANSWERS_WITHIN_S)
                there = versions["packages"]["distributed"]
            except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
                await client.close()
                reason = " ".join(str(error).split())
                raise ClusterError(f"{self.address}: no scheduler of Dask answers there: {reason}") from error
        here = importlib.metadata.version("distributed")
        if there != here:
            await client.close()
            raise ClusterError(
                f"{self.address}: the scheduler has distributed {there}, and ccmix here {here}: "
                "start it from an environment that 'make setup' makes"
            )
        return client

    async def _watch(self, client: Client, looked: Callable[[Client], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(LOOKS_EACH_S)
            with contextlib.suppress(OSError):  # the scheduler is lost, which whoever waits for a run learns
                await self._look_and_tell(client)
                await looked(client)

    async def _look_and_tell(self, client: Client) -> None:
        await self._look(client)
        for sentence in self.workers.refused.values():
            self.tell_once(sentence)

    async def _look(self, client: Client) -> None:
        """Learns which workers may make runs, and forgets those that have left. Raises OSError."""
        assert client.scheduler
        identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), ANSWERS_WITHIN_S)
        known = {address: of.get(WORKER_ID, address) for address, of in identity["workers"].items()}
        workers = self.workers
        workers.good = {
            address: KnownWorker(known[address], of["nthreads"], of["resources"].get(MEMORY, 0.0))
            for address, of in identity["workers"].items()
            if self.identity in of["resources"]
        }
        if not known and not self._waits:
            self._tell(f"{self.address}: has no worker now: ccmix waits for one")
        self._waits = not known
        present = set(known.values())
        workers.unfit = {worker: reason for worker, reason in workers.unfit.items() if worker in present}
        refused = {worker: address for address, worker in known.items() if address not in workers.good}
        unasked = [worker for worker in refused if worker not in workers.refused]
        reasons = await asyncio.gather(*(_why_refused(client, refused[worker], self._host_root) for worker in unasked))
        reasons_by_worker = {**workers.refused, **dict(zip(unasked, reasons, strict=True))}
        workers.refused = {worker: reasons_by_worker[worker] for worker in refused}


async def _why_refused(client: Client, address: str, host_root: bool) -> str:
    asked = client.run(at_worker.identity, host_root, workers=[address])
    try:
        there = (await asyncio.wait_for(asked, ANSWERS_WITHIN_S))[address]
    except TimeoutError:
        return f"worker {address} is refused: it did not say within {ANSWERS_WITHIN_S:g} s what ccmix it has"
    except Exception as error:  # whatever the import of another ccmix, or of none, raises there
        return f"worker {address} is refused: it has no ccmix as here: {error!r:.100}: install the same there"
    if differing := differences(parts(host_root), there):
        return f"worker {address} is refused, since other bytes could come from it: it has {'; '.join(differing)}"
    return f"worker {address} is refused: it was started without {PRELOAD}"
