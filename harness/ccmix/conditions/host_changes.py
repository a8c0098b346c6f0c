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
    """Makes fq limit each flow that leaves the device to `pacing_bps`, and restores the device when
    the context ends.

    If somebody has already configured fq on the device, only its rate is changed; otherwise fq
    replaces the queue discipline. On a device with several queues (mq), this is done for each.
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
    """Returns the network device through which the host sends packets to a numeric address, which
    may name the device itself, as in 'fe80::1%eth0'. Raises CommandError.
    """
    address, _, zone = address.partition("%")
    return zone or _route_property(host, address, "dev")


def source_to(host: RealHost, address: str) -> str:
    """Returns the address that the host uses as the source of packets to a numeric address. Raises
    CommandError.
    """
    address, _, zone = address.partition("%")
    return _route_property(host, address, "src", *(["dev", zone] if zone else []))


def _route_property(host: RealHost, address: str, name: str, *device: str) -> str:
    """Returns the word after `name`, such as 'dev' or 'src', in the output of `ip route get
    ADDRESS`, which may be limited to a device. Raises CommandError without a route.
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
    """Sets the maximum rate of a flow in an existing fq, and restores the former one when the
    context ends. `parent` is tc's ['root'] or ['parent', HANDLE]; `fq` is tc's JSON of the qdisc.
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
    and the queue disciplines, MTU and offloads of these devices.

    It is called before and after a run, to find changes that were not undone.
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
    """Compares two results of state_of(). Returns a sentence for each setting that has changed.

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
    """Runs the user's shell line `before` on the host, and `after` when the context ends, even if
    `before` failed or this process dies. None: there is no such command.

    Background processes of `before` live until the end. The outputs are in pre-NAME.* and
    post-NAME.out in `logs`. Raises CommandError if `before` fails; failures() tells whether `after`
    failed.
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
    """Returns a sentence for each command after a run that failed, according to its output in
    `logs`, for the run's diagnostics.
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
    """Returns a command that runs the user's shell line with a timeout, and succeeds even if the
    line fails. The last line of its output has the line's exit status, which failures() reads.
    """
    script = f'timeout -k 5 {TIMEOUT_S:.0f} sh -c "$1" 2>&1; echo "{STATUS}$?"'
    return ["sh", "-c", script, "sh", line]
