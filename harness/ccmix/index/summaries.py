"""A campaign and its runs as documents: all kinds but the samples, from campaign.json, run.json and some series."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis.conditions import smallest_ping_s
from ccmix.analysis.counting import counts
from ccmix.analysis.measured import measured
from ccmix.analysis.statistics import table
from ccmix.analysis.tables import as_measured
from ccmix.analysis.validity import CORE_TIMES
from ccmix.archive import Campaign, parquet
from ccmix.index import context, measures
from ccmix.index.context import Document, milliseconds
from ccmix.model import HostPath, Loss, Run, UdpFlows
from ccmix.report.results import Result

CCMIX = "ccmix"
OUTCOMES = {"valid": "success", "limited": "failure"}  # to ECS's words


def campaign_documents(campaign: Campaign, entries: Sequence[str] = ()) -> Iterator[tuple[str, Document]]:
    """Kind and document: the campaign, and its conditions; of these entries alone, where there are any."""
    finished = [(run, summary) for run, summary, _ in campaign.finished()]
    shared = context.of_campaign(campaign)
    about = campaign.about
    yield (
        "campaigns",
        {
            **shared,
            "event.start": shared["@timestamp"],
            "agent.type": CCMIX,
            "agent.version": about.get("ccmix"),
            "ccmix.campaign.runs_planned": len(campaign.runs),
            "ccmix.campaign.runs_finished": len(finished),
            "ccmix.campaign.runs_valid": sum(summary["validity"]["status"] == "valid" for _, summary in finished),
            "ccmix.campaign.seed": about.get("seed"),
            "ccmix.campaign.command": about.get("command"),
            "ccmix.campaign.entries": list(dict.fromkeys(run.entry for run in campaign.runs)),
            "ccmix.campaign.ini": campaign.ini,
        },
    )
    chosen = [one for one in finished if not entries or one[0].entry in entries]
    firsts: dict[tuple[str, str, str], tuple[Run, dict[str, Any]]] = {}
    for run, summary in chosen:
        firsts.setdefault((run.entry, run.condition_name, run.dst), (run, summary))
    for row in table(chosen):
        condition = ",".join(f"{key}={value}" for key, value in row.condition.items()) or "all"
        run, summary = firsts[row.entry, condition, row.dst]
        low_bps, high_bps = row.goodput_ci95_bps or (None, None)
        yield (
            "conditions",
            {
                **shared,
                **context.of_condition(run, summary),
                "ccmix.condition.settings": row.condition or None,
                "ccmix.group.name": row.group,
                "ccmix.group.streams": row.streams,
                "ccmix.cca": row.cca,
                "ccmix.duration_s": run.traffic.duration_s,
                "ccmix.condition.runs": row.runs,
                "ccmix.condition.invalid": row.invalid,
                "ccmix.goodput_bps": row.goodput_mean_bps,
                "ccmix.condition.goodput_cv": row.goodput_cv,
                "ccmix.condition.goodput_ci95_low_bps": low_bps,
                "ccmix.condition.goodput_ci95_high_bps": high_bps,
                "ccmix.retransmission_rate": row.retransmission_rate_mean,
                "ccmix.rtt_median_s": row.rtt_median_s,
                "ccmix.fairness": row.fairness_mean,
            },
        )


def run_documents(campaign: Campaign, result: Result) -> Iterator[tuple[str, Document]]:
    """Kind and document: the run, its groups, flows and hosts."""
    run, summary = result.run, result.summary
    begin_s = context.begin_s(campaign, summary)
    shared = {
        "@timestamp": milliseconds(begin_s),
        **context.of_run(campaign, run, summary),
        "ccmix.condition.settings": run.condition or None,
        "ccmix.validity.kinds": _kinds(summary, accepted=False),
    }
    counted = {"ccmix.validity.counted": counts(summary)}
    yield "runs", shared | counted | _run(campaign, result, begin_s) | measures.of_run(summary["metrics"])
    run_bps = summary["metrics"]["goodput_bps"]
    for group in summary["metrics"]["groups"]:
        yield (
            "groups",
            shared
            | counted
            | _result(group, run_bps)
            | measures.of_group(group)
            | {
                "ccmix.group.name": group["group"],
                "ccmix.group.streams": group["streams"],
                "ccmix.cca": group["cca"],
                "ccmix.rtt_median_s": group["rtt_median_s"],
                "ccmix.retransmission_rate": group["retransmission_rate"],
                "ccmix.fairness": summary["metrics"]["fairness"],
                "ccmix.utilisation": summary["metrics"]["utilisation"],
            },
        )
    names = context.shown_host(run, summary["facts"])
    udp = {line.name for line in run.traffic.flows if isinstance(line.what, UdpFlows)}
    for flow in summary["metrics"]["flows"]:
        yield (
            "flows",
            shared
            | _flow(flow, names.get(flow["host"], flow["host"]), run_bps)
            | measures.of_flow(flow)
            | {
                "ccmix.rtt_median_s": flow.get("rtt_median_s"),
                "network.transport": "udp" if flow["group"] in udp else "tcp",
            },
        )
    for host in _hosts(result):
        yield "hosts", shared | host


def _run(campaign: Campaign, result: Result, begin_s: float) -> Document:
    run, summary = result.run, result.summary
    metrics, facts, where = summary["metrics"], summary["facts"], summary["where"]
    began_s = summary.get("began_s", summary["started_s"])
    seconds = None if began_s is None or summary["ended_s"] is None else summary["ended_s"] - began_s
    findings = summary["validity"]["findings"]
    probe = metrics.get("rtt_probe") or {}
    traffic = as_measured(run, result.folder).traffic
    return {
        "event.start": None if began_s is None else milliseconds(begin_s),
        "event.end": None if seconds is None else milliseconds(begin_s + seconds),
        "event.duration": None if seconds is None else round(seconds * 1e9),
        "event.outcome": OUTCOMES.get(summary["validity"]["status"], "unknown"),
        "event.reason": [finding["detail"] for finding in findings] or None,
        "agent.type": CCMIX,
        "agent.version": campaign.about.get("ccmix"),
        "ccmix.validity.accepted_kinds": _kinds(summary, accepted=True),
        "ccmix.run.name": run.name,
        "ccmix.run.folder": str(result.folder.relative_to(campaign.outdir)),
        "ccmix.run.seed": run.seed,
        "ccmix.run.notices": where.get("notices") or None,
        "ccmix.run.retries": len(where.get("retries", ())),
        "ccmix.run.real_seconds": where["real_seconds"],
        "ccmix.generator": facts.get("generator", "iperf3"),
        "ccmix.generator_version": facts["iperf3"] or None,
        "ccmix.duration_s": traffic.duration_s or None,
        "ccmix.omit_s": traffic.omit_s if traffic.seconds else None,
        "ccmix.interval_s": traffic.interval_s or None,
        "ccmix.goodput_bps": metrics["goodput_bps"],
        "ccmix.utilisation": metrics["utilisation"],
        "ccmix.fairness": metrics["fairness"],
        "ccmix.retransmission_rate": metrics.get("retransmission_rate"),
        "ccmix.rtt_median_s": metrics.get("rtt_median_s"),
        "network.bytes": metrics.get("bytes_sent"),
        "network.transport": "tcp",
        **{
            f"ccmix.rtt_probe.{name}": probe.get(name) for name in ("median_s", "p95_s", "p99_s", "unanswered")
        },
        "host.os.kernel": facts["kernel"],
        "ccmix.path.machine": where["machine"],
        "ccmix.path.ping_rtt_s": smallest_ping_s(summary),
        **_path(run),
    }  # fmt: skip


def _path(run: Run) -> Document:
    """What is configured of it besides what each document says."""
    path = run.path
    if isinstance(path, HostPath):
        return {
            "ccmix.path.delay_s": path.netem.delay_s if path.netem else None,
            "ccmix.path.loss_model": _model(path.netem.loss) if path.netem else None,
            "ccmix.destination.metadata": dict(path.dst.metadata) or None,
        }
    return {
        "ccmix.path.delay_s": path.base_rtt_s / 2,
        "ccmix.path.jitter_s": max(sender.jitter_s for sender in path.senders),
        "ccmix.path.reorder": max(sender.reorder for sender in path.senders),
        "ccmix.path.loss_model": next((_model(sender.loss) for sender in path.senders if sender.loss), None),
        "ccmix.path.mtu_bytes": path.mtu_bytes,
        "ccmix.path.ecn": path.ecn,
        "ccmix.path.offloads": path.offloads,
        "ccmix.path.qdisc_parameters": list(path.queue.parameters) or None,
    }


def _model(loss: Loss | None) -> str | None:
    return loss.model if loss else None


def _kinds(summary: Mapping[str, Any], *, accepted: bool) -> list[str] | None:
    findings = summary["validity"]["findings"]
    return list(dict.fromkeys(one["kind"] for one in findings if one["accepted"] == accepted)) or None


def _result(one: Mapping[str, Any], run_bps: float) -> Document:
    return {
        "ccmix.goodput_bps": one["goodput_bps"],
        "ccmix.throughput_bps": one["throughput_bps"],
        "ccmix.goodput_share": one["goodput_bps"] / run_bps if run_bps else None,
    }


def _flow(flow: Mapping[str, Any], host: str, run_bps: float) -> Document:
    segments = flow.get("data_segments")
    return _result(flow, run_bps) | {
        "ccmix.group.name": flow["group"],
        "ccmix.cca": flow["cca_used"],
        "ccmix.flow.id": f"{host}:{flow['port']}",
        "ccmix.flow.cca_asked": flow["cca_asked"],
        "ccmix.flow.stream": flow["stream"],
        "ccmix.flow.data_segments": segments,
        "ccmix.flow.retransmitted_segments": flow.get("retransmitted_segments"),
        "ccmix.retransmission_rate": flow["retransmitted_segments"] / segments if segments else None,
        "ccmix.retransmits": flow["retransmits"],
        "network.bytes": flow["bytes_sent"],
        "host.name": host,
        "source.port": flow["port"],
    }


def _hosts(result: Result) -> Iterator[Document]:
    """Each host that was looked at: both ends, or the one kernel of an emulated path."""
    facts, folder = result.summary["facts"], result.folder
    ends = facts["hosts"] if "hosts" in facts else {"localhost": {"name": result.summary["where"]["machine"]}}
    sysctls = facts.get("sysctls") or {}
    counters, cpu = _series(folder / "counters.parquet"), _series(folder / "cpu.parquet")
    for role, said in ends.items():
        emulated = role == "localhost"
        probe = facts.get("probes", {}).get("sockmon" if emulated else f"sockmon-{role}", {})
        is_source = emulated or role == "src"
        yield {
            "host.name": context.known_name(said),
            "host.os.kernel": said.get("kernel", facts["kernel"]),
            "ccmix.host.role": "all" if emulated else role,
            "ccmix.host.kernel_version": facts.get("kernel_version") if is_source else None,
            "ccmix.host.default_cca": said.get("congestion_control") or sysctls.get("net.ipv4.tcp_congestion_control"),
            "ccmix.host.sysctl": sysctls or None if is_source else None,
            "ccmix.host.device": facts.get("device") if is_source else None,
            "ccmix.host.cpus": int(said["cpus"]) if "cpus" in said else None,
            **_busy(result.run, cpu.filter(pl.col("host") == role) if cpu.width else cpu),
            **measures.of_host(result.summary["metrics"], role),
            **_grown(counters.filter(pl.col("host") == role) if counters.width else counters),
            "ccmix.host.probe_samples": probe.get("samples"),
            "ccmix.host.probe_missed": probe.get("missed"),
            "ccmix.host.probe_longest_delay_s": probe.get("longest_delay_s"),
            "ccmix.host.probe_failed": probe.get("failed"),
        }


def _series(file: Path) -> pl.DataFrame:
    return parquet.read(file) if file.exists() else pl.DataFrame()


COUNTERS = {
    "Softnet.dropped": "ccmix.host.softnet_drops",
    "Softnet.time_squeeze": "ccmix.host.softnet_squeezes",
    "TcpExt.TCPMemoryPressures": "ccmix.host.memory_pressures",
    "Tcp.RetransSegs": "ccmix.host.retransmitted_segments",
}


def _grown(counters: pl.DataFrame) -> Document:
    """From the first sample to the last, over all cores and namespaces.

    Softnet's are of the machine, whatever the namespace, and so are memory pressures: they count once.
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
    found: Document = {}
    for name, field in COUNTERS.items():
        values = grown.filter(pl.col("name") == name)["value"]
        of_machine = name.startswith(("Softnet", "TcpExt.TCPMemory"))
        if values.len():
            found[field] = values.max() if of_machine else values.sum()
    return found


def _busy(run: Run, cpu: pl.DataFrame) -> Document:
    """None where no time was spent, as in the lab, where computing takes none."""
    if cpu.is_empty():
        return {}
    spent = (pl.col(name).last() - pl.col(name).first() for name in CORE_TIMES)
    cores = measured(run, cpu).sort("time_s").group_by("core").agg(spent)
    cores = cores.with_columns(all_s=pl.sum_horizontal(CORE_TIMES), idle=pl.col("idle_s") + pl.col("iowait_s"))
    all_s = float(cores["all_s"].sum())
    if not all_s:
        return {}
    shares = cores.filter(pl.col("all_s") > 0).select(1 - pl.col("idle") / pl.col("all_s")).to_series()
    return {
        "ccmix.host.cpu_busy": 1 - float(cores["idle"].sum()) / all_s,
        "ccmix.host.cpu_busiest_core": shares.max(),
    }
