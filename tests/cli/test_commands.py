"""The commands as a user types them: help, plans, and messages about wrong usage. No test here
starts a run.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ccmix.cli.main import main
from support.commands import CCMIX, REPOSITORY, Ccmix, called
from support.published_archives import DEMO as DEMO_RUNS
from support.published_archives import DEMO_FILE

DEMO = REPOSITORY / "configs" / "demo.ini"


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the words of every group and command."""
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def test_help_is_quick_since_it_imports_no_command() -> None:
    slow = {
        "asyncio",
        "distributed",
        "elasticsearch",
        "importlib.metadata",
        "jinja2",
        "ccmix.cli.run",
        "numpy",
        "polars",
        "pydantic",
        "rich",
        "scipy",
        "vl_convert",
    }
    lines = (
        "import atexit, sys",
        f"atexit.register(lambda: print(sorted({slow} & set(sys.modules)), file=sys.stderr))",
        "from ccmix.cli import main",
        "main()",
    )
    argv = [sys.executable, "-c", "\n".join(lines), "--help"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (shown.returncode, shown.stderr) == (0, "[]\n")


@pytest.mark.parametrize("words", list(commands(main)), ids=" ".join)
def test_every_command_teaches_and_is_documented(words: tuple[str, ...], ccmix: Ccmix) -> None:
    shown = ccmix(*words, "--help")
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) > 5
    assert [
        line for line in shown.stdout.splitlines()[1:] if len(line) > 80 or line.endswith("...")
    ] == []
    guide = (REPOSITORY / "docs" / "reference" / "commands.md").read_text()
    assert f"ccmix {' '.join(words)}" in guide
    joined = re.sub(r"\\\n +", "", shown.stdout)
    examples = [line for line in joined.splitlines() if line.startswith("  ccmix ")]
    assert examples or words == ("lab",)
    for example in examples:
        line, _, _ = example.strip().partition("  ")  # its purpose follows
        assert called(shlex.split(line)[1:])


@pytest.mark.parametrize(
    ("page", "number", "runs"),
    [
        ("write-a-test", 0, 2 * 3 * 5),
        ("write-a-test", 1, 3),
        ("test-between-hosts", 0, 3 * 6 * 10 + 10),
    ],
)
def test_the_examples_of_the_guides_are_right(
    page: str, number: int, runs: int, ccmix: Ccmix
) -> None:
    guide = (REPOSITORY / "docs" / "howto" / f"{page}.md").read_text()
    example = ccmix.folder / "example.ini"
    example.write_text(guide.split("```ini\n")[1:][number].partition("```")[0])
    plan = ccmix("plan", example, "--format", "json")
    assert plan.returncode == 0, plan.stderr
    assert len(json.loads(plan.stdout)) == runs


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "configs").glob("*.ini")), ids=lambda file: file.name
)
def test_every_sample_is_planned(file: Path, ccmix: Ccmix) -> None:
    plan = ccmix("plan", file)
    *warnings, total, written = plan.stderr.splitlines()
    assert plan.returncode == 0, plan.stderr
    assert "in all" in total
    assert "to write" in written
    assert all("can't settle" in warning for warning in warnings)
    assert plan.stdout


def test_plan_of_the_demo(ccmix: Ccmix) -> None:
    runs = json.loads(ccmix("plan", DEMO, "--format", "json").stdout)
    assert len(runs) == 5 * 4 * 3
    assert runs[0] == {
        "entry": "all-cubic",
        "condition": {"delay": "5ms", "loss": "0%"},
        "dst": "receiver",
        "iteration": 1,
        "seconds": 90.0,
    }
    assert {run["entry"] for run in runs} == {
        "all-cubic",
        "all-bbr",
        "all-bbr2",
        "mixed",
        "mixed-bbr2",
    }


def test_a_run_that_is_not_planned(ccmix: Ccmix, tmp_path: Path) -> None:
    done = ccmix(
        "run", DEMO, "--lab", "--run", "mixed delay=44ms,loss=0.1% #6", "-o", tmp_path / "out"
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == f"{DEMO}: no run is called 'mixed delay=44ms,loss=0.1% #6': 'ccmix plan {DEMO}' lists "
        "all runs\n"
    )
    assert not (tmp_path / "out").exists()


