"""Selects the part of a run's series that counts: the measured time, after the omitted one."""

import polars as pl

from ccmix.model import Run, Topology

JITTER_S = 1e-3  # of samples that are at the same even moment: one after the other, and by a clock in steps


def measured(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of a series that lie in the measured time, the omitted time left out.

    That of a command of the user's lasts as long as the command.
    """
    seconds = run.traffic.seconds if run.traffic.groups or isinstance(run.path, Topology) else None
    end_s = float("inf") if seconds is None else seconds
    return frame.filter(pl.col("time_s").is_between(run.traffic.omit_s - JITTER_S / 2, end_s + JITTER_S / 2))
