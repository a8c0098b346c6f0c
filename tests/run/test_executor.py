"""Tests what makes runs several at a time."""

import asyncio
import threading

import pytest

from ccmix.run.executor import in_thread


def test_who_is_cancelled_waits_for_the_end_of_a_thread() -> None:
    """Cancels twice, since a campaign's end and a second Ctrl-C may come."""
    begun, may_end, wrote = threading.Event(), threading.Event(), []

    def write() -> None:
        begun.set()
        may_end.wait()
        wrote.append("all")

    async def cancelled_twice() -> None:
        task = asyncio.create_task(in_thread(write))
        await asyncio.to_thread(begun.wait)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wrote == ["all"]

    asyncio.run(cancelled_twice())
