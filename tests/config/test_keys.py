"""Tests the table of keys: each key can read its own example, and docs/reference/keys.md agrees
with the table.
"""

import re
from collections.abc import Mapping

import pytest

from ccmix.config.keys import (
    ALL_KEYS,
    DECIDED_BY_COMMAND,
    DONE_BY_PSCHEDULER,
    EVERY_ENTRY,
    HOST_ENTRY,
    PSCHEDULER_ENTRY,
    TOPOLOGY_ENTRY,
    TOPOLOGY_KEYS,
    Key,
)
from ccmix.config.sections import MEANT
from support.commands import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "keys.md"
SECTIONS = {
    "Every entry": EVERY_ENTRY,
    "An entry on an emulated path": TOPOLOGY_ENTRY,
    "An entry between real hosts": {
        name: key for name, key in HOST_ENTRY.items() if not key.obsolete
    },
    "An entry of type perfSONAR": PSCHEDULER_ENTRY,
    "Without an effect": {name: key for name, key in HOST_ENTRY.items() if key.obsolete},
    "A topology": TOPOLOGY_KEYS,
}


def row(key: Key) -> str:
    """Returns a row of the page."""
    default = "must be given" if key.required else f"`{key.default}`" if key.default else "unset"
    meaning = key.obsolete or key.meaning
    return (
        f"| `{key.name}` | {meaning} | {key.kind.name} | {key.kind.unit} | {default} | "
        f"`{key.example}` |"
    )


@pytest.mark.parametrize(("heading", "keys"), SECTIONS.items(), ids=SECTIONS)
def test_the_page_has_a_row_for_each_key_that_says_what_the_table_says(
    heading: str, keys: Mapping[str, Key]
) -> None:
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [row(key) for key in keys.values()]


def test_the_page_has_all_keys_and_the_words_that_are_no_keys() -> None:
    assert {name for keys in SECTIONS.values() for name in keys} == set(ALL_KEYS)
    text = PAGE.read_text()
    assert "`sweep.KEY`" in text
    fixed = text.partition("These keys can't be swept: ")[2].partition(".\n\n")[0]
    assert set(re.findall("`(.*?)`", fixed)) == {
        name for name, key in ALL_KEYS.items() if not key.sweepable and not key.obsolete
    }
    assert "`[DEFAULT]`" in text
    for name in DECIDED_BY_COMMAND:
        assert f"`{name}`" in text.partition("with `src-cmd`")[0].rpartition("\n\n")[2]
    for name in DONE_BY_PSCHEDULER:
        assert (
            f"`{name}`" in text.partition("## An entry of type perfSONAR\n")[2].partition("\n|")[0]
        )


@pytest.mark.parametrize("key", ALL_KEYS.values(), ids=ALL_KEYS)
def test_example_and_default_are_right(key: Key) -> None:
    key.read(key.example)
    if key.default is not None:
        key.read(key.default)
    assert key.meaning
    assert key.kind.name
    assert not (key.required and key.default)


def test_every_named_key_exists_and_each_word_means_one_thing() -> None:
    words = [word for _, others in MEANT for word in others]
    assert len(words) == len(set(words))
    assert all(key in ALL_KEYS for keys, _ in MEANT for key in keys)
