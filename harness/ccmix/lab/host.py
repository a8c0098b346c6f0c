"""Provides what a guest needs of the host: a launch folder, a place for its memory, a processor."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ccmix.failures import located
from ccmix.lab.errors import GuestError
from ccmix.temporary import TemporaryFolderError, temporary_place
from ccmix.tools import cache_folder

_PREFIX = "ccmix-lab-"
_STALE_SECONDS = 60.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENDS_WITHIN_S, _LOOKS_EACH_S = 10.0, 0.001
_DEAD = "ZX"  # the states of processes that have ended
_FILES = Path(__file__).parent  # init and fstab are links into the repository's lab/

TAKEN = "\0ccmix-guest-on-processor-"  # a name in the abstract namespace: unix(7)
_guests_on: Counter[int] = Counter()  # processor: guests of this process


@contextlib.contextmanager
def launch_dir(
    job_dir: Path, argv: Sequence[str], environment: Mapping[str, str], userland: Path | None = None,
    code: Path | None = None,
) -> Iterator[Path]:  # fmt: skip
    """Makes a temporary folder with all that lab/init reads, and removes it in any case.

    Raises GuestError("start") if the command or the environment cannot be passed on, or the folder cannot be made.
    """
    command = _command(argv, environment)
    with _own_folder(launch_parent(), "launch folder") as folder:
        try:
            _link(folder, job_dir, userland, code)
            (folder / "command").write_text(command, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise GuestError("start", f"the lab cannot fill its launch folder: {located(error, folder)}") from error
        yield folder


@contextlib.contextmanager
def memory_folder(memory_bytes: int) -> Iterator[Path]:
    """Makes a folder for the guest's memory file, which only this guest may use, and removes it in any case.

    Raises GuestError("start") if the machine has too little memory, or no folder will do.
    """
    with _own_folder(memory_dir(memory_bytes), "folder for a guest's memory") as folder:
        yield folder


@contextlib.contextmanager
def _own_folder(parent: Path, what: str) -> Iterator[Path]:
    """Makes a folder of this process, and removes it in any case.

    A harness that was killed with SIGKILL cannot remove its own: the next harness does, and knows it by the lock on the
    folder, which only a living process holds.
    """
    _remove_stale(parent)
    with contextlib.ExitStack() as undo:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GuestError("start", f"the lab cannot make its {what}: {located(error, parent)}") from error
        yield folder


def launch_parent() -> Path:
    """Returns the temporary folder, or memory if that is mounted noexec: the guest executes a script there."""
    folders = (_temporary(), Path("/dev/shm"), cache_folder())
    for folder in folders:
        if os.access(folder, os.W_OK | os.X_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    raise GuestError("start", f"{', '.join(map(str, folders))}: the guest's init can be executed in none of them")


def _temporary() -> Path:
    try:
        return temporary_place()
    except TemporaryFolderError as error:
        raise GuestError("start", str(error)) from error


def _link(folder: Path, job_dir: Path, userland: Path | None, code: Path | None) -> None:
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
        _add_init(folder)


def _add_init(folder: Path) -> None:
    """Adds what the userland has besides the system's files."""
    for name in ("init", "fstab"):
        shutil.copyfile(_FILES / name, folder / name)
    (folder / "init").chmod(0o755)


