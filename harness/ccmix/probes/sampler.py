"""Repeats a command on absolute deadlines, and writes its outputs one after the other with the time of each."""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.hosts import CommandError, Host


@dataclass(frozen=True)
class Sample:
    """Holds what a probe's command wrote at `time_s` (wall clock), and how long it ran."""

    time_s: float
    seconds: float
    output: str


@dataclass
class SamplerReport:
    """Counts how a probe does; a deadline is missed if it passes before the sample before it has ended."""

    samples: int = 0
    missed: int = 0
    failed: str | None = None


@contextmanager
def sampling(host: Host, argv: Sequence[str], interval_s: float, file: Path) -> Iterator[SamplerReport]:
    """Runs `argv` on the host every `interval_s` seconds until the context ends, and a last time then.

    The file has a JSON line for each sample, which `read_samples` reads. A failure ends the probe, not the run, and
    is in the report.
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
    """Returns the samples of a file, without a last one that a crash has cut short."""
    return list(_samples(file))


def sample_parts(file: Path, most_lines: int) -> Iterator[list[Sample]]:
    """Yields the same samples, some at a time whose outputs have so many lines; a longer output is split."""
    part: list[Sample] = []
    left = most_lines
    for sample in _samples(file):
        lines = sample.output.splitlines(keepends=True)
        while len(lines) > left:
            yield [*part, replace(sample, output="".join(lines[:left]))]
            part, lines, left = [], lines[left:], most_lines
        part.append(replace(sample, output="".join(lines)))
        left -= len(lines)
    yield part


def _samples(file: Path) -> Iterator[Sample]:
    with file.open() as lines:
        yield from (Sample(**json.loads(line)) for line in lines if line.endswith("\n"))


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
    due = Deadline(0.0)
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
            due = due.plus(interval_s)
            while due.expired:
                due = due.plus(interval_s)
                report.missed += 1
            stop.wait(due.remaining_s)
