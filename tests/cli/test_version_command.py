"""`ccmix version`: its output for installed, unusable, unpinned and missing programs."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from ccmix.cli.installed import PROGRAMS
from ccmix.tools import find_iperf3, find_sockmon
from ccmix.version import version
from support.commands import Ccmix


def test_of_this_machine(ccmix: Ccmix) -> None:
    done = ccmix("version", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["ccmix"], said["commit"]) == (version().name, version().commit)
    programs = {program["name"]: program for program in said["programs"]}
    assert list(programs) == list(PROGRAMS)
    for name, file in (("ccmix-iperf3", find_iperf3()), ("ccmix-sockmon", find_sockmon())):
        assert programs[name]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert programs[name]["path"] == str(file)
    printed = subprocess.run(
        [find_iperf3(), "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert programs["ccmix-iperf3"]["version"] == printed.splitlines()[0]
    assert programs["ccmix-sockmon"]["version"] is None
    text = ccmix("version").stdout
    assert text.startswith(f"ccmix {version().text}\n")
    assert (
        f"ccmix-sockmon\n  sha256   {programs['ccmix-sockmon']['sha256']}\n  path     "
        f"{find_sockmon()}\n" in text
    )


def test_what_is_missing_is_said(ccmix: Ccmix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCMIX_RTT", "/nowhere/rtt")
    done = Ccmix(ccmix.folder)("version", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    rtt = next(
        program for program in json.loads(done.stdout)["programs"] if program["name"] == "ccmix-rtt"
    )
    assert (rtt["sha256"], rtt["missing"]) == (
        None,
        "ccmix-rtt at /nowhere/rtt can't be run by this user",
    )
    assert f"ccmix-rtt\n  missing  {rtt['missing']}\n" in Ccmix(ccmix.folder)("version").stdout


def test_a_userland_has_the_hash_that_its_build_noted(
    ccmix: Ccmix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "userland" / "root"
    root.mkdir(parents=True)
    monkeypatch.setenv("CCMIX_USERLAND", str(root))
    for noted, sha256 in (('{"sha256": "abc"}', "abc"), ("[", None), ("[]", None)):
        (root.parent / "build.json").write_text(noted)
        said = json.loads(Ccmix(ccmix.folder)("version", "--format", "json").stdout)["programs"]
        userland = next(program for program in said if program["name"] == "ccmix-userland")
        assert (userland["sha256"], userland["path"], userland["missing"]) == (
            sha256,
            str(root),
            None,
        )


def test_a_program_from_another_source_than_the_pinned_one_is_said(
    ccmix: Ccmix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "built" / "iperf3"
    copied.parent.mkdir()
    copied.write_bytes(find_iperf3().read_bytes())
    copied.chmod(0o755)
    (copied.parent / "build.json").write_text('{"source_version": "3.99-1", "pinned": false}')
    monkeypatch.setenv("CCMIX_IPERF3", str(copied))
    said = "warning  built from 3.99-1 instead of what tools/sources.lock pins"
    assert said in Ccmix(ccmix.folder)("version").stdout
    (report,) = json.loads(Ccmix(ccmix.folder)("doctor", "--format", "json").stdout)
    check = next(check for check in report["checks"] if check["check"] == "patched iperf3")
    assert check["status"] == "warn"
    assert "was built from 3.99-1 instead of" in check["seen"]
