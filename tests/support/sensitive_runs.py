"""Two short runs in which a difference of any program, its random numbers or its clock shows."""

from pathlib import Path

# iperf3 has a thread for each of the 16 flows.
MIXED = """
[topology gigabit]
rate = 1gbit
delay = 5ms
buffer = 1bdp
loss = 0.1%
mtu = 9000
offloads = off

[mixed]
type = iperf3
topology = gigabit
cca = cubic,bbr
streams = 16
duration = 3s
omit = 1s
interval = 100ms
"""
# Programs of the guest besides iperf3: Python's and curl's, which log() and random numbers steer.
SERVICES = """
[topology services]
rate = 100mbit
delay = 5ms
buffer = 1bdp
loss = 0.1%

[services]
type = iperf3
topology = services
flows.bulk = h1 bbr
flows.pages = h1 http requests 20 size 200kb parallel 2
flows.load = h1 workload web-search load 30% cca cubic
duration = 4s
"""
NAMES = ("mixed", "services")


def write_files(folder: Path) -> None:
    """Writes the INI files, such as mixed.ini, into the folder."""
    for name, ini in zip(NAMES, (MIXED, SERVICES), strict=True):
        (folder / f"{name}.ini").write_text(ini)


def commands(ccmix: str) -> str:
    """Returns shell commands that make the runs with that ccmix, in folders of their names next to
    the INI files.
    """
    return "\n".join(f"{ccmix} run {name}.ini --lab --seed 7 -o {name}" for name in NAMES)
