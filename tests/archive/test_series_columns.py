"""Series of other people may lack columns, or have other types and numbers that nobody measured.

Each is one sentence that names the file, and no traceback in the commands that read series.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from ccmix.archive import ArchiveError, parquet
from ccmix.archive.columns import REQUIRED
from ccmix.cli.main import main
from support.commands import deep
from support.published_archives import DEMO

RUN = "mixed/delay=5ms,loss=0%/receiver/001"
FILES = sorted(file.name for file in (DEMO / RUN).glob("*.parquet"))
WITH_FRACTIONS = [name for name in FILES if name != "connections.parquet"]

Change = Callable[[pl.DataFrame], pl.DataFrame]


def constant(value: object) -> Change:
    """Replaces the time, or a column of texts."""
    return lambda table: table.with_columns(pl.lit(value).alias("time_s"))


OTHERS: dict[str, Change] = {
    "NaN": constant(float("nan")),
    "infinity": constant(float("inf")),
    "negative infinity": constant(float("-inf")),
    "huge": constant(1e300),
    "text": constant("\x1b[31mx"),
    "list": constant([1.0]),
    "nothing": constant(None),
    "flag": lambda table: table.with_columns(
        pl.lit("x").alias("host" if "host" in table.columns else "time_s").cast(pl.Binary)
    ),
    "other columns": lambda _: pl.DataFrame({"other": [1]}),
}
UNUSUAL: dict[str, Change] = {  # no reason to refuse the series by itself
    "no rows": lambda table: table.clear(),
    "no values": lambda table: table.with_columns(
        pl.lit(None).cast(kind).alias(name) for name, kind in table.schema.items()
    ),
    "zero": lambda table: table.with_columns(
        pl.lit(0).cast(kind).alias(name) for name, kind in table.schema.items() if kind.is_numeric()
    ),
    "huge but finite": lambda table: table.with_columns(
        pl.lit(1e17).alias(name) for name, kind in table.schema.items() if kind == pl.Float64
    ),
    "fewer columns": lambda table: table.select(table.columns[:3]),
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A campaign of one run."""
    folder = tmp_path / "archive"
    shutil.copytree(DEMO / RUN, folder / RUN)
    plan = json.loads((DEMO / "campaign.json").read_text())
    condition = {"delay": "5ms", "loss": "0%"}
    plan["runs"] = [
        run for run in plan["runs"] if run["entry"] == "mixed" and run["condition"] == condition
    ]
    (folder / "campaign.json").write_text(json.dumps(plan))
    return folder


def change(file: Path, how: Change) -> None:
    how(pl.read_parquet(file)).write_parquet(file)


@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("name", WITH_FRACTIONS)
def test_other_columns_are_one_sentence(name: str, how: str, archive: Path) -> None:
    file = archive / RUN / name
    change(file, OTHERS[how])
    with pytest.raises(ArchiveError) as error:
        parquet.read(file)
    sentence = str(error.value)
    assert sentence.startswith(f"{file}: can't be read: it")
    assert len(sentence.splitlines()) == 1


@pytest.mark.parametrize("name", sorted(set(REQUIRED) & set(FILES)))
def test_each_required_column_is_named_if_it_is_missing(name: str, archive: Path) -> None:
    file = archive / RUN / name
    whole = pl.read_parquet(file)
    for column in REQUIRED[name].split():
        whole.rename({column: "renamed"}).write_parquet(file)
        with pytest.raises(ArchiveError, match=f"it has no column '{column}'"):
            parquet.read(file)


@pytest.mark.parametrize("name", FILES)
def test_the_series_that_ccmix_writes_are_read(name: str) -> None:
    assert parquet.read(DEMO / RUN / name).height


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("intervals.parquet", "zero"),
        ("intervals.parquet", "no values"),
        ("sockets.parquet", "huge but finite"),
        ("sockets.parquet", "other columns"),
        *(deep(name, how) for name in FILES for how in (*OTHERS, *UNUSUAL)),
    ],
)
def test_no_command_ends_in_a_traceback(name: str, how: str, archive: Path) -> None:
    change(archive / RUN / name, {**OTHERS, **UNUSUAL}[how])
    for command in (
        ["report", archive, "--format", "html"],
        ["report", archive, "--charts", archive / "charts"],
        ["compare", DEMO, archive],
        ["twin", archive, "-o", archive / "twin.ini"],
    ):
        done = CliRunner().invoke(main, [*map(str, command)])
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
