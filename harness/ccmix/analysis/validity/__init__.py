"""Judges a run by what its probes saw: `verdict` asks each of the other modules about what it judges."""

from ccmix.analysis.validity.verdict import judge

__all__ = ["judge"]
