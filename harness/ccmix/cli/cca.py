"""`ccmix cca`: loads BBRv2 and BBRv3 into the running kernel of this machine or of a host, and shows what they do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ccmix.cli import options, status
from ccmix.cli.output import put, tell
from ccmix.terms import BPF_CCAS

if TYPE_CHECKING:
    from ccmix.hosts.address import HostAddress
    from ccmix.hosts.agent_host import AgentHost
    from ccmix.hosts.host import Process

UNSET = "–"
Row = dict[str, Any]  # as ccmix-cca prints it
WITHIN_S = 30.0

_EITHER_WAY = ("sh", "-c", '"$@" || test $? -eq 1', "sh")  # `check` says by its status whether something lacks
CONNECTION = (
    "CCA", "from", "to", "phase", "cycle", "bandwidth", "short-term bound", "min RTT", "pacing gain", "cwnd gain",
    "inflight_lo", "inflight_hi",
)  # fmt: skip


@dataclass
class _Program:
    """Holds ccmix-cca on a host, and what runs commands there. `warned` says whether one has warned of something."""

    host: str
    path: str
    start: Callable[..., AbstractContextManager[Process]]
    prefix: str  # of warnings
    warned: bool = False

    def call(self, *arguments: str) -> str:
        """Returns the output of ccmix-cca. Raises CommandError."""
        return self.run([self.path, *arguments])

    def run(self, argv: Sequence[str]) -> str:
        """Runs a command, and returns its output; what it says on standard error is told. Raises CommandError."""
        from ccmix.hosts.errors import exit_status_error
        from ccmix.hosts.output_text import shortened
        from ccmix.temporary import temporary_folder

        with temporary_folder() as folder:
            stdout, stderr = folder / "stdout", folder / "stderr"
            with self.start(argv, stdout=stdout, stderr=stderr) as process:
                exit_status = process.wait(WITHIN_S)
            output, warnings = (file.read_text(errors="replace") for file in (stdout, stderr))
        if exit_status != 0:
            raise exit_status_error(self.host, argv, exit_status, warnings or output)
        for line in warnings.splitlines():
            self.warned = True
            tell(self.prefix + shortened(line))
        return output


_name = click.argument("name", metavar="NAME", type=click.Choice(BPF_CCAS))
_parameters = click.argument("parameters", metavar="[PARAM=VALUE...]", nargs=-1)
_host = click.option(
    "--host", "host", metavar="HOST",
    help="On this host instead of this machine: [USER@]HOST as ssh takes it, or netns:NAME.",
)  # fmt: skip


@click.group("cca", short_help="Load BBRv2 and BBRv3 into a running kernel, without a patch.")
def cca() -> None:
    """Load BBRv2 (bbr2) and BBRv3 (bbr3) into a stock kernel as BPF programs: no patch, no module, no reboot.

    It needs Linux 6.1 or newer with BTF, and root there: by sudo on other hosts, which need nothing installed. What is
    loaded stays until `unload` or a reboot; connections use it only if a program or the administrator chooses it.

    \b
    ccmix cca check                      can this kernel load them?
    ccmix cca load bbr3                  programs may now ask for bbr3
    ccmix-iperf3 -c HOST -C cubic,bbr3   one beside the other
    ccmix cca status                     which connections use it, and how
    ccmix cca unload bbr3                those keep it until they close

    An entry with `cca-load = bbr3` does this by itself on the sending host, and takes it back.
    """


@cca.command("load", short_help="Load a CCA.")
@_name
@_parameters
@click.option("--allow-users", is_flag=True, help="Let users without root choose it, too, until it is unloaded.")
@_host
def cca_load(name: str, parameters: tuple[str, ...], allow_users: bool, host: str | None) -> None:
    """Load NAME, bbr2 or bbr3, with these parameters, which have the names and units of the module's.

    It does not become the default: `sysctl net.ipv4.tcp_congestion_control` decides that. With --allow-users it may be
    loaded already, with these parameters.

    \b
    ccmix cca load bbr3
    ccmix cca load bbr3 --allow-users
    ccmix cca load bbr2 loss_thresh=5 --host dtn@dtn1.example.org
    """
    from ccmix.conditions.bpf_cca import allow_users as allow
    from ccmix.conditions.bpf_cca import check_allowing

    with _on(host) as program:
        if allow_users:
            check_allowing(program.host, program.run)
        program.call("load", name, *parameters, *(["--keep"] if allow_users else []))
        if allow_users:
            program.run(allow(name))


@cca.command("set", short_help="Change parameters of a loaded CCA.")
@_name
@click.argument("parameters", metavar="PARAM=VALUE...", nargs=-1, required=True)
@_host
def cca_set(name: str, parameters: tuple[str, ...], host: str | None) -> None:
    """Change parameters of NAME, which count for all of its connections from their next ACK on.

    \b
    ccmix cca set bbr3 loss_thresh=5
    ccmix cca set bbr2 pacing_gain=320,192,256,256 --host dtn1.example.org
    """
    with _on(host) as program:
        program.call("set", name, *parameters)


@cca.command("unload", short_help="Unload a CCA.")
@_name
@click.option("--missing-ok", is_flag=True, help="Succeed if it is not loaded.")
@_host
def cca_unload(name: str, missing_ok: bool, host: str | None) -> None:
    """Unload NAME: no new connection can choose it, and connections that use it keep it until they close.

    \b
    ccmix cca unload bbr3
    ccmix cca unload bbr3 --missing-ok --host dtn1.example.org
    """
    with _on(host) as program:
        program.call("unload", name, *(["--missing-ok"] if missing_ok else []))


@cca.command("list", short_help="List what is loaded.")
@options.form("table", "json")
@_host
def cca_list(form: str, host: str | None) -> None:
    """List the CCAs that are loaded as BPF programs; --format json has all of their parameters.

    \b
    ccmix cca list
    ccmix cca list --format json --host dtn1.example.org
    """
    with _on(host) as program:
        rows = _rows(program.call("list", "--json"))
    if form == "json" or rows:
        put(_shown(form, ("CCA", "sockets", "fallbacks", "program"), rows, _listed))
    else:
        tell("nothing is loaded as a BPF program: 'ccmix cca load bbr3' loads BBRv3")


@cca.command("status", short_help="Show the connections that use a loaded CCA.")
@click.argument("name", metavar="[NAME]", type=click.Choice(BPF_CCAS), required=False)
@options.form("table", "json")
@_host
def cca_status(name: str | None, form: str, host: str | None) -> None:
    """Show each connection that uses a loaded CCA, of all network namespaces, with the state of its model.

    \b
    ccmix cca status
    ccmix cca status bbr3 --format json --host dtn1.example.org
    """
    with _on(host) as program:
        rows = _rows(program.call("status", *([name] if name else []), "--json"))
    if form == "json" or rows:
        put(_shown(form, CONNECTION, rows, _connection))
    elif not program.warned:
        tell("no connection uses a CCA that is loaded as a BPF program")


@cca.command("check", short_help="Say whether a kernel can load them.")
@options.form("table", "json")
@_host
def cca_check(form: str, host: str | None) -> None:
    """Say whether the kernel and the login can load them: kernel version, BTF, JIT, rights. Nothing is changed.

    \b
    ccmix cca check
    ccmix cca check --host dtn@dtn1.example.org
    """
    with _on(host) as program:
        rows = _rows(program.run([*_EITHER_WAY, program.path, "check", "--json"]))
    put(_shown(form, ("need", "", "seen"), rows, _need))
    sys.exit(status.GOOD if all(row.get("ok") is True for row in rows) else status.BAD)


@contextmanager
def _on(name: str | None) -> Iterator[_Program]:
    """Gives ccmix-cca on the host of this name, by default on this machine.

    What it says of a failure is printed, and its exit status is that of this process. Raises BadParameter, CommandError
    or ToolError.
    """
    from ccmix.hosts import LocalHost
    from ccmix.hosts.address import AddressKind, parse_host
    from ccmix.hosts.errors import ExitStatusError
    from ccmix.hosts.output_text import printable
    from ccmix.hosts.sent import sent
    from ccmix.tools import find_cca

    try:
        address = parse_host(name) if name else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--host") from error
    program = find_cca()
    try:
        if address is None or address.kind is AddressKind.LOCAL:
            yield _Program(LocalHost.name, str(program), LocalHost().start, "")
        else:
            with _agent(address) as host:
                as_root = partial(host.start, privileged=True)
                with sent(host, program) as there:
                    yield _Program(host.name, there, as_root, f"{name}: ")
    except ExitStatusError as error:
        reason = printable(error.reason.partition(": ")[2] or error.reason)
        tell(f"{name}: {reason}" if name else reason)
        sys.exit(status.WRONG_INPUT if error.status == status.WRONG_INPUT else status.BAD)


@contextmanager
def _agent(address: HostAddress) -> Iterator[AgentHost]:
    """Connects to a host beside a campaign that may have it. Raises ConnectError."""
    from ccmix.hosts.connect import connect

    host = connect(address, "ccmix cca", onlooker=True, tell=tell)
    try:
        yield host
    finally:
        host.close()


def _rows(output: str) -> list[Row]:
    """Returns what ccmix-cca has printed as JSON. Raises ClickException for something else."""
    from ccmix import foreign_json

    with _understood():
        rows: list[Row] = foreign_json.loads(output)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is no list of objects")
    return rows


@contextmanager
def _understood() -> Iterator[None]:
    """Raises ClickException for what a host may have in its output that is not ccmix-cca's."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise click.ClickException(f"the output of ccmix-cca is not understood: {error!r}") from error


