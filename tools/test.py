#!/usr/bin/env python3
"""Run tiers of the tests, two tests at a time, and print one summary.

    tools/test.py TIER[,TIER...] [PYTEST ARGUMENT...]

TIER is fast (no lab, no Docker, no Elasticsearch, no root), test (the tests of `make test`,
including fast), system (those of deep that need root or namespaces, as Docker's), deep (with the
tests of the C programs, built with sanitizers, unless ARGUMENTs name tests), sanitize (only those)
or long. Tests need different rights, so pytest runs once for each kind of mark:

    root         as root, by sudo: other users, an sshd, Docker
    namespaces   as root of a user namespace, with separate network namespaces and mounts
    neither      as you

If tests of at most three files fail in a whole tier (fast, test, system or deep), only the failed
tests run once more, one after the other. A test that then passes is printed with its failure as
UNSTABLE, and does not fail the run.

sudo asks for a password only once, at the start. Without sudo or user namespaces, the tests that
need them are skipped and counted. Root runs all tests in one call. Exit status: 1 if a test failed,
or none ran; otherwise 0.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PYTEST = REPOSITORY / ".venv/bin/pytest"
WORKERS = int(os.environ.get("CCMIX_TEST_WORKERS", "2"))  # for two processors
WAITING = 2  # times as many workers for tests between real hosts, which wait half of their time
TESTS_FAILED, NO_TESTS = 1, 5  # pytest's exit statuses
SLOWEST = 10
AGAIN = 3  # failed tests of at most this many files run once more; more are not a coincidence
REPEATED = ("fast", "test", "system", "deep")
SHOWN = 60  # lines of a failure that are repeated at the end
CAPTURES = ("tests/probes/capflow", "tests/probes/rtt")
RESULTS = ("failed", "unstable", "passed", "skipped", "error")
TIERS = {
    "fast": "not (lab or elasticsearch or docker or namespaces or root or slow or deep or long)",
    "test": "not (deep or long)",
    "system": "deep and not long and (root or namespaces)",
    "deep": "deep and not long",
    "sanitize": "",
    "long": "long",
}
WITHOUT = {"fast": ("root", "namespaces"), "system": ("user",)}  # rights that no test of it needs
RIGHTS = {
    "root": "root",
    "namespaces": "namespaces and not root",
    "user": "not (namespaces or root)",
}
# Separate mounts, because `ip netns` writes to /run, and a namespace's files are in /etc/netns
ENTER = """
mount -t tmpfs tmpfs /run
mkdir /run/etc
cp -a --no-preserve=ownership /etc/. /run/etc 2>/dev/null
mount --bind /run/etc /etc
ip link set lo up
export USER=root LOGNAME=root
# pytest-of-root belongs to another root
export PYTEST_DEBUG_TEMPROOT=${TMPDIR:-/tmp}/pytest-in-namespaces-$1
mkdir -p "$PYTEST_DEBUG_TEMPROOT"
shift
export CCMIX_STATE=/run/ccmix-state  # the default is in /var/lib, to which this root may not write
exec "$@"
"""
# a folder that Hypothesis makes as root could not be removed by the user
BY_ROOT = """
HYPOTHESIS_STORAGE_DIRECTORY=$(mktemp -d)
export HYPOTHESIS_STORAGE_DIRECTORY
trap 'rm -rf "$HYPOTHESIS_STORAGE_DIRECTORY"' EXIT
"$@"
"""
USER_NAMESPACE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "sh",
    "-c",
    ENTER,
    "sh",
    str(os.geteuid()),
)


@dataclass(frozen=True)
class Part:
    """Describes one call of pytest: its tests, user and programs."""

    name: str
    marks: str
    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    paths: Sequence[str] = ()
    workers: int = WORKERS


@dataclass(frozen=True)
class Outcome:
    """Describes one test that ran."""

    name: str
    seconds: float
    result: str
    reason: str = ""
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.result in ("failed", "error")


def main() -> int:
    if len(sys.argv) < 2 or not set(tiers := sys.argv[1].split(",")) <= set(TIERS):
        print(__doc__, file=sys.stderr)
        return 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ccmix-test-") as folder:
        outcomes: list[Outcome] = []
        failed: list[str] = []
        whole = set(tiers) <= set(REPEATED) and not sys.argv[2:]
        for number, part in enumerate(parts(tiers, sys.argv[2:])):
            report = Path(folder, f"{number}.xml")
            status = run(part, report, sys.argv[2:])
            ran = list(read(report)) if report.exists() else []
            if status == TESTS_FAILED and whole and 0 < len(failed_files(ran)) <= AGAIN:
                ran = repeated(part, ran, Path(folder, f"{number}-again.xml"))
                status = TESTS_FAILED if failed_files(ran) else 0
            if status not in (0, NO_TESTS):
                failed.append(f"{part.name} (pytest's exit status {status})")
            outcomes += ran
    summarize(outcomes, failed, time.monotonic() - began)
    return 1 if failed or not outcomes else 0


def parts(tiers: Sequence[str], arguments: Sequence[str] = ()) -> Iterator[Part]:
    """Yields the calls of pytest, those by sudo first, so that it asks for a password at the
    start."""
    prefixes = rights(tiers)
    for tier in tiers:
        for who, prefix in prefixes.items() if TIERS[tier] else ():
            marks = f"({TIERS[tier]})" if who == "all" else f"({TIERS[tier]}) and ({RIGHTS[who]})"
            if who not in WITHOUT.get(tier, ()):
                waiting = tier == "test" and who in ("root", "namespaces")
                yield Part(
                    f"{tier}: {who}",
                    marks,
                    prefix,
                    workers=WORKERS * WAITING if waiting else WORKERS,
                )
    tests_named = any(argument.startswith("tests/") for argument in arguments)
    if "sanitize" in tiers or ("deep" in tiers and not tests_named):
        yield from sanitized(prefixes)


def rights(tiers: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns the words in front of pytest for each kind of test."""
    if os.geteuid() == 0:
        return {"all": ()}
    if list(tiers) == ["fast"]:
        return {"user": ()}
    sudo = by_sudo()
    enter = USER_NAMESPACE if works([*USER_NAMESPACE, "true"]) else sudo
    if not enter:
        warn(
            "there are neither user namespaces nor sudo: tests that need network namespaces "
            "skip themselves"
        )
    return {"root": sudo, "namespaces": enter, "user": ()}


