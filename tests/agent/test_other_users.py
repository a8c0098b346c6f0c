"""Tests attacks of other users of a host on the agent: they lock its journals, and ask for its
controller's token.
"""

import json
import os
import select
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ccmix.agent.journal import Journal, boot_id
from ccmix.agent.left_journals import remaining_undos, restore
from ccmix.agent.lock import LEAVING, HostLock
from ccmix.agent.messages import HostOwner
from ccmix.generators.pscheduler.ledger import cancel_left
from ccmix.hosts import LocalHost, NamespaceHost
from ccmix.hosts.local import entered
from support.commands import CCMIX

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
LOCKS = (
    "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); "
    "print('ready', flush=True); input()"
)
OWNER: HostOwner = {"campaign": "a test", "user": "root", "host": "here", "pid": 1, "since": "now"}
LOCKED = "is locked, though its ccmix has died: end the process that has it open (fuser)"


@pytest.fixture
def place() -> Iterator[Path]:
    """Returns a folder that every user can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def running(*argv: str | Path) -> Iterator["subprocess.Popen[str]"]:
    """Starts a program that reports when it is ready, and ends with its input."""
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate("\n")


def left_by_dead(folder: Path, undo: list[str], pid: int = 2**22 + 1) -> Path:
    """Writes the journal of a process that died, readable by everybody, like older versions."""
    folder.mkdir(mode=0o755, exist_ok=True)
    lines = [
        {"boot_id": boot_id(), "pid": pid},
        {"number": 0, "what": "a change", "undo": undo},
        {"number": 0, "made": True},
    ]
    file = folder / "undo-1-dead.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    file.chmod(0o644)
    return file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def ccmix_restore(state: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CCMIX_STATE": str(state)}
    return subprocess.run(
        [CCMIX, "restore"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.root
def test_no_other_user_can_lock_a_journal(place: Path) -> None:
    with Journal(place / "state") as journal, LocalHost(journal).changed("a", ["true"], ["true"]):
        [file] = (place / "state").iterdir()
        assert (mode(file), mode(place / "state")) == (0o600, 0o700)
        for folder in (0o700, 0o755):  # also if other users may enter the folder
            (place / "state").chmod(folder)
            locked = subprocess.run(
                [*NOBODY, sys.executable, "-c", LOCKS, file], stderr=subprocess.PIPE, check=False
            )
            assert b"PermissionError" in locked.stderr


@pytest.mark.root
def test_a_journal_that_another_user_has_locked_is_reported_and_undone_later(place: Path) -> None:
    undone = place / "undone"
    file = left_by_dead(place / "state", ["touch", str(undone)])
    with running(*NOBODY, sys.executable, "-c", LOCKS, file):
        done = ccmix_restore(place / "state")
        assert (done.returncode, done.stderr) == (1, f"{file}: {LOCKED}\n")
        assert [undo.what for undo in remaining_undos(place / "state")] == [f"{file} {LOCKED}"]
        assert mode(file) == 0o600
    assert not undone.exists()
    done = ccmix_restore(place / "state")
    assert (done.returncode, done.stderr) == (0, "a change: restored\n")
    assert undone.exists()


def test_a_lock_is_believed_only_of_the_process_that_wrote_the_journal(place: Path) -> None:
    """A process that got the same number later does not count, whichever process holds the lock
    then.
    """
    with subprocess.Popen(["sleep", "1000"]) as other:
        file = left_by_dead(place / "state", ["true"], pid=other.pid)
        with running(sys.executable, "-c", LOCKS, file) as locking:
            assert [(undo.what, reason) for undo, reason in restore(place / "state")] == [
                (str(file), LOCKED)
            ]
            left_by_dead(place / "state", ["true"], pid=locking.pid)
            assert list(restore(place / "state")) == []
        other.kill()


@pytest.mark.parametrize(
    "why",
    [
        "a folder",
        "a link",
        "others may write",
        pytest.param("of another user", marks=pytest.mark.root),
    ],
)
def test_a_journal_that_can_not_be_trusted_is_reported_and_not_carried_out(
    place: Path, why: str
) -> None:
    undone = place / "undone"
    file = left_by_dead(place / "state", ["touch", str(undone)])
    if why == "a folder":
        file.unlink()
        file.mkdir()
    elif why == "a link":
        file.rename(place / "elsewhere")
        file.symlink_to(place / "elsewhere")
    elif why == "others may write":
        file.chmod(0o666)
    else:
        os.chown(file, 65534, 65534)
    done = ccmix_restore(place / "state")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{file}: can't be opened: ")
    assert not undone.exists()


def test_a_state_folder_that_can_not_be_read_is_reported(place: Path) -> None:
    (place / "state").touch()
    assert [(undo.what, reason) for undo, reason in restore(place / "state")] == [
        (str(place / "state"), "can't be read: Not a directory")
    ]


def test_a_record_of_pscheduler_that_can_not_be_read_is_reported(place: Path) -> None:
    (place / "pscheduler-task-1.jsonl").mkdir()
    assert list(cancel_left(place)) == [
        (f"{place}/pscheduler-task-1.jsonl", "can't be opened: Is a directory")
    ]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("undo-1-x.jsonl", 0o775, 0o700),
        ("thesis.tex", 0o755, 0o755),
        ("undo-1-x.jsonl", 0o777, 0o777),
    ],
)
def test_an_older_state_folder_is_closed_unless_it_is_for_others_too(
    place: Path, name: str, before: int, after: int
) -> None:
    (place / name).touch()
    place.chmod(before)
    with Journal(place):
        assert mode(place) == after


ROGUE = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind("\\0ccmix-host")
listening.listen()
print("ready", flush=True)
connection = listening.accept()[0]
connection.send(b'{"campaign": "evil"}\\n')
print(connection.recv(100), flush=True)
input()
"""
ASKS = """
import socket
asking = socket.socket(socket.AF_UNIX)
asking.connect("\\0ccmix-host")
asking.recv(4096)
asking.send(b"secret")
print(asking.recv(100), flush=True)
"""
TAKES = """
from ccmix.agent.lock import HostLock, LockError
try:
    HostLock({}, "secret", lambda _: None)
except LockError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("user", "got"), [(NOBODY, b""), ((), b"secret")], ids=["nobody", "the same"]
)
@pytest.mark.root
def test_the_token_goes_to_no_other_user(
    namespace: NamespaceHost, user: tuple[str, ...], got: bytes
) -> None:
    with running(*namespace.command([*user, sys.executable, "-c", ROGUE])) as rogue:
        assert "in use by evil" in namespace.run([sys.executable, "-c", TAKES])
        assert rogue.stdout
        assert rogue.stdout.readline() == f"{got!r}\n"


@pytest.mark.parametrize(
    ("user", "leaves"), [(NOBODY, False), ((), True)], ids=["nobody", "the same"]
)
@pytest.mark.root
def test_the_token_of_another_user_ends_no_agent(
    namespace: NamespaceHost, user: tuple[str, ...], leaves: bool
) -> None:
    with entered(namespace.name):
        lock = HostLock(OWNER, "secret", lambda _: None)
    argv = namespace.command([*user, sys.executable, "-c", ASKS])
    with lock.socket, subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as asking:
        assert select.select([lock.socket], [], [], 30)[0]
        connection = lock.answer()
        assert connection
        assert select.select([connection], [], [], 30)[0]
        assert lock.is_asked_to_leave(connection) == leaves
        connection.close()
        assert asking.stdout
        assert asking.stdout.readline() == f"{LEAVING if leaves else b''!r}\n"
