"""The archive: one folder per run, written atomically; it is also what a resumed campaign goes by."""

from ccmix.archive.campaign import Campaign
from ccmix.archive.errors import ArchiveError
from ccmix.archive.folders import RunFolder, file_name

__all__ = ["ArchiveError", "Campaign", "RunFolder", "file_name"]
