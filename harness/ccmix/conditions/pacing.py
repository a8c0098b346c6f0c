"""Pacing of each flow by fq (tc-fq(8)) on a device of a host in production, whatever its queues are."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ccmix.conditions.qdisc import FQ_UNLIMITED_BIT, leaves_of, qdiscs, replaced_qdisc, root_of
from ccmix.hosts import CommandError
from ccmix.hosts.host import RealHost

OWN_HANDLE = "cc01"  # of the mq that replaces the kernel's own, whose children nobody can name


@contextmanager
def paced_device(host: RealHost, device: str, pacing_bps: float) -> Iterator[None]:
    """Holds each flow out of the device to `pacing_bps` at most; afterwards the device is as before.

    An fq that somebody made only gets the rate, on each of its queues where it has several. Raises CommandError.
    """
    rate = f"{pacing_bps:.0f}bit"
    present = qdiscs(host, device)
    root, leaves = root_of(present), leaves_of(present)
    several = any(qdisc["kind"] == "mq" and qdisc.get("root") for qdisc in present)
    with ExitStack() as changes:
        if root and root["kind"] == "fq":
            changes.enter_context(_rate_of_fq(host, device, ["root"], root, rate))
        elif root and several and leaves and all(leaf["kind"] == "fq" and leaf["handle"] != "0:" for leaf in leaves):
            for leaf in leaves:
                changes.enter_context(_rate_of_fq(host, device, ["parent", leaf["parent"]], leaf, rate))
        elif several:
            changes.enter_context(replaced_qdisc(host, device, ["handle", f"{OWN_HANDLE}:", "mq"]))
            for queue in range(1, len(leaves) + 1):
                parent = f"{OWN_HANDLE}:{queue:x}"  # goes with the mq: nothing of its own to undo
                replace = ["tc", "qdisc", "replace", "dev", device, "parent", parent, "fq", "maxrate", rate]
                host.run(replace, privileged=True)
        else:
            changes.enter_context(replaced_qdisc(host, device, ["fq", "maxrate", rate]))
        yield


def device_to(host: RealHost, address: str) -> str:
    """Returns the device by which packets to the numeric address leave. Raises CommandError."""
    address, _, zone = address.partition("%")
    return zone or _of_route(host, address, "dev")


def source_to(host: RealHost, address: str) -> str:
    """Returns the address from which packets to the numeric address come. Raises CommandError."""
    address, _, zone = address.partition("%")
    return _of_route(host, address, "src", *(["dev", zone] if zone else []))


def _of_route(host: RealHost, address: str, what: str, *through: str) -> str:
    argv = ["ip", "-o", "route", "get", address, *through]
    words = host.run(argv).split()
    if what not in words[:-1]:
        raise CommandError(host.name, argv, f"no route to {address}")
    return words[words.index(what) + 1]


@contextmanager
def _rate_of_fq(host: RealHost, device: str, where: list[str], fq: dict[str, object], rate: str) -> Iterator[None]:
    change = ["tc", "qdisc", "change", "dev", device, *where, "fq", "maxrate"]
    options = fq.get("options")
    former = options.get("maxrate") if isinstance(options, dict) else None  # in bytes per second
    undo = [*change, f"{FQ_UNLIMITED_BIT if former is None else int(former) * 8}bit"]
    with host.changed(f"pacing of {device} {' '.join(where)}", [*change, rate], undo):
        yield
