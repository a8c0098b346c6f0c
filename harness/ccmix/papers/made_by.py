"""Says which command made an archive."""

from ccmix.archive import Campaign
from ccmix.config import load
from ccmix.model import Run
from ccmix.papers.experiments_folder import ini_of
from ccmix.papers.ini_text import form
from ccmix.plan import make_plan

OLDER = "An older form of the experiment"


def planned(name: str, seed: int, *, full: bool) -> tuple[Run, ...]:
    """Returns the runs of an experiment, in its full or in its reduced form."""
    return make_plan(load(ini_of(name), form(name, full=full)).entries, seed)


def made_by(name: str, campaign: Campaign) -> str:
    """Returns the command that plans an archive's runs today; the text of the INI file and its comments don't count."""
    seed = campaign.origin.seed
    for full in (False, True):
        if seed is not None and planned(name, seed, full=full) == campaign.runs:
            return f"`ccmix reproduce {name}{' --full' if full else ''}`"
    return OLDER
