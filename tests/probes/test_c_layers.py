"""Checks that the C programs have layers: a unit (a .c file with its header) uses only units of
lower layers.
"""

import re
import subprocess
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from support.commands import REPOSITORY

PROBES = REPOSITORY / "probes"
COMMON = PROBES / "common"
NAMES = ("sockmon", "capflow", "rtt")

_INCLUDE = re.compile(r'^#include "(\w+)\.h"', re.MULTILINE)
# nm's letters: U is used and not defined; of what is defined, T and R are code and constants, the
# others data that anybody could change.
_CODE, _DATA = "TR", "BCDGS"


def sources(probe: str) -> list[Path]:
    return sorted(PROBES.joinpath(probe).glob("*.c")) + sorted(COMMON.glob("*.c"))


def symbols(probe: str, folder: Path) -> dict[str, dict[str, str]]:
    """Compiles each source; returns the global symbols of each unit, with nm's letter of each."""
    result = {}
    for source in sources(probe):
        compiled = folder / f"{source.stem}.o"
        include = [f"-I{PROBES / probe}", f"-I{COMMON}"]
        # position-independent code would have its constants among the data
        subprocess.run(
            [
                "gcc",
                "-std=c11",
                "-D_GNU_SOURCE",
                "-fno-pie",
                *include,
                "-c",
                source,
                "-o",
                compiled,
            ],
            check=True,
        )
        listed = subprocess.run(
            ["nm", "-g", "-P", compiled], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        result[source.stem] = {name: kind for name, kind, *_ in map(str.split, listed.splitlines())}
    return result


def edges(probe: str, units: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """Returns for each unit those that it calls or includes."""
    home = {
        name: unit
        for unit, names in units.items()
        for name, kind in names.items()
        if kind in _CODE + _DATA
    }
    used: dict[str, set[str]] = {unit: set() for unit in units}
    for unit, names in units.items():
        used[unit] |= {home[name] for name, kind in names.items() if kind == "U" and name in home}
    for folder in (PROBES / probe, COMMON):
        for file in folder.glob("*.[ch]"):
            used.setdefault(file.stem, set()).update(_INCLUDE.findall(file.read_text()))
    return {unit: others - {unit} for unit, others in used.items()}


@pytest.fixture(scope="module", params=NAMES)
def probe(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def units(probe: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return symbols(probe, tmp_path_factory.mktemp(probe))


def test_units_form_no_cycle(probe: str, units: Mapping[str, Mapping[str, str]]) -> None:
    graph = edges(probe, units)
    assert "common" not in graph
    assert graph["main"]
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the units


def test_no_unit_exports_variables(units: Mapping[str, Mapping[str, str]]) -> None:
    assert {
        unit: [name for name, kind in names.items() if kind in _DATA]
        for unit, names in units.items()
    } == {unit: [] for unit in units}


def test_the_drawing_of_sockmon_is_true(tmp_path: Path) -> None:
    """The README draws a layer per line, the highest one first, and all units are in it."""
    readme = (PROBES / "sockmon" / "README.md").read_text()
    section = readme.partition("## Layers\n")[2].partition("\n## ")[0]
    layers = [line.split() for line in section.splitlines() if line.startswith("    ")]
    depth = {unit: number for number, layer in enumerate(layers) for unit in layer}
    graph = edges("sockmon", symbols("sockmon", tmp_path))
    assert set(depth) == set(graph)
    upward = [
        (unit, other)
        for unit, others in graph.items()
        for other in others
        if depth[other] <= depth[unit]
    ]
    assert upward == []
