"""Commands repeated on absolute deadlines, their outputs written one after the other with the time of each."""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.hosts import CommandError, Host


@dataclass(frozen=True)
class Sample:
    """What a probe's command said at `time_s` (wall clock), and how long it took."""

    time_s: float
    seconds: float
    output: str


@dataclass
class SamplerReport:
    """How a probe did; `missed` are deadlines that had passed before the sample before them was through."""

    samples: int = 0
    missed: int = 0
    failed: str | None = None


@contextmanager
def sampling(host: Host, argv: Sequence[str], interval_s: float, file: Path) -> Iterator[SamplerReport]:
    """Runs `argv` on the host every `interval_s` seconds until the context ends; a last time then.

    The file has a JSON line for each sample, as `read_samples` reads it. A failure ends the probe, not the run, and
    stands in the report.
    """
    report = SamplerReport()
    stop = threading.Event()
    thread = threading.Thread(target=_sample, args=(host, argv, interval_s, file, report, stop), daemon=True)
    thread.start()
    try:
        yield report
    finally:
        stop.set()
        thread.join()


def read_samples(file: Path) -> list[Sample]:
    """The samples of a file; one cut short by a crash at its end is left out."""
    with file.open() as lines:
        return [Sample(**json.loads(line)) for line in lines if line.endswith("\n")]


def _sample(
    host: Host, argv: Sequence[str], interval_s: float, file: Path, report: SamplerReport, stop: threading.Event
) -> None:
    try:
        _sample_into(host, argv, interval_s, file, report, stop)
    except (CommandError, OSError) as error:
        report.failed = str(error)


def _sample_into(
    host: Host, argv: Sequence[str], interval_s: float, file: Path, report: SamplerReport, stop: threading.Event
) -> None:
    deadline = time.monotonic()
    with file.open("w") as out:
        while True:
            last = stop.is_set()
            begin, wall_s = time.monotonic(), time.time()
            output = host.run(argv)
            sample: Mapping[str, object] = {"time_s": wall_s, "seconds": time.monotonic() - begin, "output": output}
            out.write(json.dumps(sample) + "\n")
            out.flush()
            report.samples += 1
            if last:
                return
            deadline += interval_s
            while deadline <= time.monotonic():
                deadline += interval_s
                report.missed += 1
            stop.wait(deadline - time.monotonic())
