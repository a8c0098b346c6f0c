#!/usr/bin/env python3
"""Runs the tests of faults part by part, within an hour in all, and prints what each part counted.

    tests/faults/run_parts.py FOLDER [--again]

Each part has a time limit. FOLDER keeps the output and the result of each part. A later call runs
only the parts that have not passed yet, so the work continues where it stopped; --again runs all.
Exit status: 0 if all parts have passed.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
COUNTED = re.compile(r"^\d+ (?:kills|mutations)\b.*", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """Describes tests that run together, within a limit of `seconds`."""

    name: str
    seconds: int
    tests: tuple[str, ...]


PARTS = (
    Part(
        "mutations",
        600,
        ("tests/faults/test_mutations.py", "tests/index/test_malformed_answers.py"),
    ),
    Part("guests", 900, ("tests/faults/test_guests.py",)),
    Part("namespaces", 900, ("tests/faults/test_kills_of_parts.py",)),
    Part("cluster", 900, ("tests/faults/test_kills_of_cluster.py",)),
    Part("disks and limits", 300, ("tests/run/test_lab_faults.py", "-k", "not full_disk")),
)


@dataclass(frozen=True)
class Result:
    """Says how a part ended, and what it counted, such as '60 kills (60 guest) in ...'."""

    passed: bool
    seconds: float
    counted: tuple[str, ...]


def run(part: Part, output: Path) -> Result:
    """Runs the tests of a part, which write to the file, and ends them at the part's limit."""
    begin = time.monotonic()
    argv = [str(REPOSITORY / "tools" / "test.py"), "test,deep,long"]
    argv += ["--timeout", str(part.seconds), "-rP", *part.tests]
    with output.open("w") as out:
        process = subprocess.Popen(
            argv, cwd=REPOSITORY, stdout=out, stderr=out, start_new_session=True
        )
        try:
            status = process.wait(part.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            status = process.wait()
    counted = tuple(dict.fromkeys(COUNTED.findall(output.read_text(errors="replace"))))
    return Result(status == 0, round(time.monotonic() - begin, 1), counted)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for part in PARTS:
        result_file = options.folder / f"{part.name}.json"
        if options.again:
            result_file.unlink(missing_ok=True)
        if not result_file.exists():
            print(f"{part.name}: at most {part.seconds // 60} minutes ...", flush=True)
            result = run(part, options.folder / f"{part.name}.txt")
            if not result.passed:
                failed.append(part.name)
                print(f"{part.name}: FAILED: {options.folder / part.name}.txt", flush=True)
                continue
            result_file.write_text(json.dumps(asdict(result)))
        result = Result(**json.loads(result_file.read_text()))
        print(f"{part.name}: passed in {result.seconds:.0f} s", *result.counted, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
