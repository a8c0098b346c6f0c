"""Measures runs on machines: in a guest of the lab, or on this machine."""

import asyncio
import contextlib
import json
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Protocol

import ccmix
from ccmix.archive.codec import MEASUREMENT
from ccmix.archive.replacing import write_whole
from ccmix.generators.results import GeneratorError
from ccmix.lab import JOB_DIR, GuestSpec, run_guest
from ccmix.lab.kernels import identify
from ccmix.lab.memory import SharedMemory, guest_memory_bytes
from ccmix.model import STOCK_KERNEL, Execution, HostPath, Measurement, Run, run_files

PACKAGE_FOLDER = Path(ccmix.__file__).parent.parent


# In a guest the host's folders are read-only, so the undo journal lies in memory; it dies with the guest.
GUEST_ENVIRONMENT = {"CCMIX_STATE": "/run/ccmix/state"}
HARNESS_LINK = "harness"  # in the run's folder, while its guest runs, as are links to the programs


@dataclass(frozen=True)
class EmulationPrograms:
    """Holds the paths of ccmix's own programs, which a run on an emulated path needs."""

    iperf3: Path
    sockmon: Path
    rtt: Path


@dataclass(frozen=True)
class Measured:
    """Holds what a machine returns of a run."""

    measurement: Measurement
    execution: Execution


class Skipped(Exception):
    """Reports that a run was not tried, and why: its destination doesn't answer."""


class Machine(Protocol):
    """Measures one run into a folder that exists and is empty."""

    async def measure(self, run: Run, folder: Path, cpu: int) -> Measured:
        """Measures the run. Raises GuestError, GeneratorError or Skipped; cancelling ends the run."""

    async def close(self) -> None:
        """Ends what was kept from run to run."""


class LabMachine:
    """Measures each run in a guest of its own, in virtual time."""

    def __init__(self, kernel: Path, programs: EmulationPrograms, others: Mapping[str, Path] | None = None) -> None:
        """Takes the stock kernel, and by their names others that runs may ask for."""
        self._kernels = {STOCK_KERNEL: kernel, **(others or {})}
        self._links: dict[str, Path] = asdict(programs)
        self._memory = SharedMemory()

    async def measure(self, run: Run, folder: Path, cpu: int) -> Measured:
        assert run.seed is not None
        kernel = self._kernels[run.topology.kernel]
        _write_job(run, folder)
        spec = GuestSpec(
            argv=_measure_argv(Path(), EmulationPrograms(**{name: Path(JOB_DIR) / name for name in self._links})),
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
                result = await run_guest(kernel, spec)
        write_whole(folder / run_files.LOGS / run_files.GUEST_LOG, result.console, sync=False)
        _finish_job(folder, result.exit_status)
        measured = _measurement(folder)
        facts = replace(measured.facts, lab_kernel=identify(run.topology.kernel, kernel))
        execution = Execution("lab", round(result.real_seconds, 2), spec.memory_bytes)
        return Measured(replace(measured, facts=facts), execution)

    async def close(self) -> None:
        """Does nothing: nothing is kept."""


@contextlib.contextmanager
def _link(link: Path, target: Path) -> Iterator[None]:
    """Makes a path of the same length for every user: the arguments of a process lie on its stack, whose address is
    part of mkstemp()'s first guess at a name, and a second guess costs a random number of the kernel.
    """
    link.symlink_to(target)
    try:
        yield
    finally:
        link.unlink()


class ThisMachine:
    """Measures in network namespaces of this machine, in real time; needs root and a kernel with netem."""

    def __init__(self, programs: EmulationPrograms) -> None:
        self._programs = programs

    async def measure(self, run: Run, folder: Path, cpu: int) -> Measured:
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
        _finish_job(folder, status)
        seconds = asyncio.get_running_loop().time() - begin
        return Measured(_measurement(folder), Execution("namespaces", round(seconds, 2)))

    async def close(self) -> None:
        """Does nothing: nothing is kept."""


class EachItsOwn:
    """Measures runs on an emulated path by one machine, runs between hosts by another."""

    def __init__(self, emulated: Machine | None, between_hosts: Machine | None) -> None:
        self._emulated = emulated
        self._between_hosts = between_hosts

    async def measure(self, run: Run, folder: Path, cpu: int) -> Measured:
        machine = self._between_hosts if isinstance(run.path, HostPath) else self._emulated
        assert machine
        return await machine.measure(run, folder, cpu)

    async def close(self) -> None:
        for machine in (self._emulated, self._between_hosts):
            if machine:
                await machine.close()


def _measure_argv(folder: Path, programs: EmulationPrograms) -> tuple[str, ...]:
    """Returns the measuring command; with -S, since it imports nothing but the standard library and PYTHONPATH, and
    starting without site takes half as long.
    """
    python = str(Path(sys.executable).resolve())
    return (python, "-S", "-m", "ccmix.run.measure", str(folder), *map(str, astuple(programs)))


def _write_job(run: Run, folder: Path) -> None:
    """Writes the run for the measuring process, which has the same code and no library that decodes JSON."""
    job = folder / run_files.JOB
    job.parent.mkdir()
    job.write_bytes(pickle.dumps(run))


def _measurement(folder: Path) -> Measurement:
    """Reads what the measuring process wrote. Raises GeneratorError if it is damaged."""
    file = folder / run_files.FACTS
    try:
        return MEASUREMENT.decode(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise GeneratorError(f"{file}: can't be understood: {error}") from error


def _finish_job(folder: Path, exit_status: int) -> None:
    """Removes the job, which nothing but the measuring process reads. Raises GeneratorError where that failed."""
    (folder / run_files.JOB).unlink()
    if exit_status != 0:
        error = folder / run_files.ERROR
        raise GeneratorError(
            error.read_text().strip() if error.exists() else f"the measuring process ended with status {exit_status}"
        )
