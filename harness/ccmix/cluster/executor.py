"""Makes the runs of a campaign on the workers of a Dask cluster. Dask decides which worker makes a
run and when.
"""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import itertools
import logging
import os
import socket
import uuid
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from distributed import Client, Future, KilledWorker, Security, SpecCluster
from distributed.client import ClosedClientError, FutureCancelledError
from distributed.comm.core import CommClosedError

from ccmix.cluster import worker as at_worker
from ccmix.cluster.messages import (
    ABOUT,
    MEMORY,
    ClusterError,
    Job,
    Reply,
    decoded,
    differences,
    resources,
)
from ccmix.cluster.worker import WrongReplyError, arrived
from ccmix.generators.results import GeneratorError
from ccmix.lab.host import guest_memory_bytes
from ccmix.model.results import FinishedRun
from ccmix.run.campaign import Attempt, in_thread
from ccmix.units import format_bytes

CONNECTS_WITHIN_S = 10.0
ANSWERS_WITHIN_S = 10.0  # the scheduler
LOOKS_EACH_S = 5.0
TRIES_EACH_S = 2.0
PRELOAD = "--preload ccmix.cluster.worker"


@dataclass(frozen=True)
class KnownWorker:
    """Describes a worker that may make runs."""

    worker_id: str  # of Dask, which another worker at that address would not have
    memory_bytes: float


class SchedulerConnection:
    """Holds a client of the scheduler, and makes a new client when the scheduler was lost."""

    def __init__(
        self,
        address: str,
        tell: Callable[[str], None],
        needed: Mapping[str, str],
        security: Security | None = None,
    ) -> None:
        """Takes the scheduler's address in Dask's form, and the parts of this machine that workers
        need, too.
        """
        self.address = address
        self.needed = needed
        self.resources = resources(needed)
        self.good: dict[str, KnownWorker] = {}  # workers that may make runs, by address
        self.unfit: set[str] = set()  # the worker_id of workers that could not make a run
        self._refused = False  # whether there are other workers
        self._security = security
        self._tell = tell
        self._told: set[str] = set()
        self._waits = False  # for a worker, since there is none
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        logging.getLogger("distributed").setLevel(
            logging.CRITICAL
        )  # its sentences are about itself

    async def check(self) -> None:
        """Raises ClusterError if there is no scheduler, or if it has workers and none of them may
        make runs.
        """
        client = await self._connect()
        await client.close()
        if self._refused and not self.good:
            raise ClusterError(f"{self.address}: none of its workers can be used")

    async def client(
        self, began: Callable[[Client], None], looked: Callable[[], Awaitable[None]]
    ) -> Client:
        """Returns the client, once there is a scheduler. Calls `began` with a new client, and
        `looked` every few seconds.
        """
        async with self._connecting:
            while self._client is None:
                try:
                    client = await self._connect()
                except ClusterError as error:
                    self.tell_once(f"{error}; ccmix waits for it; Ctrl-C ends the wait")
                    await asyncio.sleep(TRIES_EACH_S)
                    continue
                began(client)
                self._client = client
                self._watching = asyncio.create_task(self._watch(client, looked))
        return self._client

    async def lost(self, client: Client) -> None:
        """Gives up a client whose scheduler was lost."""
        async with self._connecting:
            if self._client is client:
                self._tell(
                    f"{self.address}: the scheduler was lost: the runs that it had are started "
                    "again"
                )
                await self.close()

    async def close(self) -> None:
        if self._watching:
            self._watching.cancel()
        if self._client:
            await self._client.close()
        self._client = self._watching = None

    def found_unfit(self, worker: str, worker_id: str, reason: str) -> None:
        """Gives no more runs to a worker while there are others."""
        if worker_id:
            self.unfit.add(worker_id)
            self.tell_once(f"worker {worker} gets no more runs while others are there: {reason}")

    def tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)

    async def _connect(self) -> Client:
        """Returns a new client that has examined the workers. Raises ClusterError."""
        client = Client(
            self.address,
            asynchronous=True,
            timeout=CONNECTS_WITHIN_S,
            set_as_default=False,
            security=self._security,
            serializers=["dask", "pickle", "msgpack"],
            deserializers=["dask", "msgpack", "pickle"],
        )
        here = importlib.metadata.version("distributed")
        try:
            with warnings.catch_warnings(
                action="ignore"
            ):  # of other versions, for which ccmix has its own message
                await client
            assert client.scheduler
            versions = await asyncio.wait_for(client.scheduler.versions(), ANSWERS_WITHIN_S)
            there = versions["packages"]["distributed"]
            if there == here:
                await self._look(client)
        except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
            await client.close()
            reason = " ".join(str(error).split())
            raise ClusterError(
                f"{self.address}: no scheduler of Dask answers there: {reason}"
            ) from error
        if there != here:
            await client.close()
            raise ClusterError(
                f"{self.address}: the scheduler has distributed {there}, but ccmix here has "
                f"{here}: start it from an environment that 'make setup' makes"
            )
        return client

    async def _watch(self, client: Client, looked: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(LOOKS_EACH_S)
            with contextlib.suppress(
                OSError
            ):  # the scheduler is lost, as the code that waits for a run will find
                await self._look(client)
                await looked()

    async def _look(self, client: Client) -> None:
        """Asks the scheduler for its workers, keeps those that may make runs, and prints why others
        may not. Workers that have left are forgotten. Raises OSError.
        """
        assert client.scheduler
        identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), ANSWERS_WITHIN_S)
        known = identity["workers"]
        self.good = {
            address: KnownWorker(of[ABOUT]["id"], of["resources"].get(MEMORY, 0.0))
            for address, of in known.items()
            if ABOUT in of and self.resources <= of["resources"].keys()
        }
        self.unfit &= {of.worker_id for of in self.good.values()}
        self._refused = self.good.keys() != known.keys()
        for address in known.keys() - self.good.keys():
            self.tell_once(self._why_refused(address, known[address]))
        if not known and not self._waits:
            self._tell(f"{self.address}: has no worker now: ccmix waits for a worker")
        self._waits = not known

    def _why_refused(
        self, address: str, worker: Mapping[str, Mapping[str, Mapping[str, str]]]
    ) -> str:
        if ABOUT in worker and (differing := differences(self.needed, worker[ABOUT]["parts"])):
            return (
                f"worker {address} is refused, because its results could differ: it has {differing}"
            )
        return (
            f"worker {address} is refused: it was started without {PRELOAD}, or by an older ccmix"
        )


