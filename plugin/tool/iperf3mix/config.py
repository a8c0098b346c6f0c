"""Reads the tool's configuration file on this host."""

from __future__ import annotations

import configparser
import os
import re
from dataclasses import dataclass
from pathlib import Path

from .group_grammar import MOST_NAME_BYTES
from .spec import DEFAULT_PORT

FILE = "/etc/pscheduler/tool/iperf3mix.conf"
FILE_VARIABLE = "IPERF3MIX_CONF"  # names another file, to try the tool by hand
DEFAULT_IPERF3 = "/usr/lib/pscheduler-tool-iperf3mix/iperf3"
DEFAULT_ALLOW = ("reno", "cubic", "bbr")

_SECTION = "iperf3mix"
_CCA = re.compile(rf"[A-Za-z0-9_]{{1,{MOST_NAME_BYTES}}}")  # also a module's name, after tcp_


class ToolConfigError(ValueError):
    """Reports a configuration file that can't be used."""


@dataclass(frozen=True)
class ToolConfig:
    """Holds the settings of the tool on this host."""

    iperf3: str = DEFAULT_IPERF3
    port: int = DEFAULT_PORT
    allow: tuple[str, ...] = DEFAULT_ALLOW


def load() -> ToolConfig:
    """Returns the file's settings, with defaults for the others; raises ToolConfigError where the file is wrong."""
    file = Path(os.environ.get(FILE_VARIABLE) or FILE)
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ToolConfig()
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ToolConfigError(f"{file}: {' '.join(str(error).split())}") from error
    if unknown := [name for name in parser.sections() if name != _SECTION]:
        raise ToolConfigError(f"{file}: the section [{unknown[0]}] is unknown: there is only [{_SECTION}]")
    values = dict(parser[_SECTION]) if _SECTION in parser else {}
    if unknown := [key for key in values if key not in ("iperf3", "port", "allow")]:
        raise ToolConfigError(f"{file}: the key {unknown[0]!r} is unknown: there are iperf3, port and allow")
    iperf3, port = values.get("iperf3", DEFAULT_IPERF3), values.get("port", str(DEFAULT_PORT))
    if not iperf3.startswith("/"):
        raise ToolConfigError(f"{file}: iperf3 is {iperf3!r}, and not an absolute path")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ToolConfigError(f"{file}: port is {port!r}, and not a number from 1 to 65535")
    allow = tuple(values["allow"].split()) if "allow" in values else DEFAULT_ALLOW
    if wrong := [name for name in allow if not _CCA.fullmatch(name)]:
        raise ToolConfigError(f"{file}: allow has {wrong[0]!r}, which is no name of a congestion control algorithm")
    return ToolConfig(iperf3, int(port), allow)
