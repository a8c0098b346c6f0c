"""Tests tools/source-fetch with STAND-INS on the loopback: a Debian mirror with its own key, and
upstream's site.

These tests never reached upstream's real site.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from support.commands import REPOSITORY

TOOLS = REPOSITORY / "tools"
PINNED = b"the pinned version"
POOL = "pool/main/t/thing/thing_1.0.orig.tar.gz"
# Prints the folder's file, and fails if the file contains "unfit"
FITS = 'cat "$0"/*; ! grep -q unfit "$0"/*'
LOCK = f"""
# a comment
other mirror 7 {"0" * 64} pool/other.tar.gz
thing mirror 1.0 {{sha256}} {POOL}
thing upstream 1.0 {{sha256}} https://upstream.invalid/releases/1.0.tar.gz
thing newest binary thing-source-[0-9]* [0-9]* sid forky
"""


Fetch = Callable[[str], subprocess.CompletedProcess[str]]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yields a folder and the address on the loopback that serves it."""
    folder = tmp_path / "site"
    (folder / "debian").mkdir(parents=True)
    (folder / "upstream").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(tmp_path: Path, site: tuple[Path, str]) -> Fetch:
    """Returns fetch(NAME), which calls a copy of tools/source-fetch whose lock names the thing at
    the stand-ins.
    """
    shutil.copytree(TOOLS, tmp_path / "tools")
    (tmp_path / "tools" / "sources.lock").write_text(
        LOCK.format(sha256=hashlib.sha256(PINNED).hexdigest())
    )
    environment = os.environ | {
        "CCMIX_DEBIAN_MIRROR": f"{site[1]}/debian/",
        "CCMIX_DEBIAN_KEYRING": str(tmp_path / "keyring.gpg"),
        "CCMIX_UPSTREAM": f"{site[1]}/upstream/",
    }
    (tmp_path / "keyring.gpg").touch()
    return partial(run, tmp_path, environment)


def run(tmp_path: Path, environment: dict[str, str], name: str) -> subprocess.CompletedProcess[str]:
    argv: list[str | Path] = [
        tmp_path / "tools" / "source-fetch",
        name,
        tmp_path / "files",
        "sh",
        "-c",
        FITS,
    ]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL
    )


