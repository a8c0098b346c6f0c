"""Checks the room for what the runs will write: results in OUTDIR on the controller, one capture at a time on the
source.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.reading import ask, whole
from ccmix.hosts import Host
from ccmix.units import format_bytes

RUN_BYTES = 2_000_000  # of a run's results and series, without its capture
COPIES = 2  # a capture lies on the source's disk as it is and compressed, for a while
TEMPORARY = "/tmp"


def existing(folder: Path) -> Path:
    """Returns the folder itself, or the one in which it will be made."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


def judge_outdir(outdir: Path, runs: int, capture_bytes: int) -> Iterator[DoctorFinding]:
    """Judges OUTDIR on this machine; `capture_bytes` are all runs' captures, uncompressed and at their caps. Raises
    OSError.
    """
    place = existing(outdir)
    status = os.statvfs(place)
    if status.f_flag & os.ST_RDONLY:
        yield DoctorFinding(
            "results", Status.FAIL, f"{place} is mounted read-only", "The results of the runs go there.",
            instead=(line("ccmix", "run", "-o", "/another/folder", "..."),), root=False,
        )  # fmt: skip
        return
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield DoctorFinding(
            "results", Status.FAIL, f"{place} can't be written to", "The results go there, or where -o says.",
            (line("chown", str(os.getuid()), str(place)),),
        )  # fmt: skip
        return
    free = status.f_bavail * status.f_frsize
    yield from judge_room("results", str(place), free, runs * RUN_BYTES, capture_bytes)


def read_free(host: Host, folder: str) -> str:
    """Reads df's output for a folder. Raises CommandError."""
    return ask(host, ["env", "LC_ALL=C", "df", "-P", "-k", folder])


def free_bytes(output: str) -> int:
    """Returns the free bytes, from `df -P -k` of one folder. Raises ValueError."""
    lines = output.splitlines()
    fields = lines[1].split() if len(lines) == 2 else []
    numbers = [at for at, field in enumerate(fields) if field.endswith("%")]
    if not numbers or numbers[-1] < 3:
        raise ValueError("df does not say how much is free")
    return whole(fields[numbers[-1] - 1], "what df calls available", 0) * 1024


def judge_room(what: str, place: str, free: int, certain: int, at_most: int) -> Iterator[DoctorFinding]:
    """Judges whether there is room for `certain` bytes that will come, and up to `at_most` more."""
    least, most = certain, certain + at_most
    planned = format_bytes(least) if least == most else f"{format_bytes(least)} to {format_bytes(most)}"
    seen = f"{format_bytes(free)} free in {place}, {planned} planned"
    if free >= most:
        yield DoctorFinding(what, Status.OK, seen)
        return
    yield DoctorFinding(
        what, Status.FAIL if free < least else Status.WARN, seen,
        "A full disk ends a run, and its capture is lost: make room, or give tcpdump-size a smaller cap.",
        instead=(line("du", "-xhd1", place),),
    )  # fmt: skip


def judge_temporary(folder: str, free: int, capture_bytes: int) -> Iterator[DoctorFinding]:
    yield from judge_room("room for captures", folder, free, COPIES * capture_bytes, 0)
