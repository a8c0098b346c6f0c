"""The page on the papers is what its generator makes of the archives."""

from pathlib import Path

import pytest

from ccmix.archive.packed import opened
from ccmix.papers.page import IMAGES, Page, page
from ccmix.papers.registry import EXPERIMENTS
from support import REPOSITORY

pytestmark = pytest.mark.slow

ARCHIVES = REPOSITORY / "archive" / "papers"


@pytest.fixture(scope="module")
def made() -> Page:
    return page(ARCHIVES)


def test_the_page_is_generated(made: Page) -> None:
    """`python -m ccmix.papers` writes both anew."""
    assert made.text == (REPOSITORY / "docs" / "papers.md").read_text()
    folder = REPOSITORY / "docs" / IMAGES
    assert made.charts == {file.name: file.read_text() for file in folder.glob("*.svg")}


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
