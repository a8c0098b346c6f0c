"""Compares ccmix's results for runs of many shapes with results that are computed a second time
from their raw files.

The second computation shares no code with ccmix.analysis. It bounds each number from two sides,
because the samples of its probe lie a moment before and after the moment in question.
"""

import ast
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from recomputed import lab
from recomputed.differences import (
    capture_differences,
    csv_differences,
    metric_differences,
    series_differences,
)
from recomputed.expected import Expected, expected
from recomputed.raw import RawRun
from support.commands import CCMIX

FOLDER = Path(__file__).parent
SHAPES = FOLDER / "shapes"
QUICK = "quick"
HERTZ = {QUICK: 250, "b2": 50, "b5": 50}  # of the second probe: fewer if there are many flows
NOT_TO_IMPORT = ("analysis", "charts", "compare", "index", "report")

# Right values of shapes, found by another computation: goodput in bits per second of a run, or of a
# group in it. What UDP brought in deepudp is 525 kbit/s over the 10 s of the run, of which it sent
# in 8.
KNOWN_BPS = {
    "b5 omit128 all": {"goodput_bps": 9.25e6},
    "b5 omit16 all": {"goodput_bps": 9.48e6},
    "b5 lowslow all": {"goodput_bps": 285e3},
    "b5 deepudp all": {"groups/u/goodput_bps": 525e3 * 10 / 8},
    "b2 fair128 all": {"groups/cubic/goodput_bps": 6.57e6, "groups/bbr/goodput_bps": 2.88e6},
}
WITHIN = 0.02


@dataclass(frozen=True)
class Compared:
    """Holds the differences that each kind of comparison found in the runs of a campaign, and their
    expected metrics by name.
    """

    differences: Mapping[str, list[str]]
    expected: Mapping[str, Expected]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(file.stem, marks=() if file.stem == QUICK else pytest.mark.long, id=file.stem)
        for file in sorted(SHAPES.glob("*.ini"))
    ],
)
def compared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Compared]:
    campaign = request.param
    outdir = tmp_path_factory.mktemp(campaign) / "out"
    lab.run(SHAPES / f"{campaign}.ini", outdir, HERTZ.get(campaign, 1000))
    report = subprocess.run(
        [CCMIX, "report", outdir, "--format", "csv"], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {"metrics": [], "series": [], "csv": [], "capture": []}
    right: dict[str, Expected] = {}
    for file in sorted(outdir.glob("*/*/*/*/run.json")):
        raw = RawRun(file.parent)
        right[f"{campaign} {raw.name}"] = metrics = expected(raw)
        kinds = {
            "metrics": metric_differences(raw, metrics),
            "series": series_differences(raw),
            "csv": csv_differences(raw, metrics, report.stdout.splitlines()),
            "capture": capture_differences(raw),
        }
        for kind, differences in kinds.items():
            found[kind] += [f"{raw.name}: {difference}" for difference in differences]
    yield Compared(found, right)
    shutil.rmtree(outdir)


@pytest.mark.lab
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["capture", "metrics", "series", "csv"])
def test_everything_is_as_the_raw_files_say(compared: Compared, kind: str) -> None:
    assert not compared.differences[kind], "\n".join(compared.differences[kind])


@pytest.mark.lab
@pytest.mark.timeout(3600)
def test_the_second_computation_finds_what_is_known(compared: Compared) -> None:
    for name in KNOWN_BPS.keys() & compared.expected.keys():
        for key, bps in KNOWN_BPS[name].items():
            bounds = compared.expected[name][key]
            assert bounds
            assert bounds.low * (1 - WITHIN) <= bps <= bounds.high * (1 + WITHIN), (
                f"{name}: {key} {bounds}"
            )


def test_the_second_computation_shares_nothing_with_the_first() -> None:
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                assert not module.startswith(
                    tuple(f"ccmix.{package}" for package in NOT_TO_IMPORT)
                ), (file, module)
