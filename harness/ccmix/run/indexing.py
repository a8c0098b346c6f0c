"""Brings the index of a campaign up to date while its runs are made, so that a crash costs at most a part of it."""

import asyncio
import contextlib
import threading

from ccmix.archive import Campaign
from ccmix.run.executor import IMPORTING

LEAST_RUNS = 500  # between two updates
LACKING = 0.25  # of the runs that have ended: so all updates together write each row about four times


class IndexKeeper:
    """Updates the index of one campaign at growing distances: when it lacks LACKING of the runs that have ended."""

    def __init__(self, campaign: Campaign, left: int) -> None:
        """Takes how many runs of the campaign are left to be made."""
        self._campaign = campaign
        self._ended = len(campaign.runs) - left
        self._since = 0
        self._updating = False

    async def ended(self) -> None:
        """Takes notice that a run has ended."""
        self._ended += 1
        self._since += 1
        if self._since >= max(LEAST_RUNS, LACKING * self._ended):
            await self.update()

    async def update(self) -> None:
        """Updates the index, unless that is being done or the campaign has none; when cancelled, gives up."""
        if self._updating or not self._campaign.indexed:
            return
        self._updating, self._since = True, 0
        cancelled = threading.Event()
        try:
            await asyncio.to_thread(_update, self._campaign, cancelled)
        finally:
            cancelled.set()
            self._updating = False


def _update(campaign: Campaign, cancelled: threading.Event) -> None:
    with IMPORTING:
        from ccmix.archive import campaign_index  # noqa: PLC0415  # slow to import
    with contextlib.suppress(OSError):  # the index is a copy, and fails no run
        campaign_index.update(campaign, ended=cancelled.is_set)
