"""Tests that no text has the turns of phrase that read worst: each has a better form in the table
of docs/development.md.

`make check` runs it. Comments of C and of shell scripts are not searched yet.
"""

import re
import subprocess

import pytest

from support.commands import REPOSITORY

SEARCHED = ("*.py", "*.md", "*.html", "*.toml", "*.ini")
QUOTED_IN = (
    "tests/test_wording.py",
    "docs/development.md",  # the table of style
    "CHANGELOG.md",  # names a key that was renamed
)
WORST = {
    r"\b(mend|mends|mended|mending|anew)\b": "fix, again",
    r"\b[Rr]eturns (what|who|which)\b": "name the result",
    r"\b(at most|at least|only|just) so (many|much|long|large|small|few)\b": "that many",
    r"\bthe (most|least|fewest) that\b": "the maximum, the minimum",
    r"(?<!there )\b(is|are) no (number|file|text|JSON|name)\b": "is not a number",
    r"\b(JSON|archives|files|data) of others\b": "third-party JSON",
    r"[a-z], else (?!if\b)[a-z]": "otherwise",
    r"\bstands (twice|there|in line)\b": "is, appears",
}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Returns the text of each searched file by its name."""
    listed = subprocess.run(
        ["git", "-C", REPOSITORY, "ls-files", *SEARCHED], capture_output=True, text=True, check=True
    )
    return {
        name: (REPOSITORY / name).read_text()
        for name in listed.stdout.splitlines()
        if name not in QUOTED_IN and (REPOSITORY / name).exists()
    }


@pytest.mark.parametrize("pattern", WORST)
def test_no_text_has_a_phrase_that_reads_worst(pattern: str, texts: dict[str, str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == [], f"better: {WORST[pattern]}"
