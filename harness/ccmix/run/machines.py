"""Measures each run on an emulated path in a guest of the lab, or in namespaces of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import os
import pickle
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Protocol

from ccmix.archive import RunFolder
from ccmix.failures import signal_text
from ccmix.files import (
    ArchiveError,
    open_file,
    open_folder,
    remove_folder,
    write_new,
)
from ccmix.generators.results import GeneratorError
from ccmix.hosts.caps import capture_bytes, output_bytes
from ccmix.isolated import FOLDER, module_command
from ccmix.lab import CODE_DIR, JOB_DIR, GuestError, GuestSpec, run_guest
from ccmix.lab.guest_code import HARNESS, guest_code
from ccmix.lab.host import SharedMemory, guest_memory_bytes
from ccmix.lab.spec import DEEPEST, HOST_ROOT, identify_kernel, identify_userland
from ccmix.model import STOCK_KERNEL, HostPath, Measurement, Run, run_files
from ccmix.model.results import Execution
from ccmix.run.traffic_sources import IN_USERLAND
from ccmix.tools import find_iperf3, find_rtt, find_sockmon, find_userland
from ccmix.units import format_bytes

PACKAGE_FOLDER = Path(FOLDER)

# In a guest the host's folders are read-only, so the undo journal is in memory and dies with the
# guest.
GUEST_ENVIRONMENT = {"CCMIX_STATE": "/run/ccmix/state"}
OWN_ROOT_ENVIRONMENT = GUEST_ENVIRONMENT | {IN_USERLAND: "1"}
PYTHON_IN_GUEST = Path("/usr/bin/python3")
HARNESS_IN_GUEST = f"{CODE_DIR}/{HARNESS}"
READ_FOLDERS = (run_files.LOGS, run_files.GENERATORS)
MOST_OF_REASON_BYTES = 10_000
TIMES_A_HOST, LONGEST_COUNTED_INTERVAL_S = 4, 1.0  # of the maximum size of a guest's file
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
        """Prepares the lab, without starting a guest (a process in which the lab's kernel runs).
        `kernel` is the guests' kernel file, and `others` has further kernels by name, which
        topologies may ask for.

        Raises ToolError if the lab's userland (the guests' root file system) is missing, and
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
        """Measures the run in a new guest, which shares the folder with this machine and writes its
        results there. Raises GuestError or GeneratorError.
        """
        assert run.seed is not None
        kernel = self._kernels[run.topology.kernel]
        _write_job(run, folder)
        with _files_checked(folder, _most_bytes(run)), contextlib.ExitStack() as links:
            # with host-root = on, the guest has this machine's root file system and programs
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
    """Makes a symbolic link to `target` while the context lasts. The guest runs programs through
    such links, so that their paths are equally long for every user, and runs repeat exactly.

    A longer path would move a process's stack. mkstemp() uses an address on the stack for its first
    guess at a name, and a second guess would take a random number from the kernel.
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
        """Takes the paths of the programs that measure."""
        self._programs = programs

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures the run in a new process, which ends together with this one. The folder gets the
        raw files. Raises GeneratorError.
        """
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
        """Takes both machines; None for a kind of path that the campaign does not have."""
        self._emulated = emulated
        self._between_hosts = between_hosts

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures the run with the machine for its kind of path: emulated, or between hosts. The
        folder gets the raw files.
        """
        machine = self._between_hosts if isinstance(run.path, HostPath) else self._emulated
        assert machine
        return await machine.measure(run, folder)

    async def close(self) -> None:
        """Ends commands and settings that both machines have kept from run to run."""
        for machine in (self._emulated, self._between_hosts):
            if machine:
                await machine.close()


def _measure_argv(
    python: Path, harness: str, folder: Path, programs: EmulationPrograms
) -> tuple[str, ...]:
    """Returns the command line that runs the module ccmix.run.measure, which measures the run in
    `folder`. Python starts without the module site, because no installed packages are needed and
    this halves the start time.

    python: path of the Python to use
    harness: path of the folder or archive that contains ccmix
    """
    return tuple(
        module_command(
            "ccmix.run.measure", folder, *astuple(programs), python=python, folder=harness
        )
    )


def pickled(run: Run) -> bytes:
    """Returns a run as bytes for the measuring process, whose Python may be another version. Equal
    runs give equal bytes, because lab runs must repeat exactly.

    By default, pickle also records which equal strings are the same object, and the order in which
    an object got its fields. Both may differ between equal runs, and would change the memory of the
    guest's Python.
    """
    return pickle.dumps(_rebuilt(run), protocol=4)


def _rebuilt(value: object) -> object:
    """Returns a deep copy of a value in a normal form: equal strings are one object, every other
    value is an object of its own, and fields have the order of their class. Copies of equal values
    then pickle to the same bytes.
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
    """Writes the run, as a pickle, into the folder for the measuring process. That process has the
    same code, but not the library that would read a run from JSON.
    """
    job = folder / run_files.JOB
    job.parent.mkdir()
    job.write_bytes(pickled(run))


