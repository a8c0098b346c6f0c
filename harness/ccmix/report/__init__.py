"""Writes the result table and the charts of campaigns, for terminals, programs and browsers."""
