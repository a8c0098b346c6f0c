"""Makes the folder that brings the compiled code and the programs of ccmix into a guest of the lab.

It is for guests whose root is the lab's userland.

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
    """Returns the folder that has ccmix's code as HARNESS, and these programs (name: file). Makes
    it if it does not exist. `userland` is the folder with the guest's root file system, whose
    Python compiles the code. Raises GuestError("start") if the folder can't be made.
    """
    return _cached_folder(userland, tuple(sorted(programs.items())))


@functools.cache
def _cached_folder(userland: Path, programs: tuple[tuple[str, Path], ...]) -> Path:
    """Returns the folder for this userland and these programs, next to the userland or in the
    cache. It is held, so that nobody removes it while this process lives.
    """
    key = _cache_key(userland, programs)
    parents = (userland.parent / FOLDER, cache_folder() / FOLDER)
    refusals = []
    for parent in parents:
        try:
            while not files.hold(parent / key):
                parent.mkdir(parents=True, exist_ok=True)
                _make_folder(parent / key, userland, programs)
        except OSError as error:
            refusals.append(located(error, parent))
        else:
            return parent / key
    raise GuestError(
        "start", f"the guest's code can't be kept: {'; '.join(refusals)}: set CCMIX_CACHE"
    )


def _cache_key(userland: Path, programs: tuple[tuple[str, Path], ...]) -> str:
    """Returns the folder's name in the cache. It is a hash of all that determines the content: the
    userland, the way of packing, the modules and the programs.
    """
    content = hashlib.sha256(f"{identify_userland(userland).userland_sha256}\n{_PACK}".encode())
    for name, file in (
        *((str(source.relative_to(PACKAGE)), source) for source in _modules_of_guest()),
        *programs,
    ):
        content.update(f"{name}\n{file.stat().st_size}\n".encode() + file.read_bytes())
    return content.hexdigest()[:16]


def _modules_of_guest() -> list[Path]:
    """Returns the files of the modules that a guest imports, and no others, because a guest's
    Python reads the list of all files in HARNESS before the traffic starts.
    """
    finder = ModuleFinder(path=[str(PACKAGE.parent)])
    for name in RUN_IN_GUESTS:
        finder.import_hook(name)
    files = (vars(module)["__file__"] for module in finder.modules.values())
    return sorted(Path(file) for file in files if file)  # built-in modules have no file


def _make_folder(folder: Path, userland: Path, programs: tuple[tuple[str, Path], ...]) -> None:
    """Makes the folder with all of its content, or not at all, because another process may make it
    at the same time.
    """
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as work:
        new_folder = Path(work, "made")
        new_folder.mkdir()
        for name, file in programs:
            shutil.copyfile(file, new_folder / name)
            (new_folder / name).chmod(0o755)
            # for people, the name outside of the guest
            (new_folder / f"ccmix-{name}").symlink_to(name)
        _pack_code(Path(work, "sources"), new_folder / HARNESS, userland)
        try:
            new_folder.rename(folder)
        except OSError:
            if not folder.exists():
                raise


def _pack_code(sources: Path, packed: Path, userland: Path) -> None:
    """Compiles a copy of the modules with the userland's Python, and packs the byte code into the
    file `packed`. Raises GuestError("start").
    """
    for source in _modules_of_guest():
        copy = sources / PACKAGE.name / source.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    loader = (userland / LOADER, "--library-path", userland / LIBRARIES)
    python = python_command(_PACK, sources, packed, f"/{HARNESS}", python=userland / PYTHON)
    python[1:1] = ["-X", "no_debug_ranges"]
    completed = subprocess.run(
        [*loader, *python],
        env={"PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMPILES_WITHIN_S,
        check=False,
    )
    if completed.returncode != 0:
        reason = (completed.stdout + completed.stderr).strip()
        raise GuestError(
            "start", f"{userland}: its Python can't compile the guest's code: {reason}"
        )


def main() -> None:
    """Makes the folder that the runs of this installation need, and prints its path."""
    programs = {"iperf3": find_iperf3(), "sockmon": find_sockmon(), "rtt": find_rtt()}
    print(guest_code(find_userland(), programs))


if __name__ == "__main__":
    main()
