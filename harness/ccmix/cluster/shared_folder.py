"""Keeps the campaign's part of the folder that client and workers see, for what is too large for Dask."""

import asyncio
import hashlib
import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path

from ccmix.archive.replacing import replacing


class SharedFolder:
    """Makes the campaign's own folder below `shared`, and removes it when the campaign ends.

    The folder's name depends on the campaign alone, so that the next client removes what a killed one left.
    """

    def __init__(self, shared: Path, campaign: Path) -> None:
        self._shared = shared
        name = f"{socket.gethostname()}\n{os.getuid()}\n{campaign.resolve()}"
        self._folder = shared / f"ccmix-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        self._beginning = asyncio.Lock()
        self._begun = False

    async def folder(self) -> Path:
        """Returns the folder, which is made anew by the first call. Raises OSError."""
        async with self._beginning:
            if not self._begun:
                await asyncio.to_thread(self._remove)
                self._folder.mkdir()
                self._begun = True
        return self._folder

    async def put(self, name: str, content: bytes) -> str:
        """Writes a file, unless it is there. Returns its path. Raises OSError."""
        file = await self.folder() / name
        if not file.exists():
            await asyncio.to_thread(_write, file, content)
        return str(file)

    async def close(self) -> None:
        if self._begun:
            await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        """Removes the folder under another name, so that a worker that still writes finds no folder."""
        aside = self._folder.with_name(f"{self._folder.name}.removed")
        with suppress(OSError):
            self._folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _write(file: Path, content: bytes) -> None:
    with replacing(file) as out:
        out.write(content)
