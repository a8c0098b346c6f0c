"""Runs ccmix-capflow."""

import csv
import io
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Capture = bytes | Path


def whole(text: str) -> Any:
    """Returns the lines of --summary-json as one document."""
    version, *connections, end = map(json.loads, text.splitlines())
    return {**version, "connections": connections, **end}


@dataclass(frozen=True)
class Capflow:
    binary: str

    def run(self, *arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [self.binary, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
        # of a binary of `build --sanitize`
        assert b"Sanitizer" not in done.stderr, done.stderr.decode()
        assert b"runtime error" not in done.stderr, done.stderr.decode()
        assert done.returncode in {0, 1, 2, 3}, done.returncode
        return done

    def _output(self, capture: Capture, *arguments: str) -> str:
        stdin = capture if isinstance(capture, bytes) else capture.read_bytes()
        done = self.run(*arguments, "-", stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stderr == b""
        return done.stdout.decode()

    def summary(self, capture: Capture, *arguments: str) -> Any:
        """Returns the lines of JSON as one document: version, connections, capture and others."""
        return whole(self._output(capture, "--summary-json", *arguments))

    def connection(self, capture: Capture, *arguments: str) -> Any:
        """Returns the connection of a capture that has a single one."""
        (connection,) = self.summary(capture, *arguments)["connections"]
        return connection

    def series(self, capture: Capture, *arguments: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self._output(capture, "--series", *arguments))))
