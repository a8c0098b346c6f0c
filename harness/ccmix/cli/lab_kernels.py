"""Finds the kernels of the lab that the runs of a plan ask for, and says which there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ccmix.model import Run


@dataclass(frozen=True)
class DescribedKernel:
    """Describes a kernel of the lab for people."""

    name: str
    release: str
    sha256: str
    ccas: tuple[str, ...]
    additions: str  # to the stock kernel; '' of that itself
    current: bool  # whether it is made of this stock kernel
    file: str


def kernel_named(name: str) -> Path:
    """Returns a kernel of the lab. Raises UsageError for a name that none has, ToolError without a stock kernel."""
    from ccmix.model import STOCK_KERNEL
    from ccmix.tools import find_kernel, named_kernels

    if name == STOCK_KERNEL:
        return find_kernel()
    named = named_kernels()
    if name not in named:
        raise click.UsageError(_no_kernel(name, (STOCK_KERNEL, *named)))
    return named[name]


def refuse_unknown(runs: Iterable[Run]) -> None:
    """Raises UsageError if runs ask for a kernel that the lab has not; the stock one may be missing."""
    from ccmix.model import STOCK_KERNEL
    from ccmix.tools import named_kernels

    known = (STOCK_KERNEL, *named_kernels())
    for name, entry in asked(runs).items():
        if name not in known:
            raise click.UsageError(f"[{entry}] asks for kernel = {name}: {_no_kernel(name, known)}")


def found(runs: Iterable[Run]) -> dict[str, Path]:
    """Returns the kernels that the runs ask for, by name.

    Raises UsageError for one that is not there, ToolError where there is no kernel at all.
    """
    refuse_unknown(runs)
    return {name: kernel_named(name) for name in asked(runs)}


def refuse_without_lab(runs: Iterable[Run]) -> None:
    """Raises UsageError if runs ask for another kernel than this machine's."""
    from ccmix.model import STOCK_KERNEL

    for name, entry in asked(runs).items():
        if name != STOCK_KERNEL:
            raise click.UsageError(f"[{entry}] asks for kernel = {name}, which runs in the lab: give --lab")


def asked(runs: Iterable[Run]) -> dict[str, str]:
    """Returns the kernels that runs on emulated paths ask for, each with the first entry that does."""
    from ccmix.model import Topology

    names: dict[str, str] = {}
    for run in runs:
        if isinstance(run.path, Topology):
            names.setdefault(run.path.kernel, run.entry)
    return names


def described_kernels() -> list[DescribedKernel]:
    """Returns all kernels of the lab, the stock one first. Raises ToolError without that."""
    from ccmix.lab.kernel_config import ccas_of_kernel
    from ccmix.lab.kernels import build_of, identify
    from ccmix.model import STOCK_KERNEL
    from ccmix.tools import find_kernel, named_kernels

    stock = find_kernel()
    stock_key = build_of(stock).get("key")
    described = []
    for name, file in {STOCK_KERNEL: stock, **named_kernels()}.items():
        kernel, build = identify(name, file), build_of(file)
        current = name == STOCK_KERNEL or build.get("stock_key") == stock_key
        ccas = tuple(sorted(ccas_of_kernel(file) or ()))
        additions = build.get("additions", "")
        described.append(DescribedKernel(name, kernel.release, kernel.sha256, ccas, additions, current, str(file)))
    return described


def kernels_text(kernels: Iterable[DescribedKernel]) -> str:
    """Returns a paragraph for each kernel."""
    lines = []
    for kernel in kernels:
        lines += [kernel.name, f"  release  {kernel.release}", f"  sha256   {kernel.sha256}"]
        lines.append(f"  CCAs     {' '.join(kernel.ccas) or 'unknown'}")
        if kernel.additions:
            lines.append(f"  added    {kernel.additions}")
        if not kernel.current:
            lines.append("  older    made of another stock kernel than the one above: build it again")
    return "\n".join(lines) + "\n"


def _no_kernel(name: str, known: Iterable[str]) -> str:
    return f"the lab has no kernel {name}, which 'lab/build --name {name}' would build; it has {', '.join(known)}"
