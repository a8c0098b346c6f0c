"""Runs commands where they belong: on this machine, in a network namespace of it, or on a machine over OpenSSH."""

from ccmix.hosts.errors import CommandError
from ccmix.hosts.host import Host, Process
from ccmix.hosts.local import EnteredNamespace, LocalHost, NamespaceHost

__all__ = ["CommandError", "EnteredNamespace", "Host", "LocalHost", "NamespaceHost", "Process"]
