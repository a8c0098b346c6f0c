"""Checks processors: how many, how fast they may run, and which of them are near the NIC."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ccmix.doctor.device import Device
from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import ask, files, transcript, whole
from ccmix.hosts import Host

GOVERNORS = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
BALANCED_BPS = 40e9  # from here on, interrupts that wander between cores and sockets cost throughput


def read_governors(host: Host) -> Mapping[str, str]:
    """Reads the governors by file; none if the hardware or a hypervisor decides. Raises CommandError."""
    return files(host, GOVERNORS)


def judge_governors(governor_by_file: Mapping[str, str]) -> Iterator[DoctorFinding]:
    counts = Counter(governor_by_file.values())
    if not counts:
        return
    if any(not name.replace("_", "").isalpha() for name in counts):
        raise ValueError("the names of the kernel's CPU governors are not understood")
    seen = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    if set(counts) == {"performance"}:
        yield DoctorFinding("CPU governor", Status.OK, seen)
        return
    yield DoctorFinding(
        "CPU governor", Status.WARN, seen,
        "A processor that slows down between packets makes throughput low and different from run to run.",
        (line("cpupower", "frequency-set", "-g", "performance"),),
    )  # fmt: skip


def read_cores(host: Host) -> int:
    """Reads how many cores may be used. Raises CommandError or ValueError."""
    return whole(ask(host, ["nproc"]), "the number of cores", 1)


def judge_cores(cores: int) -> Iterator[DoctorFinding]:
    if cores > 1:
        yield DoctorFinding("cores", Status.OK, str(cores))
    else:
        yield DoctorFinding(
            "cores",
            Status.WARN,
            "1",
            "Interrupts, traffic and probes share one core, and disturb each other.",
        )


def read_near(host: Host, device: Device) -> str:
    """Reads the cores of the device's NUMA node, as in '0-7,16-23'. Raises CommandError."""
    return ask(host, ["cat", f"/sys/devices/system/node/node{device.numa_node}/cpulist"]).strip()


def judge_near(device: Device, cores: str) -> Iterator[DoctorFinding]:
    """Judges what read_near() returned. Raises ValueError."""
    if not cores.replace(",", "").replace("-", "").isdigit():
        raise ValueError("the kernel's list of cores is not understood")
    yield DoctorFinding(f"cores near {device.name}", Status.OK, f"{cores} (NUMA node {device.numa_node})")


def read_irqbalance(host: Host) -> bool:
    """Returns whether irqbalance runs. Raises CommandError or ValueError."""
    status, output = transcript(host, ["ps", "-C", "irqbalance", "-o", "pid="])
    if status not in (0, 1) or "not found" in output:
        raise ValueError("ps does not say which processes there are")
    return status == 0


def judge_irqbalance(runs: bool, device: Device) -> Iterator[DoctorFinding]:
    if not (device.speed_bps and device.speed_bps >= BALANCED_BPS):
        return
    if not runs:
        yield DoctorFinding("irqbalance", Status.OK, "does not run")
        return
    yield DoctorFinding(
        "irqbalance", Status.WARN, "runs",
        f"It moves the interrupts of {device.name} between cores; at this speed they are better bound to some.",
        (line("systemctl", "stop", "irqbalance"),),
    )  # fmt: skip


def look_near(host: Host, device: Device) -> Iterator[DoctorFinding]:
    """Reads and judges the cores near a device. Raises CommandError or ValueError."""
    return judge_near(device, read_near(host, device))


def look_at_irqbalance(host: Host, device: Device) -> Iterator[DoctorFinding]:
    """Reads and judges irqbalance. Raises CommandError or ValueError."""
    return judge_irqbalance(read_irqbalance(host), device)
