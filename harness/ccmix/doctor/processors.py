"""Processors: how many, how fast they may run, and which of them are near the NIC."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ccmix.doctor.device import Device
from ccmix.doctor.findings import Finding, Status, line
from ccmix.doctor.reading import ask, files, transcript, whole
from ccmix.hosts import Host

GOVERNORS = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
BALANCED_BPS = 40e9  # from here on, interrupts that wander between cores and sockets cost throughput


def read_governors(host: Host) -> Mapping[str, str]:
    """By file; none where the hardware or a hypervisor decides. Raises CommandError."""
    return files(host, GOVERNORS)


def judge_governors(said: Mapping[str, str]) -> Iterator[Finding]:
    found = Counter(said.values())
    if not found:
        return
    if any(not name.replace("_", "").isalpha() for name in found):
        raise ValueError("the kernel says governors that have no such names")
    seen = ", ".join(f"{count} x {name}" for name, count in sorted(found.items()))
    if set(found) == {"performance"}:
        yield Finding("CPU governor", Status.OK, seen)
        return
    yield Finding(
        "CPU governor", Status.WARN, seen,
        "A processor that slows down between packets makes throughput low and different from run to run.",
        (line("cpupower", "frequency-set", "-g", "performance"),),
    )  # fmt: skip


def read_cores(host: Host) -> int:
    """Those that may be used. Raises CommandError or ValueError."""
    return whole(ask(host, ["nproc"]), "the number of cores", 1)


def judge_cores(cores: int) -> Iterator[Finding]:
    if cores > 1:
        yield Finding("cores", Status.OK, str(cores))
    else:
        yield Finding(
            "cores",
            Status.WARN,
            "1",
            "Interrupts, traffic and probes share one core, and disturb each other.",
        )


def read_near(host: Host, device: Device) -> str:
    """The cores of the device's NUMA node, as in '0-7,16-23'. Raises CommandError."""
    return ask(host, ["cat", f"/sys/devices/system/node/node{device.numa_node}/cpulist"]).strip()


def judge_near(device: Device, cores: str) -> Iterator[Finding]:
    """Raises ValueError."""
    if not cores.replace(",", "").replace("-", "").isdigit():
        raise ValueError("the kernel's list of cores is none")
    yield Finding(f"cores near {device.name}", Status.OK, f"{cores} (NUMA node {device.numa_node})")


def read_irqbalance(host: Host) -> bool:
    """Whether it runs. Raises CommandError or ValueError."""
    status, said = transcript(host, ["ps", "-C", "irqbalance", "-o", "pid="])
    if status not in (0, 1) or "not found" in said:
        raise ValueError("ps does not say which processes there are")
    return status == 0


def judge_irqbalance(runs: bool, device: Device) -> Iterator[Finding]:
    if not (device.speed_bps and device.speed_bps >= BALANCED_BPS):
        return
    if not runs:
        yield Finding("irqbalance", Status.OK, "does not run")
        return
    yield Finding(
        "irqbalance", Status.WARN, "runs",
        f"It moves the interrupts of {device.name} between cores; at this speed they are better bound to some.",
        (line("systemctl", "stop", "irqbalance"),),
    )  # fmt: skip


def look_near(host: Host, device: Device) -> Iterator[Finding]:
    """Raises CommandError or ValueError."""
    return judge_near(device, read_near(host, device))


def look_at_irqbalance(host: Host, device: Device) -> Iterator[Finding]:
    """Raises CommandError or ValueError."""
    return judge_irqbalance(read_irqbalance(host), device)
