"""Where a command runs: this machine, a network namespace of it, a machine over OpenSSH."""

from ccmix.hosts.errors import CommandError
from ccmix.hosts.host import Host, Process
from ccmix.hosts.local import LocalHost, NamespaceHost

__all__ = ["CommandError", "Host", "LocalHost", "NamespaceHost", "Process"]
