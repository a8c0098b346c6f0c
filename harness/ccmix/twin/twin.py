"""Makes the estimates of a run, and joins those of the runs over one path."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.analysis.counting import imported
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.folders import RunFolder, campaign_folder
from ccmix.generators.path_steps import FILL
from ccmix.model import STOCK_KERNEL, HostPath, Iperf3Source, PathSource, Run, Topology, run_files
from ccmix.model.results import FinishedRun
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.twin import hosts
from ccmix.twin.base_rtt import BASE_RTT, NOISE, base_rtt
from ccmix.twin.bursts import overflow
from ccmix.twin.estimate import Estimate, best, cannot_be_told
from ccmix.twin.loss import LOSS, loss
from ccmix.twin.observed import PathRun, observe, senders
from ccmix.twin.of_results import estimates_of_results
from ccmix.twin.policer import policer
from ccmix.twin.queue import BUFFER, QUEUE, buffer, buffer_of_train, delays, queue, queues_of_flows, waits
from ccmix.twin.rate import RATE, more_of_more, overloads, rate
from ccmix.twin.reordering import reordering

DEFAULT_PACKET_BYTES = 1514
_OF_TESTS = (Iperf3Source, PathSource)
START_SHARE = 1 / 3  # of a step, in which slow start overshoots


@dataclass(frozen=True)
class Twin:
    """Holds what is known of a path, and the runs over it. `name` is that of the destination, of an emulated path that
    of its topology; with the sender and what is swept of the path where there are several.
    """

    name: str
    estimates: tuple[Estimate, ...]
    runs: tuple[FinishedRun, ...]
    sender: str | None = None  # of an emulated path

    def of(self, quantity: str) -> Estimate:
        """Returns the estimate of a quantity."""
        return next(each for each in self.estimates if each.quantity == quantity)


def twin_of(paths: Sequence[Path], unread: list[str]) -> list[Twin]:
    """Returns a twin for each path of campaigns and runs.

    Leaves runs out that are damaged, and adds to `unread` why. Raises ArchiveError, also where no run is left.
    """
    found = [each for path in paths for each in _runs(path, unread)]
    if not found:
        names = ", ".join(map(str, paths))
        raise ArchiveError("\n".join(unread) or f"{names}: has no finished run: 'ccmix run ... --resume' makes them")
    return twins_of_runs(found, unread)


def twins_of_runs(found: Iterable[tuple[FinishedRun, Path]], unread: list[str] | None = None) -> list[Twin]:
    """Returns a twin for each sender, destination, emulated path, and condition of the path, of runs, which have their
    folders.

    Leaves runs out whose series are damaged, if it can add to `unread` why. Raises ArchiveError.
    """
    of_paths: dict[tuple[str, Hashable], list[tuple[FinishedRun, Path]]] = {}
    for finished, folder in found:
        for sender in senders(finished.run):
            of_paths.setdefault((sender, _path(finished.run)), []).append((finished, folder))
    names = _names([(sender, [finished.run for finished, _ in runs]) for (sender, _), runs in of_paths.items()])
    named = zip(names, of_paths.items(), strict=True)
    twins = [_twin(name, sender, list(_readable(runs, sender, unread))) for name, ((sender, _), runs) in named]
    if any(twins):
        return [twin for twin in twins if twin]
    raise ArchiveError("\n".join(unread or ["no run has a test of iperf3, or steps that measure the path"]))


def _path(run: Run) -> Hashable:
    """Returns what makes the path of a run, without what hosts do, and with others' traffic."""
    path, others = run.path, [source for source in run.traffic.named_sources if not isinstance(source, _OF_TESTS)]
    if isinstance(path, HostPath):
        return path.src, path.dst.name, path.netem, path.profile
    alike = replace(path, capture=None, module_parameter=None, kernel=STOCK_KERNEL, host_root=False, control="path")
    return replace(alike, spread=False), *others


