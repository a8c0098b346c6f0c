"""Tests that the agent's source, as it is sent, is Python 3.9 and imports only the standard
library.
"""

import ast
import sys
from pathlib import Path

import pytest

import ccmix.agent

FILES = sorted(Path(ccmix.agent.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_python_3_9(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules = [node.module or "" for node in imports]
    modules += [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    foreign = [name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names]
    assert all(name.startswith("ccmix.agent") for name in foreign), foreign
