"""Which runs tables count."""

from collections.abc import Mapping
from typing import Any

from ccmix.terms import IMPORTED


def imported(summary: Mapping[str, Any]) -> bool:
    """Whether somebody else measured the run, so that no probe of ccmix's could look."""
    return any(finding["kind"] == IMPORTED for finding in summary["validity"].get("findings", ()))


def counts(summary: Mapping[str, Any]) -> bool:
    """Valid runs; and those that were imported, unless what they bring shows them to be limited: whoever imported them
    wants to see them, though their validity is unknown.
    """
    status = summary["validity"]["status"]
    return bool(status == "valid" or (status == "unknown" and imported(summary)))
