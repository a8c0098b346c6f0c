"""`ccmix psconfig`: writes a pSConfig template, a mesh of perfSONAR hosts that test CCAs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.cli.output import put
from ccmix.config.hostlist import read_hosts
from ccmix.psconfig import Mesh, MeshError, read_mixes, template
from ccmix.units import parse_time


@click.command("psconfig")
@click.argument("hosts", nargs=-1)
@click.option(
    "-H",
    "--hosts-file",
    type=options.PathType(),
    metavar="HOSTS.csv",
    help="More hosts, as for run.",
)
@click.option(
    "--groups",
    metavar="GROUPS",
    multiple=True,
    required=True,
    help="A mix of CCAs, such as cubic:8,bbr:8; one task for each --groups.",
)
@click.option(
    "--streams",
    type=click.IntRange(1, 128),
    help="Streams of each test  [default: the largest sum of weights]",
)
@click.option("--duration", default="30s", show_default=True, help="Duration of each test.")
@click.option(
    "--omit",
    default="0s",
    show_default=True,
    help="Time at the beginning of each test that is left out.",
)
@click.option(
    "--interval", default="6h", show_default=True, help="Test each pair of hosts once in this time."
)
@click.option(
    "--archive",
    metavar="URL",
    default="",
    help="The server to which pScheduler sends each result, such as Logstash.",
)
@click.option("--no-verify", is_flag=True, help="Don't check the archive's certificate.")
@click.option("--ip-version", type=click.Choice(["4", "6"]), help="[default: pScheduler's choice]")
@click.option(
    "--link-rtt",
    metavar="TIME",
    help="The longest RTT of the mesh; a smaller one makes slots shorter  [default: 200ms]",
)
@options.output("[default: standard output]")
def psconfig(
    hosts: tuple[str, ...],
    output: Path | None,
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
    """Write a pSConfig template: a mesh of HOSTS that regularly test mixes of CCAs with pScheduler.

    \b
    ccmix psconfig ps1.example.org ps2.example.org ps3.example.org \\
        --groups cubic:8,bbr:8 --groups cubic --groups bbr --streams 16 \\
        --archive https://archive.example.org/logstash -o mesh.json
    """
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
    """Reads the time that an option gives, such as '30s'. Raises MeshError with its name."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise MeshError(f"{name}: {text!r} {error}") from None


def _whole_seconds(name: str, text: str) -> int:
    """Reads a time as _seconds() does, and refuses fractions of a second."""
    seconds = _seconds(name, text)
    if not math.isclose(seconds, round(seconds)):
        raise MeshError(f"{name}: {text!r} is not a whole number of seconds")
    return round(seconds)
