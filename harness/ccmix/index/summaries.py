"""Makes the documents of a campaign and its runs that are kept: all kinds except samples.

They come from campaign.json, run.json and some series.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from ccmix.analysis.counting import counts, meaning_of, smallest_ping_s
from ccmix.analysis.measured import increase, measured
from ccmix.analysis.ranges import best_estimates, planned_ranges, split
from ccmix.analysis.raw_files import as_measured
from ccmix.analysis.results import Result
from ccmix.analysis.series import SRC
from ccmix.analysis.statistics import metric, table
from ccmix.archive import Campaign, parquet
from ccmix.index import context
from ccmix.index.context import milliseconds
from ccmix.index.fields import Document
from ccmix.model import (
    HostFacts,
    HostPath,
    ProbeReport,
    Run,
    UdpSource,
    condition_name,
    run_files,
)
from ccmix.model.results import FinishedRun, FlowMetrics, GroupMetrics
from ccmix.probes.stream.format import CORE_TIMES

CCMIX = "ccmix"
RESULTS = ("goodput_bps", "utilisation", "fairness", "retransmission_rate", "rtt_median_s")
NO_REPORT = ProbeReport(None, None)  # of a host where ccmix-sockmon did not run
OUTCOMES = {"valid": "success", "limited": "failure"}  # to ECS's words


def campaign_documents(
    campaign: Campaign, entries: Sequence[str] = ()
) -> Iterator[tuple[str, Document]]:
    """Yields (kind, document) of the campaign and of its conditions.

    `entries` limits the conditions to some entries of the INI file; empty means all.
    """
    finished = [run for run, _ in campaign.finished(numbers_only=True)]
    yield "campaigns", _campaign_document(campaign, finished)
    chosen = [
        finished_run
        for finished_run in finished
        if not entries or finished_run.run.entry in entries
    ]
    for condition in _condition_documents(campaign, chosen):
        yield "conditions", condition


def _campaign_document(campaign: Campaign, finished: Sequence[FinishedRun]) -> Document:
    """Returns the document of a campaign: its plan, INI file, command, and counts of runs."""
    shared, origin = context.campaign_fields(campaign), campaign.origin
    return {
        **shared,
        "event.start": shared["@timestamp"],
        "agent.type": CCMIX,
        "agent.version": origin.ccmix,
        "ccmix.campaign.runs_planned": len(campaign.runs),
        "ccmix.campaign.runs_finished": len(finished),
        "ccmix.campaign.runs_valid": sum(run.verdict.status == "valid" for run in finished),
        "ccmix.campaign.seed": origin.seed,
        "ccmix.campaign.command": list(origin.command) or None,
        "ccmix.campaign.entries": list(dict.fromkeys(run.entry for run in campaign.runs)),
        "ccmix.campaign.ini": campaign.ini,
    }


def _condition_documents(campaign: Campaign, finished: Sequence[FinishedRun]) -> Iterator[Document]:
    """Yields a document with the mean results of each condition, destination and group.

    A condition is one combination of swept values.
    """
    shared = context.campaign_fields(campaign)
    first_runs: dict[tuple[str, str, str], FinishedRun] = {}
    for finished_run in finished:
        first_runs.setdefault(finished_run.run.repeated_key, finished_run)
    best_values = {
        condition: best_estimates(values) for condition, values in planned_ranges(campaign).items()
    }
    for row in table(finished):
        known, values = split(row.condition, campaign.plan.unknown.get(row.entry, ()))
        first = first_runs[row.entry, condition_name(row.condition), row.dst]
        low_bps, high_bps = row.goodput_ci95_bps or (None, None)
        yield {
            **shared,
            **context.condition_fields(first, campaign.plan.unknown),
            "ccmix.condition.settings": row.condition or None,
            "ccmix.condition.unknown": [key for key, _ in values] or None,
            "ccmix.condition.best_estimate": values
            == best_values.get((row.entry, condition_name(known), row.dst), ()),
            "ccmix.group.name": row.group,
            "ccmix.group.streams": row.streams,
            "ccmix.cca": row.cca,
            "ccmix.duration_s": first.run.traffic.duration_s or 0.0,  # 0: unknown
            **context.attribute_fields(row, ("runs", "invalid", "not_settled"), "ccmix.condition."),
            "ccmix.validity.status": row.status,
            "ccmix.goodput_bps": row.goodput_mean_bps,
            "ccmix.condition.goodput_cv": row.goodput_cv,
            "ccmix.condition.goodput_ci95_low_bps": low_bps,
            "ccmix.condition.goodput_ci95_high_bps": high_bps,
            "ccmix.retransmission_rate": row.retransmission_rate_mean,
            "ccmix.rtt_median_s": row.rtt_median_s,
            "ccmix.fairness": row.fairness_mean,
        }


def run_documents(campaign: Campaign, result: Result) -> Iterator[tuple[str, Document]]:
    """Yields (kind, document) of a run, of its groups of flows, its flows and its hosts."""
    run, finished = result.run, result.finished
    begin_s = context.begin_s(campaign, finished)
    shared = {
        "@timestamp": milliseconds(begin_s),
        **context.run_fields(campaign, finished),
        "ccmix.condition.settings": run.condition or None,
        "ccmix.validity.kinds": _finding_kinds(finished, accepted=False),
        "ccmix.validity.meaning": None if result.valid else meaning_of(finished),
    }
    settling = finished.metrics.settling
    counted = {
        "ccmix.validity.counted": counts(finished),
        "ccmix.settled": settling.settled if settling else None,
    }
    yield (
        "runs",
        shared
        | counted
        | context.settling_fields(settling, finished.settled_after_s or run.traffic.duration_s)
        | _run_fields(campaign, result, begin_s)
        | context.run_measures(finished.metrics)
        | context.estimates(result),
    )
    run_bps, cross = finished.metrics.goodput_bps, run.cross_groups
    for group in finished.metrics.groups:
        yield (
            "groups",
            shared
            | counted
            | _goodput_fields(group, None if group.group in cross else run_bps)
            | context.attribute_fields(group, context.OF_GROUP)
            | {
                "ccmix.group.name": group.group,
                "ccmix.group.streams": group.streams,
                "ccmix.cca": group.cca,
                "ccmix.rtt_median_s": group.rtt_median_s,
                "ccmix.retransmission_rate": group.retransmission_rate,
                "ccmix.fairness": finished.metrics.fairness,
                "ccmix.utilisation": finished.metrics.utilisation,
            },
        )
    shown_hosts = context.shown_host(run, finished.facts)
    udp_groups = {
        run.group_name(source) for source in run.traffic.sources if isinstance(source, UdpSource)
    }
    for flow in finished.metrics.flows:
        yield (
            "flows",
            shared
            | _flow_fields(
                flow,
                shown_hosts.get(flow.host, flow.host),
                None if flow.group in cross else run_bps,
            )
            | context.attribute_fields(flow, context.OF_FLOW)
            | {
                "ccmix.rtt_median_s": flow.rtt_median_s,
                "network.transport": "udp" if flow.group in udp_groups else "tcp",
            },
        )
    for host in _host_documents(result):
        yield "hosts", shared | host


def _run_fields(campaign: Campaign, result: Result, begin_s: float) -> Document:
    """Returns the fields that only the document of the run has: times, verdict and results.

    `begin_s` is when the run began, in seconds since 1970.
    """
    run, finished = result.run, result.finished
    metrics, facts, execution = finished.metrics, finished.facts, finished.execution
    began_s = finished.began_s
    seconds = None if began_s is None or finished.ended_s is None else finished.ended_s - began_s
    findings = finished.verdict.findings
    traffic = as_measured(run, result.folder, result.finished.settled_after_s).traffic
    return {
        "event.start": None if began_s is None else milliseconds(begin_s),
        "event.end": None if seconds is None else milliseconds(begin_s + seconds),
        "event.duration": None if seconds is None else round(seconds * 1e9),
        "event.outcome": OUTCOMES.get(finished.verdict.status, "unknown"),
        "event.reason": [finding.detail for finding in findings] or None,
        "agent.type": CCMIX,
        "agent.version": campaign.version_of(finished),
        "ccmix.validity.accepted_kinds": _finding_kinds(finished, accepted=True),
        "ccmix.validity.not_verified": list(finished.verdict.not_verified) or None,
        "ccmix.run.name": run.name,
        "ccmix.run.folder": str(result.folder.relative_to(campaign.outdir)),
        "ccmix.run.seed": run.seed,
        "ccmix.run.notices": list(execution.diagnostics) or None,
        "ccmix.run.retries": len(execution.retries),
        "ccmix.run.real_seconds": execution.real_seconds,
        "ccmix.generator": facts.generator or "iperf3",
        "ccmix.generator_version": facts.iperf3 or None,
        "ccmix.duration_s": traffic.duration_s,
        "ccmix.omit_s": traffic.omit_s if traffic.seconds else None,
        "ccmix.interval_s": traffic.interval_s or None,
        **context.attribute_fields(metrics, RESULTS),
        "network.bytes": metrics.bytes_sent,
        "network.transport": _transports(run),
        **{
            f"ccmix.rtt_probe.{name}": metric(metrics, f"rtt_probe.{name}")
            for name in ("median_s", "p95_s", "p99_s", "unanswered")
        },
        "host.os.kernel": facts.kernel,
        "ccmix.path.bpf_cca": [
            f"{cca} {bpf.program}" for cca, bpf in (facts.bpf_ccas or {}).items()
        ]
        or None,
        "ccmix.path.kernel_sha256": facts.lab_kernel.sha256 if facts.lab_kernel else None,
        "ccmix.path.userland_sha256": facts.guest_root.userland_sha256
        if facts.guest_root
        else None,
        "ccmix.path.repeatable_elsewhere": facts.guest_root.repeatable_elsewhere
        if facts.guest_root
        else None,
        "ccmix.path.machine": execution.machine,
        "ccmix.path.ping_rtt_s": smallest_ping_s(finished),
        "ccmix.path.sender_qdisc": list(dict.fromkeys((facts.sender_qdiscs or {}).values()))
        or None,
        **_path_fields(run),
    }


def _transports(run: Run) -> list[str]:
    """Returns the transports of the traffic's sources, 'tcp' and 'udp', each once."""
    return list(
        dict.fromkeys(
            "udp" if isinstance(source, UdpSource) else "tcp" for source in run.traffic.sources
        )
    )


