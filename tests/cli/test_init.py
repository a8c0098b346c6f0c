"""`ccmix init`: its files can be planned unchanged, and with each setting that they offer."""

import re
import subprocess
from pathlib import Path

import pytest

from ccmix.cli.init import NEXT, sample
from ccmix.config import Overrides, load
from ccmix.plan import make_plan
from support.commands import CCMIX, Ccmix

OFFERED = re.compile(r"^# ([a-z][a-z.-]*) = ", re.MULTILINE)
RUNS = {"lab": 3 * 3 + 2 * 3, "hosts": 3 * 5, "perfsonar": 2 * 3 * 5}


@pytest.fixture
def folder(ccmix: Ccmix, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ccmix.folder)
    return ccmix.folder


@pytest.mark.parametrize("kind", NEXT)
def test_what_is_written_is_planned(kind: str, ccmix: Ccmix, folder: Path) -> None:
    written = ccmix("init", kind, "my-test")
    assert (written.returncode, written.stdout) == (0, "my-test.ini\n"), written.stderr
    assert [line.strip() for line in written.stderr.splitlines()[1:]] == [
        command.format("my-test.ini") for command in NEXT[kind]
    ]
    text = (folder / "my-test.ini").read_text()
    assert "NAME" not in text
    assert "ccmix run my-test.ini" in text
    planned = ccmix("plan", "my-test.ini")
    assert planned.returncode == 0, planned.stderr
    summary, _written = planned.stderr.splitlines()  # and no warning
    assert summary.startswith(f"{RUNS[kind]} runs, ")


@pytest.mark.parametrize("kind", NEXT)
def test_each_setting_that_it_offers_changes_the_test(kind: str, tmp_path: Path) -> None:
    certificate = (
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out perfsonar.pem -subj "
        "/CN=ps1.example.org"
    )
    subprocess.run(["openssl", *certificate.split()], cwd=tmp_path, check=True, capture_output=True)
    file, text = tmp_path / "offered.ini", sample(kind).read_text()
    offered = list(OFFERED.finditer(text))
    assert len(offered) >= 3
    for setting in offered:
        file.write_text(text[: setting.start()] + text[setting.start() + len("# ") :])
        assert load(file).entries != load(sample(kind)).entries, setting[1]


def test_the_list_of_hosts_in_its_comment(tmp_path: Path) -> None:
    """The comment of the file shows a list of hosts. With that list as a file, each host becomes a
    destination.
    """
    listed = re.findall(r"^#     (\S.*)$", sample("hosts").read_text(), re.MULTILINE)
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("\n".join(listed) + "\n")
    runs = make_plan(load(sample("hosts"), overrides=Overrides(hosts)).entries, 1)
    assert {run.dst for run in runs} == {"geneva", "chicago"}
    assert len(runs) == 2 * RUNS["hosts"]


def test_a_file_that_is_there_stays(ccmix: Ccmix, folder: Path) -> None:
    (folder / "mine.ini").write_text("mine")
    done = ccmix("init", "lab", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mine.ini: already exists, and was not changed: choose another name\n"
    assert (folder / "mine.ini").read_text() == "mine"


def test_a_link_that_leads_nowhere_is_not_followed(ccmix: Ccmix, folder: Path) -> None:
    (folder / "mine.ini").symlink_to(folder / "elsewhere")
    assert ccmix("init", "lab", "mine.ini").returncode == 2
    assert not (folder / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (".", "not a printable file name"),
        ("..", "not a printable file name"),
        ("a\nb", "not a printable file name"),
        ("nowhere/a", "nowhere/a.ini: the folder nowhere does not exist: make it"),
    ],
)
def test_names_that_can_not_be_written(name: str, says: str, ccmix: Ccmix, folder: Path) -> None:
    done = ccmix("init", "lab", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.glob("**/*.ini")) == []


@pytest.mark.namespaces
def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    filled = (
        'mount -t tmpfs -o size=64k tmpfs "$0" && head -c 128K /dev/zero >"$0/fill" '
        '2>"$0/why"; "$@"; ls "$0" >&2'
    )
    written = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            filled,
            tmp_path,
            CCMIX,
            "init",
            "lab",
            tmp_path / "mine",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    message = "No space left on device: make room on that disk, or choose another place"
    assert written.stderr.splitlines() == [f"{tmp_path}/mine.ini: {message}", "fill", "why"]
    assert written.stdout == ""


@pytest.mark.lab
@pytest.mark.slow
def test_a_run_of_the_lab(ccmix: Ccmix, folder: Path) -> None:
    assert ccmix("init", "lab", "my test").returncode == 0
    done = ccmix(
        "run", "my test.ini", "--lab", "--run", "share buffer=1bdp #1", "-o", folder / "out"
    )
    assert done.returncode == 0, done.stderr
    assert "1 run valid, 0 not valid, 0 failed" in done.stderr
    assert "not settled" not in done.stderr
