"""Makes the runs of a campaign on the workers of a Dask cluster; Dask decides where and when."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.metadata
import itertools
import logging
import os
import socket
import time
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

from ccmix.analysis.cost import run_seconds
from ccmix.cluster import worker as at_worker
from ccmix.cluster.messages import (
    MEMORY,
    MOST_OF_REPLY_BYTES,
    ClusterError,
    Job,
    Reply,
    about,
    check_encrypted,
    decoded,
    differences,
    resources,
)
from ccmix.cluster.worker import WrongReplyError, store_reply
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
    """Describes a worker of the cluster that may make runs of this campaign."""

    worker_id: str  # its address, and an ID that another worker there would not have
    memory_bytes: float


class SchedulerConnection:
    """Holds a Dask client of the scheduler, and makes a new client when the scheduler was lost.

    It also knows which workers may make runs: those whose kernel, programs and code are the same as
    here, so that they get the same results.
    """

    def __init__(
        self,
        address: str,
        tell: Callable[[str], None],
        needed: Mapping[str, str],
        security: Security | None = None,
    ) -> None:
        """Takes the scheduler's address in Dask's form, such as tcp://HOST:PORT. `needed` has the
        version or hash of each part of this machine that workers must have, too (see
        messages.parts()). `tell` gets sentences for the user.
        """
        self.address = address
        self.needed = needed
        self.resources = resources(needed)
        self.usable: dict[str, KnownWorker] = {}  # workers that may make runs, by address
        self.unfit: set[str] = set()  # the worker_id of workers that could not make a run
        self._has_refused_workers = False  # the scheduler has workers that may not make runs
        self._security = security
        self._tell = tell
        self._told_sentences: set[str] = set()
        self._waits_for_worker = False  # since the scheduler has none
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        logging.getLogger("distributed").setLevel(
            logging.CRITICAL
        )  # its sentences are about itself

    async def check(self) -> None:
        """Raises ClusterError if there is no scheduler, or if it has workers but none of them may
        make runs. It is called before the campaign begins.
        """
        check_encrypted(self.address)
        client = await self._connect()
        await client.close()
        if self._has_refused_workers and not self.usable:
            raise ClusterError(f"{self.address}: none of its workers can be used")

    async def client(
        self, on_new_client: Callable[[Client], None], on_update: Callable[[], Awaitable[None]]
    ) -> Client:
        """Returns the client, once there is a scheduler: if it was lost, this waits for it. Calls
        `on_new_client` with each new client, and `on_update` every few seconds, after the list of
        workers was updated.
        """
        async with self._connecting:
            while self._client is None:
                try:
                    client = await self._connect()
                except ClusterError as error:
                    self.tell_once(f"{error}; ccmix waits for it; Ctrl-C ends the wait")
                    await asyncio.sleep(TRIES_EACH_S)
                    continue
                on_new_client(client)
                self._client = client
                self._watching = asyncio.create_task(self._watch(client, on_update))
        return self._client

    async def lost(self, client: Client) -> None:
        """Gives up a client whose scheduler was lost, so that client() makes a new one."""
        async with self._connecting:
            if self._client is client:
                self._tell(
                    f"{self.address}: the scheduler was lost: the runs that it had are started "
                    "again"
                )
                await self.close()

    async def close(self) -> None:
        """Closes the client and stops updating the list of workers."""
        if self._watching:
            self._watching.cancel()
        if self._client:
            await self._client.close()
        self._client = self._watching = None

    def avoid_worker(self, worker: str, worker_id: str, reason: str) -> None:
        """Notes that a worker could not make a run for this reason, so it gets no more runs while
        there are other workers.
        """
        if worker_id:
            self.unfit.add(worker_id)
            self.tell_once(f"worker {worker} gets no more runs while others are there: {reason}")

    def tell_once(self, sentence: str) -> None:
        """Tells the user a sentence, unless it was told before."""
        if sentence not in self._told_sentences:
            self._told_sentences.add(sentence)
            self._tell(sentence)

    async def _connect(self) -> Client:
        """Returns a new client, whose scheduler was asked for its workers. Raises ClusterError if
        no scheduler answers, or if it has another version of Dask.
        """
        client = Client(
            self.address,
            asynchronous=True,
            timeout=CONNECTS_WITHIN_S,
            set_as_default=False,
            security=self._security,
            serializers=["dask", "pickle", "msgpack"],
            deserializers=["dask", "msgpack", "pickle"],
        )
        own_version = importlib.metadata.version("distributed")
        try:
            with warnings.catch_warnings(
                action="ignore"
            ):  # of other versions, for which ccmix has its own message
                await client
            assert client.scheduler
            versions = await asyncio.wait_for(client.scheduler.versions(), ANSWERS_WITHIN_S)
            its_version = versions["packages"]["distributed"]
            if its_version == own_version:
                await self._update_workers(client)
        except ClusterError:
            await client.close()
            raise
        except Exception as error:  # a server that only seems to be Dask's may answer anything
            await client.close()
            reason = " ".join(str(error).split())
            raise ClusterError(
                f"{self.address}: no scheduler of Dask answers there: {reason}"
            ) from error
        if its_version != own_version:
            await client.close()
            raise ClusterError(
                f"{self.address}: the scheduler has distributed {its_version}, but ccmix here has "
                f"{own_version}: start it from an environment that 'make setup' makes"
            )
        return client

    async def _watch(self, client: Client, on_update: Callable[[], Awaitable[None]]) -> None:
        """Updates the list of workers every few seconds, without end."""
        while True:
            await asyncio.sleep(LOOKS_EACH_S)
            # the scheduler is lost, as the code that waits for a run will find, or answers nonsense
            with contextlib.suppress(Exception):
                await self._update_workers(client)
                await on_update()

    async def _update_workers(self, client: Client) -> None:
        """Asks the scheduler for its workers, keeps those that may make runs, and tells the user
        why others may not. Raises OSError if the scheduler is lost.
        """
        assert client.scheduler
        identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), ANSWERS_WITHIN_S)
        check_encrypted(identity["address"])
        known = identity["workers"]
        self.usable = {
            address: worker
            for address, described in known.items()
            if (worker := self._known_worker(address, described))
        }
        self.unfit &= {worker.worker_id for worker in self.usable.values()}
        self._has_refused_workers = self.usable.keys() != known.keys()
        for address in known.keys() - self.usable.keys():
            self.tell_once(self._refusal(address, known[address]))
        if not known and not self._waits_for_worker:
            self._tell(f"{self.address}: has no worker now: ccmix waits for a worker")
        self._waits_for_worker = not known

    def _known_worker(
        self, address: str, described: Mapping[str, Mapping[str, object]]
    ) -> KnownWorker | None:
        """Returns a worker that may make runs, from the scheduler's description of it; None if it
        may not.
        """
        told, offered = about(described), described["resources"]
        memory_bytes = offered.get(MEMORY, 0.0)
        if told is None or not self.resources <= offered.keys():
            return None
        if not isinstance(memory_bytes, int | float):
            return None
        return KnownWorker(f"{address} {told.id}", float(memory_bytes))

    def _refusal(self, address: str, described: Mapping[str, Mapping[str, object]]) -> str:
        """Returns why a worker may not make runs, from the scheduler's description of it. A worker
        that was started without PRELOAD, or by an older ccmix, tells nothing about itself.
        """
        told = about(described)
        if told and (differing := differences(self.needed, told.parts)):
            return (
                f"worker {address} is refused, because its results could differ: it has {differing}"
            )
        if told:
            return f"worker {address} is refused: it does not say how much memory it has"
        return (
            f"worker {address} is refused: it was started without {PRELOAD}, or by an older ccmix"
        )


MOST_SUBMITTED = 10_000  # runs that the scheduler holds at the same time
TRIED_AT = 2  # after this many workers could not make a run, the run itself is the cause
# A worker hangs that takes longer than this and so many times the expected time of a run. A guest
# that hangs is ended by its own worker, and earlier
HANGS_AFTER_S, HANGS_AFTER_TIMES = 600.0, 20
LOST = "scheduler-connection-lost"  # as Dask says


@dataclass
class _Submission:
    """Describes a job (the making of a run) that was submitted to the scheduler."""

    began: Callable[[], None]
    limit_s: float  # after which a worker that has begun it counts as hung
    memory_bytes: int  # of the guest
    allowed: Collection[str] | None  # addresses of the workers that may make it; None: all workers
    worker: str = ""  # the address at which it began, from Dask; '' if it has not begun
    worker_id: str = ""
    sign_s: float = field(default_factory=time.monotonic)  # of its worker's last sign of life
    hung: bool = False
    future: Future[object] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Unfit:
    """Says why a worker could not make a run."""

    worker: str
    worker_id: str
    reason: str


class DaskExecutor:
    """Makes each run on a worker of the cluster, and puts the files that it returns into the run's
    folder. It implements the protocol Executor.
    """

    slots = MOST_SUBMITTED

    def __init__(
        self,
        connection: SchedulerConnection,
        shared: Path | None,
        campaign: Path,
        started: SpecCluster | None = None,
    ) -> None:
        """Takes the folder `shared` that client and workers can see (None without one), the
        campaign's folder, and the cluster that was started only for this campaign, if any.
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
        """Makes the run on a worker, puts its files into the run's folder, and returns it. If the
        worker can't make it, or sends a wrong reply, another worker tries once. Raises
        GeneratorError.
        """
        shared = str(self._shared / self._prefix) if self._shared else None
        job = Job("", self._topic, attempt.started, shared)
        unfit: list[_Unfit] = []
        while len(unfit) < TRIED_AT:
            client = await self._connection.client(
                lambda client: client.subscribe_topic(self._topic, self._note_run_began),
                self._cancel_stuck_jobs,
            )
            answer = await self._submit_and_wait(client, job, attempt.began, unfit)
            if answer is None:
                continue
            reply, worker, worker_id = answer
            if reply.outcome != "unfit":
                try:
                    return await in_thread(
                        partial(store_reply, attempt, self._connection.needed, reply, self._shared)
                    )
                except WrongReplyError as error:
                    reply = replace(reply, reason=str(error))
            self._connection.avoid_worker(worker, worker_id, reply.reason)
            unfit.append(_Unfit(worker, worker_id, reply.reason))
        self._connection.unfit -= {each.worker_id for each in unfit}
        raise GeneratorError(f"{TRIED_AT} workers could not make it: {_reasons(unfit)}")

    async def close(self) -> None:
        """Closes the connection, removes this campaign's files in the shared folder, and ends a
        cluster that was started for it.
        """
        await self._connection.close()
        await asyncio.to_thread(self._remove_shared)
        if self._started:
            await asyncio.to_thread(self._started.close)

    def _remove_shared(self) -> None:
        """Removes this campaign's files in the shared folder, which workers have written but nobody
        has fetched.
        """
        for file in self._shared.glob(f"{self._prefix}*") if self._shared else ():
            with suppress(OSError):
                file.unlink()

    def _note_run_began(self, event: tuple[float, dict[str, str]]) -> None:
        """Handles a worker's report that it has begun a run. `event` has Dask's time and the
        report.
        """
        _, report = event
        if submission := self._submissions.get(str(report.get("began"))):
            # the scheduler writes the worker's address into each report
            submission.worker = report["worker"]
            known = self._connection.usable.get(submission.worker)
            submission.worker_id = known.worker_id if known else submission.worker
            self._sign_of_life()
            submission.sign_s = time.monotonic()
            submission.began()

    def _sign_of_life(self) -> None:
        """Lets the runs that have not begun yet wait again, because a worker is at work."""
        for submission in self._submissions.values():
            if not submission.worker:
                submission.sign_s = time.monotonic()

    async def _cancel_stuck_jobs(self) -> None:
        """Cancels the jobs whose allowed workers have all left, so that they are submitted again
        for other workers, and the jobs of workers that hang. Also starts workers again that have
        ended, in a cluster that was started for this campaign.
        """
        usable = self._connection.usable
        most_bytes = max((worker.memory_bytes for worker in usable.values()), default=0.0)
        for submission in [*self._submissions.values()]:
            if submission.memory_bytes > most_bytes:  # it waits for another worker
                submission.sign_s = time.monotonic()
            submission.hung = time.monotonic() - submission.sign_s > submission.limit_s
            have_left = submission.allowed and not {*submission.allowed} & usable.keys()
            if submission.future and (submission.hung or have_left):
                await submission.future.cancel()
        if self._started:
            self._started.scale(len(self._started.worker_spec))  # restarts ended workers

    async def _submit_and_wait(
        self, client: Client, job: Job, began: Callable[[], None], unfit: Sequence[_Unfit]
    ) -> tuple[Reply, str, str] | None:
        """Submits the job, and returns the worker's reply with the worker's address and ID; None if
        the job must be submitted again, because it was cancelled or the scheduler was lost. `unfit`
        has the workers that could not make it. Raises GeneratorError.
        """
        memory_bytes = guest_memory_bytes(job.run.topology)
        limit_s = HANGS_AFTER_S + HANGS_AFTER_TIMES * (run_seconds(job.run, in_lab=True) or 0.0)
        allowed = self._choose_workers(memory_bytes, unfit)
        submission = _Submission(began, limit_s, memory_bytes, allowed)
        key = f"{self._topic}-{next(self._numbers)}-{job.run.name}"
        self._submissions[key] = submission
        try:
            submission.future = client.submit(
                at_worker.make_run,
                replace(job, key=key),
                key=key,
                pure=False,
                workers=submission.allowed,
                resources={
                    **dict.fromkeys(self._connection.resources, 1.0),
                    MEMORY: float(memory_bytes),
                },
            )
            size = 0  # also if its worker has left: Dask makes the run again
            if await submission.future.exception() is None:
                size = (await client.nbytes([key], summary=False)).get(key, 0)
            self._sign_of_life()
            if size > MOST_OF_REPLY_BYTES:
                reply = Reply("unfit", f"its reply has {format_bytes(size)}")
            else:
                reply = decoded(await submission.future)
        except FutureCancelledError as error:
            if not submission.hung:
                if error.reason == LOST or client.status != "running":
                    await self._connection.lost(client)
                return None
            reply = Reply("unfit", f"it did not answer within {submission.limit_s:.0f} s")
        except (ClosedClientError, CommClosedError):
            await self._connection.lost(client)
            return None
        except KilledWorker as error:
            last = error.last_worker.address
            raise GeneratorError(
                f"each worker that began this run died, the last {last}"
            ) from error
        except Exception as error:  # of the task, of the transport, or of a wrong reply
            reply = Reply("unfit", f"{error!r:.200}".encode(errors="replace").decode())
        finally:
            del self._submissions[key]
            if submission.future:
                submission.future.release()
        return reply, submission.worker, submission.worker_id

    def _choose_workers(self, memory_bytes: int, unfit: Sequence[_Unfit]) -> Collection[str] | None:
        """Returns the addresses of the workers that may make a run; None means all. `memory_bytes`
        is what the run's guest needs.

        Workers that failed at this run (those in `unfit`) are left out. Workers that
        failed at another run are left out, too, unless there are no others. Raises GeneratorError
        if each worker has already failed at this run.
        """
        usable = self._connection.usable
        if not usable:
            return None
        most_bytes = max(worker.memory_bytes for worker in usable.values())
        if most_bytes < memory_bytes:
            self._connection.tell_once(
                f"runs with {format_bytes(memory_bytes)} of memory wait for a worker with that "
                "much memory: the largest has "
                f"{format_bytes(most_bytes)}"
            )
        tried = {each.worker_id for each in unfit}
        untried = {
            address: worker.worker_id
            for address, worker in usable.items()
            if worker.worker_id not in tried
        }
        if not untried:
            raise GeneratorError(f"no worker can make it: {_reasons(unfit)}")
        fit = [
            address
            for address, worker_id in untried.items()
            if worker_id not in self._connection.unfit
        ]
        chosen = fit or [*untried]
        return chosen if len(chosen) < len(usable) else None


def _reasons(unfit: Sequence[_Unfit]) -> str:
    """Returns why workers could not make a run, in one line."""
    return "; ".join(f"{each.worker or 'a worker'}: {each.reason}" for each in unfit)
