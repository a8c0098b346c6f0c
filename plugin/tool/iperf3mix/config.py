"""The tool's configuration file on this host."""

from __future__ import annotations

import configparser
import os
import re
from dataclasses import dataclass
from pathlib import Path

from .groups import MOST_NAME_BYTES
from .spec import DEFAULT_PORT

FILE = "/etc/pscheduler/tool/iperf3mix.conf"
FILE_VARIABLE = "IPERF3MIX_CONF"  # names another file, to try the tool out of its source
DEFAULT_IPERF3 = "/usr/lib/pscheduler-tool-iperf3mix/iperf3"
DEFAULT_ALLOW = ("reno", "cubic", "bbr")

_SECTION = "iperf3mix"
_CCA = re.compile(rf"[A-Za-z0-9_]{{1,{MOST_NAME_BYTES}}}")  # also a module's name, after tcp_


class ConfigError(ValueError):
    """A configuration file that can't be used."""


@dataclass(frozen=True)
class Config:
    iperf3: str = DEFAULT_IPERF3
    port: int = DEFAULT_PORT
    allow: tuple[str, ...] = DEFAULT_ALLOW


def load() -> Config:
    """What the file says, defaults where it says nothing; raises ConfigError where it can't be read or is wrong."""
    file = Path(os.environ.get(FILE_VARIABLE) or FILE)
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ConfigError(f"{file}: {' '.join(str(error).split())}") from error
    if unknown := [name for name in parser.sections() if name != _SECTION]:
        raise ConfigError(f"{file}: the section [{unknown[0]}] is unknown: there is only [{_SECTION}]")
    values = dict(parser[_SECTION]) if _SECTION in parser else {}
    if unknown := [key for key in values if key not in ("iperf3", "port", "allow")]:
        raise ConfigError(f"{file}: the key {unknown[0]!r} is unknown: there are iperf3, port and allow")
    iperf3, port = values.get("iperf3", DEFAULT_IPERF3), values.get("port", str(DEFAULT_PORT))
    if not iperf3.startswith("/"):
        raise ConfigError(f"{file}: iperf3 is {iperf3!r}, and not a whole path")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ConfigError(f"{file}: port is {port!r}, and not a number from 1 to 65535")
    allow = tuple(values["allow"].split()) if "allow" in values else DEFAULT_ALLOW
    if wrong := [name for name in allow if not _CCA.fullmatch(name)]:
        raise ConfigError(f"{file}: allow has {wrong[0]!r}, which is no name of a congestion control algorithm")
    return Config(iperf3, int(port), allow)
