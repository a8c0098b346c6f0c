"""`ccmix cca`: loads BBRv2 and BBRv3 into a running kernel as BPF programs, and shows their state.

The kernel is that of this machine or of another host.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from ccmix import foreign_json
from ccmix.cli import options, output
from ccmix.cli.output import put, tell
from ccmix.conditions.bpf_cca import allow_users as allow
from ccmix.conditions.bpf_cca import check_allowing
from ccmix.hosts import LocalHost
from ccmix.hosts.address import AddressKind, HostAddress, parse_host
from ccmix.hosts.agent_host import AgentHost, copied_to_host
from ccmix.hosts.errors import ExitStatusError, exit_status_error
from ccmix.hosts.host import Process
from ccmix.hosts.output_text import shortened
from ccmix.hosts.pool import connect
from ccmix.temporary import temporary_folder
from ccmix.terms import BPF_CCAS
from ccmix.text.printable import printable
from ccmix.text.tables import plain
from ccmix.tools import find_cca
from ccmix.units import format_rate, format_time

UNSET = "–"  # the cell of a value that is not known or not set
Row = dict[str, Any]  # an object in the JSON that ccmix-cca prints
WITHIN_S = 30.0  # for each command of ccmix-cca

# `check` exits with 1 if a need is not met: no reason to stop
_EITHER_WAY = ("sh", "-c", '"$@" || test $? -eq 1', "sh")
CONNECTION = (
    "CCA",
    "from",
    "to",
    "phase",
    "cycle",
    "bandwidth",
    "short-term bound",
    "min RTT",
    "pacing gain",
    "cwnd gain",
    "inflight_lo",
    "inflight_hi",
)


@dataclass
class _CcaProgram:
    """Runs commands on one host, above all ccmix-cca, the program that loads CCAs into the kernel.

    `path` is where ccmix-cca is on that host; `start` starts a process there. `prefix` is put
    before warnings ('' for this machine). `warned` becomes true when a command has printed a
    warning.
    """

    host: str
    path: str
    start: Callable[..., AbstractContextManager[Process]]
    prefix: str  # of warnings
    warned: bool = False

    def call(self, *arguments: str) -> str:
        """Runs ccmix-cca with these arguments, returns its standard output. Raises CommandError."""
        return self.run([self.path, *arguments])

    def run(self, argv: Sequence[str]) -> str:
        """Runs any command on the host, and returns its standard output.

        Shows each line of its standard error to the user as a warning. Raises CommandError if it
        fails.
        """
        with temporary_folder() as folder:
            stdout, stderr = folder / "stdout", folder / "stderr"
            with self.start(argv, stdout=stdout, stderr=stderr) as process:
                exit_status = process.wait(WITHIN_S)
            printed, warnings = (file.read_text(errors="replace") for file in (stdout, stderr))
        if exit_status != 0:
            raise exit_status_error(self.host, argv, exit_status, warnings or printed)
        for line in warnings.splitlines():
            self.warned = True
            tell(self.prefix + shortened(line))
        return printed


_name = click.argument("name", metavar="NAME", type=click.Choice(BPF_CCAS))
_parameters = click.argument("parameters", metavar="[PARAM=VALUE...]", nargs=-1)
_host = click.option(
    "--host",
    "host",
    metavar="HOST",
    help="Use this host instead of this machine: [USER@]HOST as for ssh, or netns:NAME.",
)


@click.group("cca")
def cca() -> None:
    """Load BBRv2 (bbr2) and BBRv3 (bbr3) into a stock kernel as BPF programs: no patch, no module,
    no reboot.

    Loading needs Linux 6.1 or newer with BTF, and root (on other hosts by sudo). Nothing needs to
    be installed on other hosts. A loaded CCA stays until `unload` or a reboot; connections use it
    only if a program or the administrator chooses it.

    \b
    ccmix cca check                      can this kernel load them?
    ccmix cca load bbr3                  programs can now choose bbr3
    ccmix-iperf3 -c HOST -C cubic,bbr3   CUBIC competes with BBRv3
    ccmix cca status                     which connections use it, and how
    ccmix cca unload bbr3                open connections keep it

    An entry with `cca-load = bbr3` loads and unloads the CCA on the sending host by itself.
    """


@cca.command("load", short_help="Load a CCA.")
@_name
@_parameters
@click.option(
    "--allow-users",
    is_flag=True,
    help="Also let users without root choose it, until it is unloaded.",
)
@_host
def cca_load(name: str, parameters: tuple[str, ...], allow_users: bool, host: str | None) -> None:
    """Load NAME, bbr2 or bbr3, with these parameters. Names and units are those of the kernel
    module.

    The loaded CCA does not become the default: `sysctl net.ipv4.tcp_congestion_control` decides
    that. With --allow-users, it may already be loaded with the same parameters.

    \b
    ccmix cca load bbr3
    ccmix cca load bbr3 --allow-users
    ccmix cca load bbr2 loss_thresh=5 --host dtn@dtn1.example.org
    """
    with _program_on(host) as program:
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
    """Change parameters of NAME. All of its connections use them from their next ACK on.

    \b
    ccmix cca set bbr3 loss_thresh=5
    ccmix cca set bbr2 pacing_gain=320,192,256,256 --host dtn1.example.org
    """
    with _program_on(host) as program:
        program.call("set", name, *parameters)


@cca.command("unload", short_help="Unload a CCA.")
@_name
@click.option("--missing-ok", is_flag=True, help="Succeed if it is not loaded.")
@_host
def cca_unload(name: str, missing_ok: bool, host: str | None) -> None:
    """Unload NAME. No new connection can choose it; existing connections keep it until they
    close.

    \b
    ccmix cca unload bbr3
    ccmix cca unload bbr3 --missing-ok --host dtn1.example.org
    """
    with _program_on(host) as program:
        program.call("unload", name, *(["--missing-ok"] if missing_ok else []))


@cca.command("list", short_help="List the loaded CCAs.")
@options.form("table", "json")
@_host
def cca_list(form: str, host: str | None) -> None:
    """List the CCAs that are loaded as BPF programs. --format json shows all of their parameters.

    \b
    ccmix cca list
    ccmix cca list --format json --host dtn1.example.org
    """
    with _program_on(host) as program:
        rows = _parsed_rows(program.call("list", "--json"))
    if form == "json" or rows:
        put(_formatted(form, ("CCA", "sockets", "fallbacks", "program"), rows, _cca_cells))
    else:
        tell("nothing is loaded as a BPF program: 'ccmix cca load bbr3' loads BBRv3")


@cca.command("status", short_help="Show the connections that use a loaded CCA.")
@click.argument("name", metavar="[NAME]", type=click.Choice(BPF_CCAS), required=False)
@options.form("table", "json")
@_host
def cca_status(name: str | None, form: str, host: str | None) -> None:
    """Show the connections of all network namespaces that use a loaded CCA, with the state of their
    models.

    \b
    ccmix cca status
    ccmix cca status bbr3 --format json --host dtn1.example.org
    """
    with _program_on(host) as program:
        rows = _parsed_rows(program.call("status", *([name] if name else []), "--json"))
    if form == "json" or rows:
        put(_formatted(form, CONNECTION, rows, _connection_cells))
    elif not program.warned:
        tell("no connection uses a CCA that is loaded as a BPF program")


@cca.command("check", short_help="Check whether a kernel can load them.")
@options.form("table", "json")
@_host
def cca_check(form: str, host: str | None) -> None:
    """Check whether the kernel and the login can load bbr2 and bbr3: kernel version, BTF, JIT and
    rights. Nothing is changed.

    \b
    ccmix cca check
    ccmix cca check --host dtn@dtn1.example.org
    """
    with _program_on(host) as program:
        rows = _parsed_rows(program.run([*_EITHER_WAY, program.path, "check", "--json"]))
    put(_formatted(form, ("need", "", "seen"), rows, _need_cells))
    sys.exit(output.GOOD if all(row.get("ok") is True for row in rows) else output.BAD)


@contextmanager
def _program_on(name: str | None) -> Iterator[_CcaProgram]:
    """Yields ccmix-cca, ready to run on the host of this name (None: this machine).

    If a command fails on the host, prints its message and exits with status 1, or 2 if ccmix-cca
    refused the arguments. Raises BadParameter, CommandError or ToolError.
    """
    try:
        address = parse_host(name) if name else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--host") from error
    program = find_cca()
    try:
        if address is None or address.kind is AddressKind.LOCAL:
            yield _CcaProgram(LocalHost.name, str(program), LocalHost().start, "")
        else:
            with _agent_on(address) as host:
                as_root = partial(host.start, privileged=True)
                with copied_to_host(host, program) as there:
                    yield _CcaProgram(host.name, there, as_root, f"{name}: ")
    except ExitStatusError as error:
        reason = error.reason.partition(": ")[2] or error.reason
        tell(f"{name}: {reason}" if name else reason)
        sys.exit(output.WRONG_INPUT if error.status == output.WRONG_INPUT else output.BAD)


@contextmanager
def _agent_on(address: HostAddress) -> Iterator[AgentHost]:
    """Connects by ssh to a host, on which an agent of ccmix then starts commands; yields the agent.

    The agent is an onlooker: it takes no lock, so it also starts while a campaign has locked the
    host. Raises ConnectError.
    """
    host = connect(address, "ccmix cca", onlooker=True, tell=tell)
    try:
        yield host
    finally:
        host.close()


def _parsed_rows(output: str) -> list[Row]:
    """Parses the JSON of ccmix-cca: a list of objects, one for each CCA, connection or need.

    Raises ClickException for any other output.
    """
    with _explain_unknown_output():
        rows: list[Row] = foreign_json.loads(output)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is not a list of objects")
    return rows


@contextmanager
def _explain_unknown_output() -> Iterator[None]:
    """Turns each error of parsing in this context into a message that the output of ccmix-cca is
    not understood: raises ClickException in place of ValueError, KeyError, TypeError and the like.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise click.ClickException(
            f"the output of ccmix-cca is not understood: {error!r}"
        ) from error


