"""Submits runs to the scheduler: Dask decides which of the workers that may make a run makes it, and when."""

import itertools
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from distributed import Client, Future, KilledWorker
from distributed.client import ClosedClientError, FutureCancelledError
from distributed.comm.core import CommClosedError

from ccmix.cluster import worker as at_worker
from ccmix.cluster.connection import SchedulerConnection
from ccmix.cluster.messages import MEMORY, Job, Reply, decoded
from ccmix.cluster.sending import FileSender
from ccmix.generators.results import GeneratorError
from ccmix.lab.memory import guest_memory_bytes
from ccmix.units import format_bytes

LOST = "scheduler-connection-lost"  # as Dask says


class NoOtherWorkerError(GeneratorError):
    """Says that all workers are passed over for a run."""


@dataclass(frozen=True)
class PassedOver:
    """Names workers that a run is not given to."""

    ids: Collection[str] = ()  # of those that could not make it
    addresses: Collection[str] = ()  # of those that are making it


@dataclass
class _Submission:
    """Describes a job that was submitted to the scheduler."""

    run_name: str
    began: Callable[[], None]
    only: Collection[str] | None  # addresses of the workers that it may be given to; None: all
    worker: str = ""  # where it began
    worker_id: str = ""
    future: "Future[object] | None" = field(default=None, repr=False)


class RunSubmitter:
    """Submits jobs, and sends the workers what they lack for them."""

    def __init__(self, connection: SchedulerConnection, sender: FileSender) -> None:
        self._connection = connection
        self._sender = sender
        self._numbers = itertools.count()
        self._submissions: dict[str, _Submission] = {}  # by key
        self.topic = f"ccmix-{uuid.uuid4().hex}"  # of the events that workers report

    async def reply(self, client: Client, job: Job, passed_over: PassedOver, began: Callable[[], None]) -> Reply | None:
        """Submits the job, sends its worker what that lacks, and returns the reply; None if it must be submitted again.

        Raises GeneratorError, and NoOtherWorkerError if no worker may make the run.
        """
        sent_to: set[str] = set()
        while True:
            reply = await self._submitted(client, job, passed_over, began)
            if reply is None or reply.outcome != "lacks":
                return reply
            unfit = replace(reply, outcome="unfit")
            if not {*reply.lacks} <= {*job.hashes, job.userland}:
                return replace(unfit, reason="it lacks files that were not asked of it")
            if reply.worker_id in sent_to:
                return replace(unfit, reason="it does not keep what is sent to it")
            sent_to.add(reply.worker_id)
            try:
                reason = await self._sender.send(client, reply.worker, reply.worker_id, reply.lacks)
            except (OSError, ValueError):
                continue  # the worker has gone, and Dask knows of others
            except Exception as error:  # whatever a worker raises
                reason = f"it can't take files: {error!r:.200}"
            if reason:
                return replace(unfit, reason=reason)

    def event(self, event: tuple[float, dict[str, str]]) -> None:
        """Notes that a run has begun at a worker, as the worker reports."""
        _, said = event
        if submission := self._submissions.get(said.get("began", "")):
            submission.worker, submission.worker_id = said.get("worker", ""), said.get("id", "")
            submission.began()

    async def workers_of(self, client: Client, run_name: str) -> list[str]:
        """Returns the workers to which the scheduler has given a run. Raises OSError."""
        keys = {key for key, submission in self._submissions.items() if submission.run_name == run_name}
        given = await client.processing()
        return [worker for worker, processed in given.items() if keys & {*map(str, processed)}]

    async def take_back_stranded(self) -> None:
        """Cancels the jobs whose chosen workers have all left, so that they are submitted again."""
        for submission in [*self._submissions.values()]:
            if submission.future and submission.only and not {*submission.only} & self._connection.workers.good.keys():
                await submission.future.cancel()

    async def _submitted(
        self, client: Client, job: Job, passed_over: PassedOver, began: Callable[[], None]
    ) -> Reply | None:
        memory_bytes = guest_memory_bytes(job.run.topology)
        submission = _Submission(job.run.name, began, self._chosen(memory_bytes, passed_over))
        key = f"{self.topic}-{next(self._numbers)}-{job.run.name}"
        self._submissions[key] = submission
        try:
            submission.future = client.submit(
                at_worker.make_run, replace(job, key=key), key=key, pure=False, workers=submission.only,
                resources={self._connection.identity: 1.0, MEMORY: float(memory_bytes)},
            )  # fmt: skip
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
            raise GeneratorError(f"each worker that began this run died, the last {last}") from error
        except Exception as error:  # of the task, of its way here, or of what came instead of a reply
            return Reply("unfit", submission.worker, submission.worker_id, f"{error!r:.200}")
        finally:
            del self._submissions[key]
            if submission.future:
                submission.future.release()

    def _chosen(self, memory_bytes: int, passed_over: PassedOver) -> Collection[str] | None:
        """Returns the workers that a run may be given to: the fit ones, or others where there is none; None: all.

        Raises NoOtherWorkerError.
        """
        workers = self._connection.workers
        if not workers.good:
            return None
        most_bytes = max(of.memory_bytes for of in workers.good.values())
        if most_bytes < memory_bytes:
            self._connection.tell_once(
                f"runs of {format_bytes(memory_bytes)} of memory wait for a worker that has so much: the largest has "
                f"{format_bytes(most_bytes)}"
            )
        others = [
            address
            for address, of in workers.good.items()
            if of.worker_id not in passed_over.ids and address not in passed_over.addresses
        ]
        if not others:
            raise NoOtherWorkerError("no other worker is there")
        fit = {*workers.fit}
        chosen = [address for address in others if address in fit] or others
        return chosen if len(chosen) < len(workers.good) else None
