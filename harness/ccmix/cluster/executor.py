"""Makes the runs of a campaign on the workers of a Dask cluster."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from distributed import Client, SpecCluster

from ccmix.cluster.arriving import WrongReplyError, arrived
from ccmix.cluster.connection import SchedulerConnection
from ccmix.cluster.files import hash_of
from ccmix.cluster.messages import Job, Reply
from ccmix.cluster.sending import FileSender, Lab
from ccmix.cluster.shared_folder import SharedFolder
from ccmix.cluster.stragglers import Flight, Pace
from ccmix.cluster.submitting import NoOtherWorkerError, PassedOver, RunSubmitter
from ccmix.generators.results import GeneratorError
from ccmix.model.results import FinishedRun
from ccmix.run.executor import Attempt, in_thread

MOST_SUBMITTED = 10_000  # runs that the scheduler holds at the same time
TRIED_AT = 2  # workers that could not make a run: then it is the run, and not they


@dataclass
class _Submitted(Flight):
    """Describes a submitted run, with what is called when it begins, and what is set when it straggles."""

    began: Callable[[], None] = lambda: None
    straggles: asyncio.Event = field(default_factory=asyncio.Event)

    def begins(self) -> None:
        self.since_s = time.monotonic()
        self.began()


class DaskExecutor:
    """Submits each attempt to the scheduler, and puts what comes back into its folder."""

    slots = MOST_SUBMITTED

    def __init__(
        self, connection: SchedulerConnection, lab: Lab, shared: SharedFolder | None, started: SpecCluster | None = None
    ) -> None:
        """Takes the cluster that was started for this campaign alone, if one was."""
        self._connection = connection
        self._started = started
        self._shared = shared
        self._sender = FileSender(lab, shared)
        self._submitter = RunSubmitter(connection, self._sender)
        self._kernels = {name: hash_of(file) for name, file in lab.kernels.items()}
        self._programs = {name: hash_of(file) for name, file in lab.programs.items()}
        self._userland = lab.userland_sha256
        self._flights: dict[str, _Submitted] = {}  # by the run's name
        self._pace = Pace()

    async def make(self, attempt: Attempt) -> FinishedRun:
        """Makes the run as Executor says.

        If a worker can't make it, or sends back something else, another one tries. If that fails, too, the run fails.
        """
        shared = await self._shared.folder() if self._shared else None
        folder = str(shared) if shared else None
        job = Job("", self._submitter.topic, attempt.started, self._kernels, self._programs, self._userland, folder)
        unfit: list[Reply] = []
        while len(unfit) < TRIED_AT:
            try:
                reply = await self._reply(attempt, job, [each.worker_id for each in unfit])
            except NoOtherWorkerError as error:
                raise GeneratorError(f"no worker can make it: {_reasons(unfit)}") from error
            if reply is None:
                continue
            if reply.outcome != "unfit":
                try:
                    return await in_thread(partial(arrived, attempt, job, reply, shared))
                except WrongReplyError as error:
                    reply = replace(reply, reason=str(error))
            self._connection.found_unfit(reply.worker, reply.worker_id, reply.reason)
            unfit.append(reply)
        for each in unfit:
            self._connection.found_fit(each.worker_id)
        raise GeneratorError(f"{TRIED_AT} workers could not make it: {_reasons(unfit)}")

    async def close(self) -> None:
        await self._connection.close()
        if self._shared:
            await self._shared.close()
        if self._started:
            await asyncio.to_thread(self._started.close)

    async def _client(self) -> Client:
        return await self._connection.client(
            lambda client: client.subscribe_topic(self._submitter.topic, self._submitter.event), self._look_after
        )

    async def _reply(self, attempt: Attempt, job: Job, tried: Sequence[str]) -> Reply | None:
        """Returns what a worker replies; None where the run has to be submitted again. Raises GeneratorError."""
        client = await self._client()
        name = attempt.run.name
        flight = self._flights[name] = _Submitted(attempt.run.seconds or 0.0, began=attempt.began)
        copies = [asyncio.create_task(self._submitter.reply(client, job, PassedOver(tried), flight.begins))]
        straggles = asyncio.create_task(flight.straggles.wait())
        try:
            await asyncio.wait({*copies, straggles}, return_when=asyncio.FIRST_COMPLETED)
            if not copies[0].done() and (busy := await self._workers_of(client, name)):
                elsewhere = PassedOver(tried, busy)
                copies.append(asyncio.create_task(self._submitter.reply(client, job, elsewhere, lambda: None)))
            reply = await first_of_use(copies)
        finally:
            del self._flights[name]
            for task in (*copies, straggles):
                task.cancel()
        if reply and reply.outcome == "finished" and flight.since_s is not None:
            self._pace.add(flight.traffic_s, time.monotonic() - flight.since_s)
        return reply

    async def _workers_of(self, client: Client, run_name: str) -> list[str]:
        """Returns the workers to which the scheduler has given a run; none where the scheduler was lost."""
        try:
            return await self._submitter.workers_of(client, run_name)
        except OSError:
            return []

    async def _look_after(self, client: Client) -> None:
        workers = self._connection.workers
        self._sender.forget_others([of.worker_id for of in workers.good.values()])
        await self._submitter.take_back_stranded()
        if self._started:
            self._started.scale(len(self._started.worker_spec))  # starts anew those that have ended
        threads = sum(workers.good[address].threads for address in workers.fit)
        for name in self._pace.stragglers(dict(self._flights), threads):
            flight = self._flights.get(name)
            if flight and not flight.straggles.is_set():
                busy = await self._workers_of(client, name)
                if busy and len(workers.fit) > len(busy):
                    self._connection.tell_once(f"{name}: takes long: it is started again elsewhere")
                    flight.straggles.set()


async def first_of_use(copies: Sequence["asyncio.Task[Reply | None]"]) -> Reply | None:
    """Returns the first reply of a finished or failed run. Without any, returns or raises what the first copy does."""
    for ended in asyncio.as_completed(copies):
        try:
            reply = await ended
        except GeneratorError:
            continue  # the other copy may do better
        if reply and reply.outcome in ("finished", "failed"):
            return reply
    return copies[0].result()


def _reasons(unfit: Sequence[Reply]) -> str:
    return "; ".join(f"{each.worker or 'a worker'}: {each.reason}" for each in unfit)