def _path_fields(run: Run) -> Document:
    """Returns the configured settings of the path, except those that every document has."""
    path = run.path
    if isinstance(path, HostPath):
        return {
            "ccmix.path.delay_s": path.netem.delay_s if path.netem else None,
            "ccmix.path.loss_model": path.netem.loss.model
            if path.netem and path.netem.loss
            else None,
            "ccmix.path.module_parameter": str(path.module_parameter)
            if path.module_parameter
            else None,
            "ccmix.destination.metadata": dict(path.dst.metadata) or None,
        }
    return {
        "ccmix.path.delay_s": path.base_rtt_s / 2,
        "ccmix.path.jitter_s": max(sender.jitter_s for sender in path.senders),
        "ccmix.path.reorder": max(sender.reorder for sender in path.senders),
        "ccmix.path.loss_model": next(
            (sender.loss.model for sender in path.senders if sender.loss), None
        ),
        **context.attribute_fields(
            path, ("mtu_bytes", "ecn", "spread", "kernel", "host_root"), "ccmix.path."
        ),
        "ccmix.path.module_parameter": str(path.module_parameter)
        if path.module_parameter
        else None,
        "ccmix.path.offloads": path.offloads,
        "ccmix.path.ack_rate_bps": path.ack_bottleneck.rate_bps if path.ack_bottleneck else None,
        "ccmix.path.burst_bytes": path.burst_bytes,
        "ccmix.path.receiver_window_bytes": min(
            (
                sender.receiver_window_bytes
                for sender in path.senders
                if sender.receiver_window_bytes
            ),
            default=None,
        ),
        "ccmix.path.policer_rate_bps": path.policer.rate_bps if path.policer else None,
        "ccmix.path.policer_burst_bytes": path.policer.burst_bytes if path.policer else None,
        "ccmix.path.qdisc_parameters": list(path.queue.parameters) or None,
    }