def by_sudo() -> Sequence[str]:
    """Returns the words that run a command as root; empty if this user may not do that."""
    ask = ["sudo", "--validate"] if sys.stdin.isatty() else ["sudo", "--non-interactive", "true"]
    if not shutil.which("sudo") or subprocess.run(ask, check=False).returncode != 0:
        warn("there is no sudo for you: tests that need root skip themselves")
        return ()
    variables = (f"PATH={os.environ['PATH']}", f"CCMIX_CACHE={cache()}")
    return ("sudo", "--preserve-env", "--set-home", "env", *variables, "sh", "-c", BY_ROOT, "sh")


def sanitized(prefixes: Mapping[str, Sequence[str]]) -> Iterator[Part]:
    """Yields the tests of the C programs once more, on binaries with AddressSanitizer and UBSan."""
    probes = {
        "CCMIX_SOCKMON": build("probes/sockmon/build", "--sanitize"),
        "CCMIX_CAPFLOW": build("probes/capflow/build", "--sanitize"),
        "CCMIX_RTT": build("probes/rtt/build", "--sanitize"),
    }
    iperf3 = {
        "CCMIX_IPERF3": build("iperf3-patch/build", "--sanitize"),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    for who, prefix in prefixes.items():
        marks = "not (long or lab)" + ("" if who == "all" else f" and ({RIGHTS[who]})")
        yield Part(
            f"deep, sanitizers, iperf3: {who}", marks, prefix, iperf3, ("tests/iperf3_patch",)
        )
        yield Part(f"deep, sanitizers, captures: {who}", marks, prefix, probes, CAPTURES)
        yield Part(
            f"deep, sanitizers, sockets: {who}",
            marks,
            prefix,
            probes,
            ("tests/probes", "-k", "sockmon"),
        )


def build(program: str, option: str) -> str:
    """Returns the path of a build script's result."""
    built = subprocess.run(
        [REPOSITORY / program, option], check=True, stdout=subprocess.PIPE, text=True
    )
    return built.stdout.strip()


def failed_files(ran: Sequence[Outcome]) -> set[str]:
    return {outcome.name.partition("::")[0] for outcome in ran if outcome.failed}


def repeated(part: Part, ran: Sequence[Outcome], report: Path) -> list[Outcome]:
    """Runs only the failed tests of a part again, and returns the part's outcomes, in which tests
    that passed are unstable."""
    names = [outcome.name for outcome in ran if outcome.failed]
    run(
        replace(part, name=f"{part.name}, only failed tests", paths=names, workers=0),
        report,
        (),
    )
    again = {outcome.name: outcome.result for outcome in read(report)} if report.exists() else {}
    return [
        replace(outcome, result="unstable")
        if outcome.failed and again.get(outcome.name) == "passed"
        else outcome
        for outcome in ran
    ]


def run(part: Part, report: Path, arguments: Sequence[str]) -> int:
    words = [str(PYTEST), "-q", "-n", str(part.workers), "--no-loadscope-reorder"]
    words += [
        f"--junitxml={report}",
        "-m",
        part.marks,
        "-p",
        "no:cacheprovider",
        *part.paths,
        *arguments,
    ]
    print(f"\n---- {part.name}", flush=True)
    # files that root writes must not stay in the user's tree
    plain = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(report.parent / "hypothesis"),
    }
    environment = {**os.environ, **plain, **part.environment}
    return subprocess.run(
        [*part.prefix, *words], cwd=REPOSITORY, env=environment, check=False
    ).returncode


