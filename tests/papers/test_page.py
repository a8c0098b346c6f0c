"""The pages on the papers are those that their generator makes from the archives."""

import csv
import re
from pathlib import Path

import pytest

from ccmix.archive.packed import opened
from ccmix.papers.forms import REDUCED, TRIED, costs
from ccmix.papers.reading import EXPERIMENTS
from paper_pages.page import IMAGES, Page, page, real_s
from support.commands import REPOSITORY

pytestmark = pytest.mark.slow

ARCHIVES = REPOSITORY / "archive" / "papers"
MOST_LINES = 20  # of a table that is not folded


@pytest.fixture(scope="module")
def made() -> Page:
    return page(ARCHIVES)


def test_the_pages_are_generated(made: Page) -> None:
    """`tools/papers` writes all of them again."""
    docs = REPOSITORY / "docs"
    assert made.text == (docs / "papers.md").read_text()
    assert made.papers == _texts(docs / "papers", "*.md")
    assert made.charts == _texts(docs / IMAGES, "*.svg")
    assert made.tables == _texts(ARCHIVES, "*.csv")


def _texts(folder: Path, kind: str) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob(kind)}


def test_they_are_short(made: Page) -> None:
    assert len(made.text.splitlines()) <= 120
    assert {name for name, text in made.papers.items() if len(text.splitlines()) > 250} == set()


def test_the_overview_leads_to_each_experiment(made: Page) -> None:
    for experiment in EXPERIMENTS:
        page_name = f"{experiment.paper.author}.md"
        assert f"[{experiment.name}](papers/{page_name}#{experiment.name})" in made.text
        assert f"\n## {experiment.name}\n" in made.papers[page_name]


def test_each_picture_has_a_heading_a_text_and_a_caption_with_its_settings(made: Page) -> None:
    """Captions have the settings in which an experiment's pictures differ: entry, buffer, queue
    disciplines, kernel.
    """
    pictures = re.findall(
        r"^### .+\n(?:.+\n)+\n!\[([^\]]+)\]\(\.\./images/papers/(\S+)\)\n\n\*([^*]+)\*$",
        "\n".join(made.papers.values()),
        re.MULTILINE,
    )
    assert sorted(name for _, name, _ in pictures) == sorted(made.charts)
    texts = [" ".join(text.split()) for text, _, _ in pictures]
    assert len(set(texts)) == len(texts)
    for *_, caption in pictures:
        said = " ".join(caption.split())
        assert re.search(
            r"entr(y|ies) .+, buffer .+, queue discipline .+ at the bottleneck and .+ at the sender",
            said,
        )
        assert "Linux 7.2.12-ccmix" in said


def test_tables_have_all_cells_and_numbers(made: Page) -> None:
    """A page names the tables of its experiments, and numbers in them can be read as such."""
    for name, table in made.tables.items():
        experiment, _, what = Path(name).stem.rpartition("-")
        assert f"archive/papers/{name}" in made.papers[f"{experiment.partition('-')[0]}.md"]
        rows = list(csv.DictReader(table.splitlines()))
        assert rows
        if what == "cells":
            assert all(float(row[key]) >= 0 for row in rows for key in ("published", "lab"))


def test_what_is_long_is_to_be_opened(made: Page) -> None:
    """Each section has a sentence on the outcome before any table, and long tables are folded."""
    sections = [part for text in made.papers.values() for part in text.split("\n## ")[1:]]
    assert len(sections) == len(list(ARCHIVES.glob("*.zip")))
    for section in sections:
        head = section.split("\n|")[0]
        assert re.search(r"\b(holds?|undecided)\b", head.split("\n\n")[0])
        shown = re.sub(r"<details>.*?</details>", "", section, flags=re.DOTALL)
        tables = re.findall(r"(?:^\|.*\n)+", shown, re.MULTILINE)
        assert all(len(table.splitlines()) <= MOST_LINES for table in tables)


def test_html_begins_no_line_of_prose(made: Page) -> None:
    """Such a line is not filled. Marks of cells that were measured in part are in the middle of a
    line.
    """
    lines = "\n".join(made.papers.values()).splitlines()
    tags = {line.split(">")[0] for line in lines if line.startswith("<")}
    assert tags == {"<details", "</details"}


def test_the_page_says_what_the_forms_cost(made: Page) -> None:
    """The page has the numbers of the list of `ccmix reproduce`, including `--tried`."""
    [said] = re.findall(
        r"All reduced forms take (\d+) min, and (\d+) h (\d+) min with `--tried`",
        " ".join(made.text.split()),
    )
    reduced_min, hours, minutes = map(int, said)
    of_all = [costs(experiment, 1, 2) for experiment in EXPERIMENTS]
    assert reduced_min == round(real_s(of_all, REDUCED) / 60) <= 60
    assert 60 * hours + minutes == round(real_s(of_all, TRIED) / 60)


def test_no_number_is_written_with_an_exponent(made: Page) -> None:
    written = "\n".join([made.text, *made.papers.values()])
    assert re.findall(r"\d[eE][+-]?\d", re.sub(r"g[0-9a-f]{12}", "", written)) == []


def test_each_archive_is_of_an_experiment_and_is_complete() -> None:
    names = {experiment.name for experiment in EXPERIMENTS}
    for file in ARCHIVES.glob("*.zip"):
        assert file.stem in names
        with opened([file]) as archives:
            [folder] = archives.folders
            assert {path.name for path in folder.rglob("*") if path.is_file()} == {
                "campaign.json",
                "run.json",
            }


def test_without_an_archive_the_page_says_so(tmp_path: Path) -> None:
    empty = page(tmp_path)
    assert empty.text.count("not yet made") == len(EXPERIMENTS)
    assert empty.papers == empty.charts == empty.tables == {}
