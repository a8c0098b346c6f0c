"""Tests what is done with the replies of workers: a real scheduler of Dask and real workers in this process, which make
no run, but reply what a test lets them.
"""

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from distributed import Scheduler, Worker, get_worker

from arriving_runs import made_with, packed
from ccmix.archive import RunFolder
from ccmix.cluster import connection as connection_module
from ccmix.cluster import sending
from ccmix.cluster import worker as at_worker
from ccmix.cluster.connection import SchedulerConnection
from ccmix.cluster.errors import ClusterError
from ccmix.cluster.executor import DaskExecutor, first_of_use
from ccmix.cluster.messages import ENDLESS, MEMORY, WORKER_ID, Job, Reply, SentFile, encoded
from ccmix.cluster.sending import Lab
from ccmix.cluster.shared_folder import SharedFolder
from ccmix.generators.results import GeneratorError
from ccmix.lab.userlands import tree_sha256
from ccmix.model import Group, Run
from ccmix.model.results import FinishedRun
from ccmix.run.executor import Attempt
from ccmix.tools import ToolError
from support import TOPOLOGY, iperf3_traffic

LIMIT_S = 60.0
Answer = Callable[[Job, Worker], Awaitable[object]]


@dataclass
class Playing:
    """Holds what the workers do, and what they did."""

    answer: Answer
    runs: list[tuple[str, str]] = field(default_factory=list)  # worker's name, and run
    kept: list[SentFile] = field(default_factory=list)
    keeping: int = 0
    most_keeping: int = 0
    kept_together: int = 1  # a worker keeps nothing before so many keep at the same time
    asked: Counter[str] = field(default_factory=Counter)


PLAYED: list[Playing] = []  # the test's, since workers get functions by their names


async def make_run(job: Job) -> object:
    worker = get_worker()
    worker.log_event(job.topic, {"began": job.key, "worker": worker.address, "id": worker.id})
    PLAYED[0].runs.append((str(worker.name), job.run.name))
    reply = await PLAYED[0].answer(job, worker)
    return encoded(reply) if isinstance(reply, Reply) else reply


async def keep(sent: Sequence[SentFile]) -> str:
    played = PLAYED[0]
    played.keeping += 1
    played.most_keeping = max(played.most_keeping, played.keeping)
    played.kept += [replace(file, content=Path(file.shared).read_bytes()) if file.shared else file for file in sent]
    while played.most_keeping < played.kept_together:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)  # others may come
    played.keeping -= 1
    return ""


async def identity(_: bool, dask_worker: Worker) -> dict[str, str]:
    PLAYED[0].asked[str(dask_worker.name)] += 1
    await asyncio.sleep(3600)
    return {}


@pytest.fixture(autouse=True)
def play(monkeypatch: pytest.MonkeyPatch, lab: Lab, tmp_path: Path) -> Iterator[Playing]:
    """Lets all workers make every run well, unless the test sets another answer."""
    PLAYED[:] = [Playing(finishing(lab, tmp_path))]
    for function in (make_run, keep, identity):
        monkeypatch.setattr(at_worker, function.__name__, function)
    monkeypatch.setattr(connection_module, "LOOKS_EACH_S", 0.1)
    yield PLAYED[0]
    PLAYED.clear()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    for name in ("kernel", "iperf3"):
        (tmp_path / name).write_text(name)
    root = tmp_path / "userland" / "root"
    root.mkdir(parents=True)
    (root / "file").write_text("file")
    (root.parent / "build.json").write_text(json.dumps({"sha256": tree_sha256(root), "pinned": True}))
    return Lab({"stock": tmp_path / "kernel"}, {"iperf3": tmp_path / "iperf3"}, root)


def finishing(lab: Lab, tmp_path: Path) -> Answer:
    numbers = itertools.count()

    async def answer(job: Job, worker: Worker) -> object:
        facts = made_with(job.kernels["stock"], lab.userland_sha256)
        return replace(reply(worker, "finished"), files=packed(tmp_path / f"made-{next(numbers)}", job.run, facts))

    return answer


def reply(worker: Worker, outcome: str, reason: str = "") -> Reply:
    return Reply(outcome, worker.address, str(worker.id), reason)  # type: ignore[arg-type]


def attempt(tmp_path: Path, number: int = 1) -> Attempt:
    run = Run("e", {}, "receiver", number, 7, iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1), TOPOLOGY)
    return Attempt(run, run, RunFolder.of(tmp_path / "out", run), (), lambda: None)


