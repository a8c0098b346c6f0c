"""Plans the runs of an INI file: every condition in every iteration, in an order set by a seed.

It uses no clock, no network and no root rights, so the same file and seed give the same plan.
"""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ccmix.analysis.path_text import draw_spread
from ccmix.config import Entry
from ccmix.model import HostPath, Run, RunSpread, Topology, Traffic, condition_name
from ccmix.model.results import CampaignOrigin, CampaignPlan

RECEIVER = "receiver"  # the destination of a run on an emulated topology


def make_plan(entries: Iterable[Entry], seed: int) -> tuple[Run, ...]:
    """Returns all runs of the entries (sections of the INI file) in the order in which they start.

    An iteration is a block that has each condition (a combination of swept values) with each
    destination once, in the order of the file or shuffled by the seed. So changes during a campaign
    affect all conditions alike.
    """
    return tuple(run for entry in entries for run in _entry_runs(entry, seed))


def named(runs: Sequence[Run], names: Sequence[str]) -> tuple[Run, ...]:
    """Returns the runs whose names are in `names`, for the option --run; all runs if it is empty.

    They keep the seeds that they have in the whole plan. Raises KeyError with a name that no run
    has.
    """
    by_name = {run.name: run for run in runs}
    for name in names:
        if name not in by_name:
            raise KeyError(name)
    return tuple(run for run in runs if not names or run.name in names)


def campaign_plan(
    origin: CampaignOrigin, ini: str, entries: Iterable[Entry], runs: Sequence[Run]
) -> CampaignPlan:
    """Returns the plan of a campaign that makes these runs of the entries. `ini` is the text of the
    entries' file.
    """
    names = {run.entry for run in runs}
    used = [entry for entry in entries if entry.name in names]
    return CampaignPlan(
        origin,
        ini,
        tuple(runs),
        "; ".join(dict.fromkeys(filter(None, (entry.title for entry in used)))),
        file_order(used, runs),
        {entry.name: entry.unknown for entry in used if entry.unknown},
    )


def file_order(entries: Iterable[Entry], runs: Sequence[Run]) -> tuple[int, ...]:
    """Returns the position of each run in the order of the INI file; () if `runs` have this order.

    The order of the file sorts runs by entry, then by iteration, then by condition. Reports list
    runs in it, because the runs themselves may be shuffled.
    """
    # By the names of entry, condition and destination: the numbers of the entry and the condition.
    # Between hosts, an entry has a condition for each combination of swept values and destination
    position_in_file: dict[tuple[str, str, str], tuple[int, int]] = {}
    for entry_number, entry in enumerate(entries):
        for condition_number, condition in enumerate(entry.conditions):
            dst = condition.path.dst.name if isinstance(condition.path, HostPath) else RECEIVER
            position_in_file.setdefault(
                (entry.name, condition_name(condition.values), dst),
                (entry_number, condition_number),
            )

    def sort_key(run: Run) -> tuple[int, int, int]:
        """Returns the numbers of a run's entry, iteration and condition, by which runs are
        sorted.
        """
        entry_number, condition_number = position_in_file[run.repeated_key]
        return entry_number, run.iteration, condition_number

    sorted_indexes = sorted(range(len(runs)), key=lambda index: sort_key(runs[index]))
    if sorted_indexes == list(range(len(runs))):
        return ()
    positions = [0] * len(runs)
    for position, index in enumerate(sorted_indexes):
        positions[index] = position
    return tuple(positions)


def _entry_runs(entry: Entry, seed: int) -> Iterable[Run]:
    """Yields the runs of an entry: for each iteration one block with all conditions."""
    for iteration in range(1, entry.iterations + 1):
        block = list(entry.conditions)
        if entry.repeat_order == "shuffled":
            random.Random(f"{seed} {entry.name} {iteration}").shuffle(block)
        for condition in block:
            path = condition.path
            dst = path.dst.name if isinstance(path, HostPath) else None
            run_seed = _run_seed(seed, entry.name, condition.values, dst, iteration)
            yield Run(
                entry=entry.name,
                condition=condition.values,
                dst=RECEIVER if dst is None else dst,
                iteration=iteration,
                seed=run_seed,
                path=path,
                traffic=condition.traffic,
                accept_limits=entry.accept_limits,
                spread=_drawn_spread(path, condition.traffic, run_seed),
            )


def _drawn_spread(path: Topology | HostPath, traffic: Traffic, run_seed: int) -> RunSpread | None:
    """Draws the random parts of a run's delays and start times from its seed.

    So a repeated run has the same delays and start times. Returns None if the run's path is real or
    does not set `spread`.
    """
    return (
        draw_spread(path, traffic, run_seed) if isinstance(path, Topology) and path.spread else None
    )


def _run_seed(
    seed: int, entry: str, condition: dict[str, str], dst: str | None, iteration: int
) -> int:
    """Returns a seed of 32 bits for a run, from the campaign's seed and what identifies the run.

    So it stays the same if other entries or iterations are added. `dst` is None on an emulated
    path, which has only one destination.
    """
    dst_if_real = () if dst is None else (dst,)  # an emulated path has one destination
    identity = repr((seed, entry, sorted(condition.items()), *dst_if_real, iteration))
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:4])


@dataclass(frozen=True)
class Span:
    """Says how long runs take one after the other.

    `seconds` is the traffic of all runs with a known duration, `pauses_s` the time between runs,
    and `unknown` the number of runs whose duration is not known before they end.
    """

    runs: int
    seconds: float
    pauses_s: float
    unknown: int


def span(runs: Sequence[Run]) -> Span:
    """Adds up how long the runs take if they are made one after the other."""
    return Span(
        runs=len(runs),
        seconds=sum(run.seconds or 0.0 for run in runs),
        pauses_s=sum(run.path.pause_s for run in runs[1:] if isinstance(run.path, HostPath)),
        unknown=sum(run.seconds is None for run in runs),
    )
