"""Defines the messages between the client and the workers of a cluster."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from ccmix.archive import ArchiveError
from ccmix.model import Run

MOST_THROUGH_DASK_BYTES = 64 * 2**20
MEMORY = "ccmix-memory"  # a resource of a worker, in bytes
WORKER_ID = "ccmix-worker-id"  # the key under which a worker tells the scheduler its ID
IDENTITY = "ccmix-"  # and the worker's fingerprint: a resource that jobs ask for, so that only equal workers get them
ENDLESS = 1e9  # of a resource: more than all jobs together ask for
_SEPARATOR = b"\n"


@dataclass(frozen=True)
class Job:
    """Describes a run that a worker is to make."""

    key: str
    topic: str  # of the events that a worker reports
    run: Run
    kernels: Mapping[str, str]  # by name in topologies, the hash
    programs: Mapping[str, str]  # by their field of EmulationPrograms, and 'capflow' and 'confine'
    userland: str  # the hash
    shared: str | None  # a folder of this campaign that client and workers see

    @property
    def hashes(self) -> frozenset[str]:
        return frozenset({*self.kernels.values(), *self.programs.values()})


@dataclass(frozen=True)
class SentFile:
    """Holds a file, or a packed userland, that a worker lacked for a job."""

    sha256: str
    is_userland: bool
    content: bytes = field(default=b"", repr=False)
    shared: str = ""  # the file that has the content instead


@dataclass(frozen=True)
class Reply:
    """Says how a job ended, and holds the files of the run's folder, packed."""

    outcome: Literal["finished", "failed", "unfit", "lacks"]
    worker: str  # its address; '' where nobody knows it
    worker_id: str = ""  # of Dask, which another worker at that address would not have
    reason: str = ""
    lacks: tuple[str, ...] = ()  # hashes
    folder: str = ""  # of the run at the worker, which a reason may name
    shared: str = ""  # the name of the file in the shared folder that has the files instead
    sha256: str = ""  # of it
    files: bytes = field(default=b"", repr=False)


_REPLY = TypeAdapter(Reply)


def encoded(answer: Reply) -> bytes:
    """Returns the reply as bytes. Dask sends them as they are, so the client never unpickles an object of a worker."""
    head = {name: value for name, value in asdict(answer).items() if name != "files"}
    return json.dumps(head).encode() + _SEPARATOR + answer.files


def decoded(content: object) -> Reply:
    """Returns the answer. Raises ArchiveError if it is none."""
    try:
        head, _, files = bytes(content).partition(_SEPARATOR)  # type: ignore[call-overload]
        return _REPLY.validate_python({**json.loads(head), "files": files})
    except (ValueError, TypeError, ValidationError) as error:
        raise ArchiveError(f"what a worker answered can't be understood: {error!r:.200}") from error
