"""Tests that the patched iperf3 runs on any Linux: it is static, and resolves names without a
host's modules.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import run_program

MODULE = """
#include <unistd.h>

static __attribute__((constructor)) void report(void)
{
    write(2, "a module was loaded\\n", 20);
}
"""
# Runs in a separate mount namespace; $1 is a folder with the files of a host that resolves names by
# a module.
ANOTHER_HOST = """
mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf && mount --bind "$1/hosts" /etc/hosts || exit 77
folder=$1
shift
LD_LIBRARY_PATH=$folder exec "$@"
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Returns the folder of a host whose names a module of another C library knows, and then
    /etc/hosts.
    """
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing: it compiles a module for names")
    (tmp_path / "nsswitch.conf").write_text("hosts: elsewhere files\n")
    (tmp_path / "hosts").write_text("127.0.0.1 dtn.example\n")
    (tmp_path / "module.c").write_text(MODULE)
    subprocess.run(
        [
            "gcc",
            "-shared",
            "-fPIC",
            "-o",
            tmp_path / "libnss_elsewhere.so.2",
            tmp_path / "module.c",
        ],
        check=True,
    )
    return tmp_path


def test_it_is_static(iperf3: str) -> None:
    built = Path(iperf3).read_bytes()
    assert b"/ld-linux" not in built or b"__asan" in built


@pytest.mark.root
def test_names_come_from_etc_hosts_without_a_module(start: Callable, host: Path) -> None:
    prefix = ("unshare", "--mount", "sh", "-c", ANOTHER_HOST, "sh", str(host))
    got = start("-J", "-n", "1M", before_client=prefix, address="dtn.example").finish()
    assert (got.client.status, got.server.status) == (0, 0), got
    assert got.client.json["start"]["connecting_to"]["host"] == "dtn.example"
    assert "a module was loaded" not in got.client.errors


@pytest.mark.root
def test_the_module_is_what_an_unpatched_program_loads(host: Path) -> None:
    """Shows that the test above can fail: the C library's own getent loads the module on
    that host.
    """
    argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        ANOTHER_HOST,
        "sh",
        host,
        "getent",
        "hosts",
        "dtn.example",
    ]
    got = run_program(argv, env=dict(os.environ))
    assert "a module was loaded" in got.stderr, got