@dataclass
class Started:
    """Is a scheduler with workers, and a client of it."""

    scheduler: Scheduler
    connection: SchedulerConnection
    executor: DaskExecutor
    said: list[str]
    stack: contextlib.AsyncExitStack

    async def add(self, name: str, port: int = 0, identities: bool = True) -> Worker:
        resources = {self.connection.identity: ENDLESS, MEMORY: ENDLESS} if identities else {}
        own = {WORKER_ID: lambda worker: worker.id} if identities else {}
        worker = Worker(
            self.scheduler.address, name=name, nthreads=1, resources=resources, startup_information=own,
            host="127.0.0.1", port=port, dashboard_address=None,
        )  # fmt: skip
        return await self.stack.enter_async_context(worker)

    async def looked(self, condition: Callable[[], bool]) -> None:
        """Waits until the client knows something of the workers."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def started(lab: Lab, *names: str, shared: SharedFolder | None = None) -> AsyncIterator[Started]:
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
        scheduler = await stack.enter_async_context(
            Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0")
        )
        said: list[str] = []
        connection = SchedulerConnection(scheduler.address, said.append, host_root=False)
        executor = DaskExecutor(connection, lab, shared)
        stack.push_async_callback(executor.close)
        cluster = Started(scheduler, connection, executor, said, stack)
        for name in names:
            await cluster.add(name)
        yield cluster


def by_name(**answers: Answer) -> Answer:
    """Lets each worker answer by its name."""

    async def answer(job: Job, worker: Worker) -> object:
        return await answers[str(worker.name)](job, worker)

    return answer


async def unfit(_: Job, worker: Worker) -> object:
    return reply(worker, "unfit", "no memory for a guest")


async def of_memory(_: Job, __: Worker) -> object:
    raise MemoryError


async def of_a_tool(_: Job, __: Worker) -> object:
    raise ToolError("capflow is not there")


async def no_reply(_: Job, __: Worker) -> object:
    return b"{}\n"


async def no_bytes(_: Job, __: Worker) -> object:
    return 7


async def lacks_what_no_run_needs(_: Job, worker: Worker) -> object:
    return replace(reply(worker, "lacks"), lacks=("0" * 64,))


async def empty(_: Job, worker: Worker) -> object:
    return reply(worker, "finished")


BAD = [unfit, of_memory, of_a_tool, no_reply, no_bytes, lacks_what_no_run_needs, empty]


@pytest.mark.parametrize("bad", BAD)
def test_what_one_worker_can_t_make_is_made_by_another(bad: Answer, play: Playing, lab: Lab, tmp_path: Path) -> None:
    """Expects the worker that could not to get no more runs, since there is another."""
    play.answer = by_name(a=bad, b=play.answer)

    async def made() -> list[FinishedRun]:
        async with started(lab, "a", "b") as cluster:
            return [await cluster.executor.make(attempt(tmp_path, number)) for number in range(1, 7)]

    assert [run.run.iteration for run in asyncio.run(made())] == [1, 2, 3, 4, 5, 6]
    assert Counter(worker for worker, _ in play.runs)["a"] <= 1


def test_a_run_is_said_to_begin_before_it_ends(play: Playing, lab: Lab, tmp_path: Path) -> None:
    """Lets it end only when who watches knows that it has begun."""
    well = play.answer

    async def made() -> FinishedRun:
        begun = asyncio.Event()

        async def answer(job: Job, worker: Worker) -> object:
            await begun.wait()
            return await well(job, worker)

        play.answer = answer
        async with started(lab, "a") as cluster:
            return await cluster.executor.make(replace(attempt(tmp_path), began=begun.set))

    assert asyncio.run(made()).run.iteration == 1


def test_what_a_worker_says_it_lacks_is_checked(play: Playing, lab: Lab, tmp_path: Path) -> None:
    play.answer = by_name(a=lacks_what_no_run_needs)

    async def made() -> list[str]:
        async with started(lab, "a") as cluster:
            with pytest.raises(GeneratorError, match=r"tcp://.*: it lacks files that were not asked of it"):
                await cluster.executor.make(attempt(tmp_path))
            return cluster.said

    assert len(asyncio.run(made())) == 1


@pytest.mark.parametrize("bad", BAD)
def test_a_run_that_two_workers_can_t_make_fails_and_they_stay(
    bad: Answer, play: Playing, lab: Lab, tmp_path: Path
) -> None:
    well = play.answer

    async def answer(job: Job, worker: Worker) -> object:
        return await (bad if job.run.iteration == 1 else well)(job, worker)

    play.answer = answer

    async def made() -> list[str]:
        async with started(lab, "a", "b", "c") as cluster:
            with pytest.raises(GeneratorError, match=r"2 workers could not make it: tcp://.*; tcp://"):
                await cluster.executor.make(attempt(tmp_path))
            await cluster.executor.make(attempt(tmp_path, 2))
            return cluster.connection.workers.fit

    assert len(asyncio.run(made())) == 3


def test_the_only_worker_goes_on(play: Playing, lab: Lab, tmp_path: Path) -> None:
    well = play.answer

    async def answer(job: Job, worker: Worker) -> object:
        return await (unfit if job.run.iteration == 1 else well)(job, worker)

    play.answer = answer

    async def made() -> FinishedRun:
        async with started(lab, "a") as cluster:
            with pytest.raises(GeneratorError, match=r"no worker can make it: tcp://.*: no memory for a guest"):
                await cluster.executor.make(attempt(tmp_path))
            return await cluster.executor.make(attempt(tmp_path, 2))

    assert asyncio.run(made()).run.iteration == 2


def test_what_is_known_of_a_worker_ends_with_it(play: Playing, lab: Lab, tmp_path: Path) -> None:
    """Starts another worker at the same address: it is fit, and lacks files as the first did."""
    well = play.answer

    async def answer(job: Job, worker: Worker) -> object:
        if job.run.iteration == 1 and not play.kept:
            return replace(reply(worker, "lacks"), lacks=tuple(sorted(job.hashes)))
        if worker.name == "second" and len(play.kept) < 2 * len(job.hashes):
            return replace(reply(worker, "lacks"), lacks=tuple(sorted(job.hashes)))
        return await (unfit if worker.name == "first" else well)(job, worker)

    play.answer = answer

    async def made() -> list[str]:
        async with started(lab) as cluster:
            first = await cluster.add("first")
            with pytest.raises(GeneratorError):
                await cluster.executor.make(attempt(tmp_path))
            assert cluster.connection.workers.fit == []
            await first.close()
            await cluster.add("second", port=int(first.address.rpartition(":")[2]))
            await cluster.executor.make(attempt(tmp_path, 2))
            await cluster.looked(lambda: not cluster.connection.workers.unfit)
            return cluster.connection.workers.fit

    assert len(asyncio.run(made())) == 1
    assert len(play.kept) == 4


def test_a_run_whose_workers_have_all_left_goes_to_others(play: Playing, lab: Lab, tmp_path: Path) -> None:
    """Lets a run wait for the one fit worker, which leaves; an unfit one stays."""
    free = asyncio.Event()
    well = play.answer

    async def holds(job: Job, worker: Worker) -> object:
        await free.wait()
        return await well(job, worker)

    play.answer = by_name(a=unfit, b=holds, c=well)

    async def made() -> None:
        async with started(lab, "a") as cluster:
            with pytest.raises(GeneratorError):
                await cluster.executor.make(attempt(tmp_path))
            b = await cluster.add("b")
            await cluster.looked(lambda: len(cluster.connection.workers.fit) == 1)
            runs = [asyncio.create_task(cluster.executor.make(attempt(tmp_path, number))) for number in (2, 3)]
            await cluster.looked(lambda: "b" in dict(play.runs))
            await cluster.add("c")
            await cluster.looked(lambda: len(cluster.connection.workers.fit) == 2)
            await b.close()
            assert {run.run.iteration for run in await asyncio.gather(*runs)} == {2, 3}

    asyncio.run(made())
    assert [worker for worker, _ in play.runs].count("a") == 1


def test_a_client_that_was_closed_is_made_anew(lab: Lab, tmp_path: Path) -> None:
    async def made() -> list[str]:
        async with started(lab, "a") as cluster:
            await cluster.executor.make(attempt(tmp_path))
            client = await cluster.connection.client(lambda _: None, lambda _: asyncio.sleep(0))
            await client.close()
            await cluster.executor.make(attempt(tmp_path, 2))
            return cluster.said

    assert len([sentence for sentence in asyncio.run(made()) if "the scheduler was lost" in sentence]) == 1


def test_each_change_to_no_worker_is_said(lab: Lab, tmp_path: Path) -> None:
    async def said() -> list[str]:
        async with started(lab) as cluster:
            run = asyncio.create_task(cluster.executor.make(attempt(tmp_path)))
            for number in range(2):
                await cluster.looked(lambda number=number: len(cluster.said) == number + 1)  # type: ignore[misc]
                worker = await cluster.add(f"worker-{number}")
                await cluster.looked(lambda: bool(cluster.connection.workers.good))
                await worker.close()
            await run
            await cluster.looked(lambda: len(cluster.said) == 3)
            return cluster.said

    assert all("has no worker now" in sentence for sentence in asyncio.run(said()))


def test_why_workers_are_refused_is_asked_once_and_not_waited_for(
    play: Playing, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lets workers that nobody may use answer nothing."""
    monkeypatch.setattr(connection_module, "ANSWERS_WITHIN_S", 0.5)
    names = [f"worker-{number}" for number in range(8)]

    async def asked() -> None:
        async with started(lab) as cluster:
            for name in names:
                await cluster.add(name, identities=False)
            loop = asyncio.get_running_loop()
            for _ in range(2):
                began_s = loop.time()
                with pytest.raises(ClusterError, match=r"did not say within 0.5 s what ccmix it has"):
                    await cluster.connection.check()
                assert loop.time() - began_s < len(names) * 0.5
            assert len(cluster.connection.workers.refused) == len(names)

    asyncio.run(asked())
    assert play.asked == Counter(names)


