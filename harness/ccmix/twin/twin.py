"""Estimates all properties of a path from its runs, and joins the runs into one description."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ccmix.analysis.counting import imported
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.campaign import RunFolder, campaign_folder
from ccmix.generators.path_steps import BURSTS, FILL
from ccmix.model import STOCK_KERNEL, HostPath, Iperf3Source, PathSource, Run, Topology, run_files
from ccmix.model.results import FinishedRun
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.twin import hosts
from ccmix.twin.bottleneck import (
    FIFO,
    MANAGED,
    buffer,
    buffer_from_train,
    has_queue_per_flow,
    least_visible_wait_s,
    probe_waits,
    queue,
    read_waits,
)
from ccmix.twin.estimate import (
    BASE_RTT,
    BUFFER,
    CROSS,
    NOISE,
    QUEUE,
    RATE,
    Estimate,
    Twin,
    best,
    cannot_be_told,
)
from ccmix.twin.observed import PathRun, observe, senders
from ccmix.twin.others import share_of_late_answers, widen_by_idle_bursts
from ccmix.twin.policer import policer
from ccmix.twin.rate import HIDDEN_SHARE, rate
from ccmix.twin.received import overflow, overloads, slow_way_back
from ccmix.twin.result_estimates import estimates_of_results
from ccmix.twin.way import QueueAtBottleneck, base_rtt, loss, quiet_noise_s, reordering

DEFAULT_PACKET_BYTES = 1514
_OF_TESTS = (Iperf3Source, PathSource)
START_SHARE = 1 / 3  # of a step, in which slow start overshoots


def twin_of(paths: Sequence[Path], unread: list[str]) -> list[Twin]:
    """Returns a description (Twin) of each path in the folders `paths`, which are campaigns or
    single runs. `ccmix twin` and the report use it.

    Damaged runs are left out, and the reasons are added to `unread`. Raises ArchiveError if no run
    is left, or if a campaign can't be read.
    """
    runs = [each for path in paths for each in _finished_runs(path, unread)]
    if not runs:
        names = ", ".join(map(str, paths))
        raise ArchiveError(
            "\n".join(unread)
            or f"{names}: no finished run. To finish the runs: ccmix run ... --resume"
        )
    return twins_of_runs(runs, unread)


def twins_of_runs(
    finished_runs: Iterable[tuple[FinishedRun, Path]], unread: list[str] | None = None
) -> list[Twin]:
    """Returns a description (Twin) of each path that the finished runs used, given with their
    folders. Runs with another sender, destination, topology or swept setting of the path used
    another path.

    Runs with damaged series are left out, and the reasons are added to `unread`; if `unread` is
    None, a damaged run raises ArchiveError. Raises ArchiveError also if no run tests its path.
    """
    runs_of_paths: dict[tuple[str, Hashable], list[tuple[FinishedRun, Path]]] = {}
    for finished, folder in finished_runs:
        for sender in senders(finished.run):
            runs_of_paths.setdefault((sender, _path_identity(finished.run)), []).append(
                (finished, folder)
            )
    names = _path_names(
        [
            (sender, [finished.run for finished, _ in runs])
            for (sender, _), runs in runs_of_paths.items()
        ]
    )
    named_paths = zip(names, runs_of_paths.items(), strict=True)
    twins = [
        _twin_of_path(name, sender, list(_readable_runs(runs, sender, unread)))
        for name, ((sender, _), runs) in named_paths
    ]
    if any(twins):
        return [twin for twin in twins if twin]
    raise ArchiveError(
        "\n".join(unread or ["no run has an iperf3 test, or steps that measure the path"])
    )


def _path_identity(run: Run) -> Hashable:
    """Returns a key for grouping: two runs have the same key if they used the same path. It
    contains the settings of the path and of its cross traffic. The settings of hosts and tests
    (kernel, capture, start times, ...) are left out, because they don't belong to the path.
    """
    path = run.path
    cross_traffic = [
        source for source in run.traffic.named_sources if not isinstance(source, _OF_TESTS)
    ]
    if isinstance(path, HostPath):
        return path.src, path.dst.name, path.netem, path.profile
    path_only = replace(
        path,
        capture=None,
        module_parameter=None,
        kernel=STOCK_KERNEL,
        host_root=False,
        control="path",
        spread=False,
    )
    return path_only, *cross_traffic


def _path_names(paths: Sequence[tuple[str, Sequence[Run]]]) -> list[str]:
    """Returns a unique name for each path: the destination, or the name of the topology, such as
    'geneva'. If several paths have this name, the sender and the path's swept values follow where
    they differ: 'p1 from h1 rate=10mbit'.

    paths: the sender and the runs of each path
    """
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


def _finished_runs(path: Path, unread: list[str]) -> Iterable[tuple[FinishedRun, Path]]:
    """Returns the finished runs in a folder, each with its own folder. `path` is the folder of a
    campaign, or of a single run, which is then the only one. Reasons why runs can't be read are
    added to `unread`.
    """

    def wanted(run: Run) -> bool:
        """Returns whether the run belongs to the folder `path`; all runs of a campaign do."""
        return not is_single_run or RunFolder.of(outdir, run).path == resolved

    resolved, is_single_run = path.resolve(), (path / run_files.SUMMARY).exists()
    outdir = campaign_folder(resolved) if is_single_run else path
    return Campaign.load(outdir).finished(wanted, unread=lambda _, error: unread.append(str(error)))


def _twin_of_path(
    name: str, sender: str, runs: Sequence[tuple[FinishedRun, PathRun]]
) -> Twin | None:
    """Joins the estimates of all runs over one path into one Twin.

    If some runs measured the path in steps (a test that has steps of its own, `type = path`), only
    the estimates of these runs are joined. Other runs have an ordinary iperf3 test, which counts as
    a single step. If no run has a step and all runs are imported, as from a table, the estimates
    come from the results of the runs. Returns None if no run shows anything of the path.

    name: the name that the twin gets
    sender: the host that sends over the path; BETWEEN_HOSTS on a path between real hosts
    runs: each finished run with what it shows of the sender's path
    """
    usable = [each for _, each in runs if each.steps]
    finished = tuple(finished for finished, _ in runs)
    if not usable:
        all_imported = finished and all(map(imported, finished))
        return Twin(name, estimates_of_results(finished), finished) if all_imported else None
    measuring = [each for each in usable if each.has_steps] or usable
    estimates_of_runs = [estimates_of(each) for each in measuring]
    joined = tuple(best(alike) for alike in zip(*estimates_of_runs, strict=True))
    return Twin(name, joined, finished, None if sender == BETWEEN_HOSTS else sender)


def _readable_runs(
    runs: Sequence[tuple[FinishedRun, Path]], sender: str, unread: list[str] | None
) -> Iterable[tuple[FinishedRun, PathRun]]:
    """Yields each finished run with what it shows of the path of this sender, which is read from
    the run's folder. A damaged run is left out, and the reason is added to `unread`; if that is
    None, ArchiveError is raised.
    """
    for finished, folder in runs:
        try:
            yield finished, observe(finished, folder, sender)
        except ArchiveError as error:
            if unread is None:
                raise
            unread.append(str(error))


def estimates_of(observed: PathRun) -> tuple[Estimate, ...]:
    """Returns all estimates of a path from one run, in the order in which they are shown.

    The order of the calculations matters, because each one needs those before it: random loss and
    base RTT; waits in the queue; kind of the queue and policer; rate and cross traffic; buffer; and
    in which intervals losses were random, which gives the final estimate of the loss.

    `train_overflow` says how trains (packets sent back to back) overflowed the bottleneck's queue.
    It becomes None if another queue or a policer dropped their packets.
    """
    # random loss and base RTT, from which the waits in the queue follow
    base_estimates = {each.quantity: each for each in base_rtt(observed)}
    first_loss = loss(observed)[0]
    random_loss = first_loss.value or 0.0
    base_s, noise_s = base_estimates[BASE_RTT].value or 0.0, base_estimates[NOISE].value or 0.0
    overloaded = overloads(observed, random_loss)
    measured_waits = read_waits(observed, base_s, overloaded)
    packet_bytes = next(
        (each.step.packet_bytes for each in overloaded if each.step.packet_bytes),
        DEFAULT_PACKET_BYTES,
    )
    received_bps = overloaded.most_bps
    packet_s = packet_bytes * 8 / received_bps if received_bps else 0.0
    # the kind of the queue, and the policer
    train_overflow = overflow(observed)
    if train_overflow and (
        train_overflow.contradicts(measured_waits.probe_s or 0.0, received_bps)
        or slow_way_back(observed, received_bps)
    ):
        train_overflow = None
    queue_per_flow = has_queue_per_flow(measured_waits, packet_s, noise_s, train_overflow)
    # losses at the head: a queue for each flow, and no policer
    by_trains = train_overflow is not None and train_overflow.from_head
    excess_waits = by_trains or probe_waits(measured_waits, packet_s, noise_s)
    policer_burst = policer(observed, overloaded, train_overflow, queued=excess_waits)
    is_policed = policer_burst.value is not None
    if (
        policer_burst.value is not None
        and train_overflow is not None
        and policer_burst.value < train_overflow.most_at_once_bytes
    ):
        train_overflow = None  # the policer dropped the train, not a queue
    # the rate and the cross traffic
    is_shared = is_policed or overloaded.received_grows_with_offered
    # nothing waits at a policer, and trains show the rate of another link; but if trains overflow a
    # queue, it is the bottleneck's
    probe_waits_s = measured_waits.peak_s if train_overflow is None or is_policed else None
    rate_estimates = {
        each.quantity: each
        for each in rate(
            observed,
            random_loss,
            False if is_shared else queue_per_flow,
            base_s,
            measured_waits.tcp_most_s or 0.0,
            probe_waits_s,
            by_trains,
        )
    }
    late_answers = share_of_late_answers(observed, base_s, overloaded)
    rate_estimates[CROSS] = widen_by_idle_bursts(
        rate_estimates[CROSS], rate_estimates[RATE], late_answers
    )
    if is_policed:
        rate_estimates[CROSS] = cannot_be_told(
            CROSS, "nothing waits at a policer, so cross traffic does not show there"
        )
    # the buffer and the kind of the queue
    because = "the policer drops before a queue is full"
    is_kept_short = False
    if is_policed:
        buffer_size = cannot_be_told(BUFFER, because)
    else:
        buffer_size = buffer(
            observed, measured_waits, rate_estimates[RATE], packet_bytes, queue_per_flow, overloaded
        )
    if train_overflow is not None:
        by_train = buffer_from_train(train_overflow)
        # RED lets a short train into a queue that it keeps shorter under constant overload
        is_kept_short = not by_trains and (buffer_size.high or math.inf) < (by_train.low or 0.0)
        buffer_size = buffer_size if is_kept_short else by_train
    if is_policed:
        queue_kind = cannot_be_told(QUEUE, because)
    elif is_kept_short:
        origin = f"delays of the probe under overload, and trains of step {BURSTS}"
        queue_kind = Estimate(QUEUE, word=MANAGED, origin=origin)
    else:
        queue_kind = queue(
            measured_waits,
            None if is_shared and queue_per_flow else queue_per_flow,
            _retransmitted_when_full(observed),
            first_loss.high,
        )
    # the final estimate of random loss, without the losses in a full queue
    at_bottleneck = QueueAtBottleneck(
        base_s,
        least_visible_wait_s(packet_s, quiet_noise_s(observed)),
        full_s=None if queue_per_flow or is_policed else measured_waits.probe_s,
        managed=queue_kind.word != FIFO,
        others=(rate_estimates[CROSS].high or math.inf) > HIDDEN_SHARE * received_bps,
        bursts=is_policed or bool(late_answers and late_answers[0]),
    )
    return (
        *base_estimates.values(),
        *rate_estimates.values(),
        buffer_size,
        queue_kind,
        policer_burst,
        *loss(observed, at_bottleneck),
        reordering(observed, base_estimates[BASE_RTT].value),
        hosts.window(observed),
        hosts.send_buffer(observed),
        hosts.mtu(observed),
        hosts.ecn(observed),
    )


def _retransmitted_when_full(observed: PathRun) -> float | None:
    """Returns the share of segments that TCP retransmitted in the step that fills the buffer. If
    there are several such steps, the first one in which segments were sent is used. The first third
    of the step (START_SHARE) is left out, because slow start overshoots then. Returns None if the
    run has no such step.
    """
    for step in observed.steps_of_kind(FILL):
        begin_s = step.begin_s + (step.end_s - step.begin_s) * START_SHARE
        grown = observed.counter_growth(step, "data_segs_out", "retransmits", begin_s=begin_s)
        if sent := int(grown["data_segs_out"].sum()):
            return int(grown["retransmits"].sum()) / sent
    return None
