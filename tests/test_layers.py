"""Compares the contracts of import-linter with docs/development.md and the dependencies, and checks
the names of classes.
"""

import ast
import re
import tomllib
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import grimp

from support.commands import REPOSITORY

PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
CONTRACTS = {
    contract["name"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]
}
MOST_LATE_IMPORTS = 40


def test_the_layers_in_the_documentation_are_those_of_the_contract() -> None:
    page = (REPOSITORY / "docs" / "development.md").read_text()
    listed = re.search(r"^```layers\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert listed
    assert listed[1].splitlines() == CONTRACTS["One direction"]["layers"]


def test_no_import_is_excepted() -> None:
    for contract in CONTRACTS.values():
        assert not {"ignore_imports", "exhaustive_ignores", "allow_indirect_imports"} & set(
            contract
        )
    assert CONTRACTS["One direction"]["exhaustive"]


def test_no_imports_go_in_a_circle() -> None:
    graph = grimp.build_graph("ccmix", include_external_packages=False)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_late_imports_are_few_and_each_has_a_reason() -> None:
    """Ruff demands `noqa: PLC0415` for each of them, and a comment after that gives the reason."""
    late = [
        line
        for file in (REPOSITORY / "harness").rglob("*.py")
        for line in file.read_text().splitlines()
        if "noqa: PLC0415" in line
    ]
    assert len(late) <= MOST_LATE_IMPORTS
    assert [line for line in late if not re.search(r"noqa: PLC0415  # \w", line)] == []


def test_the_formatter_formats_all_code() -> None:
    switched_off = re.compile(r"fmt: *(skip|off)\b|yapf: *disable")
    assert [
        str(file)
        for folder in ("harness", "plugin", "tests", "bench", "tools", "packaging")
        for file in (REPOSITORY / folder).rglob("*.py")
        if file != Path(__file__) and switched_off.search(file.read_text())
    ] == []


def test_the_guest_may_import_no_dependency() -> None:
    """A new dependency must be forbidden, too."""
    modules = {
        module
        for module, distributions in packages_distributions().items()
        for name in PROJECT["project"]["dependencies"]
        if re.split("[<>=]", name)[0] in {distribution.lower() for distribution in distributions}
        if not module.startswith("_")
    }
    assert len(modules) >= len(PROJECT["project"]["dependencies"])
    guest = CONTRACTS["Code for guests imports only the standard library"]
    assert modules <= set(guest["forbidden_modules"])


def test_no_two_classes_share_a_name() -> None:
    """A search for a class then finds only one, in the harness and in the plugin."""
    files = {
        file.resolve()
        for folder in ("harness", "plugin")
        for file in (REPOSITORY / folder).glob("**/*.py")
    }
    places: dict[str, list[str]] = {}
    for file in sorted(files):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