def _names(paths: Sequence[tuple[str, Sequence[Run]]]) -> list[str]:
    """Returns a name for each path with its sender and runs: 'geneva', 'p1 from h1 rate=10mbit'."""
    parts = []
    for sender, runs in paths:
        path, common = runs[0].path, set.intersection(*({*run.condition.items()} for run in runs))
        where, host = (path.name, sender) if isinstance(path, Topology) else ("", path.src)
        parts.append((where or runs[0].dst, f"from {host}", ",".join(map("=".join, sorted(common)))))
    names = []
    for where, *more in parts:
        alike = [each for each in parts if each[0] == where]
        told = [part for at, part in enumerate(more, 1) if len({each[at] for each in alike}) > 1]
        names.append(" ".join(filter(None, [where, *told])))
    return [f"{name}-{names[:at].count(name) + 1}" if name in names[:at] else name for at, name in enumerate(names)]


def _runs(path: Path, unread: list[str]) -> Iterable[tuple[FinishedRun, Path]]:
    """Returns the finished runs of a campaign, or the one run whose folder it is."""

    def wanted(run: Run) -> bool:
        return not of_one or RunFolder.of(outdir, run).path == own

    own, of_one = path.resolve(), (path / run_files.SUMMARY).exists()
    outdir = campaign_folder(own) if of_one else path
    return Campaign.load(outdir).finished(wanted, unread=lambda _, error: unread.append(str(error)))


def _twin(name: str, sender: str, runs: Sequence[tuple[FinishedRun, PathRun]]) -> Twin | None:
    """Returns None where no run shows anything of the path."""
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
    """Returns every estimate of a run, in the order in which they are shown."""
    of_base = {each.quantity: each for each in base_rtt(observed)}
    of_loss = {each.quantity: each for each in loss(observed)}
    lost = of_loss[LOSS].value or 0.0
    base_s, noise_s = of_base[BASE_RTT].value or 0.0, of_base[NOISE].value or 0.0
    found = overloads(observed, lost)
    seen = delays(observed, base_s, found)
    packet_bytes = next((each.step.packet_bytes for each in found if each.step.packet_bytes), DEFAULT_PACKET_BYTES)
    most_bps = max((each.received_bps for each in found), default=0.0)
    packet_s = packet_bytes * 8 / most_bps if most_bps else 0.0
    of_train = overflow(observed)
    if of_train is not None and of_train.contradicts(seen.probe_s or 0.0, most_bps):
        of_train = None
    of_flows = queues_of_flows(seen, packet_s, noise_s, of_train)
    policed = policer(observed, found, of_train, queued=waits(seen, packet_s, noise_s))
    if policed.value is not None and of_train is not None and policed.value < of_train.most_at_once_bytes:
        of_train = None  # it was the policer that dropped it, and no queue
    shared = policed.value is not None or more_of_more(found)
    # nothing waits at a policer, and trains show another link; but a queue that they overflow is the bottleneck's
    waits_s = seen.peak_s if of_train is None or policed.value is not None else None
    of_rate = {
        each.quantity: each
        for each in rate(observed, lost, False if shared else of_flows, base_s, seen.tcp_most_s or 0.0, waits_s)
    }
    because = "the policer drops before a queue is full"
    if of_train is not None:
        size = buffer_of_train(of_train)
    elif policed.value is not None:
        size = cannot_be_told(BUFFER, "bytes", because)
    else:
        size = buffer(observed, seen, of_rate[RATE], packet_bytes, of_flows, found)
    if policed.value is not None:
        kind = cannot_be_told(QUEUE, "", because)
    else:
        kind = queue(seen, None if shared and of_flows else of_flows, _retransmitted(observed), of_loss[LOSS].high)
    return (
        *of_base.values(),
        *of_rate.values(),
        size,
        kind,
        policed,
        *of_loss.values(),
        reordering(observed, of_base[BASE_RTT].value),
        hosts.window(observed),
        hosts.send_buffer(observed),
        hosts.mtu(observed),
        hosts.ecn(observed),
    )


def _retransmitted(observed: PathRun) -> float | None:
    """Returns the share of segments that flows of the step that fills the buffer sent again."""
    for step in observed.of_kind(FILL):
        begin_s = step.begin_s + (step.end_s - step.begin_s) * START_SHARE
        grown = observed.grown(step, "data_segs_out", "retransmits", begin_s=begin_s)
        if sent := int(grown["data_segs_out"].sum()):
            return int(grown["retransmits"].sum()) / sent
    return None
