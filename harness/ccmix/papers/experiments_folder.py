"""Finds the files of the experiments: in a clone configs/papers, in an installed wheel inside of the package."""

from pathlib import Path

FOLDER = Path(__file__).with_name("experiments")


def ini_of(name: str) -> Path:
    """Returns the INI file of an experiment."""
    return FOLDER / f"{name}.ini"


def published_of(name: str) -> Path:
    """Returns the table of what was published about an experiment; not each has one."""
    return FOLDER / "published" / f"{name}.csv"
