"""Lists the components of a release's files, with versions, sources and licences, read from the
files that were built.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from programs import REPOSITORY, Built

COMMON_LICENSES = Path("/usr/share/common-licenses")
# bytes that identify a library in a static program: the library's Debian package, and its file
LIBRARIES = {
    b"libbpf: ": None,  # from the kernel's source
    b"libpcap version": ("libpcap0.8-dev", "libpcap.a"),
    b"Copyright 1995-": ("zlib1g-dev", "libz.a"),
    b"invalid `Elf' handle": ("libelf-dev", "libelf.a"),
    b"glibc.malloc.": ("libc6-dev", "libc.a"),
}
GCC = ("libgcc-12-dev", "libgcc")
"""Linked into every static program, which its exception allows."""


@dataclass(frozen=True)
class Source:
    """Names a source package of Debian."""

    name: str
    version: str


@dataclass(frozen=True)
class Component:
    """Describes a third-party component, or ccmix itself."""

    name: str
    version: str
    kind: str  # a type of CycloneDX
    within: tuple[str, ...]  # the files that contain it
    licences: tuple[str, ...] = ()
    terms: str = ""  # the text that must accompany it
    purl: str = ""
    sha256: str = ""
    source: Source | None = None


def of_wheel(built: Built, version: str) -> list[Component]:
    """Returns the components of the wheel, except the Python packages that it requires."""
    return [
        Component(
            "ccmix",
            version,
            "application",
            ("wheel",),
            ("Apache-2.0",),
            purl=f"pkg:pypi/ccmix@{version}",
        ),
        _kernel(built),
        _iperf3(built),
        *_linked(built),
        *_userland(built),
    ]


def _kernel(built: Built) -> Component:
    noted = json.loads((built.kernel.parent / "build.json").read_text(encoding="utf-8"))
    version = noted["source_version"]
    return Component(
        "linux (with lab/patches and cca)",
        noted["kernel_release"],
        "operating-system",
        ("wheel: lab",),
        ("GPL-2.0-only",),
        _ours("GPL-2.0"),
        f"pkg:deb/debian/{kernel_package(version)}@{version}?arch=all",
        noted["sha256"],
        Source("linux", version),
    )


def kernel_package(version: str) -> str:
    """Returns Debian's source package of a kernel version, which is named after the version's first
    two parts.
    """
    return f"linux-source-{'.'.join(version.split('.')[:2])}"


def _iperf3(built: Built) -> Component:
    program = built.programs["ccmix-iperf3"]
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = said.split()[1]
    terms = (program.parent / "LICENSE").read_text(encoding="utf-8")
    return Component(
        "iperf3 (with iperf3-patch)",
        version,
        "application",
        ("wheel: tools", "plugin"),
        ("BSD-3-Clause",),
        terms,
        f"pkg:github/esnet/iperf@{version.partition('+')[0]}",
    )


def _linked(built: Built) -> Iterator[Component]:
    """Yields the libraries in the static programs, recognised by bytes that only they contain."""
    contents = {name: program.read_bytes() for name, program in built.programs.items()}
    for bytes_of_it, package in LIBRARIES.items():
        within = tuple(
            f"wheel: {name}" for name, content in contents.items() if bytes_of_it in content
        )
        if within and package:
            yield _debian_library(built, *package, within)
        elif within:
            yield _libbpf(built, within)
    yield _debian_library(built, *GCC, tuple(f"wheel: {name}" for name in contents))


def _debian_library(built: Built, package: str, file: str, within: tuple[str, ...]) -> Component:
    """Returns a library that the pinned compiler linked into a program."""
    packages = json.loads((built.compiler / "build.json").read_text(encoding="utf-8"))["packages"]
    [found] = (each for each in packages if each["name"] == package)
    terms = (built.compiler / "copyright" / package).read_text(encoding="utf-8")
    return Component(
        f"{file} of {package}",
        found["version"],
        "library",
        within,
        short_names(terms),
        terms,
        f"pkg:deb/debian/{package}@{found['version']}?arch=amd64",
        source=Source(found["source"], found["source_version"]),
    )


def _libbpf(built: Built, within: tuple[str, ...]) -> Component:
    noted = json.loads((built.kernel.parent / "build.json").read_text(encoding="utf-8"))
    return Component(
        "libbpf",
        f"of linux {noted['source_version']}",
        "library",
        within,
        ("BSD-2-Clause",),
        _ours("BSD-2-Clause"),
        source=Source("linux", noted["source_version"]),
    )


def _userland(built: Built) -> Iterator[Component]:
    folder = built.userland.parent
    for package in json.loads((folder / "build.json").read_text(encoding="utf-8"))["packages"]:
        name, version = package["name"], package["version"]
        terms = (folder / "copyright" / name).read_text(encoding="utf-8", errors="replace")
        yield Component(
            name,
            version,
            "library",
            ("wheel: userland",),
            short_names(terms),
            terms,
            f"pkg:deb/debian/{name}@{version}?arch=amd64",
            package["sha256"],
            Source(package["source"], package["source_version"]),
        )


def short_names(terms: str) -> tuple[str, ...]:
    """Returns the names of licences in a machine-readable copyright file (DEP-5); empty for other
    files.
    """
    if "copyright-format" not in terms.partition("\n\n")[0]:
        return ()
    return tuple(sorted(set(re.findall(r"^License: *(\S[^\n]*?) *$", terms, re.MULTILINE))))


def common_licenses(components: list[Component]) -> dict[str, str]:
    """Returns the texts that the copyright files refer to instead of repeating, by their names."""
    named = {
        name
        for each in components
        for name in re.findall(r"common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", each.terms)
    }
    files = {name: COMMON_LICENSES / name for name in sorted(named)}
    return {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.exists()}


def _ours(licence: str) -> str:
    return (REPOSITORY / f"LICENSES/{licence}.txt").read_text(encoding="utf-8")