def read(report: Path) -> Iterator[Outcome]:
    """Yields the tests of a report in JUnit's format."""
    for case in ET.parse(report).iter("testcase"):
        words = case.get("classname", "").split(".")
        module = [word for word in words if not word.startswith("Test")]
        name = "::".join([f"{'/'.join(module)}.py", *words[len(module) :], case.get("name", "")])
        result, reason, text = "passed", "", ""
        for part in case:
            if part.tag in ("failure", "error", "skipped"):
                result, reason = (
                    {"failure": "failed"}.get(part.tag, part.tag),
                    part.get("message") or "",
                )
                text = part.text or ""
        yield Outcome(name, float(case.get("time", "0")), result, reason, text)


def summarize(outcomes: Sequence[Outcome], failed: Sequence[str], seconds: float) -> None:
    print(f"\nThe {SLOWEST} slowest tests:")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:SLOWEST]:
        print(f"{outcome.seconds:8.1f} s  {outcome.name}")
    spent: dict[str, float] = defaultdict(float)
    for outcome in outcomes:
        spent[outcome.name.partition("::")[0].rpartition("/")[0]] += outcome.seconds
    print(f"\nThe {SLOWEST} folders of tests that took longest:")
    for folder, taken in sorted(spent.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"{taken:8.1f} s  {folder}")
    skipped = Counter(outcome.reason for outcome in outcomes if outcome.result == "skipped")
    if skipped:
        print(f"\nSKIPPED: {skipped.total()} tests were not run here:")
        for reason, count in skipped.most_common():
            print(f"{count:5}  {reason}")
    bad = [outcome for outcome in outcomes if outcome.failed or outcome.result == "unstable"]
    for outcome in bad:
        print(f"\n---- {outcome.name}")
        print("\n".join((outcome.text or outcome.reason).splitlines()[-SHOWN:]))
    for outcome in bad:
        print(f"{outcome.result.upper()} {outcome.name}")
    for name in failed:
        print(f"FAILED PART {name}")
    counts = Counter(outcome.result for outcome in outcomes)
    words = [f"{counts[result]} {result}" for result in RESULTS if counts[result]]
    line = (
        f" {', '.join(words) or 'no tests ran'} in {seconds:.2f}s ({int(seconds) // 60} min "
        f"{int(seconds) % 60} s) "
    )
    print(f"{line:=^100}", flush=True)


def works(argv: Sequence[str]) -> bool:
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def cache() -> Path:
    folder = os.environ.get("CCMIX_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ccmix"
    )
    return Path(folder)


def warn(sentence: str) -> None:
    print(f"tools/test.py: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
