"""Judges by the data of its probes whether a run is valid; `verdict` collects all findings."""

from ccmix.analysis.validity.verdict import judge

__all__ = ["judge"]
