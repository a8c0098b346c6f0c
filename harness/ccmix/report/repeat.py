"""Makes the commands that repeat a campaign, or one run of it."""

import getopt
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ccmix.model import Run
from ccmix.model.results import CampaignOrigin

# The options of `ccmix run` in getopt's writing; of these, one run needs those that say where and how it is measured.
SHORT, LONG = "o:j:H:i:", ("outdir=", "jobs=", "only=", "run=", "resume", "seed=", "lab", "hosts=", "nic=", "netem-at=")
KEPT = ("--lab", "-H", "--hosts", "-i", "--nic", "--netem-at")


@dataclass(frozen=True)
class Origin:
    """Makes the commands that repeat a campaign, which `ccmix run` or `ccmix demo` made."""

    origin: CampaignOrigin

    @property
    def config(self) -> str:
        """Returns the name of the INI file."""
        if self._of_demo:
            return "demo-quick.ini" if "--quick" in self._words else "demo.ini"
        return next((PurePath(word).name for word in self._words if word.endswith(".ini")), "campaign.ini")

    @property
    def campaign(self) -> str | None:
        """Returns the command as it was given, with `ccmix` as program; None if ccmix did not run it."""
        return shlex.join(["ccmix", *self.origin.command[1:]]) if self._ran else None

    def run(self, run: Run) -> str | None:
        """Returns the command that repeats this run alone, with the INI file in the working folder and the same seed.

        Returns None if ccmix did not run it, or with options that this version doesn't have.
        """
        if not self._ran or (options := self._options()) is None:
            return None
        seed = ["--seed", str(self.origin.seed)]
        return shlex.join(["ccmix", "run", self.config, *options, *seed, "--run", run.name, "-o", "again"])

    @property
    def _ran(self) -> bool:
        return self.origin.seed is not None and self.origin.command[1:2] in (("run",), ("demo",))

    @property
    def _of_demo(self) -> bool:
        return self.origin.command[1:2] == ("demo",)

    @property
    def _words(self) -> Sequence[str]:
        return self.origin.command[2:]

    def _options(self) -> list[str] | None:
        """Returns the options for hosts, devices and the lab; None if this `ccmix run` doesn't have them."""
        if self._of_demo:
            return ["--lab"]
        try:
            given, _ = getopt.gnu_getopt(self._words, SHORT, LONG)
        except getopt.GetoptError:
            return None
        return [word for name, value in given if name in KEPT for word in (name, value) if word]
