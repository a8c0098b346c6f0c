"""`ccmix psconfig`: parameters as people write them to a template."""

import json
import math
from pathlib import Path

import click

from ccmix.cli.output import put
from ccmix.config.hostlist import read_hosts
from ccmix.psconfig import Mesh, MeshError, read_mixes, template
from ccmix.units import parse_time


def write(
    hosts: tuple[str, ...],
    output: Path | None,
    *,
    hosts_file: Path | None,
    groups: tuple[str, ...],
    streams: int | None,
    duration: str,
    omit: str,
    interval: str,
    archive: str,
    no_verify: bool,
    ip_version: str | None,
    link_rtt: str | None,
) -> None:
    """Writes the template. Raises ConfigError for a wrong file of hosts, UsageError for a wrong parameter."""
    if hosts_file:
        hosts += tuple(row.address for row in read_hosts(hosts_file))
    try:
        mesh = Mesh(
            hosts=hosts,
            mixes=read_mixes(groups, streams),
            duration_s=_whole_seconds("duration", duration),
            interval_s=_whole_seconds("interval", interval),
            omit_s=_whole_seconds("omit", omit),
            archive=archive,
            verify_tls=not no_verify,
            ip_version=int(ip_version) if ip_version else None,
            link_rtt_s=_seconds("link-rtt", link_rtt) if link_rtt else None,
        )
    except MeshError as error:
        raise click.UsageError(str(error)) from None
    put(json.dumps(template(mesh), indent=2) + "\n", output)


def _seconds(name: str, text: str) -> float:
    try:
        return parse_time(text)
    except ValueError as error:
        raise MeshError(f"{name}: {text!r} {error}") from None


def _whole_seconds(name: str, text: str) -> int:
    seconds = _seconds(name, text)
    if not math.isclose(seconds, round(seconds)):
        raise MeshError(f"{name}: {text!r} is not a whole number of seconds")
    return round(seconds)
