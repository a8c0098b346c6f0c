#!/usr/bin/env python3
"""Compare the lab's bbr2 and bbr3 with Google's, which were measured in this lab, and print the
tables.

    .venv/bin/python bench/cca_reference.py
        measure bbr2 and bbr3, and judge them
    .venv/bin/python bench/cca_reference.py --same-start --block c1 c2
        fewer runs: one start of each, two blocks
    .venv/bin/python bench/cca_reference.py --cca cubic bbr
        check the instrument itself
    .venv/bin/python bench/cca_reference.py --measured FILE --rows
        judge a measurement again

The reference is archive/cca-reference.csv, its conditions are in bench/cca-reference.ini. A
condition's value is the mean over its runs, in the reference and in the lab. Losses below 2% are
drawn from the reference's three seeds, higher ones from ten. If two flows share the path, the
reference has one start, and the lab several (spread = on); --same-start uses the reference's start.
To continue an interrupted measurement, give the same command again.
"""

import argparse
import configparser
import csv
import hashlib
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.analysis import dynamics
from ccmix.analysis.dynamics import jain_index
from ccmix.archive import Campaign, parquet
from ccmix.config import load
from ccmix.model import Run
from ccmix.model.netem import mean_loss
from ccmix.model.results import FinishedRun
from ccmix.model.run_files import INTERVALS
from ccmix.plan import make_plan
from ccmix.tools import find_kernel

REPOSITORY = Path(__file__).resolve().parents[1]
CCMIX = REPOSITORY / ".venv" / "bin" / "ccmix"
CONDITIONS = REPOSITORY / "bench" / "cca-reference.ini"
REFERENCE = REPOSITORY / "archive" / "cca-reference.csv"
CCAS = ("cubic", "bbr", "bbr2", "bbr3")
BLOCKS = ("a1", "b", "c1", "c2", "d")
SHARED = ("c2", "d")  # blocks whose flows share the path
HEAVY_LOSS = 0.02
REFERENCE_SEEDS = 3
LAST_S = 60.0  # of a run, over which Jain's index is taken
KEY = ("block", "cca", "rate_bps", "rtt_ms", "buffer", "loss", "partner", "start_offset_s")
COLUMNS = (
    *KEY,
    "seed",
    "spread",
    "goodput_bps",
    "retransmitted_share",
    "rtt_median_ms",
    "rtt_p95_ms",
    "jain_last60s",
    "partner_goodput_bps",
    "verdict",
)

CsvRow = Mapping[str, str]
Values = dict[str, float | None]


@dataclass(frozen=True)
class Condition:
    """Identifies the flows of one CCA in one condition, by the text of the CSV files."""

    block: str
    cca: str
    rate_bps: str
    rtt_ms: str
    buffer: str
    loss: str
    partner: str
    start_offset_s: str

    @property
    def heavy_loss(self) -> bool:
        return float(self.loss) >= HEAVY_LOSS

    def __str__(self) -> str:
        loss = f", loss {float(self.loss):.2%}" if float(self.loss) else ""
        partner = f", against {self.partner}" if self.partner else ""
        late = f", {self.start_offset_s} s later" if self.start_offset_s not in ("", "0") else ""
        return (
            f"{float(self.rate_bps) / 1e6:g} Mbit/s, {self.rtt_ms} ms, "
            f"{self.buffer}{loss}{partner}{late}"
        )


Table = dict[Condition, Values]


def relative(reference: float, lab: float) -> float:
    return abs(lab - reference) / reference if reference else math.inf if lab else 0.0


def apart(reference: float, lab: float) -> float:
    return abs(lab - reference)


def factor(reference: float, lab: float) -> float:
    low, high = sorted((reference, lab))
    return high / low if low else math.inf if high else 1.0


@dataclass(frozen=True)
class Goal:
    """Names the judged conditions and their value, its largest error, and the share of conditions
    that must keep it."""

    name: str
    value: str
    judges: Callable[[Condition, float], bool]
    """Returns whether the goal judges this condition, in which the reference has this value."""
    off: Callable[[float, float], float]
    limits: tuple[tuple[float, float], ...]
    """Pairs of the largest distance and the share of conditions that must be within it."""
    unit: str
    scale: float = 1.0

    def limit_text(self, limit: float) -> str:
        if self.off is factor:
            return f"within a factor of {limit:g}"
        if self.off is relative:
            return f"within {limit * 100:g}%"
        return f"within {limit * 100:g} points" if self.unit == "%" else f"within {limit:g}"

    def off_text(self, off: float) -> str:
        if self.off is factor:
            return f"x {off:.3g}"
        return f"{off * 100:.3g}%" if self.off is relative or self.unit == "%" else f"{off:.3f}"

    def value_text(self, value: float | None) -> str:
        return "none" if value is None else f"{value * self.scale:.4g}"


