"""Tests the patched iperf3 against Debian's versions, as client and as server, in all modes
without groups.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import long, run_program

REPOSITORY = Path(__file__).resolve().parents[2]
FETCH = REPOSITORY / "tools" / "debian-fetch"
# The libraries that they need in addition to their own, from the newest suite, which works for all
# of them.
LIBRARIES = ("libc6", "libssl3t64", "libsctp1")
SUITES = {"3.18": ("trixie",), "3.22": ("forky", "sid")}
VERSIONS = [long("3.18"), "3.22"]
LOADER = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"

MODES = {
    "forward": (),
    "reverse": ("-R",),
    # a number of bytes may be reached in one direction before the other one has started
    "bidir": ("--bidir", "-t", "1", "-b", "20M"),
    "streams": ("-P", "4"),
    "streams-bidir": ("-P", "4", "--bidir", "-t", "1", "-b", "20M"),
    "one-cca": ("-C", "reno", "-P", "2"),
    "one-cca-reverse": ("-C", "reno", "-R"),
    "omit": ("-O", "1", "-t", "1", "-b", "20M"),
    "udp": ("-u", "-b", "20M"),
    "udp-reverse": ("-u", "-b", "20M", "-R"),
    "zerocopy": ("-Z",),
    "window": ("-w", "64K", "-N", "-M", "1400"),
    "server-output": ("--get-server-output",),
}


def unpack(package: str, pattern: str, suites: tuple[str, ...], root: Path, folder: Path) -> None:
    """Fetches a package and unpacks it into root; skips the test if the mirror lacks it."""
    argv = [FETCH, "binary", package, pattern, folder, *suites]
    got = run_program(argv)
    if got.returncode != 0:
        pytest.skip(
            f"{package} {pattern} cannot be fetched: {got.stderr.strip().splitlines()[-1:]}"
        )
    (deb,) = folder.glob(f"{package}_*.deb")
    subprocess.run(["dpkg-deb", "-x", deb, root], check=True)


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Returns debian(VERSION), which gives the command of Debian's iperf3 with its own C library,
    or skips the test.
    """
    made: dict[str, str] = {}

    def get(version: str) -> str:
        if version in made:
            return made[version]
        folder, root = tmp_path_factory.mktemp("deb"), tmp_path_factory.mktemp("root")
        for package in ("iperf3", "libiperf0"):
            unpack(package, f"{version}-*", SUITES[version], root, folder)
        for package in LIBRARIES:
            unpack(package, "*", ("forky", "sid"), root, folder)
        paths = sorted({str(p.parent) for p in root.rglob("*.so*") if "gconv" not in str(p)})
        wrapper = root / "iperf3"
        wrapper.write_text(
            f"#!/bin/sh\nexec {root / LOADER} --library-path "
            f"{':'.join(paths)}:/usr/lib/x86_64-linux-gnu "
            f'{root}/usr/bin/iperf3 "$@"\n'
        )
        wrapper.chmod(0o755)
        got = run_program([wrapper, "--version"])
        if not got.stdout.startswith(f"iperf {version} "):
            pytest.skip(f"Debian's iperf3 {version} does not run here: {got.stderr.strip()}")
        made[version] = str(wrapper)
        return made[version]

    return get


def both_ways(pair: Callable, other: str, mode: str) -> None:
    arguments = MODES[mode]
    if "-t" not in arguments:
        # more than fits into the buffers, so that some of it has been counted when the sender is
        # done
        arguments = ("-n", "1M" if "-u" in arguments else "32M", *arguments)
    for roles in ({"server": other}, {"client": other}):
        got = pair(*arguments, **roles)
        assert (got.client.status, got.server.status) == (0, 0), (roles, got)
        end = got.client.json["end"]
        sums = [v for k, v in end.items() if k.startswith("sum_received")]
        assert len(sums) == (2 if "--bidir" in arguments else 1)
        for total in sums:
            assert total["bytes"] > 0
        # what the other side can't know is not there
        assert "groups" not in end
        if "--get-server-output" in arguments:
            assert got.client.json["server_output_json"]["end"]


@pytest.fixture
def pair(start: Callable) -> Callable:
    return lambda *arguments, **options: start("-J", *arguments, **options).finish()


@pytest.mark.parametrize("mode", MODES)
def test_with_the_installed_one(pair: Callable, stock: str, mode: str) -> None:
    both_ways(pair, stock, mode)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_with_newer_ones(
    pair: Callable, debian: Callable[[str], str], version: str, mode: str
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip(f"the loader of this test is for x86_64, not {os.uname().machine}")
    both_ways(pair, debian(version), mode)


@pytest.mark.root  # a server of another version, which is downloaded, and every CCA
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("direction", ["-R", "--bidir"])
def test_newer_servers_do_not_confirm_groups(
    pair: Callable, debian: Callable[[str], str], version: str, direction: str
) -> None:
    got = pair(direction, "-n", "1M", "-C", "reno:2,cubic@1G", "-P", "3", server=debian(version))
    assert got.client.status == 1
    assert "the server did not confirm the list" in json.loads(got.client.output)["error"]


@pytest.mark.parametrize("version", VERSIONS)
def test_newer_servers_receive_groups(
    pair: Callable, debian: Callable[[str], str], version: str
) -> None:
    got = pair("-n", "1M", "-C", "reno:2,-@1G", "-P", "3", server=debian(version))
    assert (got.client.status, got.server.status, got.server.errors) == (0, 0, "")
    assert len(got.client.json["end"]["groups"]) == 2
