"""The error of everything that reads or writes an archive."""


class ArchiveError(Exception):
    """A folder or file is not what it should be; the message names it and says what to do."""
