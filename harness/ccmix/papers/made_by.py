"""Says which command made an archive."""

import itertools

from ccmix.archive import Campaign
from ccmix.config import load
from ccmix.model import Run
from ccmix.papers.experiments_folder import ini_of
from ccmix.papers.ini_text import form
from ccmix.papers.registry import by_name
from ccmix.plan import make_plan

OLDER = "An older form of the experiment"


def planned(name: str, seed: int, *, full: bool, tried: bool = True) -> tuple[Run, ...]:
    """Returns the runs of an experiment, in its full or in its reduced form, and those that only explain if `tried`."""
    left_out = frozenset() if tried else by_name()[name].tried
    entries = load(ini_of(name), form(name, full=full)).entries
    return make_plan((entry for entry in entries if entry.name not in left_out), seed)


def made_by(name: str, campaign: Campaign) -> str:
    """Returns the command that plans an archive's runs today; the text of the INI file and its comments don't count."""
    seed = campaign.origin.seed
    for full, tried in itertools.product((False, True), repeat=2):
        if seed is not None and planned(name, seed, full=full, tried=tried) == campaign.runs:
            return f"`ccmix reproduce {name}{' --full' * full}{' --tried' * tried}`"
    return OLDER
