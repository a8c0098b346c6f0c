"""The archive: one folder per run, written atomically; it is also what a resumed campaign goes by."""

from ccmix.archive.campaign import Campaign, CampaignError
from ccmix.archive.folders import RunFolder

__all__ = ["Campaign", "CampaignError", "RunFolder"]
