"""Tests that no command runs a Python file of the working directory, where a third-party archive
may have put one.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ccmix.cli.main import main
from ccmix.run.traffic_sources import python_module
from support.commands import CCMIX, REPOSITORY

HARNESS = REPOSITORY / "harness" / "ccmix"
LAB = """
[topology small]
rate = 100mbit
delay = 5ms

[one]
type = iperf3
topology = small
duration = 1s
flows.main = h1 cubic:1
flows.web = h1 http requests 2 size 15kb cca cubic
flows.mice = h1 workload web-search load 10% cca cubic
"""
# Nothing listens there: ccmix tries each way to connect, Python last
HOSTS = """
[one]
type = iperf3
src = localhost
dst = 192.0.2.1
cca = cubic
duration = 1s
"""
NOBODY = "http://127.0.0.1:9"
FINE, NOT_FINE, REFUSED = {0}, {1}, {2}
BY_ROOT = FINE if os.geteuid() == 0 else NOT_FINE
BY_KERNEL = NOT_FINE | REFUSED | FINE  # most kernels lack the CCA, so ccmix checks it with Python
# The exit status of each command shows that it did its work
COMMANDS = {
    "archive pack {made} -o packed.zip": FINE,
    "archive unpack {zip} -o unpacked": FINE,
    "cache list": FINE,
    "cache prune --dry-run": FINE,
    "cca check": BY_ROOT,
    "cca list": BY_ROOT,
    "cca load nothing": REFUSED,
    "cca set nothing x=1": REFUSED,
    "cca status": BY_ROOT,
    "cca unload nothing": REFUSED,
    "compare {made} {made}": FINE,
    "completion bash": FINE,
    "demo --quick -o quick": FINE,
    "doctor hosts.ini": NOT_FINE,
    "doctor lab.ini --lab": FINE,
    "import tests.csv -o imported": FINE,
    "index {made} --url {nobody}": NOT_FINE,
    "init lab new": FINE,
    "lab exec -- true": FINE,
    "lab exec --path lab.ini -- true": FINE,
    "lab exec --path lab.ini --host-root -- true": FINE,
    "lab kernels": FINE,
    "lab shell": NOT_FINE,
    "plan lab.ini --cost": FINE,
    "plan lacking.ini": BY_KERNEL,
    "psconfig a.example b.example --groups cubic:1": FINE,
    "report {made} --format html -o report.html": FINE,
    "reproduce": FINE,
    "restore": FINE,
    "restore localhost": FINE,
    "run lab.ini --lab -o lab": FINE,
    "run indexed.ini --lab -o indexed": FINE,
    "run hosts.ini -o hosts": NOT_FINE,
    "run lacking-hosts.ini -o lacking": BY_KERNEL,
    "twin {made}": FINE,
    "verify {zip}": FINE,
    "version": FINE,
}


def leaves(command: click.Command, name: str = "") -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below
            yield from leaves(below, f"{name} {word}".strip())
    else:
        yield name


def imported_names() -> set[str]:
    """Returns the first part of the name of each module that ccmix imports, of the standard
    library, and of modules that site.py looks for.
    """
    names = {
        *sys.stdlib_module_names,
        *(name.partition(".")[0] for name in sys.modules),
        "usercustomize",
    }
    for file in HARNESS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return {name for name in names if name.isidentifier() and name != "__main__"} | {
        "sitecustomize"
    }


class Trap:
    """Makes a folder with a module of each name, which leaves a mark if it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "trap"
        self._marks = folder / "marks"
        self.folder.mkdir()
        for name in imported_names():
            code = f"open({str(self._marks)!r}, 'a').write({name!r} + '\\n')\n"
            (self.folder / f"{name}.py").write_text(code)
        for package in ("ccmix", "distributed"):
            (self.folder / package).mkdir()
            (self.folder / f"{package}.py").rename(self.folder / package / "__init__.py")

    @property
    def sprung(self) -> list[str]:
        return self._marks.read_text().split() if self._marks.exists() else []

    def set(self) -> None:
        self._marks.unlink(missing_ok=True)

    def __call__(self, *argv: str) -> subprocess.CompletedProcess[str]:
        state = {"CCMIX_STATE": str(self.folder.parent / "state"), "CCMIX_INDEX_PATIENCE": "0.1"}
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=os.environ | state,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def trap_for_all(tmp_path_factory: pytest.TempPathFactory) -> Trap:
    trap = Trap(tmp_path_factory.mktemp("working"))
    for name, text in {
        "lab.ini": LAB,
        "indexed.ini": f"{LAB}index = {NOBODY}\n",
        "hosts.ini": HOSTS,
        "lacking.ini": LAB.replace("cubic:1", "nv:1"),
        "lacking-hosts.ini": HOSTS.replace("cubic", "bbr3"),
        "tests.csv": "cca,goodput_mbps\ncubic,90\nbbr,80\n",
    }.items():
        (trap.folder / name).write_text(text)
    return trap


@pytest.fixture
def trap(trap_for_all: Trap) -> Trap:
    trap_for_all.set()
    return trap_for_all


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a campaign of one run and its packed file; returns the folder of the campaign."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "lab.ini").write_text(LAB)
    for words in ("run lab.ini --lab -o made", "archive pack made"):
        subprocess.run([CCMIX, *words.split()], cwd=folder, check=True, capture_output=True)
    return folder / "made"


def test_every_command_is_tried() -> None:
    untried = [
        leaf
        for leaf in leaves(main)
        if not any(f"{line} ".startswith(f"{leaf} ") for line in COMMANDS)
    ]
    assert untried == []


def test_the_trap_springs(trap: Trap) -> None:
    """Proves that the tests below can fail."""
    assert trap(sys.executable, "-c", "import ccmix").returncode == 0
    assert "ccmix" in trap.sprung


@pytest.mark.lab
@pytest.mark.parametrize(("line", "statuses"), COMMANDS.items())
def test_no_command_runs_a_file_of_the_working_directory(
    trap: Trap, made: Path, line: str, statuses: set[int]
) -> None:
    done = trap(CCMIX, *line.format(made=made, zip=f"{made}.zip", nobody=NOBODY).split())
    assert trap.sprung == []
    assert done.returncode in statuses, done.stdout + done.stderr


@pytest.mark.parametrize(
    "source", [("http_server", "192.0.2.1", 1, 1, "-"), ("workload_ends", "receive", "x", 1)]
)
def test_no_traffic_source_runs_a_file_of_the_working_directory(
    trap: Trap, source: tuple[str, object]
) -> None:
    """Traffic sources on this machine have ccmix's working directory. Here they only print that
    their arguments are wrong.
    """
    assert f"generators/{source[0]}.py" in trap(*python_module(*source)).stderr
    assert trap.sprung == []


def test_python_is_started_in_one_place() -> None:
    """Other code might forget to isolate the interpreter."""
    starts = re.compile(r"""sys\.executable\b[^\n]*,\s*"-|"python3", "-|PYTHONPATH""")
    assert [str(file) for file in HARNESS.rglob("*.py") if starts.search(file.read_text())] == []
