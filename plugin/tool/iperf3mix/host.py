"""Reads the tool's settings on this host, and allows CCAs to users without privileges, such as
pScheduler's runner. Also collects and reads participant-data: the abilities of one end of a test,
which both ends see before the run.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import secrets
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import NAME, VERSION
from .group_grammar import MOST_NAME_BYTES
from .spec import DEFAULT_PORT

SYSCTLS = Path("/proc/sys/net/ipv4")
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


def load_settings() -> ToolConfig:
    """Returns the file's settings, with defaults for missing ones; raises ToolConfigError if the
    file is wrong.
    """
    file = Path(os.environ.get(FILE_VARIABLE) or FILE)
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ToolConfig()
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ToolConfigError(f"{file}: {' '.join(str(error).split())}") from error
    if unknown := [name for name in parser.sections() if name != _SECTION]:
        raise ToolConfigError(
            f"{file}: the section [{unknown[0]}] is unknown: there is only [{_SECTION}]"
        )
    values = dict(parser[_SECTION]) if _SECTION in parser else {}
    if unknown := [key for key in values if key not in ("iperf3", "port", "allow")]:
        raise ToolConfigError(
            f"{file}: the key {unknown[0]!r} is unknown: there are iperf3, port and allow"
        )
    iperf3, port = values.get("iperf3", DEFAULT_IPERF3), values.get("port", str(DEFAULT_PORT))
    if not iperf3.startswith("/"):
        raise ToolConfigError(f"{file}: iperf3 is {iperf3!r}, not an absolute path")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ToolConfigError(f"{file}: port is {port!r}, not a number from 1 to 65535")
    allow = tuple(values["allow"].split()) if "allow" in values else DEFAULT_ALLOW
    if wrong := [name for name in allow if not _CCA.fullmatch(name)]:
        raise ToolConfigError(
            f"{file}: allow: {wrong[0]!r} is not a name of a congestion control algorithm"
        )
    return ToolConfig(iperf3, int(port), allow)


SCHEMA = 1

_VERSION_TIMEOUT_S = 5.0
# The parts of the group grammar that each version of the patches (the 1 of 3.20+ccmix1) added
_FEATURES = {1: ("groups", "weights", "rates", "delays")}
# struct vfs_cap_data of linux/capability.h
_CAP_NET_ADMIN = 12
_CAP_EFFECTIVE = 1


class AbilityError(ValueError):
    """Reports participant-data that this version of the tool does not write."""


@dataclass(frozen=True)
class Ability:
    """Holds the participant-data of one end."""

    host: str
    error: str | None
    features: frozenset[str]
    available: tuple[str, ...]
    allowed: tuple[str, ...]
    net_admin: bool
    port: int
    token: str


def participant_data(participant: int) -> dict[str, Any]:
    """Returns the participant-data of this host; its `error` is a sentence that fails the run."""
    data: dict[str, Any] = {"schema": SCHEMA, "tool-version": VERSION, "host": socket.gethostname()}
    try:
        settings = load_settings()
        version = _iperf3_version(settings.iperf3)
    except (ToolConfigError, OSError, subprocess.SubprocessError, ValueError) as error:
        return data | {"error": " ".join(str(error).split())}
    data |= {
        "iperf3-version": version,
        "features": list(features(version)),
        "congestion": {
            "available": _sysctl("tcp_available_congestion_control"),
            "allowed": _sysctl("tcp_allowed_congestion_control"),
            "default": _sysctl("tcp_congestion_control"),
        },
        "net-admin": has_net_admin(settings.iperf3),
    }
    if participant == 1:
        # The server recognises its client by the token. pScheduler shows users no key that begins
        # with _.
        data |= {"port": settings.port, "_token": secrets.token_hex(16)}
    return data


def read_ability(data: object) -> Ability:
    """Reads a participant's data; raises AbilityError if it is wrong."""
    if not isinstance(data, dict):
        raise AbilityError("sent no participant-data")
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise AbilityError(f"sent participant-data of another tool, or of schema {schema!r}")
    if schema > SCHEMA:
        raise AbilityError(
            f"has a newer iperf3mix ({data.get('tool-version')}, participant-data of schema "
            f"{schema}): "
            f"update the other end, which knows schema {SCHEMA}"
        )
    error = data.get("error")
    if error is not None:
        return Ability(_text(data, "host"), str(error), frozenset(), (), (), False, 0, "")
    ccas = data.get("congestion")
    if not isinstance(ccas, dict):
        raise AbilityError("sent no list of its CCAs")
    port = data.get("port", 0)
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise AbilityError(f"sent the port {port!r}")
    return Ability(
        host=_text(data, "host"),
        error=None,
        features=frozenset(_names(data, "features")),
        available=_names(ccas, "available"),
        allowed=_names(ccas, "allowed"),
        net_admin=data.get("net-admin") is True,
        port=port,
        token=_text(data, "_token") if "_token" in data else "",
    )


