"""Third-party archives, each with hostile content: no command reads or writes outside their
folders.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

from ccmix.archive import ArchiveError, Campaign
from ccmix.report.html import OF_A_REPORT
from support.commands import CCMIX, invoke
from support.index import of_archive
from support.published_archives import DEMO

OTHER, ENTRY, CONDITION = "all-cubic", "mixed", "delay=5ms,loss=0%"
RUN = f"{ENTRY}/{CONDITION}/receiver/001"
SECRET = "SECRET-OF-THE-USER"
HUGE_BYTES = 2**36
HARD_LINK = "the page is a hard link"
ALWAYS = ("report html", "pack")  # the others are long

Attack = Callable[
    [Path, Path], None
]  # changes the archive, given its folder and a folder of the user's


def index_without_server(archive: Path, _: Path) -> None:
    """Makes all documents as `ccmix index` does: **a stand-in** for sending them."""
    with contextlib.suppress(ArchiveError):
        of_archive(archive)


# Each takes the archive's folder and a new folder for results
COMMANDS: dict[str, Callable[[Path, Path], Result | None]] = {
    "report": lambda archive, _: invoke("report", archive),
    "report json": lambda archive, out: invoke(
        "report", archive, "--format", "json", "-o", out / "rows.json"
    ),
    "report html": lambda archive, _: invoke("report", archive, "--format", "html"),
    "report charts": lambda archive, out: invoke(
        "report", archive, "--charts", out / "charts", "--chart", "intervals", "--image", "json"
    ),
    "compare": lambda archive, out: invoke(
        "compare", DEMO, archive, "--format", "json", "-o", out / "compared"
    ),
    "index": index_without_server,
    "import": lambda archive, out: invoke("import", archive, "-o", out / "imported"),
    "pack": lambda archive, out: invoke("archive", "pack", archive, "-o", out / "packed.zip"),
}


def put(name: str, make: Callable[[Path, Path], object]) -> Attack:
    """Removes a file and lets `make` put something else there. `make` gets the path and the user's
    folder.
    """

    def attack(archive: Path, outside: Path) -> None:
        place = archive / name
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        make(place, outside)

    return attack


def link(name: str, target: str) -> Attack:
    return put(name, lambda place, outside: place.symlink_to(outside / target))


def pipe(name: str) -> Attack:
    return put(name, lambda place, _: os.mkfifo(place))


def written(name: str, content: bytes) -> Attack:
    return put(name, lambda place, _: place.write_bytes(content))


def grown(name: str) -> Attack:
    return lambda archive, _: os.truncate(archive / name, HUGE_BYTES)


def entry_named(name: str) -> Attack:
    """Gives the entry a name that leads elsewhere, in the plan and in its run, and leaves the run
    in its folder.
    """

    def attack(archive: Path, _: Path) -> None:
        for file in (archive / "campaign.json", archive / RUN / "run.json"):
            text = file.read_text()
            file.write_text(text.replace(json.dumps(ENTRY), json.dumps(name)))

    return attack


def table_of_many_rows(archive: Path, _: Path) -> None:
    """A billion rows in a few kB: each column repeats one value, which compresses to almost
    nothing.
    """
    rows = pl.LazyFrame({"time_s": [0.0]}).select(pl.col("time_s").repeat_by(30_000_000).explode())
    rows.sink_parquet(
        archive / RUN / "intervals.parquet", compression="zstd", row_group_size=30_000_000
    )


def table_of_many_columns(archive: Path, _: Path) -> None:
    """Makes 60 million values from some kB, in fewer rows than a long series has."""
    columns = pl.col("time_s").repeat_by(2_000_000).explode()
    rows = pl.LazyFrame({"time_s": [0.0]}).select(
        columns.alias(f"column_{number}") for number in range(30)
    )
    rows.sink_parquet(
        archive / RUN / "intervals.parquet", compression="zstd", row_group_size=2_000_000
    )


ATTACKS: dict[str, Attack] = {
    "the run's folder is a link": link(RUN, "run"),
    "the condition's folder is a link": link(f"{ENTRY}/{CONDITION}", "condition"),
    "the entry's folder is a link": link(ENTRY, "entry"),
    "run.json is a link": link(f"{RUN}/run.json", "run/run.json"),
    "run.json is a link to a device": link(f"{RUN}/run.json", "zero"),
    "run.json is a pipe": pipe(f"{RUN}/run.json"),
    "run.json is a folder": put(f"{RUN}/run.json", lambda place, _: place.mkdir()),
    "run.json is huge": grown(f"{RUN}/run.json"),
    "run.json is deep": written(f"{RUN}/run.json", b"[" * 200_000),
    "run.json is wide": written(f"{RUN}/run.json", b"[" + b"[]," * 2_000_000 + b"1]"),
    "campaign.json is a link": link("campaign.json", "campaign.json"),
    "campaign.json is a pipe": pipe("campaign.json"),
    "campaign.json is huge": grown("campaign.json"),
    "campaign.json is deep": written("campaign.json", b'{"schema":' * 200_000),
    "a series is a link": link(f"{RUN}/intervals.parquet", "run/intervals.parquet"),
    "a series is a pipe": pipe(f"{RUN}/sockets.parquet"),
    "counters are a link": link(f"{RUN}/counters.parquet", "run/counters.parquet"),
    "counters are a pipe": pipe(f"{RUN}/counters.parquet"),
    "a series is huge": grown(f"{RUN}/queues.parquet"),
    "a series is made of few bytes": table_of_many_rows,
    "a series of many columns is made of few bytes": table_of_many_columns,
    "raw files are a link": link(f"{RUN}/generators", "run"),
    "a log is a pipe": pipe(f"{RUN}/logs/run.log"),
    "the page is a link": link("report.html", "page.html"),
    "the unfinished page is a link": link("report.html.partial", "page.html"),
    HARD_LINK: put("report.html", lambda place, outside: place.hardlink_to(outside / "page.html")),
    "the page is a pipe": pipe("report.html"),
    "the charts' folder is a link": link("report-charts", "charts"),
    "a chart is a link": link("report-charts/01.svg", "charts/ours.svg"),
    "a chart is a pipe": pipe("report-charts/01.svg"),
    "the entry's name climbs": entry_named("../../../climbed"),
    "the entry's name is a way from the root": entry_named("/climbed"),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """The user's files, which no archive may reach."""
    folder = tmp_path / "outside"
    run = folder / "entry" / CONDITION / "receiver" / "001"
    shutil.copytree(DEMO / RUN, run)
    summary = json.loads((run / "run.json").read_text())
    summary["execution"]["diagnostics"] = [SECRET]
    (run / "run.json").write_text(json.dumps(summary))
    (folder / "condition").symlink_to(run.parents[1])
    (folder / "run").symlink_to(run)
    (folder / "zero").symlink_to("/dev/zero")
    plan = json.loads((DEMO / "campaign.json").read_text())
    (folder / "campaign.json").write_text(json.dumps(plan | {"ini": SECRET}))
    (folder / "page.html").write_text(SECRET)
    (folder / "charts").mkdir()
    (folder / "charts" / "ours.svg").write_text(f"{OF_A_REPORT}{SECRET}")
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A campaign of two runs."""
    folder = tmp_path / "archive"
    plan = json.loads((DEMO / "campaign.json").read_text())
    condition = {"delay": "5ms", "loss": "0%"}
    plan["runs"] = [
        run
        for run in plan["runs"]
        if run["condition"] == condition and run["entry"] in (OTHER, ENTRY)
    ]
    for run in plan["runs"]:
        name = f"{run['entry']}/{CONDITION}/receiver/001"
        shutil.copytree(DEMO / name, folder / name)
    (folder / "campaign.json").write_text(json.dumps(plan))
    return folder


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def texts(folder: Path) -> str:
    """Returns the content of all files below a folder, including members of packed archives.
    Follows no links.
    """
    found = []
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 2**30:
            continue
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                found += [packed.read(name).decode(errors="replace") for name in packed.namelist()]
        else:
            found.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(found)


@pytest.mark.parametrize(
    "command",
    [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.long) for name in COMMANDS],
)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_command_leaves_the_folder(
    attack: str, command: str, archive: Path, outside: Path, tmp_path: Path
) -> None:
    if command == "pack" and "huge" in attack:
        pytest.skip("pack takes files as they are, and would read all of a sparse file")
    ATTACKS[attack](archive, outside)
    before = snapshot(outside)
    out = tmp_path / "out"
    out.mkdir()
    places = {*tmp_path.iterdir()}
    done = COMMANDS[command](archive, out)
    assert snapshot(outside) == before
    assert {*tmp_path.iterdir()} == places
    if done:
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert done.exit_code in (0, 1, 2)
        assert SECRET not in done.output
    if attack != HARD_LINK:  # which is the file itself: nothing tells it from any other
        assert SECRET not in texts(out)
    page = archive / "report.html"
    if page.is_file() and page.stat().st_nlink == 1 and not page.is_symlink():
        assert SECRET not in page.read_text()


@pytest.mark.parametrize("name", [RUN, f"{ENTRY}/{CONDITION}", ENTRY])
def test_a_run_behind_a_link_is_named_and_the_others_are_reported(
    name: str, archive: Path, outside: Path
) -> None:
    """The user may have made that link to use another disk."""
    elsewhere = outside / "moved"
    shutil.move(archive / name, elsewhere)
    (archive / name).symlink_to(elsewhere)
    done = invoke("report", archive)
    assert (
        f"{archive / name}: is a link, and ccmix does not follow links within a campaign's folder"
        in done.stderr
    )
    assert OTHER in done.stdout


def test_the_folder_that_is_named_may_be_a_link(archive: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(archive)
    assert invoke("report", link, "--format", "html").exit_code == 0
    assert (archive / "report.html").is_file()
    assert [finished.run.entry for finished, _ in Campaign.load(link).finished()] == [OTHER, ENTRY]


def test_a_page_takes_the_place_of_a_link(archive: Path, outside: Path) -> None:
    page = archive / "report.html"
    page.symlink_to(outside / "page.html")
    assert invoke("report", archive, "--format", "html").exit_code == 0
    assert not page.is_symlink()
    assert "<html" in page.read_text()
    assert (outside / "page.html").read_text() == SECRET


@pytest.mark.parametrize("place", ["/dev/stdout", "/proc/self/fd/1"])
def test_streams_are_written_to_and_not_replaced(place: str, archive: Path, tmp_path: Path) -> None:
    """Writes to a file as standard output, redirected by the shell."""
    shown = tmp_path / "shown"
    with shown.open("w") as stdout:
        subprocess.run(
            [CCMIX, "report", archive, "--format", "csv", "-o", place], stdout=stdout, check=True
        )
    assert shown.read_text().startswith("condition.delay")
    assert Path("/dev/stdout").is_symlink()


WIDE = {
    "run.json": b'{"schema": 4,"run":[%b1]}' % (b"[]," * 2_500_000),
    "campaign.json": b'{"schema": 4,"runs":[%b1]}' % (b"[]," * 40_000_000),
}
PEAK = """
import atexit, sys
from pathlib import Path
from ccmix.cli.main import main
atexit.register(lambda: print(Path("/proc/self/status").read_text(), file=sys.stderr))
main()
"""


@pytest.mark.deep
@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("packed", [False, True])
def test_a_document_that_would_take_much_memory_is_refused(
    wide: str, packed: bool, archive: Path
) -> None:
    """Empty lists take three bytes each in the file, and more than twenty times that in memory."""
    file = archive / RUN / "run.json" if wide == "run.json" else archive / "campaign.json"
    file.write_bytes(WIDE[wide])
    named = archive
    if packed:
        named = archive.with_suffix(".zip")
        with zipfile.ZipFile(named, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(archive.rglob("*")):
                out.write(path, path.relative_to(archive))
            out.writestr(
                "padding", os.urandom(3_000_000), zipfile.ZIP_STORED
            )  # for the limit of the ratio
    done = subprocess.run(
        ["sh", "-c", 'exec "$@"', "sh", sys.executable, "-c", PEAK, "report", named],
        capture_output=True,
        text=True,
        check=False,
    )
    [peak] = [row for row in done.stderr.splitlines() if row.startswith("VmHWM")]
    assert "values, but ccmix reads at most" in done.stderr
    assert float(peak.split()[1]) * 1024 < 300e6