def _command(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    if not argv:
        raise GuestError("start", "give the lab a command to run")
    for name in environment:
        if not _NAME.fullmatch(name):
            raise GuestError("start", f"{name!r} is not the name of an environment variable that a shell can set")
    if any("\0" in text for text in (*argv, *environment.values())):
        raise GuestError("start", "the lab's command or its environment contains a NUL character")
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join([*lines, shlex.join(["set", "--", *argv]), ""])


def _remove_stale(parent: Path) -> None:
    for folder in parent.glob(_PREFIX + "*"):
        with contextlib.suppress(OSError):  # another user's, or just gone
            if time.time() - folder.stat().st_mtime < _STALE_SECONDS:
                continue  # perhaps so new that its owner has not locked it yet
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def processor_seconds(process_group: int) -> float:
    """Returns the processor time that all living processes of a group, and ended ones for which they have waited, have
    spent so far: in a guest that starts processes, the ended ones have spent the most.
    """
    # own user and system time, and that of ended children
    ticks = sum(int(ticks) for fields in _stats(process_group) for ticks in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def end_group(process_group: int) -> None:
    """Kills all processes of a group, and waits for their end. One that forks meanwhile dies with its child.

    Raises GuestError("hang") if they do not end.
    """
    latest_s = time.monotonic() + _ENDS_WITHIN_S
    while time.monotonic() < latest_s:
        try:
            os.killpg(process_group, signal.SIGKILL)
        except ProcessLookupError:
            return
        if all(fields[0] in _DEAD for fields in _stats(process_group)):
            return  # zombies: only their parents have not waited for them yet
        time.sleep(_LOOKS_EACH_S)
    raise GuestError("hang", f"the processes of the guest, in the group {process_group}, can't be killed")


def _stats(process_group: int) -> Iterator[list[str]]:
    """Yields the fields of proc_pid_stat(5), from the state on, for each process of a group."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # just gone
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == process_group:
                yield fields


def has_xsave() -> bool:
    """Returns whether the processor saves its registers in the way by which User-Mode Linux reads those of its
    processes.
    """
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return not flags or "xsave" in flags[1].split()


def memory_dir(memory_bytes: int) -> Path:
    """Returns the folder for the guest's memory file: one that may hold executable code and has room for it.

    Raises GuestError("start") if the machine has less than `memory_bytes` of memory available, or no folder will do.
    """
    available = available_memory_bytes()
    if available is not None and available < memory_bytes:
        raise GuestError(
            "start",
            f"the guest asks for {_mib(memory_bytes)} of memory, and this machine has {_mib(available)} available: "
            "run fewer guests at a time, or give them less",
        )
    refused = []
    for folder in dict.fromkeys((Path("/dev/shm"), _temporary(), cache_folder())):
        try:
            status = os.statvfs(folder)
        except OSError as error:
            refused.append(f"{folder}: {error.strerror}")
            continue
        if status.f_flag & os.ST_NOEXEC:
            refused.append(f"{folder}: mounted noexec")
        elif not os.access(folder, os.W_OK | os.X_OK):
            refused.append(f"{folder}: not writable")
        elif status.f_bavail * status.f_frsize < memory_bytes:
            refused.append(f"{folder}: {_mib(status.f_bavail * status.f_frsize)} free")
        else:
            return folder
    raise GuestError(
        "start",
        f"no folder can hold the guest's memory of {_mib(memory_bytes)} ({'; '.join(refused)}): "
        "set TMPDIR to a folder with room that is not mounted noexec",
    )


def available_memory_bytes() -> int | None:
    """Returns how much of this machine's memory programs may still take; None if the kernel doesn't say."""
    try:
        match = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"


@contextlib.contextmanager
def processor(wanted: int | None) -> Iterator[int]:
    """Yields the processor to pin a guest to: `wanted`, or the one with the fewest guests of this process.

    Of several, the first that no other process has taken for its guests. A guest across two processors takes four
    times as long, so it is always pinned. Raises GuestError("start") if this process may not run on `wanted`.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if wanted is not None and wanted not in allowed:
        raise GuestError("start", f"processor {wanted} is not one of those this process may use: {allowed}")
    with contextlib.ExitStack() as stack:
        chosen = wanted
        if chosen is None:
            fewest = min(_guests_on[cpu] for cpu in allowed)
            least_used = [cpu for cpu in allowed if _guests_on[cpu] == fewest]
            shared = least_used[os.getpid() % len(least_used)]
            chosen = next((cpu for cpu in least_used if _taken(cpu, stack)), shared)
        _guests_on[chosen] += 1
        stack.callback(_guests_on.subtract, [chosen])
        yield chosen


def _taken(cpu: int, stack: contextlib.ExitStack) -> bool:
    """Takes a processor among the processes of this machine until the stack ends; returns whether it was free.

    The name of a socket without a file is free again when the process ends, in whatever way.
    """
    lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        lock.bind(f"{TAKEN}{cpu}")
    except OSError:
        return False
    return True
