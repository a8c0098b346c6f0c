"""Runs the probe ccmix-sockmon during a run: it samples sockets, queues and CPU counters.

It is one process on a host, instead of one process for each sample.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.hosts import CommandError, Host
from ccmix.hosts.errors import HostLost
from ccmix.model import Traffic

LEAST_HZ, MOST_HZ = 1e-4, 1000.0  # sampling rates that it accepts
WATCH_HZ = 2000.0  # default rate at which it checks a watched backlog
MOST_SLOW_HZ = 10.0  # the kernel counts processor time in hundredths of a second
DISCOVER_HZ, DISCOVER_SHORT_HZ = (
    10.0,
    100.0,
)  # searches for new sockets; of traffic whose connections come and go
BEFORE_S = 1e-3  # before the traffic, so that the sample has no bytes of a source that starts early
MOST_REMOTES = 8  # addresses that it can filter by


def errors_of(stream: Path) -> Path:
    """Returns the file for the probe's standard error, next to its stream."""
    return stream.with_name(f"{stream.name}.log")


def rates(interval_s: float, discover_hz: float = DISCOVER_HZ) -> list[str]:
    """Returns the probe's options for a sample of sockets and queues each `interval_s` seconds.

    Counters, processors and processes are sampled at most at MOST_SLOW_HZ. At `discover_hz` it
    looks for new sockets.
    """
    hz = min(max(LEAST_HZ, 1 / interval_s), MOST_HZ)
    return [
        f"--rate={hz:.12g}",
        f"--slow-rate={min(hz, MOST_SLOW_HZ):.12g}",
        f"--discover-rate={discover_hz:g}",
    ]


def moments(traffic: Traffic, began_s: float) -> list[str]:
    """Returns the probe's options for extra samples at the exact times that metrics need.

    These times are both ends of the measured time, the end of each of its intervals, and the start
    of the last flow, because flows are compared from then on. `began_s` is the planned start of the
    traffic, by the wall clock of the probe's host. If SIGUSR1 tells the probe of a later start, it
    takes all samples later by the difference.
    """
    measured_s = began_s + traffic.omit_s
    times_s = [
        began_s - BEFORE_S,
        began_s,
        measured_s,
        *([began_s + traffic.seconds] if traffic.seconds else []),
    ]
    last_start_s = began_s + max(traffic.starts_s, default=0.0)
    times_s += [last_start_s] if last_start_s > measured_s else []
    return [
        f"--start={began_s:.9f}",
        f"--grid={measured_s:.9f}",
        *(f"--also={moment_s:.9f}" for moment_s in times_s),
    ]


def refusal(host: Host, argv: Sequence[str]) -> str | None:
    """Tries the probe for a moment. Returns None if it works, otherwise why it does not.

    The reason is from the probe, or from the command that should start it. Raises HostLost.
    """
    try:
        host.run([*argv, "--duration=0.001", "--output=/dev/null"])
    except HostLost:
        raise
    except CommandError as error:
        return error.reason
    return None


@contextmanager
def recording(host: Host, argv: Sequence[str], stream: Path) -> Iterator[None]:
    """Runs the probe on the host until the context ends, and writes its output to `stream`.

    The output ends with the probe's report, which is missing if the probe was killed. Raises
    CommandError.
    """
    with host.start(argv, stdout=stream, stderr=errors_of(stream)):
        yield
