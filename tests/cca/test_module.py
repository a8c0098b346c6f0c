"""Tests that bbr2 and bbr3 build as modules of a stock kernel, with the headers that Debian
has for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cca_module import HEADERS, build_modules

pytestmark = pytest.mark.deep


def test_there_are_headers_of_a_kernel() -> None:
    assert HEADERS, "no headers of a kernel in /usr/src: 'tools/setup --dev' installs them"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("headers", HEADERS, ids=lambda folder: folder.name)
def test_the_modules_build_without_a_warning(headers: Path, tmp_path: Path) -> None:
    modules, built = build_modules(headers, tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    unfit = [
        line for line in (built.stdout + built.stderr).splitlines() if "warning:" in line.lower()
    ]
    assert unfit == []
    for name in ("tcp_bbr2", "tcp_bbr3"):
        module = (modules / f"{name}.ko").read_bytes()
        assert b"\0license=Dual BSD/GPL\0" in module
        assert b"\0parm=loss_thresh:" in module
