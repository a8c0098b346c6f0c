"""Makes the command of ccmix-rtt, which measures RTTs while the traffic of a run flows."""

from ccmix.model import RttProbe


def argv(program: str, probe: RttProbe, address: str) -> list[str]:
    """Returns the command that sends questions to the address until SIGTERM.

    Questions are ICMP echo requests, or TCP SYNs to the probe's `tcp_port`.
    """
    tcp = [] if probe.tcp_port is None else [f"--tcp={probe.tcp_port}"]
    return [program, f"--rate={probe.rate_hz}", *tcp, "--", address]