def _finding_kinds(finished: FinishedRun, *, accepted: bool) -> list[str] | None:
    """Returns the kinds of a run's findings (reasons why it may not be valid), each once.

    If `accepted`, these are the findings that the user has accepted, otherwise the others. Returns
    None if there are none.
    """
    findings = finished.verdict.findings
    return (
        list(dict.fromkeys(finding.kind for finding in findings if finding.accepted == accepted))
        or None
    )


def _goodput_fields(metrics: GroupMetrics | FlowMetrics, run_bps: float | None) -> Document:
    """Returns the goodput and throughput, and the share of the run's goodput: goodput / `run_bps`.

    `run_bps` is None for cross traffic, which has no share.
    """
    return {
        **context.attribute_fields(metrics, ("goodput_bps", "throughput_bps")),
        "ccmix.goodput_share": metrics.goodput_bps / run_bps if run_bps else None,
    }


def _flow_fields(flow: FlowMetrics, host: str, run_bps: float | None) -> Document:
    """Returns the fields of a flow; `host` is its sender's name to show."""
    return _goodput_fields(flow, run_bps) | {
        "ccmix.group.name": flow.group,
        "ccmix.cca": flow.cca_used,
        "ccmix.flow.id": f"{host}:{flow.port}",
        **context.attribute_fields(
            flow,
            ("cca_asked", "stream", "data_segments", "retransmitted_segments"),
            "ccmix.flow.",
        ),
        **context.attribute_fields(flow, ("retransmission_rate", "retransmits")),
        "network.bytes": flow.bytes_sent,
        "host.name": host,
        "source.port": flow.port,
    }