def test_only_some_entries(ccmix: Ccmix) -> None:
    runs = json.loads(ccmix("plan", DEMO, "--only", "mixed", "--format", "json").stdout)
    assert {run["entry"] for run in runs} == {"mixed"}
    unknown = ccmix("plan", DEMO, "--only", "mixd")
    assert unknown.returncode == 2
    assert "did you mean 'mixed'?" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("report", "nothing-here"), "nothing-here: is not there: name the folder"),
        (("plan", "nothing.ini"), "can't be read: No such file or directory"),
        (("run", DEMO, "--jobs", "0"), "0 is not in the range"),
        (("runn",), "No such command"),
        (("report",), "Missing argument"),
        (("plan", ""), "it is empty"),
        (("run", DEMO, "--lab", "-o", ""), "it is empty"),
        (("psconfig", "a", "b", "--groups", "cubic", "--duration", "0s"), "duration: is zero"),
        (
            ("index", "--url", "http://localhost", "--setup", "--patience", "-1"),
            "is not in the range",
        ),
        (("report", DEMO_FILE, "--against", "cca=bbr"), "only entry, group, delay, loss"),
        (
            ("report", DEMO_FILE, "--accept-limits", "cpu,los"),
            "'cpu,los': 'los' is not a known limit; did you mean 'loss'?",
        ),
    ],
)
def test_wrong_usage_is_told_in_few_lines(
    arguments: tuple[object, ...], says: str, ccmix: Ccmix
) -> None:
    done = ccmix(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_restore_with_nothing_to_do(ccmix: Ccmix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCMIX_STATE", str(ccmix.folder / "state"))
    done = Ccmix(ccmix.folder)("restore")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing to restore" in done.stderr


def test_a_user_without_a_home_is_told_of_the_other_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("CCMIX_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(Path, "home", no_home)
    done = CliRunner().invoke(main, ["restore"])
    assert done.exit_code == 1
    assert done.stderr.startswith("~: this user has no home: ")
    assert done.stderr.endswith("or name another folder by CCMIX_STATE\n")


INTERRUPTED_WHILE_LIBRARIES_LOAD = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "ccmix.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from ccmix.cli import main
main()
"""


def test_ctrl_c_before_the_command_begins_says_nothing() -> None:
    argv = [sys.executable, "-c", INTERRUPTED_WHILE_LIBRARIES_LOAD, "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_import_that_is_not_on_a_terminal_says_one_line(tmp_path: Path) -> None:
    table = REPOSITORY / "tests/data/importing/tierney-2021-excerpt.csv"
    done = CliRunner().invoke(
        main, ["import", str(table), "-o", str(tmp_path / "out"), "--src", "bost-dtn"]
    )
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1].endswith(f" from 1 file, into {tmp_path}/out")
    assert "" not in done.stderr.splitlines()


def test_a_kind_of_chart_without_a_folder_for_it_is_refused() -> None:
    done = CliRunner().invoke(main, ["report", str(DEMO_FILE), "--chart", "box"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("Error: --chart needs --charts FOLDER: give both\n")


def test_a_page_tells_which_runs_it_leaves_out(tmp_path: Path) -> None:
    outdir = tmp_path / "small"
    shutil.copytree(DEMO_RUNS, outdir)
    damaged = next(outdir.rglob("run.json"))
    damaged.write_text("{")
    done = CliRunner().invoke(main, ["report", str(outdir), "--format", "html"])
    assert (done.exit_code, done.stdout) == (0, f"{outdir}/report.html\n")
    assert done.stderr.startswith(f"left out: {damaged}: can't be read: ")
    assert done.stderr.endswith("'ccmix run ... --resume' makes the run again\n")


@pytest.mark.namespaces
@pytest.mark.parametrize("form", ["table", "csv", "json", "html"])
def test_a_full_disk_is_told_with_the_file(form: str, tmp_path: Path) -> None:
    """For a page, the message names a chart's file, which is written first."""
    filled = (
        'mount -t tmpfs -o size=64k tmpfs "$0" && head -c 128K /dev/zero >"$0/fill" '
        '2>"$0/why"; exec "$@"'
    )
    page = tmp_path / "page"
    command = (CCMIX, "report", DEMO_FILE, "--format", form, "-o", page)
    argv: list[str | Path] = ["unshare", "--mount", "sh", "-c", filled, tmp_path, *command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    file, _, reason = done.stderr.partition(": ")
    assert Path(file).parent == (tmp_path / "page-charts" if form == "html" else tmp_path)
    assert reason == "No space left on device: make room on that disk, or choose another place\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", DEMO),
        ("plan", DEMO, "--format", "json"),
        ("doctor",),
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("report", DEMO_FILE),
    ],
    ids=lambda given: given[0],
)
def test_a_full_standard_output(arguments: tuple[object, ...]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    argv = [CCMIX, *map(str, arguments)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            argv,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
    assert done.returncode == 1
    assert "standard output: No space left on device: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "closed", "status"),
    [
        (("report", DEMO_FILE), "2>&-", 0),
        (("report", DEMO_FILE), "<&- >&-", 0),
        (("report", "nowhere"), "2>&-", 2),
    ],
    ids=["stderr", "stdin and stdout", "stderr of an error"],
)
def test_closed_standard_streams(command: tuple[object, ...], closed: str, status: int) -> None:
    argv = ["sh", "-c", f'"$@" {closed}', "sh", CCMIX, *map(str, command)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status
    assert ("all-bbr" in done.stdout) == (closed == "2>&-" and status == 0)
    assert "Traceback" not in done.stderr


def test_a_working_folder_that_was_removed(small_ini: Path, tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    argv: list[str | Path] = [
        "sh",
        "-c",
        'cd "$0" && rmdir "$0" && exec "$@"',
        removed,
        CCMIX,
        "run",
        small_ini,
        "--lab",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "the working folder was removed: change to another one"


@pytest.mark.namespaces
def test_a_read_only_disk_is_told_with_the_file(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"'
    page = tmp_path / "report.html"
    command = (CCMIX, "report", DEMO_FILE, "-o", page)
    argv: list[str | Path] = ["unshare", "--mount", "sh", "-c", mounted, tmp_path, *command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"{page}: Read-only file system: mount it for writing, or choose another place\n"
    )


def test_a_folder_of_a_name_that_is_not_utf8(ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    place = os.fsdecode(bytes(tmp_path) + b"/caf\xe9")
    done = ccmix("run", small_ini, "--lab", "-o", place)
    assert (done.returncode, Path(place).exists()) == (2, False)
    assert done.stderr.endswith("caf\\xe9': is not valid UTF-8: give a folder with another name\n")
    shutil.copytree(DEMO_RUNS, place)
    assert ccmix("report", place).stderr == done.stderr
