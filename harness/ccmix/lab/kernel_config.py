"""Reads what is built into the lab's kernel from the configuration that its file holds (CONFIG_IKCONFIG)."""

import re
import zlib
from pathlib import Path

_BEGIN = b"IKCFG_ST"  # kernel/configs.c; a gzip stream follows
_GZIP = 16 + zlib.MAX_WBITS
_CCA = re.compile(r"^CONFIG_TCP_CONG_(\w+)=y$", re.MULTILINE)
_NO_CCA = {"ADVANCED"}
_OTHER_NAMES = {"hstcp": "highspeed"}  # net/ipv4/tcp_highspeed.c; other options are named like their CCA
_ALWAYS = "reno"  # net/ipv4/tcp_cong.c


def ccas_of_kernel(kernel: Path) -> frozenset[str] | None:
    """Returns the CCAs that are built into a kernel; None where its file does not hold its configuration.

    Raises OSError where the file can't be read.
    """
    _, begin, stream = kernel.read_bytes().partition(_BEGIN)
    if not begin:
        return None
    try:
        config = zlib.decompressobj(_GZIP).decompress(stream).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
    names = {name.lower() for name in _CCA.findall(config) if name not in _NO_CCA}
    return frozenset({_OTHER_NAMES.get(name, name) for name in names} | {_ALWAYS})
