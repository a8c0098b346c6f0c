"""The commands that make a campaign, or one run of it, again."""

import getopt
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ccmix.model import Run

# The options of `ccmix run` in getopt's writing; of these, one run needs those that say where and how it is measured.
SHORT, LONG = "o:j:H:i:", ("outdir=", "jobs=", "only=", "run=", "resume", "seed=", "lab", "hosts=", "nic=", "netem-at=")
KEPT = ("--lab", "-H", "--hosts", "-i", "--nic", "--netem-at")


@dataclass(frozen=True)
class Origin:
    """How a campaign was made, as its campaign.json tells: `about` is what Campaign has."""

    about: dict[str, Any]

    @property
    def config(self) -> str:
        """The name of the INI file."""
        return next((PurePath(word).name for word in self._words if word.endswith(".ini")), "campaign.ini")

    @property
    def campaign(self) -> str | None:
        """The command as it was given, but for where ccmix lies; None where ccmix did not run it."""
        command = [str(word) for word in self.about.get("command", [])]
        return shlex.join(["ccmix", *command[1:]]) if self._ran else None

    def run(self, run: Run) -> str | None:
        """The command that makes this run alone again, of the INI file in the working folder, with the same seed.

        None where ccmix did not run it, or with options that this version doesn't have.
        """
        if not self._ran or (options := self._options()) is None:
            return None
        seed = ["--seed", str(self.about["seed"])]
        return shlex.join(["ccmix", "run", self.config, *options, *seed, "--run", run.name, "-o", "again"])

    @property
    def _ran(self) -> bool:
        return "seed" in self.about and list(map(str, self.about.get("command", [])))[1:2] == ["run"]

    @property
    def _words(self) -> Sequence[str]:
        return [str(word) for word in self.about.get("command", [])][2:]

    def _options(self) -> list[str] | None:
        """What the command line said of hosts, devices and the lab; None where no `ccmix run` takes it."""
        try:
            given, _ = getopt.gnu_getopt(self._words, SHORT, LONG)
        except getopt.GetoptError:
            return None
        return [word for name, value in given if name in KEPT for word in (name, value) if word]
