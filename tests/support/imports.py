"""`ccmix import` into a folder of the test's, and what came of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result

from ccmix.archive import Campaign
from ccmix.model.run_files import SUMMARY
from support.commands import REPOSITORY

DATA = REPOSITORY / "tests" / "data" / "importing"
STREAMS, RATE_MBPS, SECONDS = 3, 40, 2  # of the test during which ss ran
Import = Callable[..., "Outcome"]
Here = Callable[..., Result]
TESTS = {
    "tcp": ("stock", "-t 2 -P 2 -O 1 -b 50M -C reno -i 0.5"),
    "reverse": ("stock", "-t 1 -R -b 50M -C cubic"),
    "bidir": ("stock", "-t 1 --bidir -b 50M -P 2 -C cubic"),
    "udp": ("stock", "-u -t 1 -b 20M -P 2"),
    "bytes": ("stock", "-n 4M -C cubic"),
    "mix": ("patched", "-t 1 -P 3 -C cubic:2,reno -b 50M -i 0.5"),
    "stream": ("patched", "-t 1 -P 2 --json-stream -b 50M -C cubic"),
}


class Outcome:
    """Of an import that went well."""

    def __init__(self, outdir: Path, stderr: str) -> None:
        self.outdir = outdir
        self.stderr = stderr
        self.folders: list[Path] = [folder for _, folder in Campaign.load(outdir).finished()]
        self.summaries: list[dict[str, Any]] = [
            json.loads((folder / SUMMARY).read_text()) for folder in self.folders
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """The only run's."""
        (only,) = self.summaries
        return only

    @property
    def conditions(self) -> list[dict[str, str]]:
        return [summary["run"]["condition"] for summary in self.summaries]

    def of_runs(self, name: str) -> list[Any]:
        """The value of this name under `run` in the run.json of each run."""
        return [summary["run"][name] for summary in self.summaries]

    def of_imports(self, name: str) -> list[Any]:
        """The value of this name in the facts of each import."""
        return [summary["facts"]["imported"][name] for summary in self.summaries]

    def files(self) -> dict[str, bytes]:
        """All files by their names within the archive."""
        return {
            str(file.relative_to(self.outdir)): file.read_bytes()
            for file in self.outdir.rglob("*")
            if file.is_file()
        }


@dataclass(frozen=True)
class Outputs:
    """The output of real tests at both ends, with -J and with -V, which ran at the same time on
    loopback.
    """

    client: Path
    server: Path
    text: Path
    server_text: Path


def read_json(file: Path) -> Any:
    return json.loads(file.read_text())


def written(file: Path, content: Any) -> Path:
    """Writes text, or JSON of anything else, and returns the file."""
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def later(file: Path, made: Path, seconds: int, port: int = 0, **changes: Any) -> Path:
    """Writes a client's document again as one of another test, so much later, from ports so much
    higher; `changes` are of its settings.
    """
    test = json.loads(file.read_text())
    for unit, of_a_second in (("timesecs", 1), ("timemillisecs", 1000)):
        if unit in test["start"]["timestamp"]:
            test["start"]["timestamp"][unit] += seconds * of_a_second
    test["start"]["cookie"] = made.stem
    test["start"]["test_start"] |= changes
    for connected in test["start"]["connected"]:
        connected["local_port"] += port
    made.write_text(json.dumps(test))
    return made


def rows(here: Here, outdir: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(here("report", outdir, "--format", "json").stdout)
    return found
