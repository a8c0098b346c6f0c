"""Makes the estimates of a run, and joins the estimates of all runs over a path. Results without
series, such as an imported table, mostly give bounds.

docs/explanation/real-and-emulated.md says why a table of goodputs does not show more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ccmix.analysis.counting import imported
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.campaign import RunFolder, campaign_folder
from ccmix.generators.path_steps import FILL
from ccmix.model import STOCK_KERNEL, HostPath, Iperf3Source, PathSource, Run, Topology, run_files
from ccmix.model.results import FinishedRun
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.twin import hosts
from ccmix.twin.bottleneck import (
    FIFO,
    buffer,
    buffer_of_train,
    delays,
    policer,
    queue,
    queues_of_flows,
    shows_s,
    waits,
)
from ccmix.twin.estimate import (
    BASE_RTT,
    BUFFER,
    CROSS,
    LOSS,
    NOISE,
    QUEUE,
    RATE,
    UNITS,
    WINDOW,
    Estimate,
    Twin,
    best,
    cannot_be_told,
)
from ccmix.twin.observed import PathRun, observe, senders
from ccmix.twin.others import as_it_varies, late_share
from ccmix.twin.rate import HIDDEN_SHARE, rate
from ccmix.twin.received import more_of_more, overflow, overloads, slow_way_back
from ccmix.twin.way import QueueAtBottleneck, base_rtt, loss, quiet_noise_s, reordering

NO_SERIES = "the results have no series of samples"
ALIKE = 0.1  # maximum difference of the mean goodput x RTT between CCAs that a window limits
# of the best goodput of any test: a single flow that a window limits does not reach this
MUCH_LESS = 0.8


def estimates_of_results(runs: Sequence[FinishedRun]) -> tuple[Estimate, ...]:
    """Returns every estimate of a path from the goodput, retransmission rate and median RTT of its
    runs, in the order in which estimates are shown.
    """
    best_bps = max((run.metrics.goodput_bps or 0.0 for run in runs), default=0.0)
    rtts_s = [group.rtt_median_s for run in runs for group in run.metrics.groups]
    base_s = min((rtt_s for rtt_s in rtts_s if rtt_s is not None), default=None)
    told = (
        _base_rtt_of_results(base_s),
        _rate_of_results(best_bps),
        _buffer_of_results(runs, base_s, best_bps),
        _loss_of_results(runs),
        _window_of_results(runs, best_bps),
    )
    known = {estimate.quantity: estimate for estimate in told}
    return tuple(known.get(each) or cannot_be_told(each, NO_SERIES) for each in UNITS)


def _base_rtt_of_results(base_s: float | None) -> Estimate:
    if base_s is None:
        return cannot_be_told(BASE_RTT, "no result has an RTT")
    origin = "the smallest RTT under load of any test, an upper bound"
    return Estimate(BASE_RTT, base_s, high=base_s, origin=origin)


def _rate_of_results(best_bps: float) -> Estimate:
    if not best_bps:
        return cannot_be_told(RATE, "no result has a goodput")
    return Estimate(
        RATE,
        best_bps,
        low=best_bps,
        origin="the best goodput of any test, without headers, a lower bound",
    )


def _buffer_of_results(
    runs: Sequence[FinishedRun], base_s: float | None, best_bps: float
) -> Estimate:
    """Returns a lower bound: the growth of the RTT, as a mean over the tests that make it grow
    most, times the best goodput.
    """
    because = "the median RTT does not show when the buffer was full"
    of_condition: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for group in run.metrics.groups:
            if group.rtt_median_s is not None:
                key = run.run.entry, run.run.condition_name, group.group
                of_condition.setdefault(key, []).append(group.rtt_median_s)
    most_s = max(map(statistics.fmean, of_condition.values()), default=None)
    grown_s = most_s - base_s if most_s is not None and base_s is not None else 0.0
    origin = "the largest growth of the RTT x the best goodput"
    return cannot_be_told(BUFFER, because, low=grown_s * best_bps / 8 or None, origin=origin)


def _loss_of_results(runs: Sequence[FinishedRun]) -> Estimate:
    """Returns an upper bound, the smallest retransmission rate: flows also cause losses in the
    buffer.
    """
    rates = [
        group.retransmission_rate
        for run in runs
        for group in run.metrics.groups
        if group.retransmission_rate is not None
    ]
    if not rates:
        return cannot_be_told(LOSS, "no result has a retransmission rate")
    because = "flows also retransmit packets that were lost in the buffer"
    origin = "the smallest retransmission rate of any test"
    return Estimate(LOSS, high=min(rates), unknown=because, origin=origin)


def _window_of_results(runs: Sequence[FinishedRun], best_bps: float) -> Estimate:
    """Returns the window that limits single flows: goodput x RTT, if this is alike for all CCAs,
    and if several flows got more. Otherwise the largest such product is a lower bound.

    Without loss no CCA goes beyond the window, so the largest mean is the estimate. A CCA that
    loses packets stays below the window.
    """
    of_ccas: dict[str, list[float]] = {}
    singles = [
        run.metrics.groups[0]
        for run in runs
        if [group.streams for group in run.metrics.groups] == [1]
    ]
    for group in singles:
        if group.rtt_median_s:
            of_ccas.setdefault(group.cca, []).append(group.goodput_bps * group.rtt_median_s / 8)
    most = max((product for products in of_ccas.values() for product in products), default=None)
    means = sorted(map(statistics.fmean, of_ccas.values()))
    single_bps = max((group.goodput_bps for group in singles), default=0.0)
    if len(means) > 1 and means[0] > (1 - ALIKE) * means[-1] and single_bps < MUCH_LESS * best_bps:
        origin = (
            f"goodput x RTT of a single flow, which is alike for {' and '.join(sorted(of_ccas))}"
        )
        return Estimate(WINDOW, means[-1], means[0], most, origin=origin)
    because = "nothing shows what limited the flows"
    return cannot_be_told(
        WINDOW, because, low=most, origin="the largest goodput x RTT of a single flow"
    )


DEFAULT_PACKET_BYTES = 1514
_OF_TESTS = (Iperf3Source, PathSource)
START_SHARE = 1 / 3  # of a step, in which slow start overshoots


def twin_of(paths: Sequence[Path], unread: list[str]) -> list[Twin]:
    """Returns a twin for each path of campaigns and runs.

    Leaves out damaged runs, and adds the reasons to `unread`. Raises ArchiveError, also if no run
    is left.
    """
    found = [each for path in paths for each in _runs(path, unread)]
    if not found:
        names = ", ".join(map(str, paths))
        raise ArchiveError(
            "\n".join(unread)
            or f"{names}: no finished run. To finish its runs: ccmix run ... --resume"
        )
    return twins_of_runs(found, unread)


def twins_of_runs(
    found: Iterable[tuple[FinishedRun, Path]], unread: list[str] | None = None
) -> list[Twin]:
    """Returns the twins of runs with their folders: a twin for each sender, destination, emulated
    path, and condition of the path.

    Leaves out runs with damaged series and adds the reasons to `unread`, if there is such a list.
    Raises ArchiveError.
    """
    of_paths: dict[tuple[str, Hashable], list[tuple[FinishedRun, Path]]] = {}
    for finished, folder in found:
        for sender in senders(finished.run):
            of_paths.setdefault((sender, _path(finished.run)), []).append((finished, folder))
    names = _names(
        [(sender, [finished.run for finished, _ in runs]) for (sender, _), runs in of_paths.items()]
    )
    named = zip(names, of_paths.items(), strict=True)
    twins = [
        _twin(name, sender, list(_readable(runs, sender, unread)))
        for name, ((sender, _), runs) in named
    ]
    if any(twins):
        return [twin for twin in twins if twin]
    raise ArchiveError(
        "\n".join(unread or ["no run has an iperf3 test, or steps that measure the path"])
    )


def _path(run: Run) -> Hashable:
    """Returns the settings that identify the path of a run: those of the path and of its cross
    traffic, but not those of the hosts.
    """
    path = run.path
    others = [source for source in run.traffic.named_sources if not isinstance(source, _OF_TESTS)]
    if isinstance(path, HostPath):
        return path.src, path.dst.name, path.netem, path.profile
    alike = replace(
        path,
        capture=None,
        module_parameter=None,
        kernel=STOCK_KERNEL,
        host_root=False,
        control="path",
        spread=False,
    )
    return alike, *others


def _names(paths: Sequence[tuple[str, Sequence[Run]]]) -> list[str]:
    """Returns a name for each path with its sender and runs: 'geneva', 'p1 from h1 rate=10mbit'."""
    parts = []
    for sender, runs in paths:
        path, common = runs[0].path, set.intersection(*({*run.condition.items()} for run in runs))
        where, host = (path.name, sender) if isinstance(path, Topology) else ("", path.src)
        parts.append(
            (where or runs[0].dst, f"from {host}", ",".join(map("=".join, sorted(common))))
        )
    names = []
    for where, *more in parts:
        alike = [each for each in parts if each[0] == where]
        told = [part for at, part in enumerate(more, 1) if len({each[at] for each in alike}) > 1]
        names.append(" ".join(filter(None, [where, *told])))
    return [
        f"{name}-{names[:at].count(name) + 1}" if name in names[:at] else name
        for at, name in enumerate(names)
    ]


def _runs(path: Path, unread: list[str]) -> Iterable[tuple[FinishedRun, Path]]:
    """Returns the finished runs of a campaign, or of the folder of a single run."""

    def wanted(run: Run) -> bool:
        return not of_one or RunFolder.of(outdir, run).path == own

    own, of_one = path.resolve(), (path / run_files.SUMMARY).exists()
    outdir = campaign_folder(own) if of_one else path
    return Campaign.load(outdir).finished(wanted, unread=lambda _, error: unread.append(str(error)))


def _twin(name: str, sender: str, runs: Sequence[tuple[FinishedRun, PathRun]]) -> Twin | None:
    """Returns None if no run shows anything of the path."""
    observed = [each for _, each in runs if each.steps]
    finished = tuple(finished for finished, _ in runs)
    if not observed:
        foreign = finished and all(map(imported, finished))
        return Twin(name, estimates_of_results(finished), finished) if foreign else None
    measuring = [each for each in observed if each.has_steps] or observed
    every = [estimates_of(each) for each in measuring]
    joined = tuple(best(alike) for alike in zip(*every, strict=True))
    return Twin(name, joined, finished, None if sender == BETWEEN_HOSTS else sender)


def _readable(
    runs: Sequence[tuple[FinishedRun, Path]], sender: str, unread: list[str] | None
) -> Iterable[tuple[FinishedRun, PathRun]]:
    for finished, folder in runs:
        try:
            yield finished, observe(finished, folder, sender)
        except ArchiveError as error:
            if unread is None:
                raise
            unread.append(str(error))


def estimates_of(observed: PathRun) -> tuple[Estimate, ...]:
    """Returns all estimates of a run, in the order in which they are shown."""
    of_base = {each.quantity: each for each in base_rtt(observed)}
    of_all = loss(observed)[0]
    lost = of_all.value or 0.0
    base_s, noise_s = of_base[BASE_RTT].value or 0.0, of_base[NOISE].value or 0.0
    found = overloads(observed, lost)
    seen = delays(observed, base_s, found)
    packet_bytes = next(
        (each.step.packet_bytes for each in found if each.step.packet_bytes), DEFAULT_PACKET_BYTES
    )
    most_bps = max((each.received_bps for each in found), default=0.0)
    packet_s = packet_bytes * 8 / most_bps if most_bps else 0.0
    of_train = overflow(observed)
    if of_train and (
        of_train.contradicts(seen.probe_s or 0.0, most_bps) or slow_way_back(observed, most_bps)
    ):
        of_train = None
    of_flows = queues_of_flows(seen, packet_s, noise_s, of_train)
    by_trains = of_train is not None and of_train.from_head  # a queue for each flow, and no policer
    queued = by_trains or waits(seen, packet_s, noise_s)
    policed = policer(observed, found, of_train, queued=queued)
    if (
        policed.value is not None
        and of_train is not None
        and policed.value < of_train.most_at_once_bytes
    ):
        of_train = None  # the policer dropped the train, not a queue
    shared = policed.value is not None or more_of_more(found)
    # nothing waits at a policer, and trains show the rate of another link; but if trains overflow a
    # queue, it is the bottleneck's
    waits_s = seen.peak_s if of_train is None or policed.value is not None else None
    of_rate = {
        each.quantity: each
        for each in rate(
            observed,
            lost,
            False if shared else of_flows,
            base_s,
            seen.tcp_most_s or 0.0,
            waits_s,
            by_trains,
        )
    }
    late = late_share(observed, base_s, found)
    of_rate[CROSS] = as_it_varies(of_rate[CROSS], of_rate[RATE], late)
    if policed.value is not None and not of_rate[CROSS].value:
        of_rate[CROSS] = cannot_be_told(
            CROSS, "nothing waits at a policer, so cross traffic that reacts does not show"
        )
    because = "the policer drops before a queue is full"
    if of_train is not None:
        size = buffer_of_train(of_train)
    elif policed.value is not None:
        size = cannot_be_told(BUFFER, because)
    else:
        size = buffer(observed, seen, of_rate[RATE], packet_bytes, of_flows, found)
    if policed.value is not None:
        kind = cannot_be_told(QUEUE, because)
    else:
        kind = queue(
            seen, None if shared and of_flows else of_flows, _retransmitted(observed), of_all.high
        )
    at_bottleneck = QueueAtBottleneck(
        base_s,
        shows_s(packet_s, quiet_noise_s(observed)),
        full_s=None if of_flows or policed.value is not None else seen.probe_s,
        managed=kind.word != FIFO,
        others=(of_rate[CROSS].high or math.inf) > HIDDEN_SHARE * most_bps,
        bursts=policed.value is not None or bool(late and late[0]),
    )
    return (
        *of_base.values(),
        *of_rate.values(),
        size,
        kind,
        policed,
        *loss(observed, at_bottleneck),
        reordering(observed, of_base[BASE_RTT].value),
        hosts.window(observed),
        hosts.send_buffer(observed),
        hosts.mtu(observed),
        hosts.ecn(observed),
    )


def _retransmitted(observed: PathRun) -> float | None:
    """Returns the share of segments that was retransmitted in the step that fills the buffer."""
    for step in observed.of_kind(FILL):
        begin_s = step.begin_s + (step.end_s - step.begin_s) * START_SHARE
        grown = observed.grown(step, "data_segs_out", "retransmits", begin_s=begin_s)
        if sent := int(grown["data_segs_out"].sum()):
            return int(grown["retransmits"].sum()) / sent
    return None
