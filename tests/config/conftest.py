"""Fixtures that load files from a folder of their own, and that return the problems in them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.config import Config, ConfigError, Overrides, Problem, load

Files = Callable[..., Config]
Told = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def read(tmp_path: Path) -> Files:
    """Loads the INI text. Other files are given by their names; `hosts` is the list for -H."""

    def read_it(
        text: str,
        nic: str | None = None,
        netem_at: str | None = None,
        hosts: str | None = None,
        **files: str,
    ) -> Config:
        for name, content in files.items():
            (tmp_path / name.replace("_", ".")).write_text(content)
        if hosts is not None:
            (tmp_path / "hosts.csv").write_text(hosts)
        file = tmp_path / "test.ini"
        file.write_text(text)
        return load(
            file,
            overrides=Overrides(
                tmp_path / "hosts.csv" if hosts is not None else None, nic, netem_at
            ),
        )

    return read_it


@pytest.fixture
def told(read: Files) -> Told:
    """Returns the problems in wrong files."""

    def told_of(text: str, **more: str | None) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            read(text, **more)
        assert len(str(caught.value).splitlines()) == len(caught.value.problems), (
            "one line a problem"
        )
        return caught.value.problems

    return told_of
