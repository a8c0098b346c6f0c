"""The probe ccmix-sockmon beside a run: one of it on a host, instead of a process for every sample."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.hosts import CommandError, Host
from ccmix.hosts.errors import HostLost

STREAM, DESTINATION_STREAM = "run.sockmon", "dst.sockmon"  # in logs/; the first has the sockets
LEAST_HZ = 0.1  # that it samples at
MOST_REMOTES = 8  # addresses that it tells from others


def errors_of(stream: Path) -> Path:
    """Where what the probe had to say beside its stream goes."""
    return stream.with_name(f"{stream.name}.log")


def rates(interval_s: float) -> list[str]:
    """The options for a sample of everything each `interval_s` seconds."""
    hz = max(LEAST_HZ, 1 / interval_s)
    return [f"--rate={hz:g}", f"--slow-rate={hz:g}", f"--discover-rate={hz:g}"]


def refusal(host: Host, argv: Sequence[str]) -> str | None:
    """Why the host can't run it, in the words of the probe or of what was to start it; None where it can.

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
    """Runs the probe on the host until the context ends; its stream comes into the file as it is made.

    How it did is in the stream's report, and a probe that has died left none. Raises CommandError.
    """
    with host.start(argv, stdout=stream, stderr=errors_of(stream)):
        yield
