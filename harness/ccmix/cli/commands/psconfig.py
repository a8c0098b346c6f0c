"""`ccmix psconfig`: its options and help."""

from pathlib import Path
from typing import Any

import click

from ccmix.cli import options


@click.command("psconfig", short_help="Write the template of a mesh of perfSONAR hosts.")
@click.argument("hosts", nargs=-1)
@click.option("-H", "--hosts-file", type=options.PathType(), metavar="HOSTS.csv", help="More hosts, as for run.")
@click.option("--groups", metavar="GROUPS", multiple=True, required=True,
              help="A mix of CCAs, such as cubic:8,bbr:8; several times for several tasks.")  # fmt: skip
@click.option("--streams", type=click.IntRange(1, 128), help="Of each test  [default: the largest sum of weights]")
@click.option("--duration", default="30s", show_default=True, help="Of each test.")
@click.option("--omit", default="0s", show_default=True, help="Before it, not counted.")
@click.option("--interval", default="6h", show_default=True, help="In which each pair of hosts is tested once.")
@click.option("--archive", metavar="URL", default="", help="Where pScheduler puts each result, such as Logstash.")
@click.option("--no-verify", is_flag=True, help="Don't check the archive's certificate.")
@click.option("--ip-version", type=click.Choice(["4", "6"]), help="[default: pScheduler's choice]")
@click.option("--link-rtt", metavar="TIME", help="The longest RTT of the mesh: shorter slots  [default: 200ms]")
@options.output("[default: standard output]")
def psconfig(hosts: tuple[str, ...], output: Path | None, **parameters: Any) -> None:
    """Write a pSConfig template: the mesh of HOSTS, which test mixes of CCAs with pScheduler on a schedule.

    \b
    ccmix psconfig ps1.example.org ps2.example.org ps3.example.org \\
        --groups cubic:8,bbr:8 --groups cubic --groups bbr --streams 16 \\
        --archive https://archive.example.org/logstash -o mesh.json
    """
    from ccmix.cli import psconfig as work  # noqa: PLC0415

    work.write(hosts, output, **parameters)
