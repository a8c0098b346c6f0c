"""ccmix-rtt beside a run: how long answers of the receiver take while the traffic flows."""

from ccmix.model import RttProbe

FILE, ERRORS = "rtt.csv", "rtt.log"  # in a run's logs/: its standard output, and why it could not ask


def argv(program: str, probe: RttProbe, address: str) -> list[str]:
    """The command that asks until SIGTERM."""
    tcp = [] if probe.tcp_port is None else [f"--tcp={probe.tcp_port}"]
    return [program, f"--rate={probe.rate_hz}", *tcp, "--", address]