MOST_SUBMITTED = 10_000  # runs that the scheduler holds at the same time
TRIED_AT = 2  # after this many workers could not make a run, the run itself is the cause
LOST = "scheduler-connection-lost"  # as Dask says


@dataclass
class _Submission:
    """Describes a job that was submitted to the scheduler."""

    began: Callable[[], None]
    only: Collection[str] | None  # addresses of the workers that may make it; None: all workers
    worker: str = ""  # the worker at which it began
    worker_id: str = ""
    future: "Future[object] | None" = field(default=None, repr=False)


class DaskExecutor:
    """Submits each attempt to the scheduler, and puts the returned files into its folder."""

    slots = MOST_SUBMITTED

    def __init__(
        self,
        connection: SchedulerConnection,
        shared: Path | None,
        campaign: Path,
        started: SpecCluster | None = None,
    ) -> None:
        """Takes `shared`, the folder that client and workers can see, and a cluster that was
        started for this campaign.
        """
        self._connection = connection
        self._shared = shared
        # as long as the campaign is resumed
        name = f"{socket.gethostname()}\n{os.getuid()}\n{campaign.resolve()}"
        self._prefix = f"ccmix-{hashlib.sha256(name.encode()).hexdigest()[:16]}-"
        self._remove_shared()
        self._started = started
        self._numbers = itertools.count()
        self._submissions: dict[str, _Submission] = {}  # by key
        self._topic = f"ccmix-{uuid.uuid4().hex}"  # of the events that workers report

    async def make(self, attempt: Attempt) -> FinishedRun:
        """Makes the run: see Executor. If a worker can't make it, or returns something else,
        another worker tries once.
        """
        shared = str(self._shared / self._prefix) if self._shared else None
        job = Job("", self._topic, attempt.started, shared)
        unfit: list[Reply] = []
        while len(unfit) < TRIED_AT:
            client = await self._connection.client(
                lambda client: client.subscribe_topic(self._topic, self._event), self._look_after
            )
            reply = await self._submitted(client, job, attempt.began, unfit)
            if reply is None:
                continue
            if reply.outcome != "unfit":
                try:
                    return await in_thread(
                        partial(arrived, attempt, self._connection.needed, reply, self._shared)
                    )
                except WrongReplyError as error:
                    reply = replace(reply, reason=str(error))
            self._connection.found_unfit(reply.worker, reply.worker_id, reply.reason)
            unfit.append(reply)
        self._connection.unfit -= {each.worker_id for each in unfit}
        raise GeneratorError(f"{TRIED_AT} workers could not make it: {_reasons(unfit)}")

    async def close(self) -> None:
        await self._connection.close()
        await asyncio.to_thread(self._remove_shared)
        if self._started:
            await asyncio.to_thread(self._started.close)

    def _remove_shared(self) -> None:
        """Removes this campaign's files in the shared folder that were not fetched."""
        for file in self._shared.glob(f"{self._prefix}*") if self._shared else ():
            with suppress(OSError):
                file.unlink()

    def _event(self, event: tuple[float, dict[str, str]]) -> None:
        """Notes a worker's report that a run has begun there."""
        _, said = event
        if submission := self._submissions.get(said.get("began", "")):
            submission.worker, submission.worker_id = said.get("worker", ""), said.get("id", "")
            submission.began()

    async def _look_after(self) -> None:
        """Cancels the jobs whose chosen workers have all left, so that they are submitted again."""
        for submission in [*self._submissions.values()]:
            if (
                submission.future
                and submission.only
                and not {*submission.only} & self._connection.good.keys()
            ):
                await submission.future.cancel()
        if self._started:
            self._started.scale(len(self._started.worker_spec))  # restarts ended workers

    async def _submitted(
        self, client: Client, job: Job, began: Callable[[], None], unfit: Sequence[Reply]
    ) -> Reply | None:
        """Submits the job, and returns the reply, or None if it must be submitted again. Raises
        GeneratorError.
        """
        memory_bytes = guest_memory_bytes(job.run.topology)
        submission = _Submission(began, self._chosen(memory_bytes, unfit))
        key = f"{self._topic}-{next(self._numbers)}-{job.run.name}"
        self._submissions[key] = submission
        try:
            submission.future = client.submit(
                at_worker.make_run,
                replace(job, key=key),
                key=key,
                pure=False,
                workers=submission.only,
                resources={
                    **dict.fromkeys(self._connection.resources, 1.0),
                    MEMORY: float(memory_bytes),
                },
            )
            return decoded(await submission.future)
        except FutureCancelledError as error:
            if error.reason == LOST or client.status != "running":
                await self._connection.lost(client)
            return None
        except (ClosedClientError, CommClosedError):
            await self._connection.lost(client)
            return None
        except KilledWorker as error:
            last = error.last_worker.address
            raise GeneratorError(
                f"each worker that began this run died, the last {last}"
            ) from error
        except Exception as error:  # of the task, of the transport, or of a wrong reply
            return Reply("unfit", submission.worker, submission.worker_id, f"{error!r:.200}")
        finally:
            del self._submissions[key]
            if submission.future:
                submission.future.release()

    def _chosen(self, memory_bytes: int, unfit: Sequence[Reply]) -> Collection[str] | None:
        """Returns the workers that may make a run (only fit workers if there are any); None: all.
        Raises GeneratorError.
        """
        good = self._connection.good
        if not good:
            return None
        most_bytes = max(worker.memory_bytes for worker in good.values())
        if most_bytes < memory_bytes:
            self._connection.tell_once(
                f"runs with {format_bytes(memory_bytes)} of memory wait for a worker with that "
                "much memory: the largest has "
                f"{format_bytes(most_bytes)}"
            )
        tried = {each.worker_id for each in unfit}
        others = {
            address: worker.worker_id
            for address, worker in good.items()
            if worker.worker_id not in tried
        }
        if not others:
            raise GeneratorError(f"no worker can make it: {_reasons(unfit)}")
        fit = [
            address
            for address, worker_id in others.items()
            if worker_id not in self._connection.unfit
        ]
        chosen = fit or [*others]
        return chosen if len(chosen) < len(good) else None


def _reasons(unfit: Sequence[Reply]) -> str:
    return "; ".join(f"{each.worker or 'a worker'}: {each.reason}" for each in unfit)
