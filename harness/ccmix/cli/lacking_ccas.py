"""Finds CCAs that the runs of a plan ask for, and that the kernel of their senders lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ccmix.hosts import Host
    from ccmix.model import Run

_NO_SUCH_CCA = 3
_ASK = f"""
import errno, socket, sys
try:
    socket.socket().setsockopt(socket.IPPROTO_TCP, 13, sys.argv[1].encode())  # TCP_CONGESTION of <linux/tcp.h>
except OSError as error:
    sys.exit({_NO_SUCH_CCA} if error.errno == errno.ENOENT else 0)
"""


@dataclass(frozen=True)
class _Lack:
    """Describes what a kernel of the lab lacks."""

    ccas: tuple[str, ...]
    sentence: str


def refuse_in_lab(runs: Iterable[Run]) -> None:
    """Raises UsageError if a kernel of the lab lacks a CCA. Raises ToolError where there is no kernel."""
    if lacks := _lacks_of_lab(runs):
        raise click.UsageError("; ".join(lack.sentence for lack in lacks.values()))


def refuse_on_hosts(runs: Iterable[Run], host_of: Callable[[str], Host]) -> None:
    """Raises UsageError if a sending host lacks a CCA, this machine for emulated paths.

    A socket is given each CCA that is not available, as by the test itself: for root the kernel then loads its module.
    Hosts on which a command runs before the test aren't asked, since that may load one. Raises ConnectError.
    """
    from ccmix.doctor.ccas import read_ccas
    from ccmix.hosts import CommandError
    from ccmix.model import HostPath

    by_host: dict[str, list[Run]] = {}
    for run in runs:
        if name := _sender(run):
            by_host.setdefault(name, []).append(run)
    for name, own in by_host.items():
        loaded = {cca for run in own if isinstance(run.path, HostPath) for cca in run.path.cca_load}
        wanted, host = _wanted(own) - loaded, host_of(name)
        try:
            available = read_ccas(host, ()).available
            lacks = [cca for cca in sorted(wanted - set(available)) if _refused(host, cca)]
        except (CommandError, ValueError):
            continue  # what a run needs of the host, the run says
        if lacks:
            raise click.UsageError(f"{_asked(lacks, own)}: the kernel of {name} has {' '.join(sorted(available))}")


def warn_of_lab(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on CCAs of emulated paths that a kernel of the lab lacks.

    Raises UsageError where nothing could make the runs: this machine lacks them as well, or the kernel is not the stock
    one, which only the lab has.
    """
    from ccmix.doctor.ccas import read_ccas
    from ccmix.doctor.examine import ExaminedMachine
    from ccmix.hosts import CommandError
    from ccmix.model import STOCK_KERNEL
    from ccmix.tools import ToolError

    try:
        lacks = _lacks_of_lab(runs)
    except ToolError:
        return None  # a plan needs no lab
    if not lacks:
        return None
    asked = "; ".join(lack.sentence for lack in lacks.values())
    if any(name != STOCK_KERNEL for name in lacks):
        raise click.UsageError(asked)
    ccas = lacks[STOCK_KERNEL].ccas
    try:
        here = read_ccas(ExaminedMachine(), ccas)
        known = {*here.available, *here.loadable}
        missing = [cca for cca in ccas if cca not in known and _refused(ExaminedMachine(), cca)]
    except (CommandError, ValueError):
        missing = []
    if missing:
        raise click.UsageError(f"{asked}; this machine's kernel lacks {' '.join(missing)} as well")
    return f"{asked}; 'ccmix run --lab' refuses it"


def _refused(host: Host, cca: str) -> bool:
    """Returns whether the host's kernel says that it has no such CCA, and no module of it. Raises CommandError."""
    from ccmix.doctor.reading import transcript
    from ccmix.isolated import python_command

    return transcript(host, python_command(_ASK, cca))[0] == _NO_SUCH_CCA


def _lacks_of_lab(runs: Iterable[Run]) -> dict[str, _Lack]:
    """Returns what the kernels lack, by their names."""
    from ccmix.cli.lab_kernels import kernel_named
    from ccmix.lab.kernel_config import ccas_of_kernel
    from ccmix.model import STOCK_KERNEL, Topology

    by_kernel: dict[str, list[Run]] = {}
    for run in runs:
        if isinstance(run.path, Topology) and run.traffic.ccas:
            by_kernel.setdefault(run.path.kernel, []).append(run)
    lacks: dict[str, _Lack] = {}
    for name, own in by_kernel.items():
        built_in = ccas_of_kernel(kernel_named(name))
        if built_in is not None and (missing := tuple(sorted(_wanted(own) - built_in))):
            kernel = "the lab's kernel" if name == STOCK_KERNEL else f"the lab's kernel {name}"
            lacks[name] = _Lack(missing, f"{_asked(missing, own)}: {kernel} has {' '.join(sorted(built_in))}")
    return lacks


def _sender(run: Run) -> str | None:
    """Returns the host that must have a run's CCAs; None where nobody can say before the run."""
    from ccmix.model import HostPath

    if not isinstance(run.path, HostPath):
        return "localhost"
    commands = run.path.commands
    return None if not run.has_shell or commands.pre or commands.pre_src else run.path.src


def _wanted(runs: Iterable[Run]) -> set[str]:
    return {cca for run in runs for cca in run.traffic.ccas}


def _asked(lacks: Sequence[str], runs: Iterable[Run]) -> str:
    """Returns '[mixed] asks for bbr3'."""
    entries = dict.fromkeys(run.entry for run in runs if run.traffic.ccas & set(lacks))
    names = " ".join(f"[{entry}]" for entry in entries)
    return f"{names} {'asks' if len(entries) == 1 else 'ask'} for {' '.join(lacks)}"
