"""Changes a host as an entry requires and takes the changes back: pacing by fq (tc-fq(8)), and the
user's commands before and after. Compares the state of the host before and after a run.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from ccmix.conditions.qdisc import FQ_UNLIMITED_BIT, leaves_of, qdiscs, replaced_qdisc, root_of
from ccmix.files import write_whole
from ccmix.hosts import CommandError
from ccmix.hosts.host import RealHost
from ccmix.hosts.output_text import last_line, shell, why

OWN_HANDLE = "cc01"  # of the mq that replaces the kernel's own, whose children have no handles


@contextmanager
def paced_device(host: RealHost, device: str, pacing_bps: float) -> Iterator[None]:
    """Limits each flow that leaves the device to `pacing_bps`, and restores the device afterwards.

    If the device already has an fq that somebody configured, only its rate is set, on each queue if
    the device has several. Raises CommandError.
    """
    rate = f"{pacing_bps:.0f}bit"
    present = qdiscs(host, device)
    root, leaves = root_of(present), leaves_of(present)
    several = any(qdisc["kind"] == "mq" and qdisc.get("root") for qdisc in present)
    with ExitStack() as changes:
        if root and root["kind"] == "fq":
            changes.enter_context(_rate_of_fq(host, device, ["root"], root, rate))
        elif (
            root
            and several
            and leaves
            and all(leaf["kind"] == "fq" and leaf["handle"] != "0:" for leaf in leaves)
        ):
            for leaf in leaves:
                changes.enter_context(
                    _rate_of_fq(host, device, ["parent", leaf["parent"]], leaf, rate)
                )
        elif several:
            changes.enter_context(replaced_qdisc(host, device, ["handle", f"{OWN_HANDLE}:", "mq"]))
            for queue in range(1, len(leaves) + 1):
                parent = f"{OWN_HANDLE}:{queue:x}"  # removed with the mq, so it needs no undo
                replace = [
                    "tc",
                    "qdisc",
                    "replace",
                    "dev",
                    device,
                    "parent",
                    parent,
                    "fq",
                    "maxrate",
                    rate,
                ]
                host.run(replace, privileged=True)
        else:
            changes.enter_context(replaced_qdisc(host, device, ["fq", "maxrate", rate]))
        yield


def device_to(host: RealHost, address: str) -> str:
    """Returns the device through which packets to the numeric address leave. Raises
    CommandError.
    """
    address, _, zone = address.partition("%")
    return zone or _of_route(host, address, "dev")


def source_to(host: RealHost, address: str) -> str:
    """Returns the source address of packets to the numeric address. Raises CommandError."""
    address, _, zone = address.partition("%")
    return _of_route(host, address, "src", *(["dev", zone] if zone else []))


def _of_route(host: RealHost, address: str, what: str, *through: str) -> str:
    argv = ["ip", "-o", "route", "get", address, *through]
    words = host.run(argv).split()
    if what not in words[:-1]:
        raise CommandError(host.name, argv, f"no route to {address}")
    return words[words.index(what) + 1]


@contextmanager
def _rate_of_fq(
    host: RealHost, device: str, where: list[str], fq: dict[str, object], rate: str
) -> Iterator[None]:
    change = ["tc", "qdisc", "change", "dev", device, *where, "fq", "maxrate"]
    options = fq.get("options")
    former = options.get("maxrate") if isinstance(options, dict) else None  # in bytes per second
    undo = [*change, f"{FQ_UNLIMITED_BIT if former is None else int(former) * 8}bit"]
    with host.changed(f"pacing of {device} {' '.join(where)}", [*change, rate], undo):
        yield


SETTINGS = (
    'grep -s "" /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_* /sys/module/tcp_*/parameters/* '
    "| grep -v -e fastopen_key -e available_congestion"
)
OFFLOAD = re.compile(r"^[a-z-]+: (on|off)\b")
_AUTOMATIC_HANDLE = re.compile(
    r" [89a-f][0-9a-f]{3}: "
)  # the kernel assigns new numbers each time (net/sched/sch_api.c)
_COUNT_OF_USERS = re.compile(r" refcnt \d+")

MODULES = ".sys.module."

State = dict[str, str]


def state_of(host: RealHost, devices: Iterable[str]) -> State:
    """Returns TCP's sysctls, its modules' parameters, and each device's queues, MTU and offloads,
    by name.
    """
    settings = [line.partition(":") for line in host.run(["sh", "-c", SETTINGS]).splitlines()]
    state = {
        name.removeprefix("/proc/sys/").replace("/", "."): value for name, _, value in settings
    }
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
    """Returns a sentence for each setting that has changed.

    A module that was loaded in the meantime does not count as a change.
    """
    return [
        f"{host.name}: {name} was {before.get(name, 'not there')} and is "
        f"{after.get(name, 'not there')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
        and not (name.startswith(MODULES) and name not in before)
    ]


TIMEOUT_S = 600.0  # of each
AFTER_TIMEOUT_S = 30.0  # beyond that, for the end of its processes
STATUS, OUT_OF_TIME = "exit status ", "124"  # timeout(1)
NOTHING = ["true"]


@contextmanager
def bracketed(
    host: RealHost, name: str, before: str | None, after: str | None, logs: Path
) -> Iterator[None]:
    """Runs `before`, and runs `after` when the context ends, even if `before` failed or this
    process dies.

    Background processes of `before` live until then. The outputs are in `logs`. Raises CommandError
    if `before` fails; failures() reports the result of `after`.
    """
    with ExitStack() as ends:
        if after:
            file = logs / f"post-{name}.out"
            file.unlink(missing_ok=True)  # files of an earlier campaign or of somebody else
            output = partial(write_whole, file, sync=False)
            changed = host.changed(
                f"post-{name}",
                NOTHING,
                _whatever_it_returns(after),
                False,
                TIMEOUT_S + AFTER_TIMEOUT_S,
                output,
            )
            ends.enter_context(changed)
        if before:
            errors = logs / f"pre-{name}.err"
            process = ends.enter_context(
                host.start(shell(before), stdout=logs / f"pre-{name}.out", stderr=errors)
            )
            if (status := process.wait(TIMEOUT_S)) != 0:
                raise CommandError(host.name, [f"pre-{name}", before], why(status, errors))
        yield


def failures(logs: Path) -> list[str]:
    """Returns a sentence for each post command in `logs` that had an exit status other than 0."""
    sentences = []
    for output in sorted(logs.glob("post-*.out")):
        status = last_line(output).removeprefix(STATUS)
        if status != "0":
            sentences.append(
                f"{output.stem} failed: "
                f"{'not ended in time' if status == OUT_OF_TIME else STATUS + status}"
            )
    return sentences


def _whatever_it_returns(line: str) -> list[str]:
    """Returns a command that succeeds whatever the line returns, and prints the line's exit status
    last.
    """
    script = f'timeout -k 5 {TIMEOUT_S:.0f} sh -c "$1" 2>&1; echo "{STATUS}$?"'
    return ["sh", "-c", script, "sh", line]