def alone(condition: Condition) -> bool:
    return condition.block not in SHARED


GOALS = (
    Goal(
        "goodput of one flow, loss below 2%",
        "goodput_bps",
        lambda where, _: alone(where) and not where.heavy_loss,
        relative,
        ((0.03, 0.9), (0.10, 1.0)),
        "Mbit/s",
        1e-6,
    ),
    Goal(
        "goodput of one flow, loss of 2% and more",
        "goodput_bps",
        lambda where, _: alone(where) and where.heavy_loss,
        factor,
        ((2.0, 1.0),),
        "Mbit/s",
        1e-6,
    ),
    Goal(
        "retransmission rate, where above 0.1%",
        "retransmitted_share",
        lambda _, value: value > 0.001,
        factor,
        ((1.5, 0.8),),
        "%",
        100,
    ),
    Goal("median RTT", "rtt_median_ms", lambda *_: True, relative, ((0.15, 0.9),), "ms"),
    Goal("95th percentile of RTT", "rtt_p95_ms", lambda *_: True, relative, ((0.25, 0.8),), "ms"),
    Goal(
        "share against cubic",
        "share",
        lambda where, _: where.block == "c2",
        apart,
        ((0.05, 0.6), (0.10, 0.85)),
        "%",
        100,
    ),
    Goal(
        "Jain's index of the last 60 s",
        "jain_last60s",
        lambda where, _: where.block == "d" and where.start_offset_s in ("", "0"),
        apart,
        ((0.05, 0.8),),
        "",
    ),
)


@dataclass(frozen=True)
class Judged:
    """Holds a condition's values. If it has no valid run, `lab` is None and `off` infinite."""

    condition: Condition
    goal: Goal
    reference: float
    lab: float | None

    @property
    def off(self) -> float:
        return math.inf if self.lab is None else self.goal.off(self.reference, self.lab)


