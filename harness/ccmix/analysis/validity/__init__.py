"""Judges a run by the data of its probes: `verdict` collects the findings of the other modules."""

from ccmix.analysis.validity.verdict import judge

__all__ = ["judge"]
