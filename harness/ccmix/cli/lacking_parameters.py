"""Finds module parameters that the runs of a plan set, and that the lab's own kernel would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ccmix.model import Run


def refuse_in_lab(runs: Iterable[Run]) -> None:
    """Raises UsageError if the lab's own kernel would refuse a parameter."""
    if refusals := _refusals(runs):
        raise click.UsageError("; ".join(refusals))


def warn_of_lab(runs: Sequence[Run]) -> str | None:
    """Returns a sentence on parameters that the lab's own kernel would refuse.

    Raises UsageError where this machine has no such parameter either, so that nothing could make the runs.
    """
    refuse_in_lab(run for run in runs if not _is_here(run))
    refusals = _refusals(runs)
    return (
        f"{'; '.join(refusals)}; 'ccmix run --lab' refuses {'it' if len(refusals) == 1 else 'them'}"
        if refusals
        else None
    )


def _is_here(run: Run) -> bool:
    """Returns whether this machine's kernel has the parameter of a run."""
    from ccmix.conditions.module_parameter import FOLDER
    from ccmix.model import Topology

    wanted = run.path.module_parameter if isinstance(run.path, Topology) else None
    return wanted is not None and Path(FOLDER, wanted.path).exists()


def _refusals(runs: Iterable[Run]) -> list[str]:
    """Returns sentences such as '[sweep]: tcp_bbr2 has no parameter ...', each once."""
    from ccmix.doctor.lab_parameters import refusal
    from ccmix.model import Topology

    found: dict[str, None] = {}
    for run in runs:
        if isinstance(run.path, Topology) and (reason := refusal(run.path)):
            found[f"[{run.entry}]: {reason}"] = None
    return list(found)
