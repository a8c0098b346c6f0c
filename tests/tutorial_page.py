"""Runs the tutorial: its files, its commands in order, and the outputs that the page shows.

`PYTHONPATH=tests .venv/bin/python tests/tutorial_page.py` runs it and writes the outputs and the chart into the page.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import CCMIX, REPOSITORY

PAGE = REPOSITORY / "docs" / "tutorial" / "who-gets-the-link.md"
CHART = REPOSITORY / "docs" / "images" / "tutorial.svg"
DRAWN = Path("figures") / "by buffer share.svg"  # the file that the tutorial's reader opens

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SAVED_AS = re.compile(r"[Ss]ave this (?:one )?as `([^`]+)`:\s*\Z")


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
    environment = os.environ | {"CCMIX": str(REPOSITORY), "PATH": f"{Path(CCMIX).parent}:{os.environ['PATH']}"}
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
    return done.stdout


GOODPUT = re.compile(r"│\s+([\d.]+) ([kM])bit/s │")
FRAMES = re.compile(r"[\s━─┏┳┓┡╇┩└┴┘]+")
CROSSING = re.compile(r"(│ share buffer=2bdp .*│) [^│]* │$")  # both flows are close, so the verdict may be another
EXPECTED = re.compile(r"^(expected: about) .* (of real time, with up to) .* (of memory)$")  # by the cores' number
TOO_FEW = "iterations are too few"  # which rows these are depends on the numbers


def wording(output: str) -> list[str]:
    """Returns the lines, without what varies: numbers in tables, their widths, and the order of simultaneous runs."""
    lines = []
    for line in output.splitlines():
        shown = re.sub(r"^\d+/(\d+ .*: \w+)$", r"-/\1", CROSSING.sub(r"\1", line.rstrip()))
        shown = EXPECTED.sub(r"\1 # \2 # \3", shown)
        if line.startswith(("│", "┃", "┏", "┡", "└")):
            shown = FRAMES.sub(" ", re.sub(r"(± |[+-])?\d[\d.]*(e-\d+)?( [kM]bit/s)?|–", "#", shown))
        if TOO_FEW not in line:
            lines.append(shown.strip())
    return sorted(lines)


def goodputs_bps(output: str) -> list[float]:
    """Returns the first rate of each row of the output's tables."""
    rates = (GOODPUT.search(line) for line in output.splitlines())
    return [float(rate[1]) * {"k": 1e3, "M": 1e6}[rate[2]] for rate in rates if rate]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ccmix-tutorial-") as name:
        steps = list(run_tutorial(Path(name)))
        shutil.copy(Path(name) / DRAWN, CHART)
    text = PAGE.read_text()
    for step in reversed(steps):
        shown = "\n".join(line.rstrip() for line in step.printed.splitlines()) + "\n"
        text = text[: step.shown_at.start] + shown + text[step.shown_at.stop :]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
