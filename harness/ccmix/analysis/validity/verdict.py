"""Judges a run: did only the path and CCA limit it, and was the path as configured?

All judgements rest on the data of the run's own probes: a configured value is never trusted without
a measurement.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import fields, host_path, hosts, path, physics, traffic_fields
from ccmix.analysis.validity.applied import Check, Observed, Problems
from ccmix.analysis.validity.path import loses, lost_in_spans, too_few_losses
from ccmix.analysis.validity.queue_options import unreported
from ccmix.model import (
    CommandSource,
    HostPath,
    HttpSource,
    Measurement,
    Run,
    Topology,
    WorkloadSource,
)
from ccmix.model.results import Finding, Metrics, Status, Verdict
from ccmix.terms import LIMITS
from ccmix.units import format_time

LOST_BY_TCPDUMP = ("dropped by kernel", "dropped by interface")
LEAST_SAMPLES = 2  # of a flow, in the measured time: see unseen()


def lost_samples(observed: Observed) -> Problems:
    """Yields a problem for each recording that is incomplete: tcpdump dropped packets, a probe
    failed, or a probe missed sampling times.
    """
    facts = observed.measurement.facts
    if capture := facts.capture:
        received = capture.packets.get("received by filter", 0)
        for counter in LOST_BY_TCPDUMP:
            if lost := capture.packets.get(counter):
                yield "probe", f"tcpdump: {lost} of {received} packets {counter}"
        for reason in capture.shortened:
            yield "probe", f"tables of the capture: {reason}"
    for name, report in facts.probes.items():
        if report.failed:
            yield "probe", f"{name}: {report.failed}"
        # shares of processors refer to the time that really passed
        elif report.missed and not name.startswith("processors"):
            expected = (report.samples or 0) + report.missed
            yield "probe", f"{name}: {report.missed} of {expected} samples missed"


def unseen(observed: Observed) -> Problems:
    """Yields problems if a run on an emulated path lacks observations: flows without samples,
    traffic whose sources can't be distinguished, settings that were not read back. Such problems
    make the run's verdict 'unknown'.
    """
    run, tables, measurement = observed.run, observed.tables, observed.measurement
    if tables.flows.is_empty() and not tables.short_flows["bytes_sent"].sum():
        yield "probe", "no flow was seen"
    else:
        yield from _indistinguishable_sources(run, tables)
    if measurement.state_before is None or measurement.state_after is None:
        yield "probe", "the path's devices and sysctls were not read back"
    seen = tables.sockets.select(FLOW).n_unique()
    if too_few := seen - _flows_with_samples(run, tables):
        yield "probe", f"{too_few} of {seen} flows have fewer than two samples in the measured time"
    if not tables.short_flows_seen:
        yield (
            "probe",
            "sockets were sampled by ss, which sees no flow that ends between two samples",
        )
    if run.topology.offloads and loses(run):
        yield (
            "loss",
            "with offloads, netem loses packets joined to one and counts them apart: their share "
            "is unknown",
        )


def _flows_with_samples(run: Run, tables: RunTables) -> int:
    """Returns the number of flows whose sockets were sampled at least twice in the measured
    time.
    """
    return measured(run, tables.sockets).group_by(FLOW).len().filter(pl.col("len") > 1).height


def _indistinguishable_sources(run: Run, tables: RunTables) -> Problems:
    """Yields a problem for each source whose connections were not seen, or whose connections can't
    be distinguished from those of another source on the same host.
    """
    senders = {
        sender.name for sender in run.topology.senders
    }  # on a receiver, a command may be a server
    first_commands: dict[str, CommandSource] = {}
    for source in run.traffic.sources:
        if isinstance(source, HttpSource | WorkloadSource):
            report = tables.services.get(source.label)
            seen = report.connections if report else 0
            begun = tables.completions.filter(pl.col("group") == run.group_name(source)).height
            if seen > begun:
                yield (
                    "probe",
                    f"{seen} connections led to the server of {source.label}, but the source made "
                    f"only {begun}",
                )
        elif isinstance(source, CommandSource) and source.host in senders:
            first = first_commands.setdefault(source.host, source)
            if first is not source:
                yield (
                    "probe",
                    f"the connections of {source.label} can't be distinguished from those of "
                    f"{first.label}",
                )
            elif run.group_name(source) not in set(tables.flows["group"]):
                yield "probe", f"no connection of {source.label} carried data"


def unseen_between_hosts(observed: Observed) -> Problems:
    """Yields problems if a run between hosts lacks observations. Only the two hosts are visible, so
    these are observations of their sockets.
    """
    run, tables = observed.run, observed.tables
    if observed.measurement.facts.hosts_unseen:
        yield (
            "probe",
            f"no probe sampled the sockets of {run.host_path.src}: ccmix has no shell there",
        )
    elif tables.flows.is_empty():
        yield (
            "probe",
            f"no connection to {run.host_path.dst.address} carried data in view of "
            f"{run.host_path.src}",
        )
    elif too_few := (expected := _expected_sampled_flows(run, tables)) - _flows_with_samples(
        run, tables
    ):
        yield (
            "probe",
            f"{too_few} of {expected} flows have fewer than two samples in the measured time",
        )


def _expected_sampled_flows(run: Run, tables: RunTables) -> int:
    """Returns how many flows should have samples of their sockets. UDP flows have none. Flows that
    the destination sends count only if they were sampled, because ccmix may have no shell on the
    destination.
    """
    flows = tables.flows.filter(~pl.col("udp").fill_null(value=False))
    if run.traffic.steps:
        return flows.filter(pl.col("cca_used").is_not_null()).height
    sampled = tables.sockets.select(
        FLOW
    ).unique()  # of a test in the other direction, if ccmix has a shell on that host
    return (
        flows.filter(~pl.col("reverse").fill_null(value=False)).height
        + flows.filter("reverse").join(sampled, on=FLOW, how="semi").height
    )


def not_verified(observed: Observed) -> Iterator[str]:
    """Yields a sentence for each setting whose effect no measurement confirms, such as jitter. The
    run stays valid, because tc confirms that the setting was made.
    """
    run = observed.run
    if not isinstance(run.path, Topology):
        return
    joins_packets = run.path.offloads and loses(run)
    for sender in run.path.senders:
        host = f"{sender.name}: " if len(run.path.senders) > 1 else ""
        for configured, _, offered in lost_in_spans(run.path, sender, observed.measurement):
            if (
                configured
                and not joins_packets
                and (too_few := too_few_losses(configured, offered))
            ):
                yield host + too_few
        if sender.jitter_s:
            yield f"{host}jitter: tc confirms it, no probe sees its effect"
        if sender.reorder:
            yield f"{host}reordering: tc confirms it, no probe sees its effect"
    for queue in dict.fromkeys((run.path.queue, *(sender.queue for sender in run.path.senders))):
        for name in unreported(queue):
            yield f"{name} of {queue.kind}: tc doesn't report it"
    for source in run.traffic.sources:
        if isinstance(source, CommandSource):
            yield f"{source.label}: ccmix doesn't know what the command should do"


def unknown_for_sure(runs: Iterable[Run]) -> Iterator[str]:
    """Yields a warning for each entry whose sampling interval is too long for its duration, so that
    all of its runs would get the verdict 'unknown'. Called before a campaign starts.
    """
    too_long: dict[str, tuple[float, float]] = {}
    for run in runs:
        duration_s, interval_s = run.traffic.duration_s, run.traffic.interval_s
        if duration_s is not None and interval_s * LEAST_SAMPLES > duration_s:
            too_long.setdefault(run.entry, (interval_s, duration_s))
    for entry, (interval_s, duration_s) in too_long.items():
        yield (
            f"{entry}: an interval of {format_time(interval_s)} leaves fewer than two samples in "
            f"{format_time(duration_s)}, so runs will be unknown: set interval to at most "
            f"{format_time(duration_s / LEAST_SAMPLES)}"
        )


_CHECKS_OF_HOSTS = (hosts.limits, hosts.processors, lost_samples)
CHECKS_OF_EMULATED_PATHS: tuple[Check, ...] = (
    *(comparison.differences for comparison in (*fields.TRAFFIC, *fields.PATH)),
    path.rtt,
    path.rate,
    path.losses,
    path.backlog,
    physics.conserved_packets,
    physics.conserved_rate,
    *_CHECKS_OF_HOSTS,
)
# The path itself is not known, so only CCAs, ccmix's own settings, hosts and probes are checked
CHECKS_BETWEEN_HOSTS: tuple[Check, ...] = (
    traffic_fields.cca,
    *(comparison.differences for comparison in fields.HOST_PATH),
    *(comparison.differences for comparison in fields.TRAFFIC if comparison.between_hosts),
    host_path.netem_effects,
    *_CHECKS_OF_HOSTS,
)


def judge(run: Run, tables: RunTables, measurement: Measurement, metrics: Metrics) -> Verdict:
    """Returns the verdict on a run: 'limited' if anything but path and CCA limited it, 'unknown' if
    a necessary observation is missing, otherwise 'valid'.

    If the entry accepts a kind of problem (its key accept-limits), such problems are listed in the
    verdict, but leave the run valid.
    """

    def findings(problems: Problems) -> tuple[Finding, ...]:
        """Converts problems (kind, detail) to findings, without repetitions."""
        return tuple(
            Finding(kind, f"{LIMITS[kind]}: {detail}", kind in run.accept_limits)
            for kind, detail in dict.fromkeys(problems)
        )

    observed = Observed(run, tables, measurement)
    if isinstance(run.path, HostPath):
        checks, unobserved = CHECKS_BETWEEN_HOSTS, findings(unseen_between_hosts(observed))
    else:
        checks, unobserved = CHECKS_OF_EMULATED_PATHS, findings(unseen(observed))
    limits = findings(problem for check in checks for problem in check(observed))
    limits += findings(physics.impossible(observed, metrics))
    status: Status = "valid"
    if not all(finding.accepted for finding in unobserved):
        status = "unknown"
    if not all(finding.accepted for finding in limits):
        status = "limited"
    return Verdict(status, limits + unobserved, tuple(not_verified(observed)))
