"""`ccmix demo`: its configuration comes with the package, and its answer is printed."""

import json
from pathlib import Path

import pytest

from ccmix.archive import Campaign
from ccmix.cli.init import sample
from ccmix.version import version
from support.commands import REPOSITORY, Ccmix


@pytest.mark.parametrize("name", ["demo", "demo-quick"])
def test_the_package_has_what_configs_has(name: str) -> None:
    assert sample(name).read_bytes() == (REPOSITORY / "configs" / f"{name}.ini").read_bytes()


@pytest.mark.lab
@pytest.mark.slow
def test_the_quick_demo(ccmix: Ccmix, tmp_path: Path) -> None:
    outdir = tmp_path / "quick"
    done = ccmix("demo", "--quick", "-o", outdir)
    assert done.returncode == 0, done.stderr
    assert "3 runs valid, 0 not valid, 0 failed" in done.stderr
    assert "not settled" not in done.stderr
    *_, sentence, more, page = done.stdout.splitlines()
    assert sentence.startswith("1 bbr flow competing with 1 cubic flow gets")
    assert more == "For more, open the report:"
    assert page == str(outdir / "report.html")
    assert "ccmix run demo-quick.ini --lab --seed 1 --run" in Path(page).read_text()
    assert Campaign.load(outdir).ini == sample("demo-quick").read_text()
    runs = [json.loads(file.read_text()) for file in outdir.rglob("run.json")]
    assert [run["verdict"]["status"] for run in runs] == ["valid"] * 3
    assert {run["execution"]["ccmix"] for run in runs} == {version().name}


def test_a_folder_with_something_in_it_is_refused(ccmix: Ccmix, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    done = ccmix("demo", "--quick", "-o", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    refused = f"{tmp_path}: is not empty: give another folder with -o, or continue it with --resume"
    assert done.stderr.splitlines()[-1] == refused
    assert [file.name for file in tmp_path.iterdir() if file != ccmix.folder] == ["mine"]
