"""Refuses runs early if the kernels that they need lack a CCA or a module parameter.

The kernels are those of the lab, or those of the sending hosts.
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
from ccmix.lab.host import check_room, guest_memory_bytes
from ccmix.lab.spec import GuestError, ccas_of_kernel
from ccmix.model import STOCK_KERNEL, HostPath, Run, Topology
from ccmix.tools import ToolError, named_kernels

_NO_SUCH_CCA = 3  # the exit status of the program _ASK
# Sets the CCA of its argument on a socket, and ends with _NO_SUCH_CCA if the kernel does not know
# the CCA. Other errors, such as a lack of rights, show that the kernel knows it
_ASK = f"""
import errno, socket, sys
try:
    # TCP_CONGESTION of <linux/tcp.h>
    socket.socket().setsockopt(socket.IPPROTO_TCP, 13, sys.argv[1].encode())
except OSError as error:
    sys.exit({_NO_SUCH_CCA} if error.errno == errno.ENOENT else 0)
"""


@dataclass(frozen=True)
class _MissingCcas:
    """Says which CCAs a kernel of the lab lacks, and has the sentence for the user."""

    ccas: tuple[str, ...]
    sentence: str


def refuse_in_lab(runs: Sequence[Run]) -> None:
    """Checks before `ccmix run --lab` that the lab's kernels have the CCAs and parameters of the
    runs, and that the largest guest has room here.

    Raises UsageError with all that is missing, and ToolError if there is no kernel.
    """
    if lack := _lack_of_room(runs):
        raise click.UsageError(lack)
    missing_ccas = [lack.sentence for lack in _missing_in_lab(runs).values()]
    if sentences := missing_ccas or _parameter_refusals(runs):
        raise click.UsageError("; ".join(sentences))


def warnings_of_lab(runs: Sequence[Run]) -> Iterator[str]:
    """Yields sentences for `ccmix plan` on CCAs, parameters and limits of this machine or container
    for which the lab refuses the runs.

    The runs may still be possible on this machine without the lab. Raises UsageError if they are
    not possible anywhere.
    """
    warnings = (_warning_on_ccas, _warning_on_parameters, _lack_of_room)
    yield from filter(None, (warn(runs) for warn in warnings))


def refuse_on_hosts(runs: Iterable[Run], host_of: Callable[[str], Host]) -> None:
    """Checks before runs outside the lab that the kernel of each sending host has their CCAs.

    `host_of` connects to the host of a name. A CCA that is not listed as available is set on a
    socket, as the test itself does, because root's socket makes the kernel load the module. Hosts
    on which the entry runs a command before the test are not checked, because it may load the CCA.

    Raises UsageError if a host lacks a CCA, and ConnectError.
    """
    runs_by_host: dict[str, list[Run]] = {}
    for run in runs:
        if name := _checkable_sender(run):
            runs_by_host.setdefault(name, []).append(run)
    for name, host_runs in runs_by_host.items():
        loaded_by_ccmix = {
            cca for run in host_runs if isinstance(run.path, HostPath) for cca in run.path.cca_load
        }
        wanted, host = _ccas_of_runs(host_runs) - loaded_by_ccmix, host_of(name)
        try:
            available = read_ccas(host, ()).available
            missing = [cca for cca in sorted(wanted - set(available)) if _host_lacks_cca(host, cca)]
        except (CommandError, ValueError):
            continue  # the run itself will report the failure
        if missing:
            raise click.UsageError(
                f"{_request_text(missing, host_runs)}: the kernel of {name} has "
                f"{' '.join(sorted(available))}"
            )


def _warning_on_ccas(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on CCAs of emulated paths that the lab's kernels lack; None if they lack
    none.

    Raises UsageError if no kernel can make the runs: this machine lacks the CCAs as well, or the
    runs ask for a kernel other than stock, which only the lab has.
    """
    try:
        missing_by_kernel = _missing_in_lab(runs)
    except ToolError:
        return None  # a plan needs no lab
    if not missing_by_kernel:
        return None
    problem = "; ".join(lack.sentence for lack in missing_by_kernel.values())
    if any(name != STOCK_KERNEL for name in missing_by_kernel):
        raise click.UsageError(problem)
    ccas = missing_by_kernel[STOCK_KERNEL].ccas
    try:
        local_ccas = read_ccas(ExaminedMachine(), ccas)
        known = {*local_ccas.available, *local_ccas.loadable}
        missing_here_too = [
            cca for cca in ccas if cca not in known and _host_lacks_cca(ExaminedMachine(), cca)
        ]
    except (CommandError, ValueError):
        missing_here_too = []
    if missing_here_too:
        raise click.UsageError(
            f"{problem}; this machine's kernel lacks {' '.join(missing_here_too)} as well"
        )
    return f"{problem}; 'ccmix run --lab' refuses it"


def _host_lacks_cca(host: Host, cca: str) -> bool:
    """Returns whether the host's kernel has neither the CCA nor its module.

    Tries to use the CCA on a socket there: the kernel then answers ENOENT. Raises CommandError.
    """
    return transcript(host, python_command(_ASK, cca))[0] == _NO_SUCH_CCA


