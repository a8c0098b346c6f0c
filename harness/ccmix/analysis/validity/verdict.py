"""Judges a run: whether the path and the CCA limited it, and the path was the one that was configured.

Everything is judged from what the run's own probes saw: a configuration is never believed because it was set.
"""

from collections.abc import Iterator

from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import conservation, fields, host_path, hosts, path, physics, power, probes, traffic
from ccmix.analysis.validity.comparison import Observed
from ccmix.model import HostPath, Measurement, Run
from ccmix.model.results import Finding, Metrics, Status, Verdict
from ccmix.terms import LIMITS


def judge(run: Run, tables: RunTables, measurement: Measurement, metrics: Metrics) -> Verdict:
    """Returns the verdict; kinds that the entry accepts leave a run valid."""

    def findings(limits_and_details: Iterator[tuple[str, str]]) -> tuple[Finding, ...]:
        return tuple(
            Finding(kind, f"{LIMITS[kind]}: {detail}", kind in run.accept_limits)
            for kind, detail in dict.fromkeys(limits_and_details)
        )

    observed = Observed(run, tables, measurement)
    if isinstance(run.path, HostPath):
        limits = findings(_between_hosts(observed, run.path))
        unseen = findings(probes.unseen_between_hosts(run, tables, measurement))
    else:
        limits, unseen = findings(_emulated(observed)), findings(probes.unseen(run, tables, measurement))
    limits += findings(physics.impossible(observed, metrics))
    status: Status = "valid"
    if not all(finding.accepted for finding in unseen):
        status = "unknown"
    if not all(finding.accepted for finding in limits):
        status = "limited"
    return Verdict(status, limits + unseen, tuple(power.not_verified(observed)))


def _emulated(observed: Observed) -> Iterator[tuple[str, str]]:
    run, tables, measurement = observed.run, observed.tables, observed.measurement
    for comparison in (*fields.TRAFFIC, *fields.PATH):
        yield from comparison.differences(observed)
    yield from path.rtt(run, tables, measurement)
    yield from path.rate(run, tables, measurement)
    if not (run.topology.offloads and path.loses(run)):  # else see probes.unseen
        sending = {source.host for source in run.traffic.sources}
        for sender in (sender for sender in run.topology.senders if sender.name in sending):
            yield from path.loss_of_sender(run.topology, sender, measurement)
    yield from path.backlog(run, tables)
    yield from conservation.packets(observed)
    yield from conservation.rate(observed)
    yield from hosts.limits(run, tables, measurement)
    yield from hosts.processors(run, tables)
    yield from probes.lost_samples(measurement)


def _between_hosts(observed: Observed, way: HostPath) -> Iterator[tuple[str, str]]:
    run, tables, measurement = observed.run, observed.tables, observed.measurement
    yield from traffic.cca(tables, looked=not measurement.facts.hosts_unseen)
    yield from host_path.applied(observed)
    if way.netem:
        yield from host_path.netem(way, way.netem, measurement)
    yield from hosts.limits(run, tables, measurement)
    yield from hosts.processors(run, tables)
    yield from probes.lost_samples(measurement)
