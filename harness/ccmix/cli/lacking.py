"""Finds kernels, CCAs and module parameters that the runs of a plan need, but that the lab or the
kernel of their senders lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ccmix.cli.lab import kernel_named, no_kernel
from ccmix.conditions.sysctl import FOLDER
from ccmix.doctor.examine import ExaminedMachine
from ccmix.doctor.kernel import read_ccas
from ccmix.doctor.report import transcript
from ccmix.doctor.this_machine import refusal
from ccmix.hosts import CommandError, Host
from ccmix.isolated import python_command
from ccmix.lab.spec import ccas_of_kernel
from ccmix.model import STOCK_KERNEL, HostPath, Run, Topology
from ccmix.tools import ToolError, named_kernels

_NO_SUCH_CCA = 3
_ASK = f"""
import errno, socket, sys
try:
    # TCP_CONGESTION of <linux/tcp.h>
    socket.socket().setsockopt(socket.IPPROTO_TCP, 13, sys.argv[1].encode())
except OSError as error:
    sys.exit({_NO_SUCH_CCA} if error.errno == errno.ENOENT else 0)
"""


@dataclass(frozen=True)
class _Lack:
    """Describes the CCAs that a kernel of the lab lacks."""

    ccas: tuple[str, ...]
    sentence: str


def refuse_in_lab(runs: Sequence[Run]) -> None:
    """Raises UsageError if a kernel of the lab lacks a CCA or refuses a parameter, ToolError if
    there is no kernel.
    """
    lacks = [lack.sentence for lack in _lacks_of_lab(runs).values()]
    if sentences := lacks or _refusals(runs):
        raise click.UsageError("; ".join(sentences))


def warnings_of_lab(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a sentence on CCAs and a sentence on parameters if the lab would refuse the runs.

    Raises UsageError if the runs are not possible anywhere.
    """
    yield from filter(None, (warn(runs) for warn in (_warn_of_ccas, _warn_of_parameters)))


def refuse_on_hosts(runs: Iterable[Run], host_of: Callable[[str], Host]) -> None:
    """Raises UsageError if a sending host lacks a CCA; for emulated paths, that is this machine.

    Each CCA that is not available is set on a socket, as the test itself does; for root, the kernel
    then loads its module. Hosts on which a command runs before the test are not checked, because
    the command may load the CCA. Raises ConnectError.
    """
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
            continue  # the run itself will report the failure
        if lacks:
            raise click.UsageError(
                f"{_asked(lacks, own)}: the kernel of {name} has {' '.join(sorted(available))}"
            )


def _warn_of_ccas(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on CCAs of emulated paths that a kernel of the lab lacks.

    Raises UsageError if the runs are not possible anywhere: this machine lacks the CCAs as well, or
    the runs ask for a kernel other than stock, and only the lab has other kernels.
    """
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
    """Returns whether the host's kernel says that it has neither the CCA nor its module. Raises
    CommandError.
    """
    return transcript(host, python_command(_ASK, cca))[0] == _NO_SUCH_CCA


def _lacks_of_lab(runs: Iterable[Run]) -> dict[str, _Lack]:
    """Returns the missing CCAs by name of the kernel."""
    by_kernel: dict[str, list[Run]] = {}
    for run in runs:
        if isinstance(run.path, Topology) and run.traffic.ccas:
            by_kernel.setdefault(run.path.kernel, []).append(run)
    lacks: dict[str, _Lack] = {}
    for name, own in by_kernel.items():
        built_in = ccas_of_kernel(kernel_named(name))
        if built_in is not None and (missing := tuple(sorted(_wanted(own) - built_in))):
            kernel = "the lab's kernel" if name == STOCK_KERNEL else f"the lab's kernel {name}"
            lacks[name] = _Lack(
                missing, f"{_asked(missing, own)}: {kernel} has {' '.join(sorted(built_in))}"
            )
    return lacks


def _sender(run: Run) -> str | None:
    """Returns the host that must have a run's CCAs; None if it can't be known before the run."""
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


def _warn_of_parameters(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on parameters that the lab's own kernel would refuse.

    Raises UsageError if this machine does not have the parameter either, because the runs are then
    not possible anywhere.
    """
    if elsewhere := _refusals(run for run in runs if not _is_here(run)):
        raise click.UsageError("; ".join(elsewhere))
    refusals = _refusals(runs)
    return (
        f"{'; '.join(refusals)}; 'ccmix run --lab' refuses {'it' if len(refusals) == 1 else 'them'}"
        if refusals
        else None
    )


def _is_here(run: Run) -> bool:
    """Returns whether this machine's kernel has the parameter of a run."""
    wanted = run.path.module_parameter if isinstance(run.path, Topology) else None
    return wanted is not None and Path(FOLDER, wanted.path).exists()


def _refusals(runs: Iterable[Run]) -> list[str]:
    """Returns sentences such as '[sweep]: tcp_bbr2 has no parameter ...', each once."""
    found: dict[str, None] = {}
    for run in runs:
        if isinstance(run.path, Topology) and (reason := refusal(run.path)):
            found[f"[{run.entry}]: {reason}"] = None
    return list(found)


def refuse_unknown(runs: Iterable[Run]) -> None:
    """Raises UsageError if runs ask for a kernel that the lab does not have; the stock kernel may
    be missing.
    """
    known = (STOCK_KERNEL, *named_kernels())
    for name, entry in _kernels_asked(runs).items():
        if name not in known:
            raise click.UsageError(f"[{entry}] asks for kernel = {name}: {no_kernel(name, known)}")


def found_kernels(runs: Iterable[Run]) -> dict[str, Path]:
    """Returns the kernels that the runs ask for, by name.

    Raises UsageError if one is missing, ToolError if there is no kernel at all.
    """
    refuse_unknown(runs)
    return {name: kernel_named(name) for name in _kernels_asked(runs)}


def refuse_without_lab(runs: Iterable[Run]) -> None:
    """Raises UsageError if runs ask for another kernel than this machine's."""
    for name, entry in _kernels_asked(runs).items():
        if name != STOCK_KERNEL:
            raise click.UsageError(
                f"[{entry}] asks for kernel = {name}, which runs only in the lab: give --lab"
            )


def _kernels_asked(runs: Iterable[Run]) -> dict[str, str]:
    """Returns the kernels that runs on emulated paths ask for, each with the first entry that asks
    for it.
    """
    names: dict[str, str] = {}
    for run in runs:
        if isinstance(run.path, Topology):
            names.setdefault(run.path.kernel, run.entry)
    return names
