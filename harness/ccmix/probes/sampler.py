"""Repeats a command on absolute deadlines, and writes its outputs one after the other with the time of each."""

import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.hosts import CommandError, Host
from ccmix.hosts.output_text import output_lines
from ccmix.units import format_bytes

PART_CHARACTERS = 2**20  # of the samples that are handled at a time


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
def sampling(
    host: Host, argv: Sequence[str], interval_s: float, file: Path, most_bytes: float = math.inf
) -> Iterator[SamplerReport]:
    """Runs `argv` on the host every `interval_s` seconds until the context ends, and a last time then.

    The file has a JSON line for each sample, which `read_samples` reads, and at most so many bytes. A failure ends the
    probe, not the run, and is in the report.
    """
    report = SamplerReport()
    stop = threading.Event()
    thread = threading.Thread(
        target=_sample, args=(host, argv, interval_s, file, most_bytes, report, stop), daemon=True
    )
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
    """Yields the same samples, some at a time whose outputs have at most so many lines, and PART_CHARACTERS unless a
    line is longer. An output of more is split.
    """
    part: list[Sample] = []
    lines = characters = 0
    for sample in _samples(file):
        piece: list[str] = []
        for line in output_lines(sample.output):
            if lines and (lines == most_lines or characters + len(line) > PART_CHARACTERS):
                yield [*part, replace(sample, output="".join(piece))]
                part, piece, lines, characters = [], [], 0, 0
            piece.append(line)
            lines += 1
            characters += len(line)
        part.append(replace(sample, output="".join(piece)))
    yield part


def _samples(file: Path) -> Iterator[Sample]:
    with file.open() as lines:
        yield from (Sample(**json.loads(line)) for line in lines if line.endswith("\n"))


def _sample(
    host: Host, argv: Sequence[str], interval_s: float, file: Path, most_bytes: float, report: SamplerReport,
    stop: threading.Event,
) -> None:  # fmt: skip
    try:
        _sample_into(host, argv, interval_s, file, most_bytes, report, stop)
    except (CommandError, OSError) as error:
        report.failed = str(error)


def _sample_into(
    host: Host, argv: Sequence[str], interval_s: float, file: Path, most_bytes: float, report: SamplerReport,
    stop: threading.Event,
) -> None:  # fmt: skip
    due, left_bytes = Deadline(0.0), most_bytes
    with file.open("w") as out:
        while True:
            last = stop.is_set()
            begin, wall_s = time.monotonic(), time.time()
            output = host.run(argv)
            sample: Mapping[str, object] = {"time_s": wall_s, "seconds": time.monotonic() - begin, "output": output}
            line = json.dumps(sample) + "\n"  # of ASCII alone
            left_bytes -= len(line)
            if left_bytes < 0:
                report.failed = f"{host.name}: {' '.join(argv)} printed more than {format_bytes(most_bytes)} in a run"
                return
            out.write(line)
            out.flush()
            report.samples += 1
            if last:
                return
            due = due.plus(interval_s)
            while due.expired:
                due = due.plus(interval_s)
                report.missed += 1
            stop.wait(due.remaining_s)
