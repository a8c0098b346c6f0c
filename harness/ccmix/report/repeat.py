"""The commands that make a campaign, or one run of it, again."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ccmix.model import Run

DROPPED = {"-o": 1, "--outdir": 1, "--only": 1, "--run": 1, "-j": 1, "--jobs": 1, "--resume": 0, "--seed": 1}


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
        """The command that makes this run alone again, of the INI file in the working folder, with the same seed."""
        if not self._ran:
            return None
        seed = ["--seed", str(self.about["seed"])]
        return shlex.join(["ccmix", "run", self.config, *self._options(), *seed, "--run", run.name, "-o", "again"])

    @property
    def _ran(self) -> bool:
        return "seed" in self.about and list(map(str, self.about.get("command", [])))[1:2] == ["run"]

    @property
    def _words(self) -> Sequence[str]:
        return [str(word) for word in self.about.get("command", [])][2:]

    def _options(self) -> list[str]:
        """What the command line said of hosts, devices and the lab; a file's folder is left out."""
        kept: list[str] = []
        words = iter(self._words)
        for word in words:
            name = word.partition("=")[0]
            if name in DROPPED:
                if DROPPED[name] and "=" not in word:
                    next(words, None)
            elif word.startswith("-"):
                kept.append(word)
                if name != "--lab" and "=" not in word:
                    kept.append(next(words, ""))
        return kept