def serve(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def test_the_pinned_version_comes_from_the_mirror(
    fetch: Fetch, site: tuple[Path, str], tmp_path: Path
) -> None:
    serve(site[0] / "debian" / POOL, PINNED)
    got = fetch("thing")
    assert (got.returncode, got.stdout, got.stderr) == (0, "1.0 mirror\n", "")
    assert [file.name for file in (tmp_path / "files").iterdir()] == [Path(POOL).name]


@pytest.mark.parametrize(
    "mirrored", [b"another content", b"", None], ids=["another content", "empty", "absent"]
)
def test_what_the_mirror_lacks_comes_from_a_stand_in_for_upstreams_site(
    fetch: Fetch, site: tuple[Path, str], tmp_path: Path, mirrored: bytes | None
) -> None:
    if mirrored is not None:
        serve(site[0] / "debian" / POOL, mirrored)
    serve(site[0] / "upstream" / "1.0.tar.gz", PINNED)
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (0, "1.0 upstream\n"), got.stderr
    assert [file.read_bytes() for file in (tmp_path / "files").iterdir()] == [PINNED]


def test_another_content_of_upstreams_is_not_taken(fetch: Fetch, site: tuple[Path, str]) -> None:
    serve(site[0] / "upstream" / "1.0.tar.gz", b"another content")
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (1, "")
    assert "Hash Sum mismatch" in got.stderr


def test_each_place_says_why_it_gave_nothing(fetch: Fetch, site: tuple[Path, str]) -> None:
    serve(site[0] / "debian" / POOL, b"another content")
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (1, "")
    begin = got.stderr.index("no source of thing fits. Tried were, in this order:")
    mirror, upstream, sid, forky, advice = got.stderr[begin:].splitlines()[1:]
    assert mirror.startswith(f"  the Debian mirror's {POOL}: E: Failed to fetch")
    assert "Hash Sum mismatch" in mirror
    assert upstream.startswith(f"  {site[1]}/upstream/1.0.tar.gz: E: Failed to fetch")
    assert "404" in upstream
    for line, suite in ((sid, "sid"), (forky, "forky")):
        assert line.startswith(f"  Debian's newest thing-source-[0-9]* in {suite}: ")
        assert f"'{site[1]}/debian {suite} Release'" in line
    assert "CCMIX_DEBIAN_MIRROR" in advice


def test_an_unknown_source_and_a_wrong_call(fetch: Fetch) -> None:
    got = fetch("nothing")
    assert (got.returncode, got.stdout) == (2, "")
    assert "has no nothing" in got.stderr
    assert (
        subprocess.run(
            [TOOLS / "source-fetch", "iperf3"], capture_output=True, check=False
        ).returncode
        == 2
    )


# ---- newest: a mirror with two suites, signed by a key of the test's


@pytest.fixture
def suites(tmp_path: Path, site: tuple[Path, str]) -> partial[None]:
    """Returns publish(SUITE, {PACKAGE: (VERSION, CONTENT)}); the tools/debian-fetch of this test
    trusts its key.
    """
    if shutil.which("gpg") is None:
        pytest.skip("gpg is missing: it signs the index of the stand-in for a mirror")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
    subprocess.run(
        [*gpg, "--passphrase", "", "--quick-generate-key", "test@localhost", "ed25519"], check=True
    )
    keyring = subprocess.run([*gpg, "--export"], check=True, stdout=subprocess.PIPE).stdout
    (tmp_path / "keyring.gpg").write_bytes(keyring)
    return partial(publish, gpg, site[0] / "debian", tmp_path)


def publish(
    gpg: list[str], debian: Path, work: Path, suite: str, packages: dict[str, tuple[str, str]]
) -> None:
    index = "".join(package(debian, work, suite, name, *about) for name, about in packages.items())
    folder = debian / "dists" / suite
    serve(folder / "main" / "binary-amd64" / "Packages", index.encode())
    listed = "main/binary-amd64/Packages"
    sha256 = hashlib.sha256(index.encode()).hexdigest()
    release = (
        f"Suite: {suite}\nCodename: {suite}\nDate: Mon, 23 Nov 2026 00:00:00 UTC\nArchitectures: "
        "amd64\n"
        f"Components: main\nSHA256:\n {sha256} {len(index)} {listed}\n"
    )
    argv = [*gpg, "--clearsign", "--output", str(folder / "InRelease")]
    subprocess.run(argv, input=release.encode(), check=True)


def package(debian: Path, work: Path, suite: str, name: str, version: str, content: str) -> str:
    """Builds a package whose description has the content, and returns its stanza of the index."""
    tree = work / suite / f"{name}-{version}"
    control = (
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: A <a@localhost>\n"
        f"Description: {content}\n"
    )
    serve(tree / "DEBIAN" / "control", control.encode())
    path = f"pool/{suite}/{name}_{version}.deb"
    (debian / path).parent.mkdir(parents=True, exist_ok=True)
    # uncompressed, so that the test's command sees the content
    subprocess.run(
        ["dpkg-deb", "-Znone", "--build", tree, debian / path],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    data = (debian / path).read_bytes()
    return (
        f"{control}Filename: {path}\nSize: {len(data)}\nSHA256: "
        f"{hashlib.sha256(data).hexdigest()}\n\n"
    )


def test_the_newest_of_the_first_suite_that_fits(fetch: Fetch, suites: partial[None]) -> None:
    """It is taken with a warning, regardless of the number in the package's name."""
    suites(
        "sid",
        {
            "thing-source-2.9": ("2.9-1", "fits"),
            "thing-source-2.10": ("2.10-1", "fits"),
            "thing-source-old": ("9-1", "has another name"),
        },
    )
    suites("forky", {"thing-source-3.0": ("3.0-1", "fits")})
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (0, "2.10-1 newest\n"), got.stderr
    assert "WARNING: thing 2.10-1 is not the pinned 1.0" in got.stderr
    assert "numbers may differ" in got.stderr


def test_one_that_does_not_fit_is_passed_over(fetch: Fetch, suites: partial[None]) -> None:
    suites("sid", {"thing-source-3.0": ("3.0-1", "unfit")})
    suites("forky", {"thing-source-2.0": ("2.0-1", "fits")})
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (0, "2.0-1 newest\n"), got.stderr


def test_where_none_fits_each_is_named(fetch: Fetch, suites: partial[None]) -> None:
    suites("sid", {"thing-source-3.0": ("3.0-1", "unfit")})
    suites("forky", {"thing-source-2.0": ("2.0-1", "unfit")})
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (1, "")
    assert got.stderr.count("does not fit") == 2


def test_a_mirror_signed_by_a_strange_key_gives_nothing(
    fetch: Fetch, suites: partial[None], tmp_path: Path
) -> None:
    suites("sid", {"thing-source-3.0": ("3.0-1", "fits")})
    (tmp_path / "keyring.gpg").write_bytes(b"")
    got = fetch("thing")
    assert (got.returncode, got.stdout) == (1, "")


# ---- the real sources


def test_the_lock_pins_what_the_build_scripts_ask_for() -> None:
    lines = [
        line.split()
        for line in (TOOLS / "sources.lock").read_text().splitlines()
        if line[:1] not in ("#", "")
    ]
    for name in ("linux", "iperf3"):
        places = [line[1] for line in lines if line[0] == name]
        assert places[0] == "mirror", "the pinned version goes first"
        assert places[-1] == "newest"
    for line in lines:
        if line[1] != "newest":
            assert len(line) == 5
            assert len(bytes.fromhex(line[3])) == 32


@pytest.mark.deep  # two kernels are fetched and unpacked
@pytest.mark.timeout(1200)
def test_the_patches_fit_a_newer_kernel_and_not_an_older_one(tmp_path: Path) -> None:
    """Asks the machine's real mirror, as a clone does if Debian has dropped the pinned version."""
    shutil.copytree(TOOLS, tmp_path / "tools")
    (tmp_path / "tools" / "sources.lock").write_text(
        f"linux mirror 7.2.0-1 {'0' * 64} pool/main/l/linux/linux-source-7.2_7.2.0-1_all.deb\n"
        "linux newest binary linux-source-6.[0-9]* [0-9]* trixie\n"
        "linux newest binary linux-source-[0-9]* [0-9]* sid forky\n"
    )
    argv: list[str | Path] = [
        tmp_path / "tools" / "source-fetch",
        "linux",
        tmp_path / "files",
        REPOSITORY / "lab" / "unpack",
        tmp_path / "source",
    ]
    got = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "Debian's newest linux-source-6.[0-9]* in trixie: W: Failed to fetch" in got.stderr:
        pytest.skip(f"there is no Debian mirror: {got.stderr.splitlines()[-1]}")
    assert got.returncode == 0, got.stderr
    assert got.stdout.endswith(" newest\n")
    assert "does not apply without fuzz" in got.stderr, "the older one"
    assert (tmp_path / "source/net/ipv4/ccmix_cca/module/Kconfig").exists()