def _host_documents(result: Result) -> Iterator[Document]:
    """Yields a document for each sampled host: both ends, or an emulated path's only kernel."""
    finished, folder = result.finished, result.folder
    facts, sysctls = finished.facts, finished.facts.sysctls or {}
    hosts: dict[str, HostFacts | None] = (
        {"localhost": None} if facts.hosts is None else dict(facts.hosts)
    )
    counters, cpu = _read_series(folder / run_files.COUNTERS), _read_series(folder / run_files.CPU)
    for role, host in hosts.items():
        is_source = host is None or role == SRC
        probe = facts.probes.get("sockmon" if host is None else f"sockmon-{role}", NO_REPORT)
        name = (
            finished.execution.machine
            if host is None
            else context.known_name(host.name, host.hostname)
        )
        default_cca = (
            host.congestion_control if host else sysctls.get("net.ipv4.tcp_congestion_control")
        )
        yield {
            "host.name": name,
            "host.os.kernel": host.kernel if host else facts.kernel,
            "ccmix.host.role": role if host else "all",
            "ccmix.host.kernel_version": facts.kernel_version if is_source else None,
            "ccmix.host.default_cca": default_cca,
            "ccmix.host.sysctl": sysctls or None if is_source else None,
            "ccmix.host.device": facts.device if is_source else None,
            "ccmix.host.cpus": host.cpus if host else None,
            **_cpu_fields(finished.run, cpu.filter(pl.col("host") == role) if cpu.width else cpu),
            "ccmix.host.cpu_s_per_gbit": finished.metrics.cpu_s_per_gbit.get(role),
            **_counter_growth(
                counters.filter(pl.col("host") == role) if counters.width else counters
            ),
            **context.attribute_fields(
                probe, ("samples", "missed", "longest_delay_s", "failed"), "ccmix.host.probe_"
            ),
        }


def _read_series(file: Path) -> pl.DataFrame:
    """Reads a series of a run; an empty table if the run does not have it."""
    return parquet.read(file) if file.exists() else pl.DataFrame()


COUNTERS = {
    "Softnet.dropped": "ccmix.host.softnet_drops",
    "Softnet.time_squeeze": "ccmix.host.softnet_squeezes",
    "TcpExt.TCPMemoryPressures": "ccmix.host.memory_pressures",
    "Tcp.RetransSegs": "ccmix.host.retransmitted_segments",
}


def _counter_growth(counters: pl.DataFrame) -> Document:
    """Returns how much the kernel's counters grew in the run, over all cores and namespaces.

    Each namespace shows the counters of softnet and of memory pressure of the whole machine, so
    they are taken from one namespace. All other counters are added up.
    """
    if counters.is_empty():
        return {}
    grown = (
        counters.filter(pl.col("name").is_in(list(COUNTERS)))
        .sort("time_s")
        .group_by("name", "netns", "core", maintain_order=True)
        .agg(pl.col("value").last().cast(pl.Int64) - pl.col("value").first().cast(pl.Int64))
        .group_by("name", "netns")
        .agg(pl.col("value").sum())
    )
    document: Document = {}
    for name, field in COUNTERS.items():
        values = grown.filter(pl.col("name") == name)["value"]
        of_machine = name.startswith(("Softnet", "TcpExt.TCPMemory"))
        if values.len():
            document[field] = values.max() if of_machine else values.sum()
    return document


def _cpu_fields(run: Run, cpu: pl.DataFrame) -> Document:
    """Returns the busy share of all cores, and of the busiest one, in the measured time.

    Returns {} if no time was spent, as in the lab, where computing takes no virtual time. `cpu` has
    the columns of the series cpu.parquet.
    """
    if cpu.is_empty():
        return {}
    spent = map(increase, CORE_TIMES)
    cores = measured(run, cpu).sort("time_s").group_by("core").agg(spent)
    cores = cores.with_columns(
        all_s=pl.sum_horizontal(CORE_TIMES), idle=pl.col("idle_s") + pl.col("iowait_s")
    )
    all_s = float(cores["all_s"].sum())
    if not all_s:
        return {}
    shares = (
        cores.filter(pl.col("all_s") > 0).select(1 - pl.col("idle") / pl.col("all_s")).to_series()
    )
    return {
        "ccmix.host.cpu_busy": 1 - float(cores["idle"].sum()) / all_s,
        "ccmix.host.cpu_busiest_core": shares.max(),
    }