def features(version: str) -> tuple[str, ...]:
    """Returns the parts of the grammar that an iperf3 of this version, such as "3.20+ccmix1",
    supports in addition to stock iperf3.
    """
    suffix = re.search(r"\+ccmix(\d+)$", version)
    series = int(suffix[1]) if suffix else 0
    return tuple(name for number, names in _FEATURES.items() if number <= series for name in names)


def has_net_admin(program: str) -> bool:
    """Returns whether every user of the program may use every CCA, because it has the file
    capability cap_net_admin=ep.
    """
    try:
        value = os.getxattr(program, "security.capability")
    except OSError:
        return False
    magic, permitted = struct.unpack_from("<II", value)
    return bool(magic & _CAP_EFFECTIVE and permitted & 1 << _CAP_NET_ADMIN)


def _iperf3_version(program: str) -> str:
    """Returns the version of the configured binary; raises ValueError if it is not a patched
    iperf3.
    """
    process = subprocess.run(
        [program, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_VERSION_TIMEOUT_S,
        check=False,
    )
    words = process.stdout.split()
    if process.returncode != 0 or words[:1] != ["iperf"] or len(words) < 2:
        output = process.stderr or process.stdout
        raise ValueError(
            f"{program} --version ends with status {process.returncode} and writes {output!r}"
        )
    if not features(words[1]):
        raise ValueError(f"{program} is iperf3 {words[1]}, without the patches that mix CCAs")
    return words[1]


def _sysctl(name: str, folder: Path = SYSCTLS) -> list[str]:
    return (folder / name).read_text(encoding="ascii").split()


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = data.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AbilityError(f"sent {key} {names!r}, which is not a list of names")
    return tuple(names)


def _text(data: Mapping[str, Any], key: str) -> str:
    text = data.get(key)
    if not isinstance(text, str) or not text:
        raise AbilityError(f"sent no {key.strip('_')}")
    return text


def allow_ccas() -> None:
    """Allows the CCAs of the configuration file; ends with status 1 and a sentence if the kernel
    lacks a CCA.

    It runs as root, at the host's start and when the package is installed. It only adds CCAs,
    whereas a list in sysctl.d would remove those that the administrator or a module allowed. A file
    capability on iperf3 would also work, but would give cap_net_admin to a program that accepts
    connections from anybody.
    """
    try:
        missing = add_allowed(load_settings().allow)
    except (ToolConfigError, OSError) as error:
        sys.exit(f"{NAME}: {error}")
    if missing:
        sys.exit(f"{NAME}: this kernel has no {' '.join(missing)}; see allow in {FILE}")


def add_allowed(ccas: Sequence[str], sysctls: Path = SYSCTLS) -> list[str]:
    """Adds CCAs to the allowed ones, with their modules; returns those that the kernel lacks.
    Raises OSError.
    """
    file = sysctls / "tcp_allowed_congestion_control"
    for cca in ccas:
        if cca not in _sysctl("tcp_available_congestion_control", sysctls):
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["modprobe", "--quiet", f"tcp_{cca}"], check=False)
    available = _sysctl("tcp_available_congestion_control", sysctls)
    allowed = _sysctl(file.name, sysctls)
    new = [cca for cca in ccas if cca in available and cca not in allowed]
    if new:
        try:
            file.write_text(" ".join([*allowed, *new]), encoding="ascii")
        except OSError as error:
            raise OSError(
                f"{' '.join(new)} can't be allowed from here ({error}): allow it on the host"
            ) from error
    return [cca for cca in ccas if cca not in available]