def read_rows(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


def judged_table(rows: Iterable[CsvRow]) -> Table:
    """Returns the means over the valid runs of each condition. Flows of CUBIC that compete with
    another CCA count only in that CCA's condition."""
    by_condition: dict[Condition, list[Values]] = {}
    for row in rows:
        condition = Condition(*(row[name] for name in KEY))
        if condition.block == "c2" and condition.cca == "cubic":
            continue
        runs = by_condition.setdefault(condition, [])
        if row["verdict"] == "valid":
            runs.append(values_of(row))
    return {condition: means(runs) for condition, runs in by_condition.items()}


def values_of(row: CsvRow) -> Values:
    names = ("goodput_bps", "retransmitted_share", "rtt_median_ms", "rtt_p95_ms", "jain_last60s")
    values: Values = {name: float(row[name]) if row[name] else None for name in names}
    own_bps, partner_bps = float(row["goodput_bps"]), row["partner_goodput_bps"]
    values["share"] = own_bps / (own_bps + float(partner_bps)) if partner_bps else None
    return values


def means(runs: Sequence[Values]) -> Values:
    """Returns the mean of each value; None if a run lacks it."""
    return {
        name: statistics.fmean(value for run in runs if (value := run[name]) is not None)
        if all(run[name] is not None for run in runs)
        else None
        for name in (runs[0] if runs else ())
    }


def judge(goal: Goal, cca: str, reference: Table, lab: Table) -> list[Judged]:
    """Returns the goal's verdicts on the measured conditions of the CCA."""
    return [
        Judged(condition, goal, value, lab[condition].get(goal.value))
        for condition, values in reference.items()
        if condition.cca == cca and condition in lab
        if (value := values[goal.value]) is not None and goal.judges(condition, value)
    ]


def verdict(judged: Sequence[Judged], limit: float, share: float) -> str:
    if not judged:
        return "none"
    within = sum(one.off <= limit for one in judged)
    return f"{within} of {len(judged)}" + ("" if within >= share * len(judged) else ", missed")


def score(reference: Table, lab: Table) -> Iterator[str]:
    """Yields the table of all goals; "missed" marks goals that too few conditions reach."""
    ccas = [cca for cca in CCAS if any(condition.cca == cca for condition in lab)]
    yield "| goal | in | " + " | ".join(ccas) + " |"
    yield "|---|--:|" + "--:|" * len(ccas)
    for goal in GOALS:
        judged = [judge(goal, cca, reference, lab) for cca in ccas]
        for limit, share in goal.limits:
            cells = " | ".join(verdict(of_cca, limit, share) for of_cca in judged)
            yield f"| {goal.name}, {goal.limit_text(limit)} | {share:.0%} | {cells} |"
    measured = [
        sum(condition.cca == cca for condition in reference if condition in lab) for cca in ccas
    ]
    planned = [sum(condition.cca == cca for condition in reference) for cca in ccas]
    cells = " | ".join(f"{here} of {there}" for here, there in zip(measured, planned, strict=True))
    yield f"| the reference's rows that were measured | | {cells} |"


def each_row(reference: Table, lab: Table) -> Iterator[str]:
    """Yields for each goal and CCA a table of the conditions, the worst first."""
    for goal in GOALS:
        for cca in CCAS:
            judged = sorted(judge(goal, cca, reference, lab), key=lambda one: -one.off)
            if judged:
                unit = f" ({goal.unit})" if goal.unit else ""
                yield f"\n{cca}, {goal.name}{unit}\n"
                yield (
                    "| block | condition | reference | lab | off | outside |\n"
                    "|---|---|--:|--:|--:|---|"
                )
                yield from map(row_text, judged)


def row_text(one: Judged) -> str:
    goal = one.goal
    outside = ", ".join(
        goal.limit_text(limit).removeprefix("within ")
        for limit, _ in goal.limits
        if one.off > limit
    )
    values = (
        f"{goal.value_text(one.reference)} | {goal.value_text(one.lab)} | {goal.off_text(one.off)}"
    )
    return f"| {one.condition.block} | {one.condition} | {values} | {outside} |"


@dataclass(frozen=True)
class Measurement:
    """Describes a campaign: a block's conditions of one CCA, with one seed."""

    folder: Path
    block: str
    seed: int
    spread: bool
    runs: tuple[str, ...]


def measurements(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yields the campaigns that the options select."""
    entries = load(CONDITIONS).entries
    seeds = range(1, max(options.seeds, options.starts, REFERENCE_SEEDS) + 1)
    plans = {seed: make_plan(entries, seed) for seed in seeds}
    for cca in options.cca:
        for block in options.block:
            spread = block in SHARED and not options.same_start
            for seed, plan in plans.items():
                runs = tuple(
                    run.name
                    for run in plan
                    if run.entry == block and cca_of(run) == cca and options.only in run.name
                    if seed <= seeds_of(run, options)
                )
                if runs:
                    start = "spread" if spread else "same"
                    yield Measurement(
                        options.outdir / f"{block}-{cca}-{start}-{seed}", block, seed, spread, runs
                    )


def cca_of(run: Run) -> str:
    """Returns the CCA to whose condition the run belongs: CUBIC only if no other CCA sends."""
    return next(iter(run.traffic.ccas - {"cubic"}), "cubic")


def loss_of(run: Run) -> float:
    loss = run.topology.senders[0].loss
    return mean_loss(loss.model, loss.parameters) if loss else 0.0


def seeds_of(run: Run, options: argparse.Namespace) -> int:
    """Returns the number of seeds for the run: one if the seed changes nothing."""
    if run.entry in SHARED:
        return 1 if options.same_start else int(options.starts)
    if loss_of(run) >= HEAVY_LOSS:
        return int(options.seeds)
    return min(REFERENCE_SEEDS, options.seeds) if loss_of(run) else 1


def measure(wanted: Measurement, jobs: int) -> None:
    """Makes the runs that the campaign still lacks."""
    if finished_runs(wanted) == len(wanted.runs):
        return
    config = wanted.folder.with_suffix(".ini")
    config.write_text(conditions_text(wanted))
    resume = ["--resume"] if wanted.folder.exists() else []
    of_runs = [word for name in wanted.runs for word in ("--run", name)]
    argv: list[str | Path] = [
        CCMIX,
        "run",
        config,
        "--lab",
        "-o",
        wanted.folder,
        "-j",
        str(jobs),
        "--seed",
        str(wanted.seed),
    ]
    done = subprocess.run([*argv, *resume, *of_runs], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        if not finished_runs(wanted):
            raise SystemExit(f"bench/cca_reference.py: {wanted.folder}: no run was finished")


def finished_runs(wanted: Measurement) -> int:
    if not (wanted.folder / "campaign.json").exists():
        return 0
    return sum(
        1 for _ in Campaign.load(wanted.folder).finished(lambda run: run.name in wanted.runs)
    )


def conditions_text(wanted: Measurement) -> str:
    """Returns the conditions with the block's key `spread` set for the measurement."""
    if not wanted.spread:
        return CONDITIONS.read_text()
    ini = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    ini.read(CONDITIONS)
    ini[f"topology {wanted.block}"]["spread"] = "on"
    with (wanted.folder.parent / "conditions.ini").open("w+") as file:
        ini.write(file)
        file.seek(0)
        return file.read()


def check_kernel(outdir: Path) -> None:
    """Raises SystemExit if the folder's runs were made with another kernel of the lab."""
    with find_kernel().open("rb") as kernel:
        digest = hashlib.file_digest(kernel, "sha256").hexdigest()
    file = outdir / "kernel.sha256"
    outdir.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text(f"{digest}\n")
    elif file.read_text().strip() != digest:
        raise SystemExit(
            f"bench/cca_reference.py: {outdir}: was measured with another kernel: give another "
            "folder with -o"
        )


def measured_rows(wanted: Measurement) -> Iterator[dict[str, str]]:
    """Yields a row for each group of each finished run."""
    for finished, folder in Campaign.load(wanted.folder).finished(
        lambda run: run.name in wanted.runs
    ):
        run, groups = finished.run, finished.metrics.groups
        sender = run.topology.senders[0]
        common = {
            "block": run.entry,
            "rate_bps": f"{run.topology.rate_bps:.0f}",
            "rtt_ms": f"{sender.base_rtt_s * 1e3:g}",
            "buffer": f"{run.topology.buffer.amount:g} {run.topology.buffer.kind}",
            "loss": f"{loss_of(run):g}",
            "seed": str(wanted.seed),
            "spread": "on" if wanted.spread else "off",
            "jain_last60s": text_of(jain_of_the_end(finished, folder)),
            "verdict": finished.verdict.status,
        }
        for group in groups:
            partner = next((other for other in groups if other is not group), None)
            yield common | {
                "cca": group.cca,
                "partner": partner.group.replace("+", " +") if partner else "",
                "start_offset_s": (group.group.partition("+")[2].removesuffix("s") or "0")
                if partner
                else "",
                "goodput_bps": text_of(group.goodput_bps),
                "retransmitted_share": text_of(group.retransmission_rate),
                "rtt_median_ms": text_of(group.rtt_median_s, 1e3),
                "rtt_p95_ms": text_of(group.rtt_p95_s, 1e3),
                "partner_goodput_bps": text_of(partner.goodput_bps if partner else None),
            }


def text_of(value: float | None, scale: float = 1.0) -> str:
    return "" if value is None else f"{value * scale:.6g}"


def jain_of_the_end(finished: FinishedRun, folder: Path) -> float | None:
    """Returns Jain's index over the last LAST_S of a run of several flows."""
    if len(finished.metrics.flows) < 2:
        return None
    run = finished.run
    goodputs = dynamics.goodputs(run, parquet.read(folder / INTERVALS))
    since = round((run.traffic.total_s - LAST_S) / run.traffic.goodput_interval_s)
    flows: dict[tuple[str, int], float] = {
        (flow.host, flow.port): 0.0 for flow in finished.metrics.flows
    }
    for row in goodputs.iter_rows(named=True):
        if row["interval"] >= since:
            flows[row["host"], row["port"]] += row["goodput_bps"]
    return jain_index(list(flows.values()))


def write_rows(rows: Iterable[Mapping[str, str]], file: Path) -> None:
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def measure_all(options: argparse.Namespace) -> list[dict[str, str]]:
    check_kernel(options.outdir)
    wanted = list(measurements(options))
    for number, campaign in enumerate(wanted, 1):
        name = f"{campaign.folder.name}, {len(campaign.runs)} runs"
        print(
            f"{number} of {len(wanted)}: {name}; load {os.getloadavg()[0]:.1f}",
            file=sys.stderr,
            flush=True,
        )
        measure(campaign, options.jobs)
    return [row for campaign in wanted for row in measured_rows(campaign)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o",
        dest="outdir",
        type=Path,
        default=Path("results/cca-reference"),
        metavar="DIR",
        help="folder for the campaigns [default: %(default)s]",
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=1, metavar="N", help="runs at the same time [default: 1]"
    )
    parser.add_argument(
        "--cca", nargs="+", choices=CCAS, default=["bbr2", "bbr3"], help="[default: bbr2 bbr3]"
    )
    parser.add_argument(
        "--block", nargs="+", choices=BLOCKS, default=BLOCKS, help="only these blocks"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only runs with this in their names"
    )
    parser.add_argument(
        "--starts", type=int, default=5, help="starts of flows that share the path [default: 5]"
    )
    parser.add_argument(
        "--seeds", type=int, default=10, help="seeds of losses of 2%% and more [default: 10]"
    )
    parser.add_argument("--same-start", action="store_true", help="one start, the reference's")
    parser.add_argument(
        "--measured", type=Path, metavar="FILE", help="judge this CSV file, and make no runs"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--rows", action="store_true", help="print each condition, too")
    options = parser.parse_args()
    rows = read_rows(options.measured) if options.measured else measure_all(options)
    if options.csv:
        write_rows(rows, options.csv)
    reference, lab = judged_table(read_rows(REFERENCE)), judged_table(rows)
    if unknown := [condition for condition in lab if condition not in reference]:
        raise SystemExit(
            f"bench/cca_reference.py: the reference has no {unknown[0].cca}, {unknown[0]}"
        )
    print("\n".join(score(reference, lab)))
    if options.rows:
        print("\n".join(each_row(reference, lab)))


if __name__ == "__main__":
    main()
