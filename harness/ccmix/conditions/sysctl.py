"""Sysctls of a host, set for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ccmix.hosts import Host


@contextmanager
def changed_sysctls(host: Host, values: Mapping[str, str]) -> Iterator[None]:
    """The sysctls set to their values, and to their former values afterwards."""
    former = dict(zip(values, host.run(["sysctl", "-n", *values]).splitlines(), strict=True))
    set_all = ["sysctl", "-q", "-w"]
    do = [*set_all, *(f"{name}={value}" for name, value in values.items())]
    undo = [*set_all, *(f"{name}={' '.join(value.split())}" for name, value in former.items())]
    with host.changed(f"sysctls {', '.join(values)}", do, undo):
        yield
