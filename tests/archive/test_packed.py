"""Tests packed archives: unpacking restores everything, the same campaign gives the same file, and
hostile files do no harm.
"""

import json
import os
import random
import re
import shlex
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccmix.archive import ArchiveError, packed
from ccmix.units import format_bytes
from support.commands import REPOSITORY, Ccmix, deep, invoke, run_program
from support.filled_index import RECORDED
from support.index import of_archive
from support.published_archives import DEMO, DEMO_FILE, EMULATED_FILE

RUN = "mixed/delay=44ms,loss=0.1%/receiver/001"
PARTIAL = "mixed/delay=44ms,loss=0.1%/receiver/002.partial"
RAW = ("logs/guest.log", "logs/über \n uns.log", "generators/h1-iperf3.json", "capture.pcap.zst")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Sets TMPDIR to a folder in which no test leaves anything."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Makes the demo with raw files in a run, an empty folder and a report."""
    outdir = tmp_path / "results" / "demo"
    shutil.copytree(DEMO, outdir)
    for name in RAW:
        file = outdir / RUN / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(name.encode() * 100)
    (outdir / RUN / "logs" / "empty").mkdir()
    (outdir / "report.html").write_text("<p>")
    (outdir / "report-charts").mkdir()
    (outdir / "report-charts" / "a.svg").write_text("<svg/>")
    return outdir