def test_files_go_to_two_workers_at_a_time(play: Playing, lab: Lab, tmp_path: Path) -> None:
    well = play.answer
    play.kept_together = sending.AT_A_TIME
    has: set[str] = set()

    async def answer(job: Job, worker: Worker) -> object:
        if worker.id in has:
            return await well(job, worker)
        has.add(worker.id)
        return replace(reply(worker, "lacks"), lacks=(*sorted(job.hashes), job.userland))

    play.answer = answer

    async def made() -> None:
        async with started(lab, *(f"worker-{number}" for number in range(6))) as cluster:
            await asyncio.gather(*(cluster.executor.make(attempt(tmp_path, number)) for number in range(1, 19)))

    asyncio.run(made())
    assert play.most_keeping == sending.AT_A_TIME
    assert Counter(file.sha256 for file in play.kept).total() == 3 * len(has)


def test_what_is_too_large_for_dask_goes_through_the_shared_folder(
    play: Playing, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takes 6 bytes for large: the kernel has 6, iperf3 6 and the userland more."""
    monkeypatch.setattr(sending, "MOST_THROUGH_DASK_BYTES", 6)
    (tmp_path / "shared").mkdir()
    well = play.answer

    async def answer(job: Job, worker: Worker) -> object:
        if play.kept:
            return await well(job, worker)
        return replace(reply(worker, "lacks"), lacks=(*sorted(job.hashes), job.userland))

    play.answer = answer

    async def made() -> None:
        shared = SharedFolder(tmp_path / "shared", tmp_path / "out")
        async with started(lab, "a", shared=shared) as cluster:
            await cluster.executor.make(attempt(tmp_path))

    asyncio.run(made())
    through = {file.sha256: bool(file.shared) for file in play.kept}
    small = {hashlib.sha256(name.encode()).hexdigest(): False for name in ("kernel", "iperf3")}
    assert through == {lab.userland_sha256: True, **small}
    assert all(file.content for file in play.kept)
    assert not list((tmp_path / "shared").iterdir())


async def _after(seconds: float, replied: Reply | Exception | None) -> Reply | None:
    await asyncio.sleep(seconds)
    if isinstance(replied, Exception):
        raise replied
    return replied


FIRST = Reply("finished", "first")


@pytest.mark.parametrize("other", [Reply("unfit", "w"), Reply("lacks", "w"), None, GeneratorError("died")])
@pytest.mark.parametrize("turned", [False, True])
def test_the_first_of_two_copies_counts_that_is_of_use(other: Reply | Exception | None, turned: bool) -> None:
    async def first() -> Reply | None:
        copies = [asyncio.create_task(_after(0.01, other)), asyncio.create_task(_after(0.1, FIRST))]
        return await first_of_use(copies[::-1] if turned else copies)

    assert asyncio.run(first()) == FIRST


def test_where_no_copy_is_of_use_the_first_one_says_why() -> None:
    async def first(*replies: Reply | Exception | None) -> Reply | None:
        return await first_of_use([asyncio.create_task(_after(0.01, each)) for each in replies])

    assert asyncio.run(first(Reply("unfit", "w"), GeneratorError("died"))) == Reply("unfit", "w")
    with pytest.raises(GeneratorError, match="died"):
        asyncio.run(first(GeneratorError("died"), None))