def _missing_in_lab(runs: Iterable[Run]) -> dict[str, _MissingCcas]:
    """Returns the CCAs that the runs need and the lab's kernels lack, by the name of the kernel."""
    runs_by_kernel: dict[str, list[Run]] = {}
    for run in runs:
        if isinstance(run.path, Topology) and run.traffic.ccas:
            runs_by_kernel.setdefault(run.path.kernel, []).append(run)
    missing_by_kernel: dict[str, _MissingCcas] = {}
    for name, kernel_runs in runs_by_kernel.items():
        built_in = ccas_of_kernel(kernel_named(name))
        if built_in is not None and (
            missing := tuple(sorted(_ccas_of_runs(kernel_runs) - built_in))
        ):
            kernel = "the lab's kernel" if name == STOCK_KERNEL else f"the lab's kernel {name}"
            missing_by_kernel[name] = _MissingCcas(
                missing,
                f"{_request_text(missing, kernel_runs)}: {kernel} has {' '.join(sorted(built_in))}",
            )
    return missing_by_kernel


def _checkable_sender(run: Run) -> str | None:
    """Returns the name of the host whose kernel must have the run's CCAs: the source of the data,
    or this machine for an emulated path.

    Returns None if the kernel can't be checked: ccmix has no shell on the source, or a command
    before the test may load the CCA.
    """
    if not isinstance(run.path, HostPath):
        return "localhost"
    commands = run.path.commands
    return None if not run.has_shell or commands.pre or commands.pre_src else run.path.src


def _ccas_of_runs(runs: Iterable[Run]) -> set[str]:
    return {cca for run in runs for cca in run.traffic.ccas}


def _request_text(ccas: Sequence[str], runs: Iterable[Run]) -> str:
    """Says which entries (sections of the INI file) need the CCAs: '[mixed] asks for bbr3'."""
    entries = dict.fromkeys(run.entry for run in runs if run.traffic.ccas & set(ccas))
    names = " ".join(f"[{entry}]" for entry in entries)
    return f"{names} {'asks' if len(entries) == 1 else 'ask'} for {' '.join(ccas)}"


def _warning_on_parameters(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on the module parameters that the lab's stock kernel would refuse; None if
    it accepts all of them.

    Raises UsageError if this machine does not have such a parameter, either, because the run is
    then not possible anywhere.
    """
    if refused_everywhere := _parameter_refusals(
        run for run in runs if not _has_parameter_here(run)
    ):
        raise click.UsageError("; ".join(refused_everywhere))
    refusals = _parameter_refusals(runs)
    return (
        f"{'; '.join(refusals)}; 'ccmix run --lab' refuses {'it' if len(refusals) == 1 else 'them'}"
        if refusals
        else None
    )


def _lack_of_room(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on memory or processes that the largest guest lacks here, or None."""
    paths = {run.path for run in runs if isinstance(run.path, Topology)}
    try:
        if paths:
            check_room(max(map(guest_memory_bytes, paths)))
    except GuestError as error:
        return str(error)
    return None


def _has_parameter_here(run: Run) -> bool:
    """Returns whether this machine's kernel has the module parameter that a run sets."""
    wanted = run.path.module_parameter if isinstance(run.path, Topology) else None
    return wanted is not None and Path(FOLDER, wanted.path).exists()


def _parameter_refusals(runs: Iterable[Run]) -> list[str]:
    """Returns a sentence for each module parameter of the runs that the lab's stock kernel refuses,
    such as '[sweep]: tcp_bbr2 has no parameter ...'; each sentence only once.
    """
    sentences: dict[str, None] = {}
    for run in runs:
        if isinstance(run.path, Topology) and (reason := refusal(run.path)):
            sentences[f"[{run.entry}]: {reason}"] = None
    return list(sentences)


def refuse_unknown(runs: Iterable[Run]) -> None:
    """Checks the keys `kernel = NAME` of the runs: raises UsageError if the lab has no such kernel.

    The stock kernel may be missing: a plan does not need it.
    """
    known = (STOCK_KERNEL, *named_kernels())
    for name, entry in _entry_by_kernel(runs).items():
        if name not in known:
            raise click.UsageError(f"[{entry}] asks for kernel = {name}: {no_kernel(name, known)}")


def found_kernels(runs: Iterable[Run]) -> dict[str, Path]:
    """Returns the files of the kernels that the runs ask for, by name.

    Raises UsageError if one is missing, ToolError if there is no kernel at all.
    """
    refuse_unknown(runs)
    return {name: kernel_named(name) for name in _entry_by_kernel(runs)}


def refuse_without_lab(runs: Iterable[Run]) -> None:
    """Raises UsageError if a run without --lab asks for a kernel other than stock.

    Only the lab can start such a kernel.
    """
    for name, entry in _entry_by_kernel(runs).items():
        if name != STOCK_KERNEL:
            raise click.UsageError(
                f"[{entry}] asks for kernel = {name}, which runs only in the lab: give --lab"
            )


def _entry_by_kernel(runs: Iterable[Run]) -> dict[str, str]:
    """Returns the names of the kernels that runs on emulated paths ask for, each with the first
    entry (section of the INI file) that asks for it.
    """
    names: dict[str, str] = {}
    for run in runs:
        if isinstance(run.path, Topology):
            names.setdefault(run.path.kernel, run.entry)
    return names
