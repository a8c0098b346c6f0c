"""Describes the Python packages that the wheel requires: their licences and terms, from their own
metadata.
"""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePath

from components import Component
from programs import REPOSITORY, BuildError

TERMS = re.compile(r"(licen[cs]e|copying|notice)", re.IGNORECASE)
MOST_LETTERS = 80  # of a licence's name: some packages write the whole text there


def of_environment() -> Iterator[Component]:
    """Yields the packages that requirements/run.txt locks, except setuptools, which is only for
    builds. Raises BuildError.
    """
    locked = (REPOSITORY / "requirements" / "run.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([a-z0-9.-]+)==(\S+)", locked, re.MULTILINE):
        if name != "setuptools":
            found = next(iter(distributions(name=name)), None)
            if found is None or found.version != version:
                raise BuildError(
                    f"{name} {version}, which is locked, is not in .venv: run 'make setup'"
                )
            yield _component(found)


def within(folder: Path) -> list[Component]:
    """Returns the packages in a folder, except ccmix itself. Raises BuildError."""
    found = (_component(each) for each in distributions(path=[str(folder)]) if each.name != "ccmix")
    return sorted(found, key=lambda each: each.name)


def _component(found: Distribution) -> Component:
    name = re.sub(r"[-_.]+", "-", found.name).lower()
    licences, terms = _licences(found), _terms(found)
    if not licences or not terms:
        raise BuildError(f"the Python package {name} names no licence, or has no text of it")
    return Component(
        name,
        found.version,
        "library",
        ("asked for by the wheel", "deb"),
        licences,
        terms,
        f"pkg:pypi/{name}@{found.version}",
    )


def _licences(found: Distribution) -> tuple[str, ...]:
    """Returns the package's licence from its metadata: the SPDX expression if it has one, otherwise
    the name of the licence, otherwise the classifiers.
    """
    metadata = found.metadata
    for field in ("License-Expression", "License"):
        said = next(iter(metadata.get_all(field) or ()), "").strip()
        if said and "\n" not in said and len(said) <= MOST_LETTERS:
            return (said,)
    classifiers = (line.split(" :: ") for line in metadata.get_all("Classifier") or ())
    return tuple(parts[-1] for parts in classifiers if parts[0] == "License")


def _terms(found: Distribution) -> str:
    """Returns the licence texts in the folder of the package's metadata, with their names if there
    are several.
    """
    files = [file for file in found.files or () if _is_terms(file)]
    texts = {
        str(file): Path(file.locate()).read_text(encoding="utf-8", errors="replace")
        for file in sorted(files)
    }
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n\n".join(
        f"{name.partition('/')[2]}:\n\n{text.strip()}" for name, text in texts.items()
    )


def _is_terms(file: PurePath) -> bool:
    return file.parts[0].endswith(".dist-info") and (
        file.parts[1] == "licenses" or bool(TERMS.match(file.name))
    )
