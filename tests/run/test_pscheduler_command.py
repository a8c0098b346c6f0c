"""Tests the fate of the task of a `src-cmd = pscheduler task ...` whose run is given up, with a
STAND-IN for the command pscheduler.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import Ccmix, Pair, RunIni, deep, summaries, wait_for

UUID = "16fdddaa-773c-4550-9154-1cb810a0eedb"
URL = f"https://psa/pscheduler/tasks/{UUID}"
# As the command of 5.2: it prints the URL unless a format is asked for, and becomes
# `pscheduler watch URL`
PSCHEDULER = f"""#!/bin/sh
here=${{0%/*}}
case $1 in
task)
    touch "$here/{UUID}"
    [ -e "$here/slow" ] && sleep 600
    case $* in *--format*) ;; *) echo "Submitting task..."; echo "Task URL:"; echo {URL} ;; esac
    [ -e "$here/quick" ] && exit 0
    exec sh "$0" watch --first {URL}
    ;;
watch)
    touch "$here/watching"
    sleep 600
    ;;
cancel)
    echo "$*" >>"$here/cancelled"
    if [ -e "$here/forbidden" ]; then echo "Forbidden."; exit 1; fi
    rm "$here/{UUID}" || {{ echo "Task not found."; exit 1; }}
    ;;
esac
"""


class Command:
    """The stand-in, in a folder with files that control it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.file = folder / "pscheduler"
        self.file.write_text(PSCHEDULER)
        self.file.chmod(0o755)

    def will(self, do: str) -> None:
        (self.file.parent / do).touch()

    @property
    def watches(self) -> bool:
        return (self.file.parent / "watching").exists()

    @property
    def task_is_left(self) -> bool:
        return (self.file.parent / UUID).exists()

    @property
    def cancellations(self) -> list[str]:
        file = self.file.parent / "cancelled"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path / "stand-in")


def config(folder: Path, pair: Pair, command: Command, options: str) -> Path:
    file = folder / "mesh.ini"
    file.write_text(
        f"[mesh]\ntype = perfSONAR\nsrc = netns:{pair.near}\ndst = {pair.address}\naccept-limits "
        "= probe, cpu\n"
        f"duration = 1s\nsrc-cmd = {command.file} task --key @k {options} --repeat PT1H "
        f"throughput --dest {{dst}}\n"
    )
    return file


def interrupted(ccmix: Ccmix, ini: Path, when: Callable[[], bool], what: str) -> str:
    """Starts a campaign, ends it with Ctrl-C at a given point, and returns its standard error."""
    running = ccmix.start("run", ini, "-o", ini.parent / "out")
    wait_for(when, 60, what)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stderr
    return stderr


@pytest.mark.parametrize(
    "options",
    ["--format json", deep("--max-runs 9")],
    ids=["a-url-among-the-processes", "a-printed-url"],
)
def test_ctrl_c_cancels_the_task(
    options: str, own_state: Path, ccmix: Ccmix, pair: Pair, command: Command, tmp_path: Path
) -> None:
    ini = config(tmp_path, pair, command, options)
    stderr = interrupted(ccmix, ini, lambda: command.watches, "pscheduler names the task")
    assert f"pScheduler task {URL}: cancelled" in stderr
    assert not command.task_is_left
    assert command.cancellations == [f"cancel --key @k {URL}"]
    assert pair.running() == []


@pytest.mark.deep
def test_a_task_that_can_not_be_cancelled_is_reported(
    own_state: Path, ccmix: Ccmix, pair: Pair, command: Command, tmp_path: Path
) -> None:
    command.will("forbidden")
    ini = config(tmp_path, pair, command, "")
    stderr = interrupted(ccmix, ini, lambda: command.watches, "pscheduler names the task")
    assert f"pScheduler task {URL}: not cancelled" in stderr
    assert f"Forbidden.: on its lead, give: {command.file} cancel --key @k {URL}" in stderr


@pytest.mark.deep
def test_a_task_whose_url_is_not_known_yet_is_reported(
    own_state: Path, ccmix: Ccmix, pair: Pair, command: Command, tmp_path: Path
) -> None:
    command.will("slow")
    ini = config(tmp_path, pair, command, "")
    stderr = interrupted(ccmix, ini, lambda: command.task_is_left, "the task is posted")
    assert "pscheduler may have posted a task without naming it yet" in stderr
    assert "'pscheduler cancel URL'" in stderr


@pytest.mark.deep
def test_the_end_of_a_kept_command_is_that_of_its_task(
    own_state: Path, pair: Pair, command: Command, tmp_path: Path, run_ini: RunIni
) -> None:
    file = config(tmp_path, pair, command, "")
    file.write_text(f"{file.read_text()}src-cmd-once = true\n")
    done = run_ini(file, status=None)
    assert len(summaries(tmp_path / "out")) == 1, done.stderr
    assert f"pScheduler task {URL}: cancelled" in done.stderr
    assert not command.task_is_left


@pytest.mark.deep
def test_after_a_kill_the_source_cancels_the_task(
    own_state: Path, ccmix: Ccmix, pair: Pair, command: Command, tmp_path: Path
) -> None:
    running = ccmix.start(
        "run", config(tmp_path, pair, command, "--format json"), "-o", tmp_path / "out"
    )
    wait_for(
        lambda: any(URL in file.read_text() for file in own_state.glob("undo-*")),
        60,
        "it is recorded",
    )
    running.kill()
    running.communicate()
    wait_for(lambda: not command.task_is_left, 60, "the agent has cancelled the task")


@pytest.mark.deep
def test_the_task_of_a_command_that_has_ended_is_left_alone(
    own_state: Path, pair: Pair, command: Command, tmp_path: Path, run_ini: RunIni
) -> None:
    command.will("quick")
    run_ini(config(tmp_path, pair, command, ""), status=None)
    assert len(summaries(tmp_path / "out")) == 1
    assert command.task_is_left
    assert command.cancellations == []