def _shown(form: str, headings: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], Sequence[str]]) -> str:
    """Returns the rows as JSON, or a table of the cells of each. Raises ClickException for rows not of ccmix-cca."""
    from rich.table import Table
    from rich.text import Text

    from ccmix.hosts.output_text import printable
    from ccmix.plain_text import plain

    if form == "json":
        return json.dumps(rows, indent=2) + "\n"
    table = Table(*headings, box=None, pad_edge=False)
    with _understood():
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in cells(row)))
    return plain(table)


def _need(row: Row) -> list[str]:
    return [row["need"], "ok" if row["ok"] else "lacks", row["word"]]


def _listed(row: Row) -> list[str]:
    counts = (UNSET if row[count] is None else str(row[count]) for count in ("sockets", "fallbacks"))
    return [row["name"], *counts, row["program"] or UNSET]


def _connection(row: Row) -> list[str]:
    """Returns the row under CONNECTION."""
    from ccmix.units import format_rate, format_time

    return [
        row["name"],
        *(_end(row[f"{end}_address"], row[f"{end}_port"]) for end in ("local", "remote")),
        row["phase"],
        str(row["cycle"]),
        *(UNSET if row[rate] is None else format_rate(row[rate]) for rate in ("bw_bps", "bw_lo_bps")),
        UNSET if row["min_rtt_us"] is None else format_time(row["min_rtt_us"] / 1e6),
        *(f"{row[gain]:.2f}" for gain in ("pacing_gain", "cwnd_gain")),
        *(UNSET if row[bound] is None else str(row[bound]) for bound in ("inflight_lo_packets", "inflight_hi_packets")),
    ]


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
