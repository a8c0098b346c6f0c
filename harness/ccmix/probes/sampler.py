"""Repeats a command at fixed times during a run, and writes each output with its time.

Also reads from /proc/stat (proc_stat(5)) how each core has spent its time since the host started.
"""

import json
import math
import re
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

PART_CHARACTERS = 2**20  # of samples, handled at a time
PROC_STAT: Sequence[str] = ("cat", "/proc/stat")
TICKS_PER_S = 100  # USER_HZ of every architecture that Linux supports, except Alpha
_RANGE = re.compile(r"(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?", re.ASCII)
# Eight to ten times since Linux 2.6.11: a host that invents cores writes at least that much for
# each
_CORE = re.compile(r"cpu(?P<core>\d{1,4}) (?P<ticks>\d{1,20}(?: \d{1,20}){7,9})", re.ASCII)


@dataclass(frozen=True)
class Sample:
    """The output of a command that started at `time_s` (wall clock) and took `seconds`."""

    time_s: float
    seconds: float
    output: str


@dataclass
class SamplerReport:
    """Counts the samples; `failed` says why the sampler ended early.

    A sample is missed if it is due while the previous one still runs.
    """

    samples: int = 0
    missed: int = 0
    failed: str | None = None


@contextmanager
def sampling(
    host: Host, argv: Sequence[str], interval_s: float, file: Path, most_bytes: float = math.inf
) -> Iterator[SamplerReport]:
    """Runs a command on the host every `interval_s` seconds, and once when the context ends.

    The file gets a JSON line for each sample, for read_samples(), and at most `most_bytes`. A
    failure ends only the sampler, not the run; the report has the reason.
    """
    report = SamplerReport()
    stop = threading.Event()

    def sample() -> None:
        """Samples in a thread of its own, and keeps its error in the report."""
        try:
            _write_samples(host, argv, interval_s, file, most_bytes, report, stop)
        except (CommandError, OSError) as error:
            report.failed = str(error)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield report
    finally:
        stop.set()
        thread.join()


def read_samples(file: Path) -> list[Sample]:
    """Returns the samples of a file, without a last line that a crash has cut."""
    return list(_iterate_samples(file))


def sample_parts(file: Path, most_lines: int) -> Iterator[list[Sample]]:
    """Yields the samples of a file in parts that fit into memory.

    The outputs of a part have at most `most_lines` lines and, unless a line is longer,
    PART_CHARACTERS characters. A larger output is split into several samples of the same time.
    """
    part: list[Sample] = []
    lines = characters = 0
    for sample in _iterate_samples(file):
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


def _iterate_samples(file: Path) -> Iterator[Sample]:
    """Yields the samples of a file, which has a JSON line for each."""
    with file.open() as lines:
        yield from (Sample(**json.loads(line)) for line in lines if line.endswith("\n"))


def _write_samples(
    host: Host,
    argv: Sequence[str],
    interval_s: float,
    file: Path,
    most_bytes: float,
    report: SamplerReport,
    stop: threading.Event,
) -> None:
    """Runs the command every `interval_s` until `stop` is set, then once more, and writes samples.

    A sample is due at a fixed time, whenever the one before it ended, so delays do not add up. The
    report counts the samples that were still running when the next one was due.
    """
    next_due, left_bytes = Deadline(0.0), most_bytes
    with file.open("w") as out:
        while True:
            is_last = stop.is_set()
            begin_s, wall_s = time.monotonic(), time.time()
            output = host.run(argv)
            sample: Mapping[str, object] = {
                "time_s": wall_s,
                "seconds": time.monotonic() - begin_s,
                "output": output,
            }
            line = json.dumps(sample) + "\n"  # only ASCII
            left_bytes -= len(line)
            if left_bytes < 0:
                report.failed = (
                    f"{host.name}: {' '.join(argv)} printed more than "
                    f"{format_bytes(most_bytes)} in a run"
                )
                return
            out.write(line)
            out.flush()
            report.samples += 1
            if is_last:
                return
            next_due = next_due.plus(interval_s)
            while next_due.expired:
                next_due = next_due.plus(interval_s)
                report.missed += 1
            stop.wait(next_due.remaining_s)


def parse_proc_stat(text: str, cores: str | None) -> dict[int, list[float]]:
    """Returns {core: seconds that it has spent in each state since the host started}.

    `text` is the content of /proc/stat; the states are in the order of stream.format.CPU_TIMES.
    `cores` selects cores, such as '4-5' or '0,2-3'; None, 'ALL' and 'ON' mean all cores.
    """
    wanted = None if are_all_cores(cores) else chosen_cores(cores or "")
    return {
        core: [int(ticks) / TICKS_PER_S for ticks in match["ticks"].split()]
        for line in output_lines(text)
        if (match := _CORE.match(line))
        for core in [int(match["core"])]
        if wanted is None or core in wanted
    }


def are_all_cores(cores: str | None) -> bool:
    """Returns whether a list of cores, in mpstat's format, means all: 'ALL', 'ON' or None."""
    return cores is None or cores.upper().partition(",")[0] in ("ALL", "ON")


def chosen_cores(text: str) -> set[int]:
    """Returns the numbers in a list of cores: {0, 4, 5} for '0,4-5'. Raises ValueError."""
    cores: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError("is not a list of cores: write for example 0,4-5")
        cores.update(range(int(match["first"]), int(match["last"] or match["first"]) + 1))
    return cores
