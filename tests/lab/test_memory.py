"""Tests that guests take turns if together they need more memory than there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ccmix.lab import host
from ccmix.lab.host import SharedMemory


class Guests:
    """Holds parts of a memory until they are to end."""

    def __init__(self) -> None:
        self.memory = SharedMemory()
        self.running: list[str] = []
        self._tasks: dict[str, tuple[asyncio.Event, asyncio.Task[None]]] = {}

    async def ask(self, name: str, size_bytes: int) -> None:
        end = asyncio.Event()

        async def run() -> None:
            async with self.memory.part(size_bytes):
                self.running.append(name)
                await end.wait()
                self.running.remove(name)

        self._tasks[name] = end, asyncio.create_task(run())
        await settle()

    async def end(self, name: str) -> None:
        end, task = self._tasks[name]
        end.set()
        await task
        await settle()

    async def cancel(self, name: str) -> None:
        _, task = self._tasks[name]
        task.cancel()
        await asyncio.wait([task])
        await settle()


async def settle() -> None:
    """Lets every task go on as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Guests], Awaitable[None]]], None]:
    """Runs a scene on a machine of which 1000 bytes are available, so 900 for guests."""
    monkeypatch.setattr(host, "available_memory_bytes", lambda: 1000)

    def run(scene: Callable[[Guests], Awaitable[None]]) -> None:
        async def whole() -> None:
            await scene(Guests())

        asyncio.run(whole())

    return run


def test_who_does_not_fit_waits(play: Callable[..., None]) -> None:
    async def scene(guests: Guests) -> None:
        await guests.ask("a", 450)
        await guests.ask("b", 450)
        await guests.ask("c", 1)
        assert guests.running == ["a", "b"]
        await guests.end("a")
        assert guests.running == ["b", "c"]

    play(scene)


def test_a_large_one_is_not_overtaken(play: Callable[..., None]) -> None:
    async def scene(guests: Guests) -> None:
        await guests.ask("a", 450)
        await guests.ask("large", 900)
        await guests.ask("small", 1)
        assert guests.running == ["a"]
        await guests.end("a")
        assert guests.running == ["large"]
        await guests.end("large")
        assert guests.running == ["small"]

    play(scene)


def test_what_is_too_large_is_tried_alone(play: Callable[..., None]) -> None:
    async def scene(guests: Guests) -> None:
        await guests.ask("a", 1)
        await guests.ask("huge", 5000)
        assert guests.running == ["a"]
        await guests.end("a")
        assert guests.running == ["huge"]

    play(scene)


def test_who_stops_waiting_or_is_cancelled_leaves_nothing_behind(play: Callable[..., None]) -> None:
    async def scene(guests: Guests) -> None:
        await guests.ask("a", 900)
        await guests.ask("b", 900)
        await guests.ask("c", 900)
        await guests.cancel("b")
        assert guests.running == ["a"]
        await guests.cancel("a")
        assert "c" in guests.running

    play(scene)
