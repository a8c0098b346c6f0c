"""The commands, each a thin layer over the package; libraries that are slow to import are imported in the command."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from ccmix.archive import ArchiveError
from ccmix.charts.chart import KINDS, Image, Kind
from ccmix.cli import status
from ccmix.cli.output import naming, put
from ccmix.config import ConfigError, Overrides, load, select
from ccmix.hosts import CommandError
from ccmix.index.target import PATIENCE
from ccmix.lab.errors import GuestError
from ccmix.plan import make_plan, span
from ccmix.tools import ToolError
from ccmix.units import parse_percent, parse_rate, parse_time

DEFAULT_SEED = 1

_config = click.argument("config", type=click.Path(path_type=Path))
_seed = click.option(
    "--seed", type=click.IntRange(0), default=DEFAULT_SEED, show_default=True,
    help="Of the order and of each run in the lab: the same seed gives the same numbers again.",
)  # fmt: skip
_only = click.option("--only", metavar="ENTRY", multiple=True, help="Only this entry; may be given several times.")
_hosts = click.option(
    "-H", "--hosts", type=click.Path(path_type=Path), metavar="HOSTS.csv",
    help="Destinations of all entries between real hosts: hostname, alias and profile, a line each.",
)  # fmt: skip
_nic = click.option("-i", "--nic", metavar="NIC", help="The sending device  [default: that of the route]")
_netem_at = click.option(
    "--netem-at", metavar="HOST:DEV[,DEV]", help="Where netem acts: data leaves by the first, ACKs by the second."
)


class Commands(click.Group):
    """The one place where errors become lines on standard error and exit statuses."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (ConfigError, ArchiveError, ToolError) as error:
            click.echo(error, err=True)
            context.exit(status.WRONG_INPUT)
        except BrokenPipeError:
            raise  # click ends quietly where nobody reads any more
        except (GuestError, CommandError) as error:
            click.echo(error, err=True)
            context.exit(status.BAD)
        except OSError as error:
            click.echo(f"{error.filename}: {error.strerror}" if error.filename else error, err=True)
            context.exit(status.BAD)
        except KeyboardInterrupt:
            context.exit(status.INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ccmix")
def main() -> None:
    """Measure how TCP congestion control algorithms share a path.

    \b
    ccmix plan configs/demo.ini            what would run, and for how long
    ccmix doctor configs/demo.ini --lab    whether it can run here, and what to mend
    ccmix run configs/demo.ini --lab       run it, in the lab, on all cores
    ccmix report results/demo              the table of what was measured
    ccmix compare results/a results/b      what differs between two campaigns
    ccmix index results/demo --url URL     all of it into Elasticsearch
    ccmix import tests.csv -o results/b    what others measured, to be put beside
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal of another encoding shows ? for what it lacks


@main.command()
@_config
@click.option("-o", "--outdir", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the results  [default: results/NAME-OF-THE-FILE]")  # fmt: skip
@click.option(
    "--lab", "in_lab", is_flag=True, help="In the lab: real Linux kernels in virtual time, as ordinary processes."
)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Runs at the same time, in the lab  [default: cores]")
@_only
@click.option("--run", "named", metavar="NAME", multiple=True,
              help="Only the run of this name in `ccmix plan`; may be given several times.")  # fmt: skip
@_hosts
@_nic
@_netem_at
@click.option("--resume", is_flag=True, help="Go on with OUTDIR: finished runs stay, all others are made.")
@_seed
def run(
    config: Path,
    outdir: Path | None,
    in_lab: bool,
    jobs: int | None,
    only: tuple[str, ...],
    named: tuple[str, ...],
    hosts: Path | None,
    nic: str | None,
    netem_at: str | None,
    resume: bool,
    seed: int,
) -> None:
    """Run the entries of CONFIG, an INI file, and print the table of results.

    Without --lab, topologies are built in network namespaces of this machine, which needs root and a kernel with netem;
    whatever is changed is put back, and `ccmix restore` puts it back after a crash.
    """
    from ccmix.cli import start  # noqa: PLC0415

    outdir = outdir or Path("results") / config.stem
    options = start.Options(
        outdir=outdir, in_lab=in_lab, jobs=jobs, only=only, named=named, resume=resume, seed=seed,
        overrides=Overrides(hosts, nic, netem_at),
    )  # fmt: skip
    sys.exit(start.campaign(config, options))


@main.command()
@_config
@_only
@_hosts
@_nic
@_netem_at
@_seed
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def plan(
    config: Path,
    only: tuple[str, ...],
    hosts: Path | None,
    nic: str | None,
    netem_at: str | None,
    seed: int,
    form: str,
) -> None:
    """Print what `ccmix run CONFIG` would run, in its order, and for how long. Nothing is started.

    Of each entry: its destinations, commands, and what will be set on which host; then its runs.
    """
    from ccmix.report import plan_text  # noqa: PLC0415

    loaded = load(config, overrides=Overrides(hosts, nic, netem_at))
    entries = select(loaded.entries, only, config)
    runs = make_plan(entries, seed)
    for notice in loaded.notices:
        click.echo(notice, err=True)
    if form == "json":
        keys = ("entry", "condition", "dst", "iteration")
        click.echo(json.dumps([{key: getattr(run, key) for key in keys} | {"seconds": run.seconds} for run in runs]))
        return
    click.echo(plan_text.render(entries, runs), nl=False)
    click.echo(plan_text.total(span(runs)), err=True)


@main.command()
@click.argument("outdirs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(["table", "json", "csv", "html"]), default="table",
              show_default=True)  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False),
              help="Write to this file instead of standard output; html: [default: OUTDIR/report.html]")  # fmt: skip
@click.option("--rtt-buckets", is_flag=True, help="Pool all base RTTs below 30 ms, and all others.")
@click.option("--against", metavar="KEY=VALUE",
              help="Compare with this one, paired by block: of a swept key, or entry=NAME, or group=NAME.")  # fmt: skip
@click.option("--metric", default="goodput_bps", show_default=True, help="What --against compares (docs/metrics.md).")
@click.option("--charts", "charts_folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Draw the charts that fit into this folder instead, and print their files.")  # fmt: skip
@click.option("--chart", "kinds", type=click.Choice(KINDS), multiple=True,
              help="Only charts of this kind, of all conditions; may be given several times.")  # fmt: skip
@click.option("--image", type=click.Choice(["svg", "png", "json"]), default="svg", show_default=True,
              help="What --charts writes; json: Vega-Lite.")  # fmt: skip
@click.option("--colours", type=click.Choice(["auto", "linear", "log"]), default="auto", show_default=True,
              help="Steps of the colours in heat maps that --charts writes.")  # fmt: skip
def report(
    outdirs: tuple[Path, ...],
    form: str,
    output: Path | None,
    rtt_buckets: bool,
    against: str | None,
    metric: str,
    charts_folder: Path | None,
    kinds: tuple[Kind, ...],
    image: Image,
    colours: Literal["auto", "linear", "log"],
) -> None:
    """Print the results of the campaigns in OUTDIRS: a row per entry, condition and group.

    html also has a chart for each condition, and writes them as SVG into a folder beside the file.

    \b
    ccmix report results/a --against cca=cubic     does each other CCA differ from CUBIC, and by how much?
    ccmix report results/a --charts figures --image png     charts as files
    """
    from ccmix.report import results as collected  # noqa: PLC0415
    from ccmix.report import text  # noqa: PLC0415

    results = replace(collected.load_results(outdirs), rtt_buckets=rtt_buckets)
    if charts_folder:
        from ccmix.cli import charts  # noqa: PLC0415

        for file in charts.drawn(results, charts.Options(charts_folder, kinds, image, colours)):
            click.echo(file)
        return
    if against:
        from ccmix.cli.against import compared  # noqa: PLC0415

        written = compared(results, against, metric, form)
    elif form == "html":
        from ccmix.report.html import write_report  # noqa: PLC0415

        page = output or outdirs[0] / "report.html"
        with naming(page):
            write_report(results, page)
        click.echo(page)
        return
    elif form == "json":
        written = json.dumps([row.to_json() for row in results.rows], indent=1) + "\n"
    elif form == "csv":
        written = text.csv_table(results.rows, results.swept)
    else:
        written = text.render(results)
    put(written, output)
    for sentence in text.notes(results) if form == "table" else ():
        click.echo(sentence, err=True)


class Quantity(click.ParamType[float]):
    """'88ms' or '10gbit' to an SI number."""

    name = "quantity"

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            quantity = self._parse(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not quantity:
            self.fail(f"'{value}' is nothing", param, ctx)
        return quantity


class Share(click.ParamType[float]):
    """'10%' to a fraction."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            share = parse_percent(value)
        except ValueError as error:
            self.fail(f"'{value}' {error}", param, ctx)
        if not 0 < share < 1:
            self.fail(f"'{value}' is not between 0% and 100%", param, ctx)
        return share


@main.command()
@click.argument("outdir_a", type=click.Path(path_type=Path), metavar="A")
@click.argument("outdir_b", type=click.Path(path_type=Path), metavar="B")
@click.option("--format", "form", type=click.Choice(["table", "json", "html", "markdown", "svg"]), default="table",
              show_default=True)  # fmt: skip
@click.option("--margin", type=Share(), default="10%", show_default=True,
              help="Means whose ratio is within 1 ± this are the same.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False),
              help="Write to this file instead of standard output.")  # fmt: skip
def compare(outdir_a: Path, outdir_b: Path, form: str, margin: float, output: Path | None) -> None:
    """Compare the campaigns in two folders, condition by condition, also of a real path with an emulated one.

    First what differs between their hosts and paths; then, for each condition that both have, the numbers side by side,
    their ratio with its 95% interval, and a verdict: the same within the margin, different (by how much), or can't tell
    (how many more runs would do).

    \b
    ccmix compare results/geneva results/geneva-in-the-lab --margin 5%
    """
    from ccmix.cli import compare as command  # noqa: PLC0415

    written = command.compared(command.Options(outdir_a, outdir_b, margin, form))
    put(written, output)


@main.command()
@click.argument("outdirs", type=click.Path(path_type=Path), nargs=-1)
@click.option("--url", metavar="URL", envvar="CCMIX_INDEX_URL", required=True,
              help="Of Elasticsearch 8, such as https://elastic.example.org:9200; without a password.")  # fmt: skip
@click.option("--setup", is_flag=True, help="Make or update templates, indices and the policy for samples first.")
@click.option("--demo", is_flag=True, help="The archives that come with ccmix, into a server that --setup prepares.")
@_only
@click.option("--credentials", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With 'api-key = ...', or 'user = ...' and 'password = ...'; see CCMIX_INDEX_... too.")  # fmt: skip
@click.option("--ca", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="CA certificates that verify the server's  [default: the system's]")  # fmt: skip
@click.option("--spool", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Where documents wait  [default: in ccmix's state folder]")  # fmt: skip
@click.option("--patience", type=float, envvar=PATIENCE, default=600.0, show_default=True, metavar="SECONDS",
              help="How long the server may take nothing before this gives up.")  # fmt: skip
@click.option("--follow", is_flag=True, hidden=True)
def index(
    outdirs: tuple[Path, ...],
    url: str,
    setup: bool,
    demo: bool,
    only: tuple[str, ...],
    credentials: Path | None,
    ca: Path | None,
    spool: Path | None,
    patience: float,
    follow: bool,
) -> None:
    """Put the campaigns in OUTDIRS into an Elasticsearch, for Kibana.

    Doing it again changes nothing; after a new analysis it replaces what was there. What the server does not take now
    waits on disk and is tried again; what it never takes is kept aside with the reason.

    \b
    ccmix index --url http://localhost:9200 --setup          once
    ccmix index --url http://localhost:9200 results/demo
    """
    from ccmix.cli import index as command  # noqa: PLC0415

    options = command.Options(outdirs, url, setup, demo, only, credentials, ca, spool, patience, follow)
    sys.exit(command.index(options))


@main.command(name="import")
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--outdir", type=click.Path(path_type=Path, file_okay=False), required=True,
              help="A new folder for the archive.")  # fmt: skip
@click.option("--as", "kind", metavar="KIND", help="What the files are  [default: recognised by their content]")
@click.option("--entry", metavar="NAME",
              help="Of all runs; {dst}, {src}, {streams} are replaced  [default: of the table or folder]")  # fmt: skip
@click.option("--src", metavar="NAME", help="The sending host, where the files don't tell or to call it otherwise.")
@click.option("--dst", metavar="NAME", help="The receiving host, likewise.")
@click.option("--rtt", type=Quantity(parse_time), metavar="TIME", help="Base RTT of the path, such as 88ms.")
@click.option(
    "--rate", type=Quantity(parse_rate), metavar="RATE", help="Rate of the path's bottleneck, such as 10gbit."
)
@click.option("--cca", metavar="NAME", help="The CCA of runs for which the files tell none.")
@click.option("--setting", "settings", multiple=True, metavar="COLUMN",
              help="A column of tables that is a setting and no result; may be given several times.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what would be imported, and write nothing.")
def import_(
    paths: tuple[Path, ...],
    outdir: Path,
    kind: str | None,
    entry: str | None,
    src: str | None,
    dst: str | None,
    rtt: float | None,
    rate: float | None,
    cca: str | None,
    settings: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Put results that others measured into an archive, for report, compare and index.

    PATHS are files, or folders with such files: iperf3's JSON or text (-V), logs of ss, pScheduler's results and the
    messages of its archivers, output folders of the ESnet testing harness, tables as CSV. What a run of ccmix has and
    they have not stays empty, and the run's validity is unknown. Doing it again changes nothing.

    \b
    ccmix import bost-40g.csv -o results/bost-40g --src bost-dtn --dry-run
    ccmix import iperf3-logs/ -o results/geneva --dst geneva --rtt 88ms
    """
    from ccmix.cli import import_ as command  # noqa: PLC0415
    from ccmix.importing.found import Told  # noqa: PLC0415

    told = Told(entry, src, dst, rtt, rate, cca, settings)
    command.import_(command.Options(paths, outdir, kind, told, dry_run))


@main.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@_only
@_hosts
@_nic
@_netem_at
@click.option("-o", "--outdir", type=click.Path(path_type=Path, file_okay=False),
              help="Folder that the results would go to  [default: results/NAME-OF-THE-FILE]")  # fmt: skip
@click.option("--lab", "in_lab", is_flag=True, help="For runs in the lab, as with `ccmix run --lab`.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def doctor(
    config: Path | None,
    only: tuple[str, ...],
    hosts: Path | None,
    nic: str | None,
    netem_at: str | None,
    outdir: Path | None,
    in_lab: bool,
    form: str,
) -> None:
    """Say whether the hosts are fit for the entries of CONFIG; without CONFIG, what this machine could be used for.

    Each check is ok, warn, fail (an entry asks for it and can't have it) or unknown, with what was seen, why it matters
    and the command that mends it. Nothing is changed, and nothing but pings is sent.
    """
    from ccmix.cli import doctor as command  # noqa: PLC0415

    sys.exit(command.doctor(config, Overrides(hosts, nic, netem_at), outdir, only, in_lab, form))


@main.command()
@click.argument("hosts", nargs=-1)
def restore(hosts: tuple[str, ...]) -> None:
    """Put back what a run that died has left changed on this machine, or on HOSTS.

    A host is netns:NAME, or what ssh takes: [USER@]HOST. Runs write the undo of each change to the disk of the host
    before they make it; after a reboot there is nothing to undo.
    """
    from ccmix.cli import restore as restoring  # noqa: PLC0415

    restored = list(restoring.on_hosts(hosts) if hosts else restoring.on_this_machine())
    for what, reason in restored:
        click.echo(f"{what}: {reason or 'restored'}", err=True)
    if not restored:
        click.echo("nothing to restore", err=True)
    sys.exit(status.BAD if any(reason for _, reason in restored) else status.GOOD)


@main.command()
@click.argument("hosts", nargs=-1)
@click.option(
    "-H", "--hosts-file", type=click.Path(path_type=Path), metavar="HOSTS.csv", help="More hosts, as for run."
)
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
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="[default: standard output]")
def psconfig(hosts: tuple[str, ...], output: Path | None, **parameters: Any) -> None:
    """Write a pSConfig template: the mesh of HOSTS, which test mixes of CCAs with pScheduler on a schedule.

    \b
    ccmix psconfig ps1.example.org ps2.example.org ps3.example.org \\
        --groups cubic:8,bbr:8 --groups cubic --groups bbr --streams 16 \\
        --archive https://archive.example.org/logstash -o mesh.json
    """
    from ccmix.cli import psconfig as command  # noqa: PLC0415

    command.write(hosts, output, **parameters)


@main.group(name="lab")
def lab_group() -> None:
    """The lab: a Linux kernel in virtual time, as an ordinary process."""


_memory = click.option(
    "--memory", type=click.IntRange(64), default=1024, show_default=True, help="Of the guest, in MiB."
)
_on_path = click.option(
    "--path", type=click.Path(path_type=Path, dir_okay=False),
    help="An INI file: with the emulated path of its first run set up.",
)  # fmt: skip
_of_run = click.option("--run", "run_name", default="", help="Of the first run with this in its name in `ccmix plan`.")
_guest_seed = click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=DEFAULT_SEED, show_default=True)


@lab_group.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_on_path
@_of_run
@_memory
@_guest_seed
def lab_exec(command: tuple[str, ...], path: Path | None, run_name: str, memory: int, seed: int) -> None:
    """Run COMMAND as root in a guest; its exit status is that of this command.

    The guest sees this machine's files read-only, and has network namespaces, netem and tc of its own. Its working
    folder is empty and removed afterwards; standard input is empty; both outputs come together when it has ended, of
    more than 1 MiB the end.

    \b
    ccmix lab exec -- sh -c 'ip link; uname -r; date'
    ccmix lab exec --path configs/demo.ini --run 'mixed delay=44ms' -- \\
        ip netns exec ccmix-h1 ping -c 3 10.0.3.2
    """
    from ccmix.cli import lab  # noqa: PLC0415

    sys.exit(lab.run_in_guest(lab.Options(command, memory * 2**20, seed, path, run_name)))


@lab_group.command(name="shell", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@_on_path
@_of_run
@_memory
@_guest_seed
@click.option("--virtual-time", is_flag=True, help="As in runs. The clock jumps ahead while nobody types.")
def lab_shell(
    command: tuple[str, ...], path: Path | None, run_name: str, memory: int, seed: int, virtual_time: bool
) -> None:
    """A guest on this terminal: COMMAND in it, or a shell; the guest ends with it.

    As with `ccmix lab exec`, but in real time, so that things can be looked at while they go on: speeds are
    what this machine can do, and nothing is repeatable.
    """
    from ccmix.cli import lab  # noqa: PLC0415

    sys.exit(lab.shell(lab.Options(command, memory * 2**20, seed, path, run_name), virtual_time))
