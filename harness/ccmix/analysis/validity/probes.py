"""Judges what the probes could see."""

from collections.abc import Iterator

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.path import loses
from ccmix.analysis.validity.traffic import flows_with_samples
from ccmix.model import CommandSource, HttpSource, Measurement, Run, WorkloadSource

LOST_BY_TCPDUMP = ("dropped by kernel", "dropped by interface")


def lost_samples(measurement: Measurement) -> Iterator[tuple[str, str]]:
    if capture := measurement.facts.capture:
        received = capture.packets.get("received by filter", 0)
        for what in LOST_BY_TCPDUMP:
            if lost := capture.packets.get(what):
                yield "probe", f"tcpdump: {lost} of {received} packets {what}"
        for reason in capture.shortened:
            yield "probe", f"tables of the capture: {reason}"
    for name, report in measurement.facts.probes.items():
        if report.failed:
            yield "probe", f"{name}: {report.failed}"
        elif report.missed and not name.startswith("processors"):  # whose shares are of whatever time passed
            yield "probe", f"{name}: {report.missed} of {(report.samples or 0) + report.missed} samples missed"


def unseen(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Yields what no probe could look at; cca reports flows that no probe saw."""
    if tables.flows.is_empty() and not tables.short_flows["bytes_sent"].sum():
        yield "probe", "no flow was seen"
    else:
        yield from _not_told_apart(run, tables)
    if measurement.state_before is None or measurement.state_after is None:
        yield "probe", "the path's devices and sysctls were not read back"
    seen = tables.sockets.select(FLOW).n_unique()
    if few := seen - flows_with_samples(run, tables):
        yield "probe", f"{few} of {seen} flows have fewer than two samples in the measured time"
    if not tables.short_flows_seen:
        yield "probe", "sockets were sampled by ss, which sees no flow that ends between two samples"
    if run.topology.offloads and loses(run):
        yield "loss", "with offloads, netem loses packets joined to one and counts them apart: their share is unknown"


def _not_told_apart(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Yields a finding for each source whose flows were not seen, or can't be told from those of others."""
    sending = {sender.name for sender in run.topology.senders}  # on a receiver, a command may be a server
    firsts: dict[str, CommandSource] = {}
    for source in run.traffic.sources:
        if isinstance(source, HttpSource | WorkloadSource):
            report = tables.services.get(source.label)
            seen = report.connections if report else 0
            begun = tables.completions.filter(pl.col("group") == run.group_name(source)).height
            if seen > begun:
                yield "probe", f"{seen} connections led to the server of {source.label}, {begun} of them its own"
        elif isinstance(source, CommandSource) and source.host in sending:
            first = firsts.setdefault(source.host, source)
            if first is not source:
                yield "probe", f"nothing tells the connections of {source.label} from those of {first.label}"
            elif run.group_name(source) not in set(tables.flows["group"]):
                yield "probe", f"no connection of {source.label} carried data"


def unseen_between_hosts(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Yields what no probe could look at between hosts, where only the ends can be seen: above all the sockets."""
    if measurement.facts.hosts_unseen:
        yield "probe", f"no probe sampled the sockets of {run.host_path.src}: ccmix has no shell there"
    elif tables.flows.is_empty():
        yield "probe", f"no connection to {run.host_path.dst.address} carried data in view of {run.host_path.src}"
    elif few := (expected := _expected_samples(run, tables)) - flows_with_samples(run, tables):
        yield "probe", f"{few} of {expected} flows have fewer than two samples in the measured time"


def _expected_samples(run: Run, tables: RunTables) -> int:
    """Returns how many flows have a sender whose sockets could be sampled: UDP has none."""
    flows = tables.flows.filter(~pl.col("udp").fill_null(value=False))
    if run.traffic.steps:
        return flows.filter(pl.col("cca_used").is_not_null()).height
    sampled = tables.sockets.select(FLOW).unique()  # of a test in the other direction, where ccmix has a shell there
    return (
        flows.filter(~pl.col("reverse").fill_null(value=False)).height
        + flows.filter("reverse").join(sampled, on=FLOW, how="semi").height
    )
