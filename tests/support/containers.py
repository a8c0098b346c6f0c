"""Docker's client, as the tests of containers use it."""

import datetime
import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.version import version
from support.commands import REPOSITORY

OWNER = (4711, 4712)  # user and group, which a container doesn't know
# The options of a production test, as in compose's service dtn
DTN = (
    "--user=root",
    "--network=host",
    "--cap-drop=ALL",
    "--cap-add=NET_ADMIN",
    "--cap-add=NET_RAW",
    "--cap-add=CHOWN",
    "--cap-add=DAC_OVERRIDE",
    "--security-opt=no-new-privileges",
    "--security-opt=systempaths=unconfined",
    "--volume=/sys/module:/sys/module",
    "--volume=state:/var/lib/ccmix",
    "--read-only",
    "--tmpfs=/tmp:exec",
)
# Of this machine's kernel, which other tests use too: a microsecond more makes no difference to
# them
PARAMETER = Path("/sys/module/tcp_cubic/parameters/hystart_ack_delta_us")
DEFAULT = "2000\n"
# Two runs, each of which changes it
SWEEP = f"""
[sweep]
type = nothing
src = localhost
dst = 127.0.0.1
src-cmd = sleep 4
duration = 4s
param-sweep = tcp_cubic/parameters/{PARAMETER.name}, sys-module-list, 2001, 2002
"""
GUIDE = REPOSITORY / "docs/howto/run-in-containers.md"
BUILDS_WITHIN_S = 2400  # without a layer in the cache, on a machine that does other things too


@dataclass(frozen=True)
class Docker:
    environment: Mapping[str, str]

    @classmethod
    def of(cls, environment: str) -> "Docker":
        return cls(json.loads(environment))

    def __call__(
        self, *words: str, cwd: Path = REPOSITORY, timeout_s: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Both outputs as text, whatever the exit status is."""
        return subprocess.run(
            ["docker", *words],
            env=dict(self.environment),
            cwd=cwd,
            timeout=timeout_s,
            capture_output=True,
            text=True,
            check=False,
        )

    def good(self, *words: str, cwd: Path = REPOSITORY, timeout_s: float = 240) -> str:
        """Standard output of a command that must succeed."""
        done = self(*words, cwd=cwd, timeout_s=timeout_s)
        assert done.returncode == 0, (
            f"docker {' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
        return done.stdout

    def build(self, target: str, *options: str) -> str:
        """Of the unmodified Dockerfile, as `make image` does it."""
        done = subprocess.run(
            [REPOSITORY / "container/build", target, *options],
            env=dict(self.environment),
            timeout=BUILDS_WITHIN_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-6000:]}"
        return f"ccmix:{target}"

    def inspect(self, what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.good("inspect", what))[0]
        return found

    def start(self, *words: str) -> str:
        """A container in the background; its id."""
        return self.good("run", "--detach", *words).strip()

    def in_image(self, image: str, *words: str, user: str = "root") -> str:
        """The output of a command in a new container without a network."""
        program, *arguments = words
        return self.good(
            "run",
            "--rm",
            "--network=none",
            f"--user={user}",
            f"--entrypoint={program}",
            image,
            *arguments,
        )


def check_labels(docker: Docker, image: str, base: str) -> None:
    """Checks the labels of the OCI image specification on an image that container/build made."""
    labels = docker.inspect(image)["Config"]["Labels"]
    found = {
        name.removeprefix("org.opencontainers.image."): value for name, value in labels.items()
    }
    assert {*found} >= {
        *("title", "description", "licenses", "url", "source", "documentation", "version"),
        *("revision", "created", "base.name", "base.digest"),
    }
    assert all(found.values())
    assert found["version"] == version().name
    assert found["revision"].removesuffix("-dirty") == version().commit
    assert found["revision"].endswith("-dirty") is version().name.endswith(".changed")
    assert found["base.name"] == base
    assert found["base.digest"] == docker.inspect(base)["Id"]  # a stand-in, without a registry
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(found["created"])
    assert datetime.timedelta(0) < age < datetime.timedelta(days=1)


def wait_for(files: Path, pattern: str, count: int = 1, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while len(list(files.rglob(pattern))) < count:
        assert time.monotonic() < deadline, (
            f"there are no {count} files {pattern} in {files} after {timeout_s} s"
        )
        time.sleep(0.1)


def wait_for_change() -> None:
    """Until a campaign with SWEEP has changed the parameter."""
    deadline = time.monotonic() + 240
    while PARAMETER.read_text() == DEFAULT:
        assert time.monotonic() < deadline, "the campaign changed nothing"
        time.sleep(0.05)


def clone(work: Path) -> None:
    """As much of the repository as compose reads, in a user's folder."""
    for name in ("compose.yaml", "elk/compose.yaml"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_bytes((REPOSITORY / name).read_bytes())
