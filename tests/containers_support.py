"""Docker's client, as the tests of containers use it."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import REPOSITORY

OWNER = (4711, 4712)  # user and group, of which a container has never heard
BUILDS_WITHIN_S = 2400  # without a layer in the cache, on a machine that does other things too


@dataclass(frozen=True)
class Docker:
    environment: Mapping[str, str]

    @classmethod
    def of(cls, environment: str) -> "Docker":
        return cls(json.loads(environment))

    def __call__(self, *words: str, cwd: Path = REPOSITORY, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        """Both outputs as text, whatever the exit status is."""
        return subprocess.run(
            ["docker", *words], env=dict(self.environment), cwd=cwd, timeout=timeout_s,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def good(self, *words: str, cwd: Path = REPOSITORY, timeout_s: float = 240) -> str:
        """Standard output of a command that must succeed."""
        done = self(*words, cwd=cwd, timeout_s=timeout_s)
        assert done.returncode == 0, f"docker {' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def build(self, target: str, *options: str) -> str:
        """Of the unmodified Dockerfile, as `make image` does it."""
        done = subprocess.run(
            [REPOSITORY / "container/build", target, *options], env=dict(self.environment), timeout=BUILDS_WITHIN_S,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
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
            "run", "--rm", "--network=none", f"--user={user}", f"--entrypoint={program}", image, *arguments
        )
