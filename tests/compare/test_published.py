"""Tests that the page on the published real paths and their emulation shows what the
archives hold.
"""

import csv
import math
import re
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.analysis.results import Results, load_results
from ccmix.archive import Campaign
from ccmix.compare.comparison_text import relation
from ccmix.units import format_percent, format_rate
from support.commands import CCMIX, REPOSITORY, Ccmix
from support.published_archives import EMULATED_FILE, unpacked

pytestmark = pytest.mark.slow

ARCHIVE = REPOSITORY / "archive"
PAGE = (REPOSITORY / "docs" / "explanation" / "real-and-emulated.md").read_text()


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imports the table as the page says."""
    folder = tmp_path_factory.mktemp("imported")
    [line] = [line for line in PAGE.splitlines() if " import archive/" in line]
    argv = shlex.split(line)[1:]
    argv[argv.index("-o") + 1] = str(folder / "tierney-2021")
    done = subprocess.run(
        [CCMIX, *argv], cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "tierney-2021"


@pytest.fixture(scope="module")
def real(imported: Path) -> Results:
    return load_results([imported])


@pytest.fixture(scope="module")
def emulated() -> Path:
    return unpacked(EMULATED_FILE)


def test_the_archive_of_real_paths_has_every_line_of_the_table(real: Results) -> None:
    """Each line has its CCA, streams, goodput, retransmission rate and RTT."""
    with (ARCHIVE / "tierney-2021-bost-40g.csv").open() as file:
        lines = sorted(
            (
                line["host"],
                line["cca"],
                int(line["streams"]),
                float(line["throughput_Gbps"]),
                float(line["retransmit_rate"]),
                float(line["rtt_ms"]),
            )
            for line in csv.DictReader(file)
        )
    groups = sorted(
        (
            result.run.dst,
            group.cca,
            result.run.traffic.streams,
            round((group.goodput_bps or 0) / 1e9, 9),
            group.retransmission_rate,
            round((group.rtt_median_s or 0) * 1e3, 9),
        )
        for result in real.runs
        for group in result.finished.metrics.groups
    )
    assert groups == lines


def test_the_page_has_the_comparison(ccmix: Ccmix, imported: Path) -> None:
    """The page has the table, and above it what is unknown of the real paths, word by word."""
    made = ccmix("compare", imported, EMULATED_FILE, "--format", "markdown")
    assert made.returncode == 0, made.stderr
    differences, _, goodputs = made.stdout.rpartition("\n\n")
    summary = differences.rpartition("\n\n")[2]
    assert goodputs in PAGE
    assert summary in " ".join(PAGE.split("\n"))  # the page breaks its lines


def test_the_emulation_is_that_of_the_sample(ccmix: Ccmix, emulated: Path) -> None:
    """Its configuration equals the file in configs/, except for comments, and every run was
    finished and valid.
    """
    made = Campaign.load(emulated)
    sample = (REPOSITORY / "configs" / "real-and-emulated.ini").read_text()
    assert without_comments(made.ini) == without_comments(sample)
    assert (len(list(made.finished())), made.origin.seed, made.origin.lab) == (
        len(made.runs),
        1,
        True,
    )
    report = ccmix("report", EMULATED_FILE)
    assert report.returncode == 0, report.stderr


def without_comments(ini: str) -> list[str]:
    return [line for line in ini.splitlines() if line and not line.startswith("#")]


def test_the_page_tells_what_is_unknown(ccmix: Ccmix, imported: Path) -> None:
    made = ccmix("compare", imported, EMULATED_FILE, "--format", "markdown").stdout
    unknown = [
        line.split(" | ")[0].removeprefix("| ")
        for line in made.splitlines()
        if " | unknown | " in line
    ]
    assert {"kernel release", "sysctl", "offloads", "rate", "buffer", "loss", "duration"} <= {
        *unknown
    }
    assert all(f"`{what}`" in PAGE for what in unknown)


MIXED = (
    ("perfsonar.oshean.org", "oshean-16-mixed"),
    ("perfsonar-latency.grid.surfsara.nl", "surfsara-16-mixed"),
    ("btw-bw.t1.grid.kiae.ru", "kiae-16-mixed"),
)


def mixed_lines(real: Results, emulated: Results) -> Iterator[str]:
    """Returns by host the means of both groups, really with BBRv2 and emulated, without random
    loss, with BBRv1.
    """
    for host, entry in MIXED:
        of_real = [
            row for row in real.rows if (row.dst, row.condition["cca"]) == (host, "cubic,bbr2")
        ]
        of_emulated = [
            row
            for row in emulated.rows
            if row.entry == entry and row.condition.get("loss", "0%") == "0%"
        ]
        cells = [
            f"{format_rate(row.goodput_mean_bps or 0)}, "
            f"{format_percent(row.retransmission_rate_mean or 0)}"
            for row in (*of_real, *of_emulated)
        ]
        yield f"| {' | '.join([host, *cells])} |"


def test_the_mixed_tests_are_shown_but_no_match(
    real: Results, imported: Path, emulated: Path, ccmix: Ccmix
) -> None:
    """BBRv1 replaces BBRv2: the page shows the means of both, without a comparison."""
    for line in mixed_lines(real, load_results([emulated])):
        assert line in PAGE
    made = ccmix("compare", imported, EMULATED_FILE, "--format", "markdown").stdout
    assert "mixed" not in made


ALIKE = 0.05  # ratios that differ by less are equally near to 1
BOTH = (  # the emulated tests, with the table's retransmission rate as random loss, and without loss
    (
        "perfsonar.oshean.org",
        "1 CUBIC",
        "cubic",
        "1",
        "perfsonar.oshean.org-1",
        {},
        "oshean-1-no-loss",
        {},
    ),
    (
        "perfsonar.oshean.org",
        "16 CUBIC",
        "cubic",
        "16",
        "perfsonar.oshean.org-16",
        {},
        "oshean-16-no-loss",
        {"buffer": "9.03mb"},
    ),
    (
        "perfsonar.oshean.org",
        "8 CUBIC against 8 BBR",
        "cubic",
        "16",
        "oshean-16-mixed",
        {"loss": "0.0026%"},
        "oshean-16-mixed",
        {"loss": "0%"},
    ),
    (
        "perfsonar.oshean.org",
        "8 BBR against 8 CUBIC",
        "bbr2",
        "16",
        "oshean-16-mixed",
        {"loss": "0.0026%"},
        "oshean-16-mixed",
        {"loss": "0%"},
    ),
    (
        "btw-bw.t1.grid.kiae.ru",
        "1 CUBIC",
        "cubic",
        "1",
        "btw-bw.t1.grid.kiae.ru-1",
        {},
        "kiae-1-no-loss",
        {"buffer": "233kb"},
    ),
    (
        "btw-bw.t1.grid.kiae.ru",
        "16 CUBIC",
        "cubic",
        "16",
        "btw-bw.t1.grid.kiae.ru-16",
        {},
        "kiae-16-no-loss",
        {"buffer": "233kb"},
    ),
    (
        "btw-bw.t1.grid.kiae.ru",
        "8 CUBIC against 8 BBR",
        "cubic",
        "16",
        "kiae-16-mixed",
        {"loss": "0.146%"},
        "kiae-16-mixed",
        {"loss": "0%"},
    ),
    (
        "btw-bw.t1.grid.kiae.ru",
        "8 BBR against 8 CUBIC",
        "bbr2",
        "16",
        "kiae-16-mixed",
        {"loss": "0.146%"},
        "kiae-16-mixed",
        {"loss": "0%"},
    ),
)


def nearer_lines(real: Results, emulated: Results) -> Iterator[str]:
    """Returns for each host and CCA the goodput really, with random loss and without, and which of
    both is nearer.
    """
    for host, what, cca, streams, lossy, of_lossy, clean, of_clean in BOTH:
        condition = {"cca": "cubic,bbr2" if "against" in what else cca, "streams": streams}
        [really] = [
            row for row in real.rows if (row.dst, row.condition, row.cca) == (host, condition, cca)
        ]
        found = [
            row
            for entry, settings in ((lossy, of_lossy), (clean, of_clean))
            for row in emulated.rows
            if (row.entry, row.cca) == (entry, cca.rstrip("2"))
            and settings.items() <= row.condition.items()
        ]
        ratios = [(row.goodput_mean_bps or 0) / (really.goodput_mean_bps or 0) for row in found]
        with_loss, without = (abs(math.log(ratio)) for ratio in ratios)
        nearer = (
            "neither"
            if abs(with_loss - without) < ALIKE
            else "with"
            if with_loss < without
            else "without"
        )
        cells = [
            f"{format_rate(row.goodput_mean_bps or 0)}, {relation(ratio)}"
            for row, ratio in zip(found, ratios, strict=True)
        ]
        yield f"| {' | '.join([host, what, format_rate(really.goodput_mean_bps or 0), *cells, nearer])} |"


def test_the_page_says_which_emulation_comes_nearer(real: Results, emulated: Path) -> None:
    for line in nearer_lines(real, load_results([emulated])):
        assert line in PAGE, line


def test_what_is_published_is_small() -> None:
    """It has less than 10 MB each, and nothing in it names a place of the machine that made it."""
    for file in ARCHIVE.glob("*.zip"):
        assert file.stat().st_size < 10e6, file
        with zipfile.ZipFile(file) as packed:
            for name in packed.namelist():
                if name.endswith(".json"):
                    named = {*re.findall("/[a-z]+/", packed.read(name).decode())}
                    assert not {"/tmp/", "/home/", "/root/"} & named, (file, name)
