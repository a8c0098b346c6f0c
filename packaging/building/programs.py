"""Builds the programs that ccmix brings along, and checks that they need nothing of the machine where they run."""

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
    """Says what can't be built, and why."""


@dataclass(frozen=True)
class Built:
    """Says where the programs, the kernel among them, the userland, and the folder of the pinned compiler are."""

    programs: dict[str, Path]
    userland: Path
    compiler: Path

    @property
    def kernel(self) -> Path:
        return self.programs[KERNEL]


def cache_folder() -> Path:
    """Returns the folder for what is built, as tools/cache.sh has it."""
    script = '. "$0/tools/cache.sh" && ccmix_cache'
    return Path(
        subprocess.run(["bash", "-c", script, REPOSITORY], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    )


def build_all() -> Built:
    """Returns all that is brought along, built unless the cache has it.

    Raises BuildError, also if the pinned compiler is not to be had: a release has the bytes that everybody has.
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
    """Raises BuildError if a program asks for a loader or a library, so that the wheel's tag would not be true."""
    printed = subprocess.run(
        ["readelf", "--wide", "--program-headers", "--dynamic", program], capture_output=True, text=True, check=True
    ).stdout
    needed = [line.split()[-1] for line in printed.splitlines() if "(NEEDED)" in line]
    if "INTERP" in printed or needed:
        raise BuildError(f"{name} ({program}) is not static: it needs {' '.join(needed) or 'a loader'}")


def copy_program(program: Path, copy: Path) -> None:
    """Copies a program, byte for byte: its build has removed the symbols."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, copy)
    copy.chmod(0o755)
