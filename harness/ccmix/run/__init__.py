"""Runs: measured on a machine (the lab's or this one), concluded outside, many of them as a campaign."""
