"""Measures each run on an emulated path in a guest of the lab, or in namespaces of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import pickle
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Protocol

from ccmix.archive.codec import MEASUREMENT
from ccmix.files import ArchiveError, open_file, open_folder, write_new
from ccmix.generators.results import GeneratorError
from ccmix.isolated import FOLDER, module_command
from ccmix.lab import CODE_DIR, JOB_DIR, GuestError, GuestSpec, run_guest
from ccmix.lab.guest_code import HARNESS, guest_code
from ccmix.lab.host import SharedMemory, guest_memory_bytes
from ccmix.lab.spec import HOST_ROOT, identify_kernel, identify_userland
from ccmix.model import STOCK_KERNEL, HostPath, Measurement, Run, run_files
from ccmix.model.results import Execution
from ccmix.run.traffic_sources import IN_USERLAND
from ccmix.tools import find_iperf3, find_rtt, find_sockmon, find_userland

PACKAGE_FOLDER = Path(FOLDER)

# In a guest the host's folders are read-only, so the undo journal is in memory and dies with the
# guest.
GUEST_ENVIRONMENT = {"CCMIX_STATE": "/run/ccmix/state"}
OWN_ROOT_ENVIRONMENT = GUEST_ENVIRONMENT | {IN_USERLAND: "1"}
PYTHON_IN_GUEST = Path("/usr/bin/python3")
HARNESS_IN_GUEST = f"{CODE_DIR}/{HARNESS}"
HARNESS_LINK = "harness"  # in the run's folder, while its guest runs, as are links to the programs


@dataclass(frozen=True)
class EmulationPrograms:
    """Holds the paths of the programs that a run on an emulated path needs: the patched iperf3,
    ccmix-sockmon, which samples sockets, and ccmix-rtt.
    """

    iperf3: Path
    sockmon: Path
    rtt: Path

    @classmethod
    def find(cls) -> EmulationPrograms:
        """Finds the programs. Raises ToolError if one is missing."""
        return cls(find_iperf3(), find_sockmon(), find_rtt())


@dataclass(frozen=True)
class Measured:
    """Holds a measured run: what was measured, and how it was executed (time, memory, ...)."""

    measurement: Measurement
    execution: Execution


class Skipped(Exception):
    """Reports that a run was not tried, because its destination doesn't answer."""


class Machine(Protocol):
    """Measures runs: in the lab, on this machine or between hosts."""

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures a run, and writes its raw files into `folder`, which exists and is empty. If the
        task is cancelled, the run ends. Raises GuestError, GeneratorError or Skipped.
        """

    async def close(self) -> None:
        """Ends commands and settings that were kept from run to run."""


class LabMachine:
    """Measures each run in a User-Mode Linux guest of its own, in virtual time."""

    def __init__(
        self, kernel: Path, programs: EmulationPrograms, others: Mapping[str, Path] | None = None
    ) -> None:
        """Takes the guest's kernel file, and by name other kernels that topologies may ask for.

        Raises ToolError if the lab's userland (the root file system of guests) is missing, and
        GuestError if it can't be used.
        """
        self._kernels = {STOCK_KERNEL: kernel, **(others or {})}
        self._userland = find_userland()
        self._programs: dict[str, Path] = asdict(programs)
        self._code = guest_code(self._userland, self._programs)
        self._hashes = {
            name: hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in self._programs.items()
        }
        self._memory = SharedMemory()

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Boots a guest that measures the run, and reads its result from the folder, which the
        guest shares. See Machine.
        """
        assert run.seed is not None
        kernel = self._kernels[run.topology.kernel]
        _write_job(run, folder)
        with _planted_removed(folder), contextlib.ExitStack() as links:
            if run.topology.host_root:
                for name, target in {HARNESS_LINK: PACKAGE_FOLDER, **self._programs}.items():
                    links.enter_context(_link(folder / name, target))
                python, harness, place = Path(sys.executable).resolve(), HARNESS_LINK, JOB_DIR
                userland, code, environment = None, None, GUEST_ENVIRONMENT
            else:
                python, harness, place = PYTHON_IN_GUEST, HARNESS, CODE_DIR
                userland, code, environment = self._userland, self._code, OWN_ROOT_ENVIRONMENT
            programs = EmulationPrograms(**{name: Path(place, name) for name in self._programs})
            spec = GuestSpec(
                argv=_measure_argv(python, f"{place}/{harness}", Path(), programs),
                job_dir=folder,
                memory_bytes=guest_memory_bytes(run.topology),
                seed=run.seed,
                userland=userland,
                code=code,
                environment=environment,
            )
            async with self._memory.part(spec.memory_bytes):
                result = await run_guest(kernel, spec)
        with _logs(folder) as logs:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(run_files.GUEST_LOG, dir_fd=logs)
            write_new(folder / run_files.LOGS / run_files.GUEST_LOG, result.console.encode(), logs)
        _finish_job(folder, result.exit_status)
        measured = _measurement(folder)
        facts = replace(
            measured.facts,
            lab_kernel=identify_kernel(run.topology.kernel, kernel),
            guest_root=identify_userland(spec.userland) if spec.userland else HOST_ROOT,
            lab_programs=self._hashes,
        )
        seconds = round(result.real_seconds, 2)
        execution = Execution("lab", seconds, spec.memory_bytes, confinement=result.confinement)
        return Measured(replace(measured, facts=facts), execution)

    async def close(self) -> None:
        """Does nothing, because nothing is kept."""


@contextlib.contextmanager
def _link(link: Path, target: Path) -> Iterator[None]:
    """Makes a symbolic link while the context lasts, so that the path to a program is equally long
    for every user, and runs repeat exactly.

    The arguments of a process are on its stack, whose address is part of mkstemp()'s first guess at
    a name, and a second guess would take a random number from the kernel.
    """
    link.symlink_to(target)
    try:
        yield
    finally:
        link.unlink()


