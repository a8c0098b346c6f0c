"""The archive: one folder per run, written atomically. A resumed campaign continues from it."""

from ccmix.archive.campaign import Campaign, RunFolder, file_name
from ccmix.files import ArchiveError

__all__ = ["ArchiveError", "Campaign", "RunFolder", "file_name"]
