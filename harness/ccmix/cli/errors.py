"""What an error is to a user: a line, and an exit status."""

from ccmix.archive import ArchiveError
from ccmix.cli import status
from ccmix.cli.output import drop_the_rest
from ccmix.config import ConfigError
from ccmix.failures import WHAT_TO_DO, located
from ccmix.hosts import CommandError
from ccmix.lab.errors import GuestError
from ccmix.tools import ToolError


def told(error: Exception) -> tuple[str, int]:
    """The line and the exit status. Raises the error again where it is none that a user could do something about."""
    match error:
        case ConfigError() | ArchiveError() | ToolError():
            return str(error), status.WRONG_INPUT
        case GuestError() | CommandError():
            return str(error), status.BAD
        case OSError(filename=None, errno=number) if number in WHAT_TO_DO:  # files are always named
            drop_the_rest()
            return located(error, "standard output"), status.BAD
        case OSError():
            return located(error), status.BAD
    raise error
