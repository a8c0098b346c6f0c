"""Tests the licences of the Python packages that a release requires or contains, which come from
each package's metadata.
"""

import importlib.metadata
import json
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from support.commands import REPOSITORY, loaded

BUILDING = REPOSITORY / "packaging/building"


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Returns the module, which imports its neighbours by their names."""
    monkeypatch.syspath_prepend(BUILDING)
    return loaded(BUILDING / "python_packages.py", "python_packages")


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """Returns the metadata's folder of a package in a separate folder, which a test may change."""
    folder = tmp_path / "some_package-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Name: some_package\nVersion: 1.0\nLicense-Expression: MIT AND 0BSD\n"
    )
    (folder / "LICENSE").write_text("Permission is granted\n")
    (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n{folder.name}/LICENSE,,\n")
    return folder


def test_each_locked_package_has_its_licence_and_terms(building: ModuleType) -> None:
    found = {each.name: each for each in building.of_environment()}
    assert {"polars", "numpy", "scipy", "jinja2"} <= set(found)
    assert "setuptools" not in found
    assert found["jinja2"].licences == ("BSD License",)  # by its classifier
    assert found["pyyaml"].licences == ("MIT",)
    assert "BSD-3-Clause AND " in found["numpy"].licences[0]
    for each in found.values():
        assert all(each.licences)
        assert len(each.terms) > 100
    package = (
        Path(sysconfig.get_path("purelib"))
        / f"pyyaml-{importlib.metadata.version('pyyaml')}.dist-info"
    )
    assert found["pyyaml"].terms == (package / "licenses/LICENSE").read_text()


def test_packages_of_a_folder(building: ModuleType, described: Path) -> None:
    (described / "NOTICE").write_text("Of others\n")
    with (described / "RECORD").open("a") as record:
        record.write(f"{described.name}/NOTICE,,\n")
    (found,) = building.within(described.parent)
    assert (found.name, found.version, found.licences) == ("some-package", "1.0", ("MIT AND 0BSD",))
    assert found.terms == "LICENSE:\n\nPermission is granted\n\nNOTICE:\n\nOf others"
    bill = json.loads(loaded(BUILDING / "bill.py", "bill").bill_of([found, found], 0))
    assert bill["components"][0]["licenses"] == [{"expression": "MIT AND 0BSD"}]
    text = loaded(BUILDING / "notices.py", "notices").third_party([found], "Head\n")
    assert text.startswith("Head\n\nsome-package 1.0: MIT AND 0BSD\n")
    assert "Permission is granted" in text


@pytest.mark.parametrize("lacking", ["METADATA", "LICENSE"])
def test_a_package_without_a_licence_or_its_text_is_refused(
    building: ModuleType, described: Path, lacking: str
) -> None:
    if lacking == "METADATA":
        (described / lacking).write_text("Name: some_package\nVersion: 1.0\n")
    else:
        (described / "RECORD").write_text(f"{described.name}/METADATA,,\n")
    refusal = sys.modules["programs"].BuildError
    with pytest.raises(
        refusal, match="the Python package some-package names no licence, or has no text of it"
    ):
        building.within(described.parent)


def test_a_package_of_another_version_is_refused(
    building: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "run.txt").write_text("polars==0.0.1 \\\n")
    monkeypatch.setattr(building, "REPOSITORY", tmp_path)
    with pytest.raises(
        sys.modules["programs"].BuildError,
        match=r"polars 0\.0\.1, which is locked, is not in \.venv",
    ):
        list(building.of_environment())