def content(folder: Path) -> dict[str, bytes | None]:
    """Returns all files and folders below a folder; the value of a folder is None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_unpacking_restores_the_folder_byte_for_byte(campaign: Path, tmp_path: Path) -> None:
    made = invoke("archive", "pack", campaign)
    assert (made.exit_code, made.stdout) == (0, f"{campaign}.zip\n")
    restored = invoke("archive", "unpack", f"{campaign}.zip", "-o", tmp_path / "new" / "restored")
    assert (restored.exit_code, restored.stdout) == (0, f"{tmp_path / 'new' / 'restored'}\n"), (
        restored.stderr
    )
    assert restored.stderr == "12 of 12 runs\n"
    assert without_report(tmp_path / "new" / "restored") == without_report(campaign)
    assert len(content(campaign)) > 100


def without_report(folder: Path) -> dict[str, bytes | None]:
    return {
        name: bytes_ for name, bytes_ in content(folder).items() if not name.startswith("report")
    }


def test_the_report_is_made_again_and_not_restored(campaign: Path, tmp_path: Path) -> None:
    packed.pack(campaign, tmp_path / "a.zip")
    assert (
        invoke("archive", "unpack", tmp_path / "a.zip", "-o", tmp_path / "restored").exit_code == 0
    )
    assert (tmp_path / "restored" / "report.html").read_text().startswith("<!doctype html>")
    assert not (tmp_path / "restored" / "report-charts" / "a.svg").exists()
    packed.pack(campaign, tmp_path / "small.zip", raw=False)
    assert (
        invoke("archive", "unpack", tmp_path / "small.zip", "-o", tmp_path / "small").exit_code == 0
    )
    assert not list((tmp_path / "small").glob("report*"))


# What Python, a shell or a person might start, at each depth
PLANTED = [
    "ctypes.py",
    "ccmix/__init__.py",
    ".bashrc",
    "mixed/socket.py",
    "mixed/delay=44ms,loss=0.1%/receiver/json.py",
    *(
        f"{RUN}/{name}"
        for name in ("sitecustomize.py", "logs/ctypes.py", "logs/below/a.log", "generators/ssl.so")
    ),
    f"{RUN}/logs/guest.log\n.sh",
    f"{RUN[:-1]}9/run.json",
    "another/all/receiver/001/run.json",
]


def test_files_that_are_not_of_the_campaign_are_left_out_and_named(
    campaign: Path, tmp_path: Path
) -> None:
    packed.pack(campaign, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as file:
        for name in PLANTED:
            file.writestr(member(name), b"planted")
    left_out: list[str] = []
    packed.unpack(tmp_path / "a.zip", tmp_path / "restored", leave_out=left_out.append)
    assert [name for name in left_out if not name.startswith("report")] == PLANTED
    assert without_report(tmp_path / "restored") == without_report(campaign)
    with packed.opened([tmp_path / "a.zip"]) as archives:
        assert content(archives.folders[0]) == content(DEMO)
    told = invoke("archive", "unpack", tmp_path / "a.zip", "-o", tmp_path / "again").stderr
    assert told.startswith("left out (not part of the campaign): ctypes.py\n")
    assert f"left out (not part of the campaign): {len(PLANTED) - 5} more\n" in told


def test_what_a_command_of_a_run_wrote_beside_its_results_is_not_packed(
    campaign: Path, tmp_path: Path
) -> None:
    (campaign / RUN / "ctypes.py").write_text("planted")
    packing = packed.pack(campaign, tmp_path / "a.zip")
    assert packing.foreign == (f"{RUN}/ctypes.py",)


def test_other_programs_unpack_the_same(campaign: Path, tmp_path: Path) -> None:
    packed.pack(campaign, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        file.extractall(tmp_path / "by-python")
    assert content(tmp_path / "by-python") == content(campaign)


def test_the_same_campaign_gives_the_same_bytes(campaign: Path, tmp_path: Path) -> None:
    """This does not depend on its folder, on the times and rights of its files, or on the order in
    which they were made.
    """
    twin = tmp_path / "elsewhere" / "twin"
    for name, bytes_ in reversed(content(campaign).items()):
        place = twin / name
        if bytes_ is None:
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(bytes_)
            place.chmod(0o600)
            os.utime(place, (1e9, 1e9))
    packed.pack(campaign, tmp_path / "a.zip")
    packed.pack(twin, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize(
    "file", [DEMO_FILE, *sorted((REPOSITORY / "archive").glob("*.zip"))], ids=lambda file: file.name
)
def test_published_files_are_what_pack_makes_today(file: Path, tmp_path: Path) -> None:
    packed.unpack(file, tmp_path / "folder")
    packed.pack(tmp_path / "folder", tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == file.read_bytes()


def test_the_format_is_as_documented(campaign: Path, tmp_path: Path) -> None:
    packed.pack(campaign, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        members = file.infolist()
        assert file.comment == b""
    names = [info.filename for info in members]
    assert names == sorted(names, key=str.encode)
    assert {f"{RUN}/logs/empty/", "campaign.json", "report-charts/a.svg"} <= {*names}
    for info in members:
        mode = stat.S_IFDIR | 0o755 if info.is_dir() else stat.S_IFREG | 0o644
        assert (info.date_time, info.external_attr >> 16, info.extra) == (
            (1980, 1, 1, 0, 0, 0),
            mode,
            b"",
        )
        stored = info.is_dir() or info.filename.endswith(".zst")
        assert info.compress_type == (zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)


def test_raw_files_and_the_report_can_be_left_out(campaign: Path, tmp_path: Path) -> None:
    assert (
        invoke("archive", "pack", campaign, "-o", tmp_path / "small.zip", "--no-raw").exit_code == 0
    )
    assert (tmp_path / "small.zip").read_bytes() == DEMO_FILE.read_bytes()


def test_what_is_no_finished_run_is_left_out_and_listed(campaign: Path, tmp_path: Path) -> None:
    before = invoke("archive", "pack", campaign, "-o", tmp_path / "before.zip")
    assert "left out" not in before.stderr
    (campaign / PARTIAL / "logs").mkdir(parents=True)
    (campaign / PARTIAL / "logs" / "error.txt").write_text("full")
    (campaign / PARTIAL / "facts.json").write_text("{}")
    (campaign / "thesis.tex").write_text("mine")
    (campaign / "mixed" / "link").symlink_to("/etc/passwd")
    made = invoke("archive", "pack", campaign, "-o", tmp_path / "after.zip")
    assert made.exit_code == 0
    left_out = [line for line in made.stderr.splitlines() if line.startswith("left out")]
    assert left_out == [
        f"left out (unfinished: 'ccmix run --resume' makes them): {PARTIAL}",
        "left out (not part of the campaign): mixed/link",
        "left out (not part of the campaign): thesis.tex",
    ]
    assert (tmp_path / "after.zip").read_bytes() == (tmp_path / "before.zip").read_bytes()


@pytest.mark.parametrize("form", ["json", deep("html")])
def test_a_report_of_the_file_is_that_of_the_folder(form: str, tmp_path: Path) -> None:
    """Each is made in its own process, where the names in drawings begin with 1."""
    outputs = [tmp_path / "folder.out", tmp_path / "file.out"]
    results = [
        Ccmix(tmp_path)("report", place, "--format", form, "-o", output)
        for place, output in zip((DEMO, DEMO_FILE), outputs, strict=True)
    ]
    assert [result.returncode for result in results] == [0, 0], results[1].stderr
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert results[0].stderr == results[1].stderr


def test_a_comparison_of_files_is_that_of_folders(tmp_path: Path) -> None:
    emulated = packed.unpack(EMULATED_FILE, tmp_path / "real-and-emulated").outdir
    of_folders, of_files = (
        json.loads(invoke("compare", *pair, "--format", "json").stdout)
        for pair in ((DEMO, emulated), (DEMO_FILE, EMULATED_FILE))
    )
    assert (of_files.pop("a"), of_files.pop("b")) == (str(DEMO_FILE), str(EMULATED_FILE))
    del of_folders["a"], of_folders["b"]
    assert of_files == of_folders


def test_a_page_without_a_place_goes_into_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mailed").mkdir()
    shutil.copy(DEMO_FILE, tmp_path / "mailed")
    monkeypatch.chdir(tmp_path)
    made = invoke("report", "mailed/demo.zip", "--format", "html")
    assert (made.exit_code, made.stdout) == (0, "demo-report.html\n")
    assert [file.name for file in (tmp_path / "mailed").iterdir()] == ["demo.zip"]
    assert (tmp_path / "mailed" / "demo.zip").read_bytes() == DEMO_FILE.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "demo-report-charts",
        "demo-report.html",
        "mailed",
        "temporary",
    ]


def test_a_file_named_twice_is_counted_once_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DEMO_FILE.parent)
    made = invoke("report", DEMO_FILE, "demo.zip")
    assert (made.exit_code, made.stderr) == (
        2,
        f"{DEMO_FILE}: is named twice, and its runs would count twice: name it once\n",
    )


def test_a_damaged_run_is_named_by_its_place_in_the_file(campaign: Path, tmp_path: Path) -> None:
    (campaign / RUN / "run.json").write_text('{"schema": 4')
    [sentence] = packed.pack(campaign, tmp_path / "a.zip").damaged
    assert f"{RUN}/run.json: can't be read" in sentence
    told = invoke("report", tmp_path / "a.zip")
    assert told.exit_code == 0
    assert told.stderr.startswith(f"left out: {tmp_path / 'a.zip'}/{RUN}/run.json: can't be read")
    with packed.opened([DEMO, tmp_path / "a.zip"]) as archives:
        folder = archives.folders[1]
        assert archives.rename(f"{folder}/x, {DEMO}/y") == f"{tmp_path / 'a.zip'}/x, {DEMO}/y"


def test_reading_a_file_unpacks_no_raw_files(campaign: Path, tmp_path: Path) -> None:
    packed.pack(campaign, tmp_path / "a.zip")
    with packed.opened([tmp_path / "a.zip"]) as archives:
        assert content(archives.folders[0]) == content(DEMO)


@pytest.mark.parametrize("outdir", RECORDED, ids=lambda outdir: outdir.name)
def test_nothing_is_left_out_that_the_index_reads(outdir: Path, tmp_path: Path) -> None:
    """Includes runs of pScheduler and of users' commands, for which the index reads the generator's
    result.
    """
    packed.pack(outdir, tmp_path / "a.zip", raw=False)
    with packed.opened([tmp_path / "a.zip"]) as archives:
        assert of_archive(*archives.folders) == of_archive(outdir)


@pytest.mark.parametrize("name", ["..zip", "...zip", ".zip", "demo", "a b.zip.zip"])
def test_the_name_of_a_file_gives_no_other_folder(name: str, tmp_path: Path) -> None:
    shutil.copy(DEMO_FILE, tmp_path / name)
    with packed.opened([tmp_path / name]) as archives:
        assert archives.folders[0].parent.parent == tmp_path / "temporary"
        assert (archives.folders[0] / "campaign.json").is_file()


def test_packing_again_changes_nothing_and_overwrites_nothing(
    campaign: Path, tmp_path: Path
) -> None:
    file = tmp_path / "a.zip"
    made = invoke("archive", "pack", campaign, "-o", file)
    assert made.exit_code == 0
    before = file.stat()
    assert f" files, {format_bytes(before.st_size)}, SHA-256 " in made.stderr
    assert invoke("archive", "pack", campaign, "-o", file).exit_code == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    (campaign / "report.html").write_text("<p>new")
    refused = invoke("archive", "pack", campaign, "-o", file)
    sentence = f"{file}: already exists with other content: remove it, or give another with -o\n"
    assert (refused.exit_code, refused.stderr) == (2, sentence)
    assert file.stat().st_ino == before.st_ino
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "results", "temporary"]


def test_a_device_is_never_replaced(campaign: Path) -> None:
    refused = invoke("archive", "pack", campaign, "-o", "/dev/full")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "/dev/full: is not a regular file: give another name with -o\n",
    )
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_unpacking_writes_into_no_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    refused = invoke("archive", "unpack", DEMO_FILE, "-o", tmp_path / "mine")
    sentence = f"{tmp_path / 'mine'}: is not empty: give another folder with -o\n"
    assert (refused.exit_code, refused.stderr) == (2, sentence)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    assert invoke("archive", "unpack", DEMO_FILE, "-o", tmp_path / "empty").exit_code == 0
    with pytest.raises(ArchiveError, match="is not a folder"):
        packed.unpack(DEMO_FILE, tmp_path / "mine" / "thesis.tex")


@pytest.mark.parametrize("place", [f"{RUN}/other", f"{RUN}/sockets.parquet", "report.html"])
def test_a_link_in_the_campaign_is_refused(place: str, campaign: Path, tmp_path: Path) -> None:
    (campaign / place).unlink(missing_ok=True)
    (campaign / place).symlink_to("/etc/passwd")
    with pytest.raises(
        ArchiveError, match="is a link, which a packed file can't hold: replace it by a file"
    ):
        packed.pack(campaign, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_runs_behind_a_link_are_not_left_out_silently(campaign: Path, tmp_path: Path) -> None:
    (campaign / "mixed").rename(tmp_path / "mixed")
    (campaign / "mixed").symlink_to(tmp_path / "mixed")
    with pytest.raises(ArchiveError, match="is behind a link"):
        packed.pack(campaign, tmp_path / "a.zip")


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    refused = invoke("archive", "pack", tmp_path)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert (
        refused.stderr
        == f"{tmp_path}: has no campaign.json: name the folder that ccmix run wrote\n"
    )


def member(name: str, **attributes: Any) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    for key, value in attributes.items():
        setattr(info, key, value)
    return info


def hostile(
    file: Path, *members: zipfile.ZipInfo, campaign: bool = True, bytes_: bytes = b"x"
) -> Path:
    """Makes a file with a campaign and these members."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        if campaign:
            out.writestr("campaign.json", (DEMO / "campaign.json").read_bytes())
        for info in members:
            out.writestr(info, bytes_)
    return file


