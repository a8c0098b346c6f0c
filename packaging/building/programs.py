"""Builds the programs that ccmix bundles, and checks that they need no library of the machine on
which they run.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
KERNEL = "ccmix-lab-kernel"
USERLAND = "ccmix-userland"
BUILDS = {
    "ccmix-iperf3": "iperf3-patch/build",
    "ccmix-sockmon": "probes/sockmon/build",
    "ccmix-capflow": "probes/capflow/build",
    "ccmix-rtt": "probes/rtt/build",
    "ccmix-cca": "cca/bpf/build",
    "ccmix-confine": "lab/confine/build",
    KERNEL: "lab/build",
    USERLAND: "lab/userland/build",
}
COMPILER = "tools/toolchain/build"


class BuildError(Exception):
    """Names a part that can't be built, and the reason."""


@dataclass(frozen=True)
class Built:
    """Holds the paths of the programs, including the kernel, of the userland, and of the pinned
    compiler's folder.
    """

    programs: dict[str, Path]
    userland: Path
    compiler: Path

    @property
    def kernel(self) -> Path:
        return self.programs[KERNEL]


def cache_folder() -> Path:
    """Returns the folder for build results, from tools/cache.sh."""
    script = '. "$0/tools/cache.sh" && ccmix_cache'
    return Path(
        subprocess.run(
            ["bash", "-c", script, REPOSITORY], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
    )


def build_all() -> Built:
    """Builds the bundled parts that the cache lacks, and returns all of them.

    Raises BuildError, also if the pinned compiler is not available, because only that compiler
    gives the bytes that everybody else gets.
    """
    compiler = _build(COMPILER)
    built = {name: _build(script) for name, script in BUILDS.items()}
    userland = built.pop(USERLAND)
    for name, program in built.items():
        refuse_dynamic(name, program)
    return Built(built, userland, compiler.parents[2])


def _build(script: str) -> Path:
    done = subprocess.run([REPOSITORY / script], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{script} failed with status {done.returncode}")
    return Path(done.stdout.strip())


def refuse_dynamic(name: str, program: Path) -> None:
    """Raises BuildError if a program needs a loader or a library, because the wheel's tag would
    then be wrong.
    """
    printed = subprocess.run(
        ["readelf", "--wide", "--program-headers", "--dynamic", program],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needed = [line.split()[-1] for line in printed.splitlines() if "(NEEDED)" in line]
    if "INTERP" in printed or needed:
        raise BuildError(
            f"{name} ({program}) is not static: it needs {' '.join(needed) or 'a loader'}"
        )


def copy_program(program: Path, copy: Path) -> None:
    """Copies a program unchanged; its build has already removed the symbols."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, copy)
    copy.chmod(0o755)