class ThisMachine:
    """Measures runs on emulated paths in network namespaces of this machine, in real time. Needs
    root and a kernel with netem.
    """

    def __init__(self, programs: EmulationPrograms) -> None:
        self._programs = programs

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures the run in a process of its own, which ends with this one. See Machine."""
        _write_job(run, folder)
        begin = asyncio.get_running_loop().time()
        process = await asyncio.create_subprocess_exec(
            "setpriv",
            "--pdeathsig",
            "TERM",
            *_measure_argv(Path(sys.executable).resolve(), FOLDER, folder, self._programs),
            start_new_session=True,
        )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.terminate()  # it undoes its changes
            await process.wait()
            raise
        _finish_job(folder, status)
        seconds = asyncio.get_running_loop().time() - begin
        return Measured(_measurement(folder), Execution("namespaces", round(seconds, 2)))

    async def close(self) -> None:
        """Does nothing, because nothing is kept."""


class MachineByPath:
    """Measures runs on emulated paths with one machine, and runs between hosts with another. A
    campaign may have both.
    """

    def __init__(self, emulated: Machine | None, between_hosts: Machine | None) -> None:
        self._emulated = emulated
        self._between_hosts = between_hosts

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures the run with the machine for the kind of its path. See Machine."""
        machine = self._between_hosts if isinstance(run.path, HostPath) else self._emulated
        assert machine
        return await machine.measure(run, folder)

    async def close(self) -> None:
        for machine in (self._emulated, self._between_hosts):
            if machine:
                await machine.close()


def _measure_argv(
    python: Path, harness: str, folder: Path, programs: EmulationPrograms
) -> tuple[str, ...]:
    """Returns the command line that runs ccmix.run.measure. It needs no installed packages, so it
    starts Python without site, which halves the time.
    """
    return tuple(
        module_command(
            "ccmix.run.measure", folder, *astuple(programs), python=python, folder=harness
        )
    )


def pickled(run: Run) -> bytes:
    """Pickles a run for the measuring process, whose Python may be another version. Equal runs give
    equal bytes, because lab runs must repeat exactly.

    By itself, pickle also records which equal strings are one object, and the order in which an
    object got its fields. The memory of the guest's Python would depend on that.
    """
    return pickle.dumps(_rebuilt(run), protocol=4)


def _rebuilt(value: object) -> object:
    """Returns a deep copy that pickles to the same bytes as copies of equal values: equal strings
    are one object, all other values are separate objects.
    """
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, tuple):
        return tuple([_rebuilt(item) for item in value])
    if isinstance(value, dict):
        return {_rebuilt(key): _rebuilt(item) for key, item in value.items()}
    if is_dataclass(value):
        copy = object.__new__(type(value))
        for field in fields(value):
            object.__setattr__(copy, field.name, _rebuilt(getattr(value, field.name)))
        return copy
    return value


def _write_job(run: Run, folder: Path) -> None:
    """Writes the pickled run into the folder for the measuring process, which has the same code,
    but no library to decode it from JSON.
    """
    job = folder / run_files.JOB
    job.parent.mkdir()
    job.write_bytes(pickled(run))


def _measurement(folder: Path) -> Measurement:
    """Reads the measurement that the measuring process has written to the folder. Raises
    GeneratorError if it is damaged.
    """
    try:
        return MEASUREMENT.decode(json.loads(_text(folder, run_files.FACTS)))
    except (OSError, ValueError, ArchiveError) as error:
        raise GeneratorError(f"{folder / run_files.FACTS}: can't be understood: {error}") from error


def _text(folder: Path, name: str) -> str:
    """Reads a file of the run's folder without following links, because a user's command in the
    guest may have put one there. Raises OSError, ArchiveError and ValueError.
    """
    with os.fdopen(open_file(folder, folder / name), encoding="utf-8") as file:
        return file.read()


@contextlib.contextmanager
def _logs(folder: Path) -> Iterator[int]:
    """Opens the run's folder logs/ and yields its file descriptor. Files can then be written and
    removed there even if a command replaces the folder by a link. Raises OSError, ArchiveError.
    """
    handle = open_folder(folder, folder / run_files.LOGS)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _planted_removed(folder: Path) -> Iterator[None]:
    """At the end, removes everything in the folder that is neither a file nor a folder. A user's
    command in the guest could mislead this machine with it: by a link out of the folder, or a pipe
    that it would wait for. Raises GuestError if it found any.
    """
    planted: list[Path] = []
    try:
        yield
    finally:
        for place, folders, files, handle in os.fwalk(folder):
            for name in (*folders, *files):
                mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    planted.append(Path(place, name))
                    os.unlink(name, dir_fd=handle)
    if planted:
        problem = (
            f"{planted[0].relative_to(folder)} is neither a file nor a folder: a command of "
            "the run has made it"
        )
        raise GuestError("links", f"{problem}; make it in TMPDIR instead")


def _finish_job(folder: Path, exit_status: int) -> None:
    """Removes the pickled run after the measuring process has ended. Raises GeneratorError with the
    reason that this process has written if it failed.
    """
    with _logs(folder) as logs:
        os.unlink(Path(run_files.JOB).name, dir_fd=logs)
    if exit_status == 0:
        return
    why = ""
    with contextlib.suppress(OSError, ArchiveError):
        if reason := _text(folder, run_files.ERROR).strip():
            raise GeneratorError(reason)
        why = ", and had no room to write why: is the disk full?"
    raise GeneratorError(f"the measuring process ended with status {exit_status}{why}")
