"""Gives a guest, a kernel that runs as a process, its folders, processor and memory on the host."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import os
import re
import shlex
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from ccmix.failures import located
from ccmix.files import private_folder
from ccmix.lab import limits
from ccmix.lab.spec import GuestError
from ccmix.model import Topology
from ccmix.temporary import TemporaryFolderError, temporary_place
from ccmix.tools import cache_folder

_PREFIX = "ccmix-lab-"
_SETTLED_S = 60.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENDS_WITHIN_S, _LOOKS_EACH_S = 10.0, 0.001
_DEAD = "ZX"  # the states of processes that have ended
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2  # linux/falloc.h
_libc = ctypes.CDLL(None)
_FILES = Path(__file__).parent  # init and fstab are links into the repository's lab/

TAKEN = "\0ccmix-guest-on-processor-"  # a name in the abstract namespace: unix(7)
_guests_on: Counter[int] = Counter()  # processor: guests of this process


REMOUNT = "sudo mount -o remount,exec,size=75% /dev/shm"


class LackError(GuestError):
    """Says that this machine or container lacks something that a guest needs.

    One of `commands` provides it: `docker run` with the right option, or outside a container what
    the caller has named.
    """

    def __init__(self, lack: str, container_option: str, elsewhere: str, *commands: str) -> None:
        """Takes what is missing, and the remedies inside and outside a container."""
        inside = limits.inside_container()
        self.commands = (f"docker run {container_option} ...",) if inside else commands
        remedy = f"start the container with {container_option}" if inside else elsewhere
        super().__init__("start", f"{lack}: {remedy}")


@contextlib.contextmanager
def launch_dir(
    job_dir: Path,
    argv: Sequence[str],
    environment: Mapping[str, str],
    userland: Path | None = None,
    code: Path | None = None,
) -> Iterator[Path]:
    """Makes the launch folder of a guest: a temporary folder with the files that lab/init, the
    guest's first process, reads. Removes it when the context ends.

    `userland` is the guest's root (None: the host's file system), `code` the folder with ccmix's
    code. Raises GuestError("start") if the command or the environment can't be passed on, or the
    folder can't be made.
    """
    command = _init_script(argv, environment)
    with locked_folder(launch_parent(), "launch folder") as folder:
        try:
            _fill_launch_folder(folder, job_dir, userland, code)
            (folder / "command").write_text(command, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise GuestError(
                "start", f"the lab cannot fill its launch folder: {located(error, folder)}"
            ) from error
        yield folder


def free_beginning(fd: int, size: int) -> None:
    """Frees the disk space of a file's first `size` bytes, which then read as zeros. Another
    process may append to the file at the same time.

    Does nothing on a file system that cannot do it, for example NFS 3.
    """
    mode = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    _libc.fallocate(fd, mode, ctypes.c_int64(0), ctypes.c_int64(size))


@contextlib.contextmanager
def memory_folder(memory_bytes: int) -> Iterator[Path]:
    """Makes a folder for a guest's memory file, in which User-Mode Linux keeps the guest's memory,
    and removes it when the context ends. No other guest may use it.

    Raises GuestError("start") if the machine has too little memory, or no folder is suitable.
    """
    with locked_folder(memory_dir(memory_bytes), "folder for a guest's memory") as folder:
        yield folder


@contextlib.contextmanager
def locked_folder(parent: Path, what: str) -> Iterator[Path]:
    """Makes a temporary folder of this process below `parent`, and removes it when the context
    ends. `what` names the folder in the error.

    Raises GuestError("start") if `parent` can't be used.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder(parent, _PREFIX, _SETTLED_S)).resolve()
        except OSError as error:
            raise GuestError(
                "start", f"the lab cannot make its {what}: {located(error, parent)}"
            ) from error
        yield folder


