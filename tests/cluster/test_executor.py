"""Tests the handling of replies from workers: a real Dask scheduler and real workers in this
process, which make no run, but reply as a test tells them.
"""

import asyncio
import contextlib
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from distributed import Scheduler, Worker, get_worker

from ccmix.archive import RunFolder
from ccmix.cluster import executor as connection_module
from ccmix.cluster import worker as at_worker
from ccmix.cluster.executor import DaskExecutor, SchedulerConnection
from ccmix.cluster.messages import (
    ABOUT,
    ENDLESS,
    KERNEL,
    MEMORY,
    NONE,
    USERLAND,
    ClusterError,
    Job,
    Reply,
    check_encrypted,
    encoded,
    resources,
)
from ccmix.generators.results import GeneratorError
from ccmix.model import Group, Run
from ccmix.model.results import FinishedRun
from ccmix.run.campaign import Attempt
from ccmix.tools import ToolError
from support.arriving_runs import made_with, packed
from support.model import TOPOLOGY, iperf3_traffic

LIMIT_S = 60.0
NEEDED = {KERNEL: "k" * 64, USERLAND: "u" * 64, "iperf3": "i" * 64, "kernel mine": "m" * 64}
Answer = Callable[[Job, Worker], Awaitable[object]]


@dataclass
class Playing:
    """Holds the instructions for the workers, and their actions."""

    answer: Answer
    runs: list[tuple[str, str]] = field(default_factory=list)  # worker's name, and run


PLAYED: list[Playing] = []  # the test's, since workers get functions by their names


async def make_run(job: Job) -> object:
    worker = get_worker()
    worker.log_event(job.topic, {"began": job.key})
    PLAYED[0].runs.append((str(worker.name), job.run.name))
    reply = await PLAYED[0].answer(job, worker)
    return encoded(reply) if isinstance(reply, Reply) else reply


@pytest.fixture(autouse=True)
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Playing]:
    """Lets all workers make every run successfully, unless the test sets another answer."""
    PLAYED[:] = [Playing(finishing(tmp_path))]
    monkeypatch.setattr(at_worker, "make_run", make_run)
    monkeypatch.setattr(connection_module, "LOOKS_EACH_S", 0.1)
    yield PLAYED[0]
    PLAYED.clear()


def finishing(tmp_path: Path) -> Answer:
    numbers = itertools.count()

    async def answer(job: Job, worker: Worker) -> object:
        facts = made_with(NEEDED[KERNEL], NEEDED[USERLAND])
        return replace(
            reply("finished"),
            files=packed(tmp_path / f"made-{next(numbers)}", job.run, facts),
        )

    return answer


def reply(outcome: str, reason: str = "") -> Reply:
    return Reply(outcome, reason)  # type: ignore[arg-type]


def attempt(tmp_path: Path, number: int = 1) -> Attempt:
    run = Run(
        "e",
        {},
        "receiver",
        number,
        7,
        iperf3_traffic((Group("cubic"),), 1, 1.0, 0.0, 0.1),
        TOPOLOGY,
    )
    return Attempt(run, run, RunFolder.of(tmp_path / "out", run), (), lambda: None)


