"""Runs the probe ccmix-sockmon beside a run: one process on a host, instead of a process for every sample."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.hosts import CommandError, Host
from ccmix.hosts.errors import HostLost

LEAST_HZ = 0.1  # its lowest rate of samples
MOST_SLOW_HZ = 10.0  # the kernel counts processor time in hundredths of a second
MOST_REMOTES = 8  # addresses that it can filter by


def errors_of(stream: Path) -> Path:
    """Returns the file for the probe's standard error."""
    return stream.with_name(f"{stream.name}.log")


def rates(interval_s: float) -> list[str]:
    """Returns the options for a sample of sockets and queues each `interval_s` seconds.

    Counters, processors and processes, and the search for new sockets, are no more frequent than MOST_SLOW_HZ.
    """
    hz = max(LEAST_HZ, 1 / interval_s)
    slow_hz = min(hz, MOST_SLOW_HZ)
    return [f"--rate={hz:g}", f"--slow-rate={slow_hz:g}", f"--discover-rate={slow_hz:g}"]


def refusal(host: Host, argv: Sequence[str]) -> str | None:
    """Tries the probe; returns the error of the probe, or of what should start it, or None if it works.

    Raises HostLost.
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
    """Runs the probe on the host until the context ends, and writes its stream into the file as it comes.

    The stream's report says how the probe did; a probe that was killed leaves none. Raises CommandError.
    """
    with host.start(argv, stdout=stream, stderr=errors_of(stream)):
        yield
