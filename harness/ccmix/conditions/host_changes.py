"""Changes a real host for a run, undoes it, and compares the host's state before and after the run.

The changes are pacing by fq (tc-fq(8)), and the user's commands before and after the run.
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
from ccmix.hosts.output_text import exit_reason, last_line, shell

OWN_HANDLE = "cc01"  # of the mq that replaces the kernel's own, whose children have no handles


@contextmanager
def paced_device(host: RealHost, device: str, pacing_bps: float) -> Iterator[None]:
    """Limits each flow that leaves a device to `pacing_bps` while the context lasts, by the qdisc
    fq, and restores the device at the end.

    If the device already has an fq that somebody configured, only its rate is changed. Otherwise fq
    replaces the device's qdisc. A device with several queues (mq) has such an fq for each queue.
    Raises CommandError.
    """
    rate = f"{pacing_bps:.0f}bit"
    present = qdiscs(host, device)
    root, leaves = root_of(present), leaves_of(present)
    several = any(qdisc["kind"] == "mq" and qdisc.get("root") for qdisc in present)
    with ExitStack() as changes:
        if root and root["kind"] == "fq":
            changes.enter_context(_paced_fq(host, device, ["root"], root, rate))
        elif (
            root
            and several
            and leaves
            and all(leaf["kind"] == "fq" and leaf["handle"] != "0:" for leaf in leaves)
        ):
            for leaf in leaves:
                changes.enter_context(
                    _paced_fq(host, device, ["parent", leaf["parent"]], leaf, rate)
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
    """Returns the network device through which the host sends packets to an IP address. An address
    such as 'fe80::1%eth0' names the device itself. Raises CommandError.
    """
    address, _, zone = address.partition("%")
    return zone or _route_property(host, address, "dev")


def source_to(host: RealHost, address: str) -> str:
    """Returns the host's own address in packets that it sends to an IP address. Raises
    CommandError.
    """
    address, _, zone = address.partition("%")
    return _route_property(host, address, "src", *(["dev", zone] if zone else []))


def _route_property(host: RealHost, address: str, name: str, *device: str) -> str:
    """Returns a property of the host's route to an address: the word that follows `name`, such as
    'dev' or 'src', in the output of `ip route get ADDRESS`. `device` limits the route to a device.
    Raises CommandError if there is no route.
    """
    argv = ["ip", "-o", "route", "get", address, *device]
    words = host.run(argv).split()
    if name not in words[:-1]:
        raise CommandError(host.name, argv, f"no route to {address}")
    return words[words.index(name) + 1]


@contextmanager
def _paced_fq(
    host: RealHost, device: str, parent: list[str], fq: dict[str, object], rate: str
) -> Iterator[None]:
    """Sets the maximum rate of each flow in an fq that exists, and restores the former rate when
    the context ends.

    parent: the place of the fq in tc's words: ['root'] or ['parent', HANDLE]
    fq: the fq as tc's JSON describes it
    rate: the maximum rate in tc's words, such as '1000000bit'
    """
    change = ["tc", "qdisc", "change", "dev", device, *parent, "fq", "maxrate"]
    options = fq.get("options")
    former = options.get("maxrate") if isinstance(options, dict) else None  # in bytes per second
    undo = [*change, f"{FQ_UNLIMITED_BIT if former is None else int(former) * 8}bit"]
    with host.changed(f"pacing of {device} {' '.join(parent)}", [*change, rate], undo):
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
    """Reads the settings of a host that influence TCP, by name: sysctls, parameters of TCP modules,
    and the qdiscs, MTU and offloads of these devices. They are read before and after a run, to find
    changes that were not undone.
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
    """Compares the settings of a host before and after a run, both from state_of(). Returns a
    sentence for each setting that has changed. Settings of a kernel module that was loaded during
    the run don't count.
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
    """Runs the user's shell line `before` on the host, and the line `after` when the context ends.
    `after` is run even if `before` has failed or this process dies. None means that there is no
    such line.

    Processes that `before` leaves in the background live until the end. The outputs are in the
    files pre-NAME.* and post-NAME.out in the folder `logs`. Raises CommandError if `before` fails.
    If `after` fails, no error is raised; failures() finds this in its output.
    """
    with ExitStack() as ends:
        if after:
            file = logs / f"post-{name}.out"
            file.unlink(missing_ok=True)  # files of an earlier campaign or of somebody else
            output = partial(write_whole, file, sync=False)
            changed = host.changed(
                f"post-{name}",
                NOTHING,
                _always_succeeding(after),
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
                raise CommandError(host.name, [f"pre-{name}", before], exit_reason(status, errors))
        yield


def failures(logs: Path) -> list[str]:
    """Returns a sentence for each of the user's commands after a run (post-...) that has failed.
    The last line of its output, in the folder `logs`, has its exit status.
    """
    sentences = []
    for output in sorted(logs.glob("post-*.out")):
        status = last_line(output).removeprefix(STATUS)
        if status != "0":
            sentences.append(
                f"{output.stem} failed: "
                f"{'did not end in time' if status == OUT_OF_TIME else STATUS + status}"
            )
    return sentences


def _always_succeeding(line: str) -> list[str]:
    """Returns a command that runs the user's shell line with a time limit, and that succeeds even
    if the line fails. The last line of its output is the line's exit status; failures() reads it.
    """
    script = f'timeout -k 5 {TIMEOUT_S:.0f} sh -c "$1" 2>&1; echo "{STATUS}$?"'
    return ["sh", "-c", script, "sh", line]