def _measurement(folder: Path) -> Measurement:
    """Reads the measurement that the measuring process has written to the folder. Raises
    GeneratorError if it is damaged.
    """
    try:
        return RunFolder(folder).read_measurement()
    except (OSError, ValueError, ArchiveError) as error:
        raise GeneratorError(f"{folder / run_files.FACTS}: can't be understood: {error}") from error


@contextlib.contextmanager
def _logs(folder: Path) -> Iterator[int]:
    """Opens the folder logs/ of a run and yields its file descriptor. Through the descriptor, files
    are written and removed in this folder even if a user's command in the guest replaces it by a
    link. Raises OSError, ArchiveError.
    """
    handle = open_folder(folder, folder / run_files.LOGS)
    try:
        yield handle
    finally:
        os.close(handle)


def _most_bytes(run: Run) -> int:
    """Returns the maximum size of a file that ccmix reads from a guest: a capture, or a file in
    logs/ or generators/. It is more than hosts may send, because a run of the lab may have more
    flows.
    """
    interval_s = min(run.traffic.interval_s, LONGEST_COUNTED_INTERVAL_S)
    most_bytes = TIMES_A_HOST * output_bytes(run.seconds, interval_s)
    capture = run.topology.capture
    return max(most_bytes, capture_bytes(capture.most_bytes)) if capture else most_bytes


@contextlib.contextmanager
def _files_checked(folder: Path, most_bytes: int) -> Iterator[None]:
    """When the context ends, removes from a run's folder what a command in the guest may have made
    to harm this machine: links, which may lead out of the folder; pipes, whose reading may never
    end; folders nested too deep and names that are not valid UTF-8, which other programs can't
    handle; and files of more than `most_bytes` among those that ccmix reads.

    Raises GuestError if it has removed anything.
    """
    problems: list[str] = []
    try:
        yield
    finally:
        for place, folders, files, handle in os.fwalk(folder):
            depth = len(Path(place).parts) - len(folder.parts)
            is_read = depth and Path(place).relative_to(folder).parts[0] in READ_FOLDERS
            for name in (*folders, *files):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                allowed_bytes = most_bytes if is_read or name == run_files.CAPTURE else math.inf
                problem = _problem(name, status, depth, allowed_bytes)
                if not problem:
                    continue
                shown = Path(place, name).relative_to(folder)
                problems.append(f"{os.fsencode(shown).decode(errors='backslashreplace')} {problem}")
                if stat.S_ISDIR(status.st_mode):
                    remove_folder(Path(place, name))
                    folders.remove(name)
                else:
                    os.unlink(name, dir_fd=handle)
    if problems:
        raise GuestError(
            "files", f"{problems[0]}: a command of the run has made it; make it in TMPDIR instead"
        )


def _problem(name: str, status: os.stat_result, depth: int, most_bytes: float) -> str | None:
    """Returns the problem of an entry of a run's folder, as words after its name; None without one.
    `depth` is the number of folders between the run's folder and the entry.
    """
    is_folder = stat.S_ISDIR(status.st_mode)
    if name.encode(errors="replace").decode() != name:
        return "is not valid UTF-8"
    if not (is_folder or stat.S_ISREG(status.st_mode)):
        return "is neither a file nor a folder"
    if is_folder and depth == DEEPEST:
        return f"is a folder {depth + 1} levels deep, more than {DEEPEST}"
    if status.st_size > most_bytes:
        return f"has {format_bytes(status.st_size)}, more than {format_bytes(most_bytes)}"
    return None


def _finish_job(folder: Path, exit_status: int) -> None:
    """Removes the pickled run from the folder after the measuring process has ended. If that
    process failed, raises GeneratorError with the reason that it has written to logs/error.txt.
    """
    with _logs(folder) as logs:
        os.unlink(Path(run_files.JOB).name, dir_fd=logs)
    if exit_status == 0:
        return
    why = ""
    with (
        contextlib.suppress(OSError, ArchiveError),
        os.fdopen(open_file(folder, folder / run_files.ERROR), "rb") as file,
    ):
        if reason := file.read(MOST_OF_REASON_BYTES).decode(errors="replace").strip():
            raise GeneratorError(reason)
        why = ", and had no room to write why: is the disk full?"
    if exit_status < 0:
        raise GeneratorError(f"the measuring process was killed by {signal_text(-exit_status)}")
    raise GeneratorError(f"the measuring process ended with status {exit_status}{why}")
