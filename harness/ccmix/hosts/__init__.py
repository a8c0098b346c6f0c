"""Runs commands on hosts: this machine, a network namespace of it, or a machine over OpenSSH."""

from ccmix.hosts.errors import CommandError
from ccmix.hosts.host import Host, Process
from ccmix.hosts.local import EnteredNamespace, LocalHost, NamespaceHost

__all__ = ["CommandError", "EnteredNamespace", "Host", "LocalHost", "NamespaceHost", "Process"]
