"""Tests that a damaged file of the archive leads to a message, and that the rest is indexed and
earlier documents are kept.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.index.spool import Spool
from support.elasticsearch_node import Node
from support.index import Index, of_archive, of_index

CONDITION = "delay=5ms,loss=0%"
OF_CAMPAIGNS = ("ccmix-campaigns", "ccmix-conditions")


@pytest.fixture
def archive(small: Path, tmp_path: Path) -> Path:
    return shutil.copytree(small, tmp_path / "archive")


def _run_of(archive: Path, entry: str) -> Path:
    return archive / entry / CONDITION / "receiver" / "001"


@pytest.mark.parametrize("series", ["sockets", pytest.param("counters", marks=pytest.mark.deep)])
def test_series_that_cannot_be_read(index: Index, server: Node, archive: Path, series: str) -> None:
    """The file `counters` is read with the summaries, for the hosts."""
    whole = of_archive(archive)
    file = _run_of(archive, "mixed") / f"{series}.parquet"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    made = index(archive)
    assert made.returncode == 1
    assert f"not indexed: {file}: can't be read: " in made.stderr
    assert "Traceback" not in made.stderr
    there = of_index(server)
    lacking = set(whole) - set(there)
    assert {place[0].split("-")[1] for place in lacking} == {
        "sockets" if series == "sockets" else "hosts"
    }
    assert {place: whole[place] for place in there} == there
    assert index.spooled() == []
    file.write_bytes(content)
    assert index(archive).returncode == 0
    assert of_index(server) == whole
    file.write_bytes(content[: len(content) // 2])
    assert index(archive).returncode == 1
    assert of_index(server) == whole, "what was there before stays"


DAMAGES: dict[str, Callable[[str], str]] = {
    "cut off": lambda text: text[: len(text) // 2],
    "without metrics": lambda text: json.dumps({**json.loads(text), "metrics": {}}),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="afterwards"),
        pytest.param(("--follow",), id="next to the campaign", marks=pytest.mark.deep),
    ],
)
def test_summary_that_cannot_be_read(
    index: Index, server: Node, archive: Path, damage: str, options: tuple[str, ...]
) -> None:
    """All documents of the other runs are there; those of conditions, which need all, are not."""
    folder = _run_of(archive, "mixed")
    file = folder / "run.json"
    text = file.read_text()
    file.unlink()
    expected = {
        place: value for place, value in of_archive(archive).items() if place[0] not in OF_CAMPAIGNS
    }
    assert {place[0].split("-")[1] for place in expected} >= {"runs", "flows", "sockets"}
    file.write_text(DAMAGES[damage](text))
    made = index(archive, *options)
    assert made.returncode == 1
    assert "Traceback" not in made.stderr
    assert f"not indexed: {folder}" in made.stderr
    there = of_index(server)
    assert {
        place: value for place, value in there.items() if place[0] not in OF_CAMPAIGNS
    } == expected
    assert "ccmix-conditions" not in {place[0] for place in there}


def test_half_a_line_of_what_was_kept_aside(tmp_path: Path) -> None:
    """A process that is killed while it writes leaves such a folder."""
    places = [{"_index": "ccmix-flows", "_id": f"run-{number}"} for number in range(2)]
    with Spool(tmp_path) as spool:
        for place in places:
            spool.reject("run", "400", place, {})
        (file,) = spool.rejected_folder.iterdir()
        whole = file.read_text()
        file.write_text(whole[:-10])
        for place in places:
            spool.reject("run", "400", place, {})
        assert file.read_text() == whole
