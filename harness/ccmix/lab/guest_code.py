"""Makes the folder that ccmix brings into a guest whose root is the lab's userland: the harness's
compiled code, and its programs.

The folder is next to the userland, or in the cache if this user can't write there. The same content
is made only once, and never changed. It is compiled by the userland's Python, so a guest compiles
nothing.
"""

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from modulefinder import ModuleFinder
from pathlib import Path

import ccmix
from ccmix import files
from ccmix.failures import located
from ccmix.isolated import python_command
from ccmix.lab.spec import GuestError, identify_userland
from ccmix.tools import cache_folder, find_iperf3, find_rtt, find_sockmon, find_userland

FOLDER = "guest-code"
PACKAGE = Path(ccmix.__file__).parent
# The modules that the processes of a guest run; they import the rest
RUN_IN_GUESTS = (
    "ccmix.run.measure",
    "ccmix.run.stage",
    "ccmix.generators.http_server",
    "ccmix.generators.workload_ends",
)
HARNESS = "harness.zip"
LOADER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PYTHON = "usr/bin/python3"
_COMPILES_WITHIN_S = 600.0
# Compiles, and packs the byte code without compression or times. The userland's Python runs it on
# the host.
_PACK = """
import compileall, os, py_compile, sys, zipfile
sources, packed, shown = sys.argv[1:]
if not compileall.compile_dir(sources, quiet=1, legacy=True, stripdir=sources, prependdir=shown,
                              invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH):
    sys.exit(1)
with zipfile.ZipFile(packed, "w") as archive:
    for folder, names, files in os.walk(sources):
        names.sort()
        for name in sorted(files):
            if name.endswith(".pyc"):
                file = os.path.join(folder, name)
                with open(file, "rb") as compiled:
                    member = zipfile.ZipInfo(os.path.relpath(file, sources))
                    archive.writestr(member, compiled.read())
"""


def guest_code(userland: Path, programs: Mapping[str, Path]) -> Path:
    """Returns the folder that has HARNESS, and the programs by their names. Raises
    GuestError("start") if the folder can't be made.
    """
    return _made(userland, tuple(sorted(programs.items())))


@functools.cache
def _made(userland: Path, programs: tuple[tuple[str, Path], ...]) -> Path:
    key = _key(userland, programs)
    places = (userland.parent / FOLDER, cache_folder() / FOLDER)
    refused = []
    for place in places:
        try:
            while not files.hold(place / key):
                place.mkdir(parents=True, exist_ok=True)
                _make(place / key, userland, programs)
        except OSError as error:
            refused.append(located(error, place))
        else:
            return place / key
    raise GuestError(
        "start", f"the guest's code can't be kept: {'; '.join(refused)}: set CCMIX_CACHE"
    )


def _key(userland: Path, programs: tuple[tuple[str, Path], ...]) -> str:
    """Returns the name of the folder in the cache, which changes with the userland, with the way
    of packing, and with the content of the modules and programs.
    """
    content = hashlib.sha256(f"{identify_userland(userland).userland_sha256}\n{_PACK}".encode())
    for name, file in (
        *((str(source.relative_to(PACKAGE)), source) for source in _sources()),
        *programs,
    ):
        content.update(f"{name}\n{file.stat().st_size}\n".encode() + file.read_bytes())
    return content.hexdigest()[:16]


def _sources() -> list[Path]:
    """Returns only the modules that a guest imports, because Python reads the list of all files in
    HARNESS before the traffic starts.
    """
    finder = ModuleFinder(path=[str(PACKAGE.parent)])
    for name in RUN_IN_GUESTS:
        finder.import_hook(name)
    files = (vars(module)["__file__"] for module in finder.modules.values())
    return sorted(Path(file) for file in files if file)  # built-in modules have no file


def _make(folder: Path, userland: Path, programs: tuple[tuple[str, Path], ...]) -> None:
    """Makes the folder as a whole, or not at all: another process may make it at the same time."""
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as work:
        made = Path(work, "made")
        made.mkdir()
        for name, file in programs:
            shutil.copyfile(file, made / name)
            (made / name).chmod(0o755)
            (made / f"ccmix-{name}").symlink_to(name)  # for people, the name outside of the guest
        _pack(Path(work, "sources"), made / HARNESS, userland)
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise


def _pack(sources: Path, packed: Path, userland: Path) -> None:
    for source in _sources():
        copy = sources / PACKAGE.name / source.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    loader = (userland / LOADER, "--library-path", userland / LIBRARIES)
    python = python_command(_PACK, sources, packed, f"/{HARNESS}", python=userland / PYTHON)
    python[1:1] = ["-X", "no_debug_ranges"]
    done = subprocess.run(
        [*loader, *python],
        env={"PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMPILES_WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stdout + done.stderr).strip()
        raise GuestError(
            "start", f"{userland}: its Python can't compile the guest's code: {reason}"
        )


def main() -> None:
    """Makes the folder that the runs of this installation need, and prints its path."""
    programs = {"iperf3": find_iperf3(), "sockmon": find_sockmon(), "rtt": find_rtt()}
    print(guest_code(find_userland(), programs))


if __name__ == "__main__":
    main()
