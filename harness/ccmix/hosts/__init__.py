"""Where a command runs: this machine, or a network namespace of it."""

from ccmix.hosts.errors import CommandError
from ccmix.hosts.local import LocalHost, NamespaceHost

__all__ = ["CommandError", "LocalHost", "NamespaceHost"]
