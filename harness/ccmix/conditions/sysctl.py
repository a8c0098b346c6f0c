"""Sysctls of a host, set for a while."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ccmix.hosts import Host

# Those that decide how TCP behaves, kept with each run
OF_TCP = (
    "net.ipv4.tcp_mem", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control", "net.ipv4.tcp_ecn", "net.ipv4.tcp_sack", "net.ipv4.tcp_timestamps",
    "net.core.default_qdisc", "net.core.rmem_max", "net.core.wmem_max",
)  # fmt: skip
OF_ENDS = ("net.ipv4.tcp_ecn",)  # which a topology sets on each sender and receiver


def read_sysctls(host: Host, names: Sequence[str]) -> dict[str, str]:
    """Returns the values by name; those that the host's kernel, or the namespace, doesn't have are left out."""
    lines = host.run(["sysctl", "-e", *names]).splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


@contextmanager
def changed_sysctls(host: Host, values: Mapping[str, str]) -> Iterator[None]:
    """Sets the sysctls, and puts their former values back afterwards."""
    former = dict(zip(values, host.run(["sysctl", "-n", *values]).splitlines(), strict=True))
    set_all = ["sysctl", "-q", "-w"]
    do = [*set_all, *(f"{name}={value}" for name, value in values.items())]
    undo = [*set_all, *(f"{name}={' '.join(value.split())}" for name, value in former.items())]
    with host.changed(f"sysctls {', '.join(values)}", do, undo):
        yield
