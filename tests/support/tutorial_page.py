"""Runs a tutorial: its files, its commands in order, and the outputs that the page shows.

`PYTHONPATH=tests .venv/bin/python -m support.tutorial_page` runs the tutorials and writes their
outputs and charts again.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.commands import CCMIX, REPOSITORY

PAGE = REPOSITORY / "docs" / "tutorial" / "who-gets-the-link.md"
CHART = REPOSITORY / "docs" / "images" / "tutorial.svg"
DRAWN = Path("figures") / "by buffer share.svg"  # the file that the tutorial's reader opens
OWN_CCA_PAGE = REPOSITORY / "docs" / "tutorial" / "your-own-cca.md"
OWN_CCA_CHART = REPOSITORY / "docs" / "images" / "own-cca.svg"
OWN_CCA_DRAWN = Path("figures") / "by keep_percent beside-cubic.svg"

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED_AS = re.compile(r"[Ss]ave this (?:one )?as `([^`]+)`:\s*\Z")
EXPECTED_END = re.compile(
    r"^\d+/\d+: ends about .*\n", re.MULTILINE
)  # the bar's, in the reader's terminal
BUILDS_A_KERNEL = (
    '"$CCMIX"/lab/build '  # prints its steps' times, and no steps if it has that kernel
)


@dataclass(frozen=True)
class Step:
    """A command of the tutorial: what the page says that it prints, and what it printed."""

    command: str
    shown: str
    printed: str
    shown_at: slice


def run_tutorial(folder: Path, page: Path = PAGE) -> Iterator[Step]:
    """Saves the page's files in `folder` and runs its commands there, in the order of the page."""
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    for number, block in enumerate(blocks):
        if block[1] in ("ini", "c"):
            name = SAVED_AS.search(text, 0, block.start())
            assert name, f"the text before {block[0]!r} names no file"
            (folder / name[1]).parent.mkdir(exist_ok=True)
            (folder / name[1]).write_text(block[2])
        elif block[1] == "sh":
            output = blocks[number + 1]
            assert output[1] == "text", f"no output is shown after {block[2]!r}"
            printed = _run(block[2], folder)
            yield Step(block[2], output[2], printed, slice(output.start(2), output.end(2)))


def _run(command: str, folder: Path) -> str:
    environment = os.environ | {
        "CCMIX": str(REPOSITORY),
        "PATH": f"{Path(CCMIX).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2000,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return EXPECTED_END.sub("", done.stdout)


GOODPUT = re.compile(r"│\s+([\d.]+) ([kM])bit/s │")
FRAMES = re.compile(r"[\s━─┏┳┓┡╇┩└┴┘]+")
CROSSING = re.compile(
    r"(│ share buffer=2bdp .*│) [^│]* │$"
)  # both flows are close, so the verdict may be another
EXPECTED = re.compile(
    r"^(expected: about) .* (of real time, with up to) .* (of memory)$"
)  # by the cores' number
TOO_LITTLE = re.compile(
    "iterations are too few|ha(s|ve) not settled"
)  # of which rows and runs depends on the numbers


def wording(output: str) -> list[str]:
    """Returns the lines, without what varies: numbers in tables, their widths, and the order of
    simultaneous runs.
    """
    lines = []
    for line in output.splitlines():
        shown = re.sub(r"^\d+/(\d+ .*: \w+)$", r"-/\1", CROSSING.sub(r"\1", line.rstrip()))
        shown = EXPECTED.sub(r"\1 # \2 # \3", shown)
        if line.startswith(("│", "┃", "┏", "┡", "└")):
            shown = FRAMES.sub(
                " ", re.sub(r"(± |[+-])?\d[\d.]*(e-\d+)?( [kM]bit/s)?|–", "#", shown)
            )
        if not TOO_LITTLE.search(line):
            lines.append(shown.strip())
    return sorted(lines)


def goodputs_bps(output: str) -> list[float]:
    """Returns the first rate of each row of the output's tables."""
    rates = (GOODPUT.search(line) for line in output.splitlines())
    return [float(rate[1]) * {"k": 1e3, "M": 1e6}[rate[2]] for rate in rates if rate]


def write_page(page: Path, drawn: Path, chart: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ccmix-tutorial-") as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("CCMIX_LAB_KERNELS", f"{name}/named-kernels")
        steps = list(run_tutorial(Path(name), page))
        shutil.copy(Path(name) / drawn, chart)
    text = page.read_text()
    for step in reversed(steps):
        text = text[: step.shown_at.start] + _as_shown(step) + text[step.shown_at.stop :]
    page.write_text(text)


def _as_shown(step: Step) -> str:
    """Returns a command's output in the form of the page: of a kernel's build, only the steps that
    the page shows.
    """
    lines = [line.rstrip() for line in step.printed.splitlines()]
    if step.command.startswith(BUILDS_A_KERNEL):
        kernel = lines[-1].replace(str(Path.home()), "/home/you")
        lines = [*step.shown.splitlines()[:-1], kernel]
    return "\n".join(lines) + "\n"


def main() -> None:
    write_page(PAGE, DRAWN, CHART)
    write_page(OWN_CCA_PAGE, OWN_CCA_DRAWN, OWN_CCA_CHART)


if __name__ == "__main__":
    main()
