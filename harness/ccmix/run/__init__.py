"""Makes runs: measures them on a machine (of the lab, or this one), concludes them outside, and
makes many of them as a campaign.
"""