def _formatted(
    form: str, headings: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], Sequence[str]]
) -> str:
    """Formats the rows as JSON (form 'json'), or as a table with these headings.

    `cells` returns the cells of the table for one row. Raises ClickException if a row lacks a key.
    """
    if form == "json":
        return json.dumps(rows, indent=2) + "\n"
    table = Table(*headings, box=None, pad_edge=False)
    with _explain_unknown_output():
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in cells(row)))
    return plain(table)


def _need_cells(row: Row) -> list[str]:
    """Returns the cells for something that loading needs of a kernel: name, state and details."""
    return [row["need"], "ok" if row["ok"] else "lacks", row["word"]]


def _cca_cells(row: Row) -> list[str]:
    """Returns the cells for a loaded CCA: name, its sockets, its fallbacks, and the BPF program."""
    counts = (
        UNSET if row[count] is None else str(row[count]) for count in ("sockets", "fallbacks")
    )
    return [row["name"], *counts, row["program"] or UNSET]


def _connection_cells(row: Row) -> list[str]:
    """Returns the cells for a TCP connection and its BBR model, in the order of CONNECTION.

    A value that the CCA has not set yet is null in the JSON, and a dash in the table.
    """
    return [
        row["name"],
        *(
            _address_and_port(row[f"{end}_address"], row[f"{end}_port"])
            for end in ("local", "remote")
        ),
        row["phase"],
        str(row["cycle"]),
        *(
            UNSET if row[rate] is None else format_rate(row[rate])
            for rate in ("bw_bps", "bw_lo_bps")
        ),
        UNSET if row["min_rtt_us"] is None else format_time(row["min_rtt_us"] / 1e6),
        *(f"{row[gain]:.2f}" for gain in ("pacing_gain", "cwnd_gain")),
        *(
            UNSET if row[bound] is None else str(row[bound])
            for bound in ("inflight_lo_packets", "inflight_hi_packets")
        ),
    ]


def _address_and_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
