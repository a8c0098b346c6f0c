"""Fixtures of the tests of `ccmix import`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ccmix.cli import main
from importing_support import Import, Outcome


@pytest.fixture
def outdir(tmp_path: Path) -> Path:
    return tmp_path / "imported"


def command(*arguments: object) -> Result:
    """`ccmix import` within this process."""
    return CliRunner().invoke(main, ["import", *map(str, arguments)])


@pytest.fixture
def imported(outdir: Path) -> Import:
    def run(*arguments: object) -> Outcome:
        done = command(*arguments, "-o", outdir)
        assert (done.exit_code, done.stdout) == (0, ""), done.output
        return Outcome(outdir, done.stderr)

    return run


@pytest.fixture
def refused(outdir: Path) -> Callable[..., str]:
    """The one line that says why nothing was imported."""

    def run(*arguments: object) -> str:
        done = command(*arguments, "-o", outdir)
        assert isinstance(done.exception, SystemExit | None), done.exception
        assert (done.exit_code, done.stdout) == (2, ""), done.output
        assert not list(outdir.parent.glob(".imported.import-*"))
        assert not outdir.exists()
        return done.stderr

    return run
