"""Compares the state of a host before and after a run: a difference was left behind by somebody."""

import re
from collections.abc import Iterable

from ccmix.hosts.host import RealHost

SETTINGS = (
    'grep -s "" /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_* /sys/module/tcp_*/parameters/* '
    "| grep -v -e fastopen_key -e available_congestion"
)
OFFLOAD = re.compile(r"^[a-z-]+: (on|off)\b")
_AUTOMATIC_HANDLE = re.compile(r" [89a-f][0-9a-f]{3}: ")  # the kernel numbers them anew each time (net/sched/sch_api.c)
_COUNT_OF_USERS = re.compile(r" refcnt \d+")

MODULES = ".sys.module."

State = dict[str, str]


def state_of(host: RealHost, devices: Iterable[str]) -> State:
    """Returns, by name, TCP's sysctls, its modules' parameters, and each device's queues, MTU and offloads."""
    settings = [line.partition(":") for line in host.run(["sh", "-c", SETTINGS]).splitlines()]
    state = {name.removeprefix("/proc/sys/").replace("/", "."): value for name, _, value in settings}
    for device in devices:
        qdiscs = _COUNT_OF_USERS.sub("", host.run(["tc", "qdisc", "show", "dev", device]))
        state[f"{device} qdiscs"] = _AUTOMATIC_HANDLE.sub(" ", qdiscs).strip()
        mtu = re.search(r" mtu (\d+)", host.run(["ip", "-o", "link", "show", "dev", device]))
        state[f"{device} mtu"] = mtu[1] if mtu else ""
        for line in host.run(["ethtool", "-k", device]).splitlines():
            if OFFLOAD.match(line):
                name, _, value = line.partition(": ")
                state[f"{device} {name}"] = value
    return state


def differences(host: RealHost, before: State, after: State) -> list[str]:
    """Returns a sentence for each setting that is not as it was.

    A module that was loaded meanwhile is no change of one.
    """
    return [
        f"{host.name}: {name} was {before.get(name, 'not there')} and is {after.get(name, 'not there')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not (name.startswith(MODULES) and name not in before)
    ]
