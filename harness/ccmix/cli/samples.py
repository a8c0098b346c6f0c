"""The INI files that come with the package: the demo's, and those that `ccmix init` writes."""

from pathlib import Path

FOLDER = Path(__file__).parent / "examples"


def sample(name: str) -> Path:
    """Returns the file of this name, without its suffix."""
    return FOLDER / f"{name}.ini"
