"""The machines that a run can be measured on: a guest of the lab, or this machine."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Protocol

import ccmix
from ccmix.generators.results import GeneratorError
from ccmix.lab import JOB_DIR, GuestSpec, run_guest
from ccmix.lab.memory import SharedMemory
from ccmix.model import HostPath, Run, Topology
from ccmix.run.measure import ERROR, JOB

PACKAGE_FOLDER = Path(ccmix.__file__).parent.parent


# In a guest the host's folders are read-only, so the undo journal lies in memory; it dies with the guest.
GUEST_ENVIRONMENT = {"CCMIX_STATE": "/run/ccmix/state"}
HARNESS_LINK = "harness"  # in the run's folder, while its guest runs, as are links to the programs


@dataclass(frozen=True)
class Programs:
    """ccmix's own, which a run on an emulated path needs."""

    iperf3: Path
    sockmon: Path
    rtt: Path


class Machine(Protocol):
    """Measures one run into a folder that exists and is empty."""

    async def measure(self, run: Run, folder: Path, cpu: int) -> dict[str, Any]:
        """Returns what run.json says of the machine. Raises GuestError or GeneratorError; cancelling ends the run."""

    async def close(self) -> None:
        """Ends what was kept from run to run."""


class LabMachine:
    """A guest of its own for each run, in virtual time."""

    def __init__(self, kernel: Path, programs: Programs) -> None:
        self._kernel = kernel
        self._links: dict[str, Path] = asdict(programs)
        self._memory = SharedMemory()

    async def measure(self, run: Run, folder: Path, cpu: int) -> dict[str, Any]:
        assert run.seed is not None
        _write_job(run, folder)
        spec = GuestSpec(
            argv=_measure_argv(Path(), Programs(**{name: Path(JOB_DIR) / name for name in self._links})),
            job_dir=folder,
            memory_bytes=guest_memory_bytes(run.topology),
            seed=run.seed,
            cpu=cpu,
            environment=GUEST_ENVIRONMENT | {"PYTHONPATH": f"{JOB_DIR}/{HARNESS_LINK}"},
        )
        with contextlib.ExitStack() as links:
            for name, target in {HARNESS_LINK: PACKAGE_FOLDER, **self._links}.items():
                links.enter_context(_link(folder / name, target))
            async with self._memory.part(spec.memory_bytes):
                result = await run_guest(self._kernel, spec)
        (folder / "logs" / "guest.log").write_text(result.console)
        _raise_error(folder, result.exit_status)
        return {"machine": "lab", "real_seconds": round(result.real_seconds, 2), "memory_bytes": spec.memory_bytes}

    async def close(self) -> None:
        """Nothing is kept."""


@contextlib.contextmanager
def _link(link: Path, target: Path) -> Iterator[None]:
    """A path of the same length for every user: the arguments of a process lie on its stack, whose address is part of
    mkstemp()'s first guess at a name, and a second guess costs a random number of the kernel.
    """
    link.symlink_to(target)
    try:
        yield
    finally:
        link.unlink()


class ThisMachine:
    """Network namespaces of this machine, in real time; needs root and a kernel with netem."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    async def measure(self, run: Run, folder: Path, cpu: int) -> dict[str, Any]:
        del cpu  # the kernel's choice, as in production
        _write_job(run, folder)
        begin = asyncio.get_running_loop().time()
        process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "TERM", *_measure_argv(folder, self._programs),
            env=os.environ | {"PYTHONPATH": str(PACKAGE_FOLDER)}, start_new_session=True,
        )  # fmt: skip
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.terminate()  # it undoes what it changed
            await process.wait()
            raise
        _raise_error(folder, status)
        return {"machine": "namespaces", "real_seconds": round(asyncio.get_running_loop().time() - begin, 2)}

    async def close(self) -> None:
        """Nothing is kept."""


class EachItsOwn:
    """Runs on an emulated path by one machine, runs between hosts by another."""

    def __init__(self, emulated: Machine | None, between_hosts: Machine | None) -> None:
        self._emulated = emulated
        self._between_hosts = between_hosts

    async def measure(self, run: Run, folder: Path, cpu: int) -> dict[str, Any]:
        machine = self._between_hosts if isinstance(run.path, HostPath) else self._emulated
        assert machine
        return await machine.measure(run, folder, cpu)

    async def close(self) -> None:
        for machine in (self._emulated, self._between_hosts):
            if machine:
                await machine.close()


def guest_memory_bytes(topology: Topology) -> int:
    """What is in flight and queued, many times over for the overhead of socket buffers, and what the guest needs.

    Sender's retransmission queue, netem, bottleneck and receiver's reordering queue each hold up to BDP and buffer, in
    buffers of up to 4 times the data's size at small MTUs.
    """
    return 2**29 + round(16 * (topology.bdp_bytes + topology.buffer_bytes))


def _measure_argv(folder: Path, programs: Programs) -> tuple[str, ...]:
    """-S: the standard library and PYTHONPATH are all that measuring imports, and a start without site takes half."""
    python = str(Path(sys.executable).resolve())
    return (python, "-S", "-m", "ccmix.run.measure", str(folder), *map(str, astuple(programs)))


def _write_job(run: Run, folder: Path) -> None:
    job = folder / JOB
    job.parent.mkdir()
    job.write_text(json.dumps(run.to_json()))


def _raise_error(folder: Path, exit_status: int) -> None:
    if exit_status != 0:
        error = folder / ERROR
        raise GeneratorError(error.read_text().strip() if error.exists() else f"the run ended with {exit_status}")
