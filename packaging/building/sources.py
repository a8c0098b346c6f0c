"""Lists and fetches the sources of the components of a release that are under the GPL or the
LGPL.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from components import Component, Source, kernel_package
from programs import REPOSITORY

LIST = "SOURCES.json"
COPYLEFT = re.compile(r"\bA?L?GPL\b|GNU (?:Lesser |Library |)General Public|MPL", re.IGNORECASE)
SUITES = ("trixie", "trixie-backports", "bookworm", "forky", "sid")
OURS = ("lab", "cca", "tools", "packaging", "LICENSES", "probes/common")
"""The kernel's patches and configuration, the files added to it, and the scripts that build
everything.
"""


def listed(components: list[Component]) -> str:
    """Returns the list as JSON: each source package of Debian once, with the components made from
    it.
    """
    made_of: dict[Source, list[str]] = {}
    for each in components:
        if each.source and (
            COPYLEFT.search(each.terms) or any(map(COPYLEFT.search, each.licences))
        ):
            made_of.setdefault(each.source, []).append(f"{each.name} {each.version}")
    found = sorted(made_of.items(), key=lambda item: (item[0].name, item[0].version))
    packages = [
        {"source": source.name, "version": source.version, "of": names} for source, names in found
    ]
    return json.dumps({"debian": packages, "repository": list(OURS)}, indent=1) + "\n"


def fetch(listing: Path, to: Path, only: frozenset[str]) -> list[str]:
    """Fetches the sources of the list, or of some of its packages, into the folder `to`. Returns
    the unavailable ones.

    For the kernel, this is the package that lab/build uses, which has Debian's whole source.
    """
    contents = json.loads(listing.read_text(encoding="utf-8"))
    to.mkdir(parents=True, exist_ok=True)
    lacking = [
        f"{each['source']} {each['version']}"
        for each in contents["debian"]
        if (not only or each["source"] in only) and not _fetch(each, to / each["source"])
    ]
    if not only:
        for name in contents["repository"]:
            shutil.copytree(
                REPOSITORY / name, to / "ccmix" / name, symlinks=True, dirs_exist_ok=True
            )
    return lacking


def _fetch(package: dict[str, Any], to: Path) -> bool:
    """Fetches a .dsc and the files that it names, checked by apt's signatures. Returns whether this
    version was available.
    """
    kept = to / package["version"].replace(":", "_")
    if kept.exists():
        return True
    new = to / "new"
    shutil.rmtree(new, ignore_errors=True)
    kind, name = (
        ("binary", kernel_package(package["version"]))
        if package["source"] == "linux"
        else ("source", package["source"])
    )
    argv = [REPOSITORY / "tools/debian-fetch", kind, name, package["version"], new, *SUITES]
    if subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        return False
    new.rename(kept)
    return True
