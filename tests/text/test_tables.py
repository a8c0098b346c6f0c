"""Tests tables in their forms, and lists of words."""

from ccmix.text.tables import TextTable, aligned
from ccmix.text.words import be, capitalised, listed

ROWS = [["all [b]", "5"], ["all", "10"], ["one|two <x>", "7"]]


def test_the_terminal_has_names_as_they_are_and_a_line_between_sections() -> None:
    text = TextTable(["entry", "runs"], ROWS, right=[1], sections=True).terminal()
    assert [line.split("│")[1:3] for line in text.splitlines() if "│ all" in line] == [
        [" all [b]     ", "    5 "],
        [" all         ", "   10 "],
    ]
    assert text.count("├") == 2


def test_markdown_escapes_what_would_be_markup() -> None:
    assert TextTable(["entry", "runs"], ROWS[2:]).markdown() == (
        "| entry | runs |\n| --- | --- |\n| one\\|two &lt;x&gt; | 7 |"
    )


def test_cells_are_aligned_without_spaces_at_the_end() -> None:
    assert aligned([("a", "b"), ("long", "")]) == "a     b\nlong\n"


def test_lists_and_verbs() -> None:
    words = ["a", "b", "c"]
    assert [listed(words[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert listed(words, "or") == "a, b or c"
    assert (be(1, "run"), be(2, "run", past=True)) == ("1 run is", "2 runs were")
    assert capitalised("at 10 ms") == "At 10 ms"