LINK = {"external_attr": (stat.S_IFLNK | 0o777) << 16}
DEVICE = {"external_attr": (stat.S_IFCHR | 0o666) << 16}
HOSTILE = {
    "parent": ([member("../escaped")], "is not a path within a folder"),
    "deep parent": ([member("a/../../escaped")], "is not a path within a folder"),
    "absolute": ([member("/tmp/escaped")], "is not a path within a folder"),
    "dot": ([member("./run.json")], "is not a path within a folder"),
    "double slash": ([member("a//b")], "is not a path within a folder"),
    "parent folder": ([member("../")], "is not a path within a folder"),
    "link": ([member("link", **LINK)], "is neither a file nor a folder"),
    "link, then through it": (
        [member("link", **LINK), member("link/escaped")],
        "is neither a file nor a folder",
    ),
    "device": ([member("device", **DEVICE)], "is neither a file nor a folder"),
    "folder as a file": (
        [member("a", external_attr=stat.S_IFDIR << 16)],
        "is neither a file nor a folder",
    ),
    "1500 folders": ([member("a/" * 1500 + "b")], "is not a path within a folder"),
    "1500 empty folders": ([member("a/" * 1500)], "is not a path within a folder"),
    "long name": ([member("a" * 256)], "has a name of more than 255 bytes"),
    "file and folder": ([member("a"), member("a/b")], "appears twice"),
    "folder and file": ([member("a/"), member("a")], "appears twice"),
    "lzma": ([member("a", compress_type=zipfile.ZIP_LZMA)], "is not compressed by deflate"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("command", ["unpack", "report"])
def test_what_pack_never_writes_is_refused(case: str, command: str, tmp_path: Path) -> None:
    members, reason = HOSTILE[case]
    place = tmp_path / "below" / "outdir"
    file = hostile(tmp_path / "a.zip", *members)
    before = content(tmp_path)
    refused = (
        invoke("archive", "unpack", file, "-o", place)
        if command == "unpack"
        else invoke("report", file)
    )
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"{file}: ")
    assert reason in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert content(tmp_path) == before
    assert not Path("/tmp/escaped").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    file = hostile(tmp_path / "a.zip", member("a"), member("a"))
    with pytest.raises(ArchiveError, match="'a': appears twice"):
        packed.unpack(file, tmp_path / "outdir")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    file = hostile(tmp_path / "a.zip", member("a"))
    data = bytearray(file.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(data)
    with pytest.raises(ArchiveError, match="is encrypted"):
        packed.unpack(file, tmp_path / "outdir")


def test_a_bomb_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """It has 100 MB of zeros, which deflate to 100 kB."""
    file = hostile(
        tmp_path / "a.zip", member("a", compress_type=zipfile.ZIP_DEFLATED), bytes_=bytes(10**8)
    )
    with pytest.raises(
        ArchiveError, match=r"bytes would become \d+, more than 100 times as many: refused"
    ):
        packed.unpack(file, tmp_path / "outdir")
    with pytest.raises(ArchiveError, match="refused"), packed.opened([file]):
        pass


def test_a_member_that_is_longer_than_it_states_gives_no_more(tmp_path: Path) -> None:
    """Its directory states 10 bytes, but 100 MB follow."""
    file = hostile(
        tmp_path / "a.zip", member("a", compress_type=zipfile.ZIP_DEFLATED), bytes_=bytes(10**8)
    )
    data = bytearray(file.read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = struct.pack("<I", 10)
    file.write_bytes(data)
    with pytest.raises(ArchiveError, match="a: is damaged: Bad CRC-32"):
        packed.unpack(file, tmp_path / "outdir")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "temporary"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda file: None, "is not there: name a file that 'ccmix archive pack' wrote"),
        (lambda file: file.write_bytes(b""), "is not a packed archive, or is damaged"),
        (lambda file: file.write_text("thesis"), "is not a packed archive, or is damaged"),
        (
            lambda file: file.write_bytes(DEMO_FILE.read_bytes()[:-100]),
            "is not a packed archive, or is damaged",
        ),
        (lambda file: hostile(file, campaign=False), "has no campaign.json"),
        (
            lambda file: hostile(file, member("demo/campaign.json"), campaign=False),
            "has no campaign.json",
        ),
        (
            lambda file: hostile(file, member("campaign.json"), campaign=False),
            "campaign.json: can't be read",
        ),
    ],
)
def test_what_is_no_packed_campaign_is_refused_in_a_line(
    make: Callable[[Path], object], sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.zip"
    make(file)
    refused = invoke("archive", "unpack", file, "-o", tmp_path / "outdir")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert refused.stderr.startswith(str(file))
    assert sentence in refused.stderr
    assert not (tmp_path / "outdir").exists()
    if file.exists():
        assert sentence in invoke("report", file).stderr


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    os.mkfifo(file)
    refused = invoke("archive", "unpack", file, "-o", tmp_path / "outdir")
    sentence = f"{file}: is not a regular file: name a file that 'ccmix archive pack' wrote\n"
    assert (refused.exit_code, refused.stderr) == (2, sentence)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_damage_is_found_or_does_no_harm(seed: int, tmp_path: Path) -> None:
    """Some bytes are changed, most of them in the directory: the result is an error or the same
    campaign.
    """
    draw = random.Random(seed)
    shutil.rmtree(tmp_path / "outdir", ignore_errors=True)
    source = tmp_path / "source.zip"
    if not source.exists():
        hostile(source, member("mixed/a/b/001/run.json"), member("empty/"))
    data = bytearray(source.read_bytes())
    for _ in range(draw.randint(1, 4)):
        begin = data.find(b"PK\x01\x02") if draw.random() < 0.8 else 0
        data[draw.randrange(max(begin, 0), len(data))] = draw.randrange(256)
    (tmp_path / "a.zip").write_bytes(data)
    try:
        packed.unpack(tmp_path / "a.zip", tmp_path / "outdir")
    except ArchiveError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert not (tmp_path / "outdir").exists()
    else:
        assert (tmp_path / "outdir" / "campaign.json").read_bytes() == (
            DEMO / "campaign.json"
        ).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} <= {
        "source.zip",
        "a.zip",
        "outdir",
        "temporary",
    }


def test_the_commands_of_the_page(campaign: Path, tmp_path: Path) -> None:
    """Runs the commands of docs/reference/packed-archives.md line by line."""
    campaign.rename(campaign.with_name("geneva"))
    before = without_report(tmp_path / "results" / "geneva")
    page = (REPOSITORY / "docs" / "reference" / "packed-archives.md").read_text()
    commands = re.findall(r"^    (\S.*?)(?: +#.*)?$", page, flags=re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        argv = shlex.split(command)
        if argv[0] == "unzip" and not shutil.which("unzip"):
            continue
        if argv[0] == "ccmix":
            argv[0] = str(REPOSITORY / ".venv" / "bin" / "ccmix")
        done = run_program(argv, cwd=tmp_path, timeout=120)
        assert (done.returncode, bool(done.stdout)) == (0, True), (command, done.stderr)
    assert without_report(tmp_path / "results" / "restored") == before
