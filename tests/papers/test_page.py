"""The page on the papers is what its generator makes of the archives."""

import re
from pathlib import Path

import pytest

from ccmix.archive.packed import opened
from ccmix.papers.costs import REDUCED, TRIED, costs, real_s
from ccmix.papers.page import Page, page
from ccmix.papers.registry import EXPERIMENTS
from ccmix.papers.section import IMAGES
from support import REPOSITORY

pytestmark = pytest.mark.slow

ARCHIVES = REPOSITORY / "archive" / "papers"
MOST_LINES = 20  # of a table that is not to be opened


@pytest.fixture(scope="module")
def made() -> Page:
    return page(ARCHIVES)


def test_the_page_is_generated(made: Page) -> None:
    """`python -m ccmix.papers` writes both anew."""
    assert made.text == (REPOSITORY / "docs" / "papers.md").read_text()
    folder = REPOSITORY / "docs" / IMAGES
    assert made.charts == {file.name: file.read_text() for file in folder.glob("*.svg")}


def test_each_picture_has_a_heading_a_text_with_its_settings_and_a_caption(made: Page) -> None:
    """What differs between an experiment's pictures is in their texts: entry, buffer, queue disciplines, kernel."""
    pictures = re.findall(
        r"^### .+\n(?:.+\n)+\n!\[([^\]]+)\]\(images/papers/(\S+)\)\n\n\*([^*]+)\*$", made.text, re.MULTILINE
    )
    assert [name for _, name, _ in pictures] == list(made.charts)
    texts = [" ".join(text.split()) for text, _, _ in pictures]
    assert len(set(texts)) == len(texts)
    captions = [" ".join(caption.split()) for *_, caption in pictures]
    for text, caption in zip(texts, captions, strict=True):
        for said in (text, caption):
            assert re.search(
                r"entr(y|ies) .+, buffer .+, queue discipline .+ at the bottleneck and .+ at the sender", said
            )
            assert "Linux 7.2.12-ccmix" in said


def test_what_is_long_is_to_be_opened(made: Page) -> None:
    """Each section has its sentence of outcome before any table, and tables that nobody needs at first are folded."""
    sections = made.text.split("\n## ")[1:]
    assert len(sections) == len(list(ARCHIVES.iterdir()))
    for section in sections:
        head = section.split("\n|")[0]
        assert re.search(r"\b(holds?|cannot be told)\b", head.split("\n\n")[0])
        shown = re.sub(r"<details>.*?</details>", "", section, flags=re.DOTALL)
        tables = re.findall(r"(?:^\|.*\n)+", shown, re.MULTILINE)
        assert all(len(table.splitlines()) <= MOST_LINES for table in tables)


def test_the_page_says_what_the_forms_cost(made: Page) -> None:
    """As the list of `ccmix reproduce` does; what was tried is part of it."""
    [said] = re.findall(
        r"All reduced forms take (\d+) min, and (\d+) h (\d+) min with `--tried`", " ".join(made.text.split())
    )
    reduced_min, hours, minutes = map(int, said)
    of_all = [costs(experiment, 1, 2) for experiment in EXPERIMENTS]
    assert reduced_min == round(real_s(of_all, REDUCED) / 60) <= 60
    assert 60 * hours + minutes == round(real_s(of_all, TRIED) / 60)


def test_no_number_is_written_with_an_exponent(made: Page) -> None:
    assert re.findall(r"\d[eE][+-]?\d", re.sub(r"g[0-9a-f]{12}", "", made.text)) == []


def test_drawings_before_it_change_nothing(made: Page) -> None:
    assert page(ARCHIVES).charts == made.charts


def test_each_archive_is_of_an_experiment_and_is_complete() -> None:
    names = {experiment.name for experiment in EXPERIMENTS}
    for file in ARCHIVES.iterdir():
        assert file.stem in names
        with opened([file]) as archives:
            [folder] = archives.folders
            assert {path.name for path in folder.rglob("*") if path.is_file()} == {"campaign.json", "run.json"}


def test_without_an_archive_the_page_says_so(tmp_path: Path) -> None:
    empty = page(tmp_path)
    assert empty.text.count("not yet made") == len(EXPERIMENTS)
    assert empty.charts == {}
