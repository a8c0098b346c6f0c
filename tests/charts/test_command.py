"""Tests `ccmix report --charts`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from ccmix.cli.main import main
from support.published_archives import DEMO


def report(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", str(DEMO), *arguments])


def test_charts_are_files_whose_names_are_printed(tmp_path: Path) -> None:
    result = report(
        "--charts",
        str(tmp_path / "new"),
        "--chart",
        "table",
        "--chart",
        "bbr-state",
        "--image",
        "png",
    )
    assert result.exit_code == 0
    files = sorted((tmp_path / "new").iterdir())
    assert sorted(result.output.splitlines()) == [str(file) for file in files]
    assert len(files) == 5  # the table, and a flow in each of four conditions
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_json_is_the_specification(tmp_path: Path) -> None:
    assert report("--charts", str(tmp_path), "--chart", "table", "--image", "json").exit_code == 0
    [file] = tmp_path.iterdir()
    spec = json.loads(file.read_text())
    assert spec["title"]["text"] == "Goodput by entry and condition"
    assert len(spec["data"]["values"]) == 16


def test_a_kind_that_there_is_not(tmp_path: Path) -> None:
    result = report("--charts", str(tmp_path), "--chart", "pie")
    assert result.exit_code == 2
    assert "'pie' is not one of 'setting', 'heat-map'" in result.stderr
    assert list(tmp_path.iterdir()) == []