@dataclass
class Started:
    """A scheduler with workers, and its client."""

    scheduler: Scheduler
    connection: SchedulerConnection
    executor: DaskExecutor
    said: list[str]
    stack: contextlib.AsyncExitStack

    async def add(
        self, name: str, port: int = 0, parts: Mapping[str, str] | None = NEEDED
    ) -> Worker:
        """Adds a worker with these parts; None: a worker without ccmix's preload."""
        have = {**dict.fromkeys(resources(parts), ENDLESS), MEMORY: ENDLESS} if parts else {}
        own = {ABOUT: lambda worker: {"id": worker.id, "parts": parts}} if parts else {}
        worker = Worker(
            self.scheduler.address,
            name=name,
            nthreads=1,
            resources=have,
            startup_information=own,
            host="127.0.0.1",
            port=port,
            dashboard_address=None,
        )
        return await self.stack.enter_async_context(worker)

    async def looked(self, condition: Callable[[], bool]) -> None:
        """Waits until the client knows some of the workers."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def started(*names: str) -> AsyncIterator[Started]:
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
        scheduler = await stack.enter_async_context(
            Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0")
        )
        said: list[str] = []
        connection = SchedulerConnection(scheduler.address, said.append, NEEDED)
        executor = DaskExecutor(connection, None, Path())
        stack.push_async_callback(executor.close)
        cluster = Started(scheduler, connection, executor, said, stack)
        for name in names:
            await cluster.add(name)
        yield cluster


def by_name(**answers: Answer) -> Answer:
    """Lets each worker answer according to its name."""

    async def answer(job: Job, worker: Worker) -> object:
        return await answers[str(worker.name)](job, worker)

    return answer


async def unfit(_: Job, worker: Worker) -> object:
    return reply("unfit", "no memory for a guest")


async def of_memory(_: Job, __: Worker) -> object:
    raise MemoryError


async def of_a_tool(_: Job, __: Worker) -> object:
    raise ToolError("capflow is not there")


async def no_reply(_: Job, __: Worker) -> object:
    return b"{}\n"


async def no_bytes(_: Job, __: Worker) -> object:
    return 7


async def empty(_: Job, worker: Worker) -> object:
    return reply("finished")


BAD = [unfit, of_memory, of_a_tool, no_reply, no_bytes, empty]


@pytest.mark.parametrize("bad", BAD)
def test_what_one_worker_can_t_make_is_made_by_another(
    bad: Answer, play: Playing, tmp_path: Path
) -> None:
    """Expects a worker that failed to get no more runs, because there is another worker."""
    play.answer = by_name(a=bad, b=play.answer)

    async def made() -> list[FinishedRun]:
        async with started("a", "b") as cluster:
            return [
                await cluster.executor.make(attempt(tmp_path, number)) for number in range(1, 7)
            ]

    assert [run.run.iteration for run in asyncio.run(made())] == [1, 2, 3, 4, 5, 6]
    assert Counter(worker for worker, _ in play.runs)["a"] <= 1


def test_a_run_is_said_to_begin_before_it_ends(play: Playing, tmp_path: Path) -> None:
    """Lets it end only when the watcher knows that it has begun."""
    well = play.answer

    async def made() -> FinishedRun:
        begun = asyncio.Event()

        async def answer(job: Job, worker: Worker) -> object:
            await begun.wait()
            return await well(job, worker)

        play.answer = answer
        async with started("a") as cluster:
            return await cluster.executor.make(replace(attempt(tmp_path), began=begun.set))

    assert asyncio.run(made()).run.iteration == 1


@pytest.mark.parametrize("bad", BAD)
def test_a_run_that_two_workers_can_t_make_fails_and_they_stay(
    bad: Answer, play: Playing, tmp_path: Path
) -> None:
    well = play.answer

    async def answer(job: Job, worker: Worker) -> object:
        return await (bad if job.run.iteration == 1 else well)(job, worker)

    play.answer = answer

    async def made() -> set[str]:
        async with started("a", "b", "c") as cluster:
            with pytest.raises(
                GeneratorError, match=r"2 workers could not make it: tcp://.*; tcp://"
            ):
                await cluster.executor.make(attempt(tmp_path))
            await cluster.executor.make(attempt(tmp_path, 2))
            return cluster.connection.unfit

    assert asyncio.run(made()) == set()


def test_the_only_worker_goes_on(play: Playing, tmp_path: Path) -> None:
    well = play.answer

    async def answer(job: Job, worker: Worker) -> object:
        return await (unfit if job.run.iteration == 1 else well)(job, worker)

    play.answer = answer

    async def made() -> FinishedRun:
        async with started("a") as cluster:
            with pytest.raises(
                GeneratorError, match=r"no worker can make it: tcp://.*: no memory for a guest"
            ):
                await cluster.executor.make(attempt(tmp_path))
            return await cluster.executor.make(attempt(tmp_path, 2))

    assert asyncio.run(made()).run.iteration == 2


def test_what_is_known_of_a_worker_ends_with_it(play: Playing, tmp_path: Path) -> None:
    """Starts another worker at the same address: it is fit."""
    play.answer = by_name(first=unfit, second=play.answer)

    async def made() -> set[str]:
        async with started() as cluster:
            first = await cluster.add("first")
            with pytest.raises(GeneratorError):
                await cluster.executor.make(attempt(tmp_path))
            assert cluster.connection.unfit == {f"{first.address} {first.id}"}
            await first.close()
            await cluster.add("second", port=int(first.address.rpartition(":")[2]))
            await cluster.executor.make(attempt(tmp_path, 2))
            await cluster.looked(lambda: not cluster.connection.unfit)
            return cluster.connection.unfit

    assert asyncio.run(made()) == set()


def test_a_run_whose_workers_have_all_left_goes_to_others(play: Playing, tmp_path: Path) -> None:
    """Lets a run wait for the only fit worker, which leaves; an unfit worker stays."""
    free = asyncio.Event()
    well = play.answer

    async def holds(job: Job, worker: Worker) -> object:
        await free.wait()
        return await well(job, worker)

    play.answer = by_name(a=unfit, b=holds, c=well)

    async def made() -> None:
        async with started("a") as cluster:
            with pytest.raises(GeneratorError):
                await cluster.executor.make(attempt(tmp_path))
            b = await cluster.add("b")
            await cluster.looked(lambda: len(cluster.connection.usable) == 2)
            runs = [
                asyncio.create_task(cluster.executor.make(attempt(tmp_path, number)))
                for number in (2, 3)
            ]
            await cluster.looked(lambda: "b" in dict(play.runs))
            await cluster.add("c")
            await cluster.looked(lambda: len(cluster.connection.usable) == 3)
            await b.close()
            assert {run.run.iteration for run in await asyncio.gather(*runs)} == {2, 3}

    asyncio.run(made())
    assert [worker for worker, _ in play.runs].count("a") == 1


def test_a_client_that_was_closed_is_made_anew(tmp_path: Path) -> None:
    async def made() -> list[str]:
        async with started("a") as cluster:
            await cluster.executor.make(attempt(tmp_path))
            client = await cluster.connection.client(lambda _: None, lambda: asyncio.sleep(0))
            await client.close()
            await cluster.executor.make(attempt(tmp_path, 2))
            return cluster.said

    assert (
        len([sentence for sentence in asyncio.run(made()) if "the scheduler was lost" in sentence])
        == 1
    )


def test_each_change_to_no_worker_is_said(tmp_path: Path) -> None:
    async def said() -> list[str]:
        async with started() as cluster:
            run = asyncio.create_task(cluster.executor.make(attempt(tmp_path)))
            for number in range(2):
                await cluster.looked(lambda number=number: len(cluster.said) == number + 1)  # type: ignore[misc]
                worker = await cluster.add(f"worker-{number}")
                await cluster.looked(lambda: bool(cluster.connection.usable))
                await worker.close()
            await cluster.looked(lambda: len(cluster.said) == 3)
            await cluster.add("last")
            assert (await run).run.iteration == 1
            return cluster.said

    assert all("has no worker now" in sentence for sentence in asyncio.run(said()))


OTHERS = [
    (None, "it was started without --preload ccmix.cluster.worker, or by an older ccmix"),
    (
        NEEDED | {"iperf3": NONE},
        r"it has iperf3 \(none, here i+\): install the same wheel or commit of ccmix there",
    ),
    (
        NEEDED | {"kernel mine": "o"},
        r"it has kernel mine \(o, here m+\): build it there with: lab/build --name mine,",
    ),
    (
        {name: NEEDED[name] for name in (KERNEL, USERLAND, "iperf3")},
        r"it has kernel mine \(none, here m+\): build it there with: lab/build --name mine, and "
        r"start the worker again",
    ),
]


@pytest.mark.parametrize(("parts", "reason"), OTHERS)
def test_a_worker_with_other_parts_gets_no_run_and_is_named_once(
    parts: Mapping[str, str] | None, reason: str, play: Playing, tmp_path: Path
) -> None:
    async def made() -> list[str]:
        async with started() as cluster:
            await cluster.add("other", parts=parts)
            with pytest.raises(ClusterError, match="none of its workers can be used"):
                await cluster.connection.check()
            await cluster.add("good", parts=NEEDED | {"kernel another": "a"})
            await cluster.connection.check()
            await asyncio.gather(
                *(cluster.executor.make(attempt(tmp_path, number)) for number in range(1, 5))
            )
            return cluster.said

    all_said = asyncio.run(made())
    assert len(all_said) == 1, all_said
    (said,) = all_said
    assert re.search(f"^worker tcp://.* is refused.*: {reason}", said)
    assert {worker for worker, _ in play.runs} == {"good"}


async def surrogates(_: Job, __: Worker) -> object:
    return b'{"outcome": "failed", "reason": "a \\ud800 b"}\n'


async def large(_: Job, __: Worker) -> object:
    return b"x" * 20_000


def test_the_reason_of_a_failed_run_can_be_written(play: Playing, tmp_path: Path) -> None:
    play.answer = surrogates

    async def made() -> None:
        async with started("a") as cluster:
            await cluster.executor.make(attempt(tmp_path))

    with pytest.raises(GeneratorError, match=r"^a \? b$"):
        asyncio.run(made())


def test_a_reply_that_is_too_large_is_not_fetched(
    play: Playing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.answer = large
    monkeypatch.setattr(connection_module, "MOST_OF_REPLY_BYTES", 10_000)

    async def made() -> None:
        async with started("a") as cluster:
            await cluster.executor.make(attempt(tmp_path))

    with pytest.raises(GeneratorError, match="its reply has 20 kB"):
        asyncio.run(made())


def test_a_worker_that_hangs_costs_its_own_run(
    play: Playing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = play.answer

    async def hangs(_: Job, __: Worker) -> object:
        return await asyncio.Event().wait()

    play.answer = by_name(a=hangs, b=well)
    monkeypatch.setattr(connection_module, "HANGS_AFTER_S", 1.0)
    monkeypatch.setattr(connection_module, "HANGS_AFTER_TIMES", 0)

    async def made() -> list[int]:
        async with started("a") as cluster:
            with pytest.raises(GeneratorError, match="it did not answer within 1 s"):
                await cluster.executor.make(attempt(tmp_path))
            await cluster.add("b")
            await cluster.looked(lambda: len(cluster.connection.usable) == 2)
            return [(await cluster.executor.make(attempt(tmp_path, 2))).run.iteration]

    assert asyncio.run(made()) == [2]


def test_a_worker_blames_no_other(play: Playing, tmp_path: Path) -> None:
    """Lets a worker report, and answer, under the name of another."""
    well, workers = play.answer, dict[str, Worker]()

    async def blames(job: Job, worker: Worker) -> object:
        honest = workers["honest"]
        worker.log_event(job.topic, {"began": job.key, "worker": honest.address, "id": honest.id})
        head = {"outcome": "unfit", "worker": honest.address, "worker_id": honest.id}
        return json.dumps(head).encode() + b"\n"

    play.answer = by_name(liar=blames, honest=well)

    async def made() -> list[str]:
        async with started() as cluster:
            for name in ("liar", "honest"):
                workers[name] = await cluster.add(name)
            await asyncio.gather(
                *(cluster.executor.make(attempt(tmp_path, number)) for number in range(1, 7))
            )
            return cluster.said

    said = asyncio.run(made())
    assert not any(workers["honest"].address in sentence for sentence in said)
    assert "liar" in {worker for worker, _ in play.runs}


BAD_WORKERS = [
    ({MEMORY: "x"}, {}, "it does not say how much memory it has"),
    ({}, {"id": {"a": 1}}, "it was started without"),
    ({}, {"id": 7}, "it was started without"),
    ({}, {"parts": None}, "it was started without"),
    ({}, {"parts": {KERNEL: 7}}, "it was started without"),
]


@pytest.mark.parametrize(("offered", "told", "why"), BAD_WORKERS)
def test_a_worker_that_describes_itself_wrongly_is_refused(
    offered: dict[str, object], told: dict[str, object], why: str
) -> None:
    said: list[str] = []
    connection = SchedulerConnection("tcp://127.0.0.1:1", said.append, NEEDED)
    described = {
        "resources": {**dict.fromkeys(resources(NEEDED), ENDLESS), MEMORY: ENDLESS, **offered},
        ABOUT: {"id": "w", "parts": NEEDED, **told},
    }
    good = described | {"resources": described["resources"] | {MEMORY: 1e9}}
    assert connection._known_worker("tcp://127.0.0.1:2", described) is None
    assert f"is refused: {why}" in connection._refusal("tcp://127.0.0.1:2", described)
    good[ABOUT] = {"id": "w", "parts": NEEDED}
    assert connection._known_worker("tcp://127.0.0.1:2", good) is not None


ENCRYPTED = [
    "tls://192.0.2.1:8786",
    "tcp://127.0.0.1:8786",
    "tcp://[::1]:8786",
    "tcp://localhost:1",
]
PLAIN = ["tcp://192.0.2.1:8786", "tcp://host:8786", "tcp://[2001:db8::1]:8786", "ws://192.0.2.1:80"]


@pytest.mark.parametrize("address", [*ENCRYPTED, *PLAIN])
def test_beyond_loopback_tls_is_required(address: str) -> None:
    """Tries the scheduler's address at the client, and both addresses of a worker."""

    def tell(_: str) -> None:
        """Tells nobody."""

    checks = [
        lambda: asyncio.run(SchedulerConnection(address, tell, NEEDED).check()),
        lambda: asyncio.run(at_worker.dask_setup(addressed(address, "tcp://127.0.0.1:1"))),
        lambda: asyncio.run(at_worker.dask_setup(addressed("tcp://127.0.0.1:1", address))),
    ]
    if address in PLAIN:
        for check in checks:
            with pytest.raises(ClusterError, match="without TLS"):
                check()  # type: ignore[no-untyped-call]
    else:
        check_encrypted(address)


def addressed(own: str, of_scheduler: str) -> Worker:
    """Stands in for a worker with these addresses."""
    return cast(
        Worker, SimpleNamespace(address=own, scheduler=SimpleNamespace(address=of_scheduler))
    )


def test_a_scheduler_that_listens_beyond_loopback_is_refused(tmp_path: Path) -> None:
    """Reaches it over loopback."""

    async def checked() -> None:
        async with Scheduler(host="0.0.0.0", port=0, dashboard_address="127.0.0.1:0") as scheduler:
            address = f"tcp://127.0.0.1:{scheduler.port}"
            if "//127." in scheduler.address:
                pytest.skip("this machine has no address but loopback")
            await SchedulerConnection(address, print, NEEDED).check()

    with pytest.raises(ClusterError, match="without TLS"):
        asyncio.run(checked())