def launch_parent() -> Path:
    """Returns the folder in which launch folders are made. A launch folder has the files with which
    a guest starts, among them a script that the guest executes.

    Returns the first of three folders that is writable and not mounted noexec: the temporary
    folder, /dev/shm (in memory) and the cache folder. Raises LackError if none is.
    """
    folders = (_temporary_folder(), Path("/dev/shm"), cache_folder())
    for folder in folders:
        if os.access(folder, os.W_OK | os.X_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    raise LackError(
        f"{', '.join(map(str, folders))}: the guest's init can be executed in none of them",
        "--tmpfs /tmp:exec",
        "set TMPDIR to a folder that is not mounted noexec",
        REMOUNT,
    )


def _temporary_folder() -> Path:
    """Returns the folder for temporary files. Raises LackError if there is none."""
    try:
        return temporary_place()
    except TemporaryFolderError as error:
        raise LackError(error.lack, "--tmpfs /tmp:exec", error.remedy) from error


def _fill_launch_folder(
    folder: Path, job_dir: Path, userland: Path | None, code: Path | None
) -> None:
    """Adds links to the guest's job folder, standard streams, code and root. Without a userland,
    the guest also needs lab/init there.
    """
    (folder / "job").symlink_to(job_dir)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (folder / name).symlink_to(f"/proc/self/fd/{number}")
    if code:
        (folder / "code").symlink_to(code)
    else:
        (folder / "code").mkdir()
    if userland:
        (folder / "root").symlink_to(userland)
    else:
        _copy_init(folder)


def _copy_init(folder: Path) -> None:
    """Adds lab/init and its fstab, which the userland has in its own files, but the host's file
    system does not.
    """
    for name in ("init", "fstab"):
        shutil.copyfile(_FILES / name, folder / name)
    (folder / "init").chmod(0o755)


def _init_script(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Returns the shell lines by which lab/init gets the command and its environment. Raises
    GuestError("start") if the command is empty, or if a shell can't represent the command or the
    environment.
    """
    if not argv:
        raise GuestError("start", "give the lab a command to run")
    for name in environment:
        if not _NAME.fullmatch(name):
            raise GuestError(
                "start", f"{name!r} is not the name of an environment variable that a shell can set"
            )
    if any("\0" in text for text in (*argv, *environment.values())):
        raise GuestError("start", "the lab's command or its environment contains a NUL character")
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join([*lines, shlex.join(["set", "--", *argv]), ""])


def processor_seconds(process_group: int) -> float:
    """Returns how much processor time the living processes of a group have used so far, including
    that of ended children for which they have waited. In a guest that starts processes, the ended
    children have used the most.
    """
    # own user and system time, and that of ended children
    ticks = sum(int(ticks) for fields in _process_stats(process_group) for ticks in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def end_group(process_group: int) -> None:
    """Kills all processes of a group, and waits for their end. It repeats that, because a process
    may fork meanwhile. Raises GuestError("hang") if they do not end.
    """
    gives_up_s = time.monotonic() + _ENDS_WITHIN_S
    while time.monotonic() < gives_up_s:
        try:
            os.killpg(process_group, signal.SIGKILL)
        except ProcessLookupError:
            return
        if all(fields[0] in _DEAD for fields in _process_stats(process_group)):
            return  # zombies: only their parents have not waited for them yet
        time.sleep(_LOOKS_EACH_S)
    raise GuestError(
        "hang", f"the processes of the guest, in the group {process_group}, can't be killed"
    )


def _process_stats(process_group: int) -> Iterator[list[str]]:
    """Yields the fields of /proc/PID/stat (proc_pid_stat(5)), from the state on, for each process
    of a group.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # just gone
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == process_group:
                yield fields


def has_xsave() -> bool:
    """Returns whether the processor has XSAVE, an instruction by which User-Mode Linux reads the
    registers of its processes.
    """
    flags = re.search(
        r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
    )
    return not flags or "xsave" in flags[1].split()


def memory_dir(memory_bytes: int) -> Path:
    """Returns a folder for a guest's memory file, in which User-Mode Linux keeps the guest's
    memory. The folder has room for it, and isn't mounted noexec.

    Raises LackError if less than `memory_bytes` of memory are available, or no folder is suitable.
    """
    _check_memory(memory_bytes)
    refusals = []
    for folder in dict.fromkeys((Path("/dev/shm"), _temporary_folder(), cache_folder())):
        try:
            status = os.statvfs(folder)
        except OSError as error:
            refusals.append(f"{folder}: {error.strerror}")
            continue
        if status.f_flag & os.ST_NOEXEC:
            refusals.append(f"{folder}: mounted noexec")
        elif not os.access(folder, os.W_OK | os.X_OK):
            refusals.append(f"{folder}: not writable")
        elif status.f_bavail * status.f_frsize < memory_bytes:
            refusals.append(f"{folder}: {_mib(status.f_bavail * status.f_frsize)} free")
        else:
            return folder
    raise LackError(
        f"no folder can hold the guest's memory of {_mib(memory_bytes)} ({'; '.join(refusals)})",
        f"--tmpfs /tmp:exec,size={math.ceil(memory_bytes / 2**30)}g",
        "set TMPDIR to a folder with room that is not mounted noexec",
        REMOUNT,
    )


def _check_memory(memory_bytes: int) -> None:
    """Raises LackError if less than `memory_bytes` of memory are available."""
    available = available_memory_bytes()
    if available is not None and available < memory_bytes:
        raise LackError(
            f"a run in the lab needs {_mib(memory_bytes)} of memory, and {_mib(available)} are "
            "available",
            f"--memory {math.ceil(1.5 * memory_bytes / 2**30)}g",
            "run fewer guests at a time, or give them less",
        )


def check_room(memory_bytes: int) -> Path:
    """Returns the folder for the memory of a guest, if this machine or container can run a guest
    with this much memory, and ccmix can make the tables of its run. Otherwise raises LackError.
    """
    _check_memory(memory_bytes + OWN_BYTES)
    left, needed = limits.processes_left(), limits.OWN_PROCESSES + limits.GUEST_PROCESSES
    if left is not None and left < needed:
        raise LackError(
            f"a run in the lab needs {needed} processes and threads, and {left} more are allowed",
            f"--pids-limit {2 * needed}",
            "raise the limit of the control group (TasksMax= of a systemd unit)",
        )
    launch_parent()
    return memory_dir(memory_bytes)


def available_memory_bytes() -> int | None:
    """Returns how much memory is available to this process: of the machine, and within the limits
    of its control groups. None if the kernel doesn't report it.
    """
    try:
        match = re.search(
            r"^MemAvailable: +(\d+) kB$",
            Path("/proc/meminfo").read_text(encoding="ascii"),
            re.MULTILINE,
        )
    except OSError:
        return None
    known = (int(match[1]) * 1024 if match else None, limits.memory_left_bytes())
    return min((size for size in known if size is not None), default=None)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"


@contextlib.contextmanager
def processor(wanted: int | None) -> Iterator[int]:
    """Yields the processor to pin a guest to: `wanted`, or (None) the processor with the fewest
    guests of this process. Of several, it takes the first that no other ccmix has reserved.

    A guest is always pinned, because it takes four times as long if it moves between two
    processors. Raises GuestError("start") if this process may not run on `wanted`.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if wanted is not None and wanted not in allowed:
        raise GuestError(
            "start", f"processor {wanted} is not one of those this process may use: {allowed}"
        )
    with contextlib.ExitStack() as stack:
        chosen = wanted
        if chosen is None:
            fewest = min(_guests_on[cpu] for cpu in allowed)
            least_used = [cpu for cpu in allowed if _guests_on[cpu] == fewest]
            fallback = least_used[os.getpid() % len(least_used)]
            chosen = next((cpu for cpu in least_used if _reserve(cpu, stack)), fallback)
        _guests_on[chosen] += 1
        stack.callback(_guests_on.subtract, [chosen])
        yield chosen


def _reserve(cpu: int, stack: contextlib.ExitStack) -> bool:
    """Reserves a processor for this process until the stack ends, and returns whether it was free.

    The reservation is a socket in the abstract namespace. Its name is free again when the process
    ends in any way.
    """
    lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        lock.bind(f"{TAKEN}{cpu}")
    except OSError:
        return False
    return True


OWN_BYTES = 200 * 2**20  # of ccmix and its libraries, while it makes the tables of a run
# Of the memory available at the first guest: making tables during the runs needs memory, too
LEFT_TO_OTHERS = 0.1


class SharedMemory:
    """Shares the memory of this machine between guests. A guest that finds too little left waits,
    in the order of asking.
    """

    def __init__(self) -> None:
        """Starts with nothing lent. The capacity is the memory that is available when the first
        guest asks.
        """
        self._turn = asyncio.Lock()
        self._returned = asyncio.Condition()
        self._capacity_bytes: float | None = None
        self._lent_bytes = 0

    @contextlib.asynccontextmanager
    async def part(self, size_bytes: int) -> AsyncIterator[None]:
        """Lends memory for the context, once `size_bytes` are left or no other guest runs: a guest
        that is too large for the machine is tried without others.
        """
        async with self._turn, self._returned:
            if self._capacity_bytes is None:
                available = available_memory_bytes()
                self._capacity_bytes = (
                    math.inf if available is None else (1 - LEFT_TO_OTHERS) * available
                )
            most_bytes = max(size_bytes, self._capacity_bytes)
            await self._returned.wait_for(lambda: self._lent_bytes + size_bytes <= most_bytes)
            self._lent_bytes += size_bytes
        try:
            yield
        finally:
            async with self._returned:
                self._lent_bytes -= size_bytes
                self._returned.notify_all()


def guest_memory_bytes(topology: Topology) -> int:
    """Returns how much memory a guest with this topology (the emulated path) needs: for the data in
    flight and in queues, with ample overhead of socket buffers, and for the guest itself.

    4 queues can each hold BDP + buffer: the sender's retransmission queue, netem, the bottleneck,
    and the receiver's reordering queue. With a small MTU, socket buffers take up to 4 times the
    size of the data. So the data needs up to 16 * (BDP + buffer).
    """
    return 2**29 + round(16 * (topology.bdp_bytes + topology.buffer_bytes))
