"""Tests settings that are written and read in a network namespace without a process, against the
output of the usual tools.
"""

from ccmix.conditions import namespaces
from ccmix.conditions.sysctl import OF_TCP, read_sysctls
from ccmix.hosts import NamespaceHost
from ccmix.hosts.local import entered

DEVICE = "eth0"


def offloads(namespace: NamespaceHost) -> dict[str, bool]:
    with entered(namespace.name):
        return namespaces.offloads(DEVICE)


def by_ethtool(namespace: NamespaceHost) -> dict[str, bool]:
    told = dict(
        line.strip().split(": ", 1)
        for line in namespace.run(["ethtool", "-k", DEVICE]).splitlines()[1:]
    )
    return {name: told[name].startswith("on") for name in offloads(namespace)}


def test_offloads_are_those_that_ethtool_tells(namespace: NamespaceHost) -> None:
    namespace.run(["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "eth1"])
    before = offloads(namespace)
    assert before == by_ethtool(namespace)
    assert before["tcp-segmentation-offload"]
    namespace.run(["ethtool", "-K", DEVICE, "gso", "off", "gro", "on"])
    changed = offloads(namespace)
    assert changed == by_ethtool(namespace)
    assert (changed["generic-segmentation-offload"], changed["generic-receive-offload"]) == (
        False,
        True,
    )
    with entered(namespace.name):
        namespaces.offloads_off([DEVICE])
    assert offloads(namespace) == by_ethtool(namespace) == dict.fromkeys(before, False)


def test_sysctls_are_those_of_the_namespace(namespace: NamespaceHost) -> None:
    namespace.run(["sysctl", "-q", "-w", "net.ipv4.tcp_rmem=4096 131072 5000000"])
    names = [*OF_TCP, "net.ipv4.tcp_no_such"]
    with entered(namespace.name):
        found = namespaces.sysctls(names)
    assert found == read_sysctls(namespace, names)
    assert found["net.ipv4.tcp_rmem"].split() == ["4096", "131072", "5000000"]
