"""The contracts of import-linter, against docs/development.md and the dependencies; and the names of classes."""

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from typing import Any

from support import REPOSITORY

PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
CONTRACTS = {contract["type"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}


def test_the_layers_in_the_documentation_are_those_of_the_contract() -> None:
    page = (REPOSITORY / "docs" / "development.md").read_text()
    listed = re.search(r"^```layers\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert listed
    assert listed[1].splitlines() == CONTRACTS["layers"]["layers"]


def test_no_import_is_excepted() -> None:
    for contract in CONTRACTS.values():
        assert not {"ignore_imports", "exhaustive_ignores", "allow_indirect_imports"} & set(contract)
    assert CONTRACTS["layers"]["exhaustive"]


def test_the_guest_may_import_no_dependency() -> None:
    """A dependency that is new must be forbidden, too."""
    modules = {
        module
        for module, distributions in packages_distributions().items()
        for name in PROJECT["project"]["dependencies"]
        if re.split("[<>=]", name)[0] in {distribution.lower() for distribution in distributions}
        if not module.startswith("_")
    }
    assert len(modules) >= len(PROJECT["project"]["dependencies"])
    assert modules <= set(CONTRACTS["forbidden"]["forbidden_modules"])


def test_no_two_classes_share_a_name() -> None:
    """So that a search for a class finds one, in the harness and in the plugin."""
    files = {file.resolve() for folder in ("harness", "plugin") for file in (REPOSITORY / folder).glob("**/*.py")}
    places: dict[str, list[str]] = {}
    for file in sorted(files):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
