"""Finds CCAs that the runs of a plan ask for, and that the kernel of their senders lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def refuse_in_lab(runs: Iterable[Run]) -> None:
    """Raises UsageError if the lab's kernel lacks a CCA. Raises ToolError where there is no kernel."""
    if lacks := _lacks_of_lab(runs):
        raise click.UsageError(f"{_asked(lacks, runs)}: {_lab_has()}")


def refuse_on_hosts(runs: Iterable[Run], host_of: Callable[[str], Host]) -> None:
    """Raises UsageError if a sending host lacks a CCA, this machine for emulated paths.

    A socket is given each CCA that is not available, as by the test itself: for root the kernel then loads its module.
    Hosts on which a command runs before the test aren't asked, since that may load one. Raises ConnectError.
    """
    from ccmix.doctor.ccas import read_ccas
    from ccmix.hosts import CommandError

    by_host: dict[str, list[Run]] = {}
    for run in runs:
        if name := _sender(run):
            by_host.setdefault(name, []).append(run)
    for name, own in by_host.items():
        wanted, host = _wanted(own), host_of(name)
        try:
            available = read_ccas(host, ()).available
            lacks = [cca for cca in sorted(wanted - set(available)) if _refused(host, cca)]
        except (CommandError, ValueError):
            continue  # what a run needs of the host, the run says
        if lacks:
            raise click.UsageError(f"{_asked(lacks, own)}: the kernel of {name} has {' '.join(sorted(available))}")


def warn_of_lab(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on CCAs of emulated paths that the lab's kernel lacks.

    Raises UsageError where this machine lacks them as well, so that nothing could make the runs.
    """
    from ccmix.doctor.ccas import read_ccas
    from ccmix.doctor.examine import ExaminedMachine
    from ccmix.hosts import CommandError
    from ccmix.tools import ToolError

    try:
        lacks = _lacks_of_lab(runs)
    except ToolError:
        return None  # a plan needs no lab
    if not lacks:
        return None
    asked = f"{_asked(lacks, runs)}: {_lab_has()}"
    try:
        here = read_ccas(ExaminedMachine(), lacks)
        known = {*here.available, *here.loadable}
        missing = [cca for cca in lacks if cca not in known and _refused(ExaminedMachine(), cca)]
    except (CommandError, ValueError):
        missing = []
    if missing:
        raise click.UsageError(f"{asked}; this machine's kernel lacks {' '.join(missing)} as well")
    return f"{asked}; 'ccmix run --lab' refuses it"


def _refused(host: Host, cca: str) -> bool:
    """Returns whether the host's kernel says that it has no such CCA, and no module of it. Raises CommandError."""
    from ccmix.doctor.reading import transcript

    return transcript(host, ["python3", "-c", _ASK, cca])[0] == _NO_SUCH_CCA


def _lacks_of_lab(runs: Iterable[Run]) -> list[str]:
    from ccmix.lab.kernel_config import ccas_of_kernel
    from ccmix.model import Topology
    from ccmix.tools import find_kernel

    wanted = _wanted(run for run in runs if isinstance(run.path, Topology))
    built_in = ccas_of_kernel(find_kernel()) if wanted else None
    return [] if built_in is None else sorted(wanted - built_in)


def _lab_has() -> str:
    from ccmix.lab.kernel_config import ccas_of_kernel
    from ccmix.tools import find_kernel

    return f"the lab's kernel has {' '.join(sorted(ccas_of_kernel(find_kernel()) or ()))}"


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
