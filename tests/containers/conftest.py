"""A private Docker engine for all tests of containers, with the images of this checkout in it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import REPOSITORY
from support.containers import OWNER, Docker

ENGINE = REPOSITORY / "container/private-engine"
NO_ENGINE = 69


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """Docker's client, with an engine. Skips only if no engine is available here;
    REQUIRE_DOCKER=1 makes that a failure.
    """
    with private_engine() as found:
        yield found


@contextmanager
def private_engine() -> Iterator[Docker]:
    tell = [
        sys.executable,
        "-c",
        "import json,os; print(json.dumps(dict(os.environ)), flush=True); input()",
    ]
    process = subprocess.Popen(
        [ENGINE, *tell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    try:
        said = process.stdout.readline()
        if not said:
            reason, status = process.stderr.read(), process.wait()
            if status != NO_ENGINE or os.environ.get("REQUIRE_DOCKER") == "1":
                pytest.fail(f"the engine ended with status {status}: {reason}")
            pytest.skip(f"NOTHING OF CONTAINERS IS TESTED: {reason}")
        yield Docker.of(said)
    finally:
        if process.poll() is None:
            process.stdin.close()
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                process.wait()


@pytest.fixture(scope="session")
def harness(docker: Docker) -> str:
    """The target harness of the unmodified Dockerfile, on the stand-in for its base."""
    return docker.build("harness")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A folder of an ordinary user of this machine, as a working directory of containers."""
    folder = tmp_path / "work"
    folder.mkdir()
    os.chown(folder, *OWNER)
    tmp_path.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
