"""Runs ccmix-rtt during a run, to measure how long the receiver's answers take while the traffic
flows.
"""

from ccmix.model import RttProbe


def argv(program: str, probe: RttProbe, address: str) -> list[str]:
    """Returns the command that sends questions until SIGTERM."""
    tcp = [] if probe.tcp_port is None else [f"--tcp={probe.tcp_port}"]
    return [program, f"--rate={probe.rate_hz}", *tcp, "--", address]
