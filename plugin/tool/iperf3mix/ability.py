"""Collects and reads participant-data: what one end of a test can do, which both ends see before the run."""

from __future__ import annotations

import os
import re
import secrets
import socket
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import VERSION, config

SCHEMA = 1

_SYSCTLS = Path("/proc/sys/net/ipv4")
_VERSION_TIMEOUT_S = 5.0
# The parts of the group grammar that each number of the patch series (3.20+ccmix1) brought
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


def of_this_host(participant: int) -> dict[str, Any]:
    """Returns the participant-data of this host; its `error` is a sentence that fails the run."""
    data: dict[str, Any] = {"schema": SCHEMA, "tool-version": VERSION, "host": socket.gethostname()}
    try:
        settings = config.load()
        version = _iperf3_version(settings.iperf3)
    except (config.ToolConfigError, OSError, subprocess.SubprocessError, ValueError) as error:
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
        # By the token the server knows its client. pScheduler shows no key that begins with _ to others.
        data |= {"port": settings.port, "_token": secrets.token_hex(16)}
    return data


def read(data: object) -> Ability:
    """Reads a participant's data; raises AbilityError where it is wrong."""
    if not isinstance(data, dict):
        raise AbilityError("sent no participant-data")
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise AbilityError(f"sent participant-data of another tool, or of schema {schema!r}")
    if schema > SCHEMA:
        raise AbilityError(
            f"has a newer iperf3mix ({data.get('tool-version')}, participant-data of schema {schema}): "
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
    """Returns what an iperf3 of this version, "3.20+ccmix1", understands beyond stock iperf3."""
    suffix = re.search(r"\+ccmix(\d+)$", version)
    series = int(suffix[1]) if suffix else 0
    return tuple(name for number, names in _FEATURES.items() if number <= series for name in names)


def has_net_admin(program: str) -> bool:
    """Returns whether every user of the program may use every CCA: it has the file capability cap_net_admin=ep."""
    try:
        value = os.getxattr(program, "security.capability")
    except OSError:
        return False
    magic, permitted = struct.unpack_from("<II", value)
    return bool(magic & _CAP_EFFECTIVE and permitted & 1 << _CAP_NET_ADMIN)


def _iperf3_version(program: str) -> str:
    """Returns the version of the configured binary; raises ValueError where that is not a patched one."""
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
        raise ValueError(f"{program} --version ends with status {process.returncode} and writes {output!r}")
    if not features(words[1]):
        raise ValueError(f"{program} is iperf3 {words[1]}, without the patches that mix CCAs")
    return words[1]


def _sysctl(name: str) -> list[str]:
    return (_SYSCTLS / name).read_text(encoding="ascii").split()


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = data.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AbilityError(f"sent {key} {names!r}, which is no list of names")
    return tuple(names)


def _text(data: Mapping[str, Any], key: str) -> str:
    text = data.get(key)
    if not isinstance(text, str) or not text:
        raise AbilityError(f"sent no {key.strip('_')}")
    return text
