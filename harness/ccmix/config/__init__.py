"""Turns INI text into typed entries: the measurements that ccmix runs.

All mistakes of a file are reported at once, and no entry runs if there is one.
"""

from ccmix.config.conditions import Condition
from ccmix.config.entries import Entry
from ccmix.config.ini import read_text
from ccmix.config.loading import Config, Overrides, load, select
from ccmix.config.problems import ConfigError, Problem

__all__ = [
    "Condition",
    "Config",
    "ConfigError",
    "Entry",
    "Overrides",
    "Problem",
    "load",
    "read_text",
    "select",
]
