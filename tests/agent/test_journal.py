"""Tests the undo journal with changes to a file of lines: `do` adds a line, `undo` removes it."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest

from ccmix.agent.journal import Journal, JournalError, state_folder
from ccmix.agent.left_journals import remaining_undos, restore
from ccmix.hosts import CommandError, LocalHost

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Undone(Exception):
    """A test raises it inside a change."""


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A file to which each change and undo of a test adds a word."""
    return tmp_path / "words"


@pytest.fixture
def clean(state: Path) -> Iterator[Path]:
    """A state folder in which a test leaves no journal."""
    yield state
    assert journals(state) == []


def log(file: Path, word: str) -> list[str]:
    return ["sh", "-c", f"echo {word} >> {file}"]


def logged(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def journals(state: Path) -> list[Path]:
    return sorted(state.iterdir())


def write_journal(
    state: Path, undos: Sequence[tuple[list[str], bool]], boot_id: str = BOOT_ID, torn: str = ""
) -> Path:
    """Writes a journal as a process that died leaves it; each undo has a flag for whether its
    change was certainly made.
    """
    state.mkdir(exist_ok=True)
    lines: list[dict[str, object]] = [{"boot_id": boot_id, "pid": 1}]
    for number, (undo, certain) in enumerate(undos):
        lines.append({"number": number, "what": f"change {number}", "undo": undo})
        lines += [{"number": number, "made": True}] * certain
    file = state / "undo-1-dead.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + torn)
    return file


def test_the_undo_is_on_disk_before_the_change(state: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    do = ["sh", "-c", f"cat {state}/undo-*.jsonl > {seen}"]
    with Journal(state) as journal, LocalHost(journal).changed("a change", do, ["true", "undo"]):
        lines = [json.loads(line) for line in seen.read_text().splitlines()]
        assert lines[0]["boot_id"] == BOOT_ID
        assert lines[1:] == [
            {"number": 0, "what": "a change on localhost", "undo": ["true", "undo"]}
        ]


def test_changes_are_undone_in_reverse_and_the_journal_goes(clean: Path, words: Path) -> None:
    with Journal(clean) as journal, ExitStack() as changes:
        for name in ("a", "b"):
            changes.enter_context(
                LocalHost(journal).changed(
                    name, log(words, f"do-{name}"), log(words, f"undo-{name}")
                )
            )
        assert logged(words) == ["do-a", "do-b"]
    assert logged(words) == ["do-a", "do-b", "undo-b", "undo-a"]


@pytest.mark.parametrize("error", [Undone, KeyboardInterrupt, SystemExit])
def test_changes_are_undone_on_exceptions(
    clean: Path, words: Path, error: type[BaseException]
) -> None:

    def change_and_fail() -> None:
        with (
            Journal(clean) as journal,
            LocalHost(journal).changed("a", log(words, "do"), log(words, "undo")),
        ):
            raise error

    with pytest.raises(error):
        change_and_fail()
    assert logged(words) == ["do", "undo"]


def test_a_change_that_fails_is_undone_as_far_as_it_went(clean: Path, words: Path) -> None:

    def change() -> None:
        half = ["sh", "-c", f"echo half >> {words}; exit 1"]
        with Journal(clean) as journal, LocalHost(journal).changed("a", half, log(words, "undo")):
            words.write_text("never")

    with pytest.raises(CommandError, match="exit status 1"):
        change()
    assert logged(words) == ["half", "undo"]


def test_a_change_that_fails_may_have_nothing_to_undo(clean: Path) -> None:
    def change() -> None:
        with (
            Journal(clean) as journal,
            LocalHost(journal).changed("a", ["false"], ["sh", "-c", "exit 9"]),
        ):
            pass

    with pytest.raises(CommandError, match="false: exit status 1"):
        change()


def test_a_change_that_is_interrupted_is_undone(clean: Path, words: Path) -> None:
    """Turns SIGTERM into SystemExit while `do` runs, like ccmix.run.measure."""

    def terminate(*_: object) -> None:
        raise SystemExit

    former = signal.signal(signal.SIGUSR1, terminate)
    try:
        do = ["sh", "-c", f"echo do >> {words}; kill -USR1 {os.getpid()}; sleep 20"]
        with (
            pytest.raises(SystemExit),
            Journal(clean) as journal,
            LocalHost(journal).changed("a", do, log(words, "undo")),
        ):
            pass
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert logged(words) == ["do", "undo"]


def test_an_undo_that_fails_stays_for_restore(clean: Path, tmp_path: Path, words: Path) -> None:
    key = tmp_path / "key"

    def change() -> None:
        needs_key = ["sh", "-c", f"test -e {key} && echo undo-b >> {words}"]
        with (
            Journal(clean) as journal,
            LocalHost(journal).changed("a", log(words, "a"), log(words, "undo-a")),
            LocalHost(journal).changed("b", log(words, "b"), needs_key),
        ):
            pass

    with pytest.raises(CommandError):
        change()
    assert logged(words) == ["a", "b", "undo-a"]
    assert [(undo.what, reason) for undo, reason in restore(clean)] == [
        ("b on localhost", "exit status 1")
    ]
    key.touch()
    assert [(undo.what, reason) for undo, reason in restore(clean)] == [("b on localhost", None)]
    assert logged(words) == ["a", "b", "undo-a", "undo-b"]


def test_restore_after_a_kill_in_the_middle(state: Path, words: Path) -> None:
    program = f"""
import time
from pathlib import Path
from ccmix.agent.journal import Journal
from ccmix.hosts import LocalHost
def log(word): return ["sh", "-c", f"echo {{word}} >> {words}"]
with Journal(Path({str(state)!r})) as journal:
    with LocalHost(journal).changed("a", log("a"), log("undo-a")):
        with LocalHost(journal).changed("b", log("b"), log("undo-b")):
            with LocalHost(journal).changed("c", log("c"), log("undo-c")):
                pass
            print("changed", flush=True)
            time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "changed\n"
    before = journals(state)[0].read_text()
    assert list(restore(state)) == [], "the journal of a live process is left alone"
    assert journals(state)[0].read_text() == before
    process.kill()
    process.wait()
    process.stdout.close()
    assert logged(words) == ["a", "b", "c", "undo-c"]
    restored = [(undo.what, undo.certain, reason) for undo, reason in restore(state)]
    assert restored == [("b on localhost", True, None), ("a on localhost", True, None)]
    assert logged(words) == ["a", "b", "c", "undo-c", "undo-b", "undo-a"]
    assert journals(state) == []
    assert list(restore(state)) == []


def test_nothing_is_undone_after_a_reboot(clean: Path, words: Path) -> None:
    write_journal(
        clean, [(log(words, "undo"), True)], boot_id="00000000-0000-0000-0000-000000000000"
    )
    assert list(restore(clean)) == []
    assert logged(words) == []


@pytest.mark.parametrize("torn", ['{"number": 1, "what": "half', '{"number": 0, "undone": tr', "{"])
def test_a_last_line_cut_short_is_left_out(clean: Path, words: Path, torn: str) -> None:
    write_journal(clean, [(log(words, "undo"), True)], torn=torn)
    assert [reason for _, reason in restore(clean)] == [None]
    assert logged(words) == ["undo"]


def test_an_empty_journal_is_removed(clean: Path) -> None:
    write_journal(clean, []).write_text("")
    assert list(restore(clean)) == []


def test_an_uncertain_undo_may_fail(clean: Path) -> None:
    write_journal(clean, [(["false"], False)])
    [(undo, reason)] = restore(clean)
    assert (undo.certain, reason) == (False, None)


@pytest.mark.parametrize(
    "undo", [["/nonexistent"], ["sh", "-c", "kill -9 $$"]], ids=["missing", "killed"]
)
def test_an_uncertain_undo_that_did_not_run_to_its_end_stays(state: Path, undo: list[str]) -> None:
    write_journal(state, [(undo, False)])
    for _ in range(2):
        [(_, reason)] = restore(state)
        assert reason
    assert len(journals(state)) == 1


def test_an_undo_that_a_kill_cut_off_may_have_taken_effect(clean: Path, tmp_path: Path) -> None:
    """Kills a restoring process just after its undo has taken the change back, which the undo can't
    do twice.
    """
    there = tmp_path / "there"
    there.touch()
    undo = ["sh", "-c", f"rm {there} || exit 1; kill -9 $PPID"]
    file = write_journal(clean, [(undo, True)])
    program = "from ccmix.agent.left_journals import restore; list(restore())"
    environment = os.environ | {"CCMIX_STATE": str(clean)}
    killed = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert file.exists()
    assert [reason for _, reason in restore(clean)] == [None]


def test_an_undo_that_fails_is_certain_also_the_next_time(state: Path) -> None:
    write_journal(state, [(["false"], True)])
    for _ in range(3):
        assert [reason for _, reason in restore(state)] == ["exit status 1"]
    assert len(journals(state)) == 1


@pytest.mark.parametrize("torn", ["", '{"number": 0, "undo'])
def test_what_was_undone_is_not_undone_again_when_another_undo_fails(
    clean: Path, tmp_path: Path, words: Path, torn: str
) -> None:
    key = tmp_path / "key"
    first = ["sh", "-c", f"test -e {key} && echo first >> {words}"]
    write_journal(clean, [(first, True), (log(words, "second"), True)], torn=torn)
    assert [reason for _, reason in restore(clean)] == [None, "exit status 1"]
    assert [reason for _, reason in restore(clean)] == ["exit status 1"]
    key.touch()
    assert [reason for _, reason in restore(clean)] == [None]
    assert logged(words) == ["second", "first"]


def test_restore_never_takes_a_journal_that_is_just_being_made(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def restored_meanwhile(file: IO[str], operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        assert list(restore(clean)) == []
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", restored_meanwhile)
    with Journal(clean) as journal, LocalHost(journal).changed("a", ["true"], ["true"]):
        assert len(list(clean.glob("undo-*.jsonl"))) == 1


def test_no_state_folder_is_nothing_to_restore(tmp_path: Path) -> None:
    assert list(restore(tmp_path / "none")) == []


def test_where_journals_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CCMIX_STATE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_folder() == Path("/var/lib/ccmix")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "ccmix"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/dtn")
    assert state_folder() == Path("/home/dtn/.local/state/ccmix")
    monkeypatch.setenv("CCMIX_STATE", "/elsewhere")
    assert state_folder() == Path("/elsewhere")


def test_every_line_is_flushed_to_the_disk(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    sync = os.fsync

    def counted(descriptor: int) -> None:
        synced.append(len(next(state.iterdir()).read_text().splitlines()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    with Journal(state) as journal, LocalHost(journal).changed("a", ["true"], ["true"]):
        pass
    assert synced == [1, 2, 3, 4, 5]  # boot id, undo, made, undoing, undone


def test_processes_at_the_same_time_have_journals_of_their_own(clean: Path) -> None:
    with Journal(clean), Journal(clean):
        assert len(journals(clean)) == 2


def test_what_a_kill_left_of_a_journal_that_had_not_begun_is_removed(state: Path) -> None:
    state.mkdir(exist_ok=True)
    old, new, held = (state / f"undo-{number}-abc.new" for number in (1, 2, 3))
    for path in (old, new, held):
        path.touch()
    for path in (old, held):
        os.utime(path, (0, 0))
    with held.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        assert list(restore(state)) == []
    assert journals(state) == [new, held]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limits the size of this process's files, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_journal_that_can_not_be_begun_leaves_nothing_and_names_its_file(clean: Path) -> None:
    with files_of_at_most(10), pytest.raises(JournalError) as raised, Journal(clean):
        pass
    assert str(raised.value).startswith(f"{clean}/undo-")
    assert (
        "No space left on device: nothing is changed without its undo on the disk: make room there"
        in str(raised.value)
    )
    assert str(raised.value).endswith("name another folder by CCMIX_STATE")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_state_folder_that_is_none_is_named(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(JournalError, match=f"^{tmp_path / place}: .*nothing is changed"),
        Journal(tmp_path / place),
    ):
        pass


def test_a_change_is_not_made_where_its_undo_does_not_fit(clean: Path, words: Path) -> None:
    with Journal(clean) as journal:
        [file] = journals(clean)

        def change() -> None:
            with LocalHost(journal).changed("a", log(words, "do"), log(words, "undo")):
                pass

        with (
            files_of_at_most(file.stat().st_size + 20),
            pytest.raises(JournalError, match=f"^{file}: No space left"),
        ):
            change()
        assert logged(words) == []
        change()
    assert logged(words) == ["do", "undo"]


def test_an_undo_needs_no_temporary_folder(
    state: Path, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all disks are full, which Python finds out by writing."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    write_journal(state, [(log(words, "undo"), True), (["sh", "-c", "echo why; exit 1"], True)])
    assert [reason for _, reason in restore(state)] == ["exit status 1: why", None]
    assert logged(words) == ["undo"]


HEAD = json.dumps({"boot_id": BOOT_ID, "pid": 1}).encode() + b"\n"


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"[" * 200_000], ids=["not UTF-8", "deep"])
def test_a_line_that_is_no_json_was_cut_short(clean: Path, words: Path, content: bytes) -> None:
    write_journal(clean, [(log(words, "undo"), True)])
    (clean / "undo-0-cut.jsonl").write_bytes(HEAD + content)
    assert [reason for _, reason in restore(clean)] == [None]


@pytest.mark.parametrize(
    "content",
    [
        HEAD + b"[1]\n",
        HEAD + b'{"number": []}\n',
        HEAD + b'{"number": 7, "undo": ["true"]}\n',
        HEAD + b'{"number": 7, "what": "x", "undo": 7}\n',
        HEAD + b'{"number": 7, "what": "x", "undo": [7]}\n',
        b'{"boot_\xff": 1}\n{"number": 0, "what": "x", "undo": ["true"]}\n',
        b"\0\0\0\0",
    ],
    ids=["list", "number", "no change", "no undo", "no words", "no head", "zeros"],
)
def test_a_damaged_journal_is_reported_and_kept_beside_others(
    state: Path, words: Path, content: bytes
) -> None:
    write_journal(state, [(log(words, "undo"), True)])
    damaged = state / "undo-0-damaged.jsonl"
    damaged.write_bytes(content)
    assert [undo.what for undo in remaining_undos(state)] == ["change 0"]
    assert [(undo.what, reason) for undo, reason in restore(state)] == [
        (str(damaged), "is damaged: what it has to undo may be lost"),
        ("change 0", None),
    ]
    assert logged(words) == ["undo"]
    assert journals(state) == [damaged]


def test_a_damaged_journal_of_an_earlier_boot_is_removed(clean: Path) -> None:
    file = write_journal(clean, [(["true"], True)], boot_id="earlier")
    file.write_bytes(file.read_bytes() + b"[1]\n")
    assert list(restore(clean)) == []


def test_what_can_be_read_of_a_damaged_journal_is_undone(state: Path, words: Path) -> None:
    file = write_journal(state, [(log(words, "undo"), True)])
    file.write_bytes(file.read_bytes() + b"[1]\n")
    assert [reason for _, reason in restore(state)] == [
        "is damaged: what it has to undo may be lost",
        None,
    ]
    assert logged(words) == ["undo"]
    assert journals(state) == [file]


def test_a_journal_that_can_not_be_opened_keeps_no_other_from_being_restored(
    state: Path, words: Path
) -> None:
    write_journal(state, [(log(words, "undo"), True)])
    (state / "undo-0-folder.jsonl").mkdir()
    assert [(undo.what, reason) for undo, reason in restore(state)] == [
        (f"{state}/undo-0-folder.jsonl", "can't be opened: Is a directory"),
        ("change 0", None),
    ]
    assert logged(words) == ["undo"]
