"""Makes the fields that all documents of a run share, such as its path and its campaign.

Kibana filters by them and can't join documents, so each document has them. Also makes the fields of
metrics and of estimates of a measured path.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from ccmix.analysis.counting import base_rtt_s, condition_key, mix
from ccmix.analysis.results import Result
from ccmix.analysis.series import SRC
from ccmix.analysis.statistics import metric
from ccmix.archive import Campaign
from ccmix.index.fields import Document
from ccmix.model import Facts, HostPath, Loss, Run, Topology
from ccmix.model.results import (
    CampaignOrigin,
    FinishedRun,
    Metrics,
    Settling,
)
from ccmix.twin.twin import twins_of_runs

ID_DIGITS = 16
PSCHEDULER = "pscheduler"


def _digest(content: Any) -> str:
    """Returns the first hex digits of a hash of the content, as an id."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:ID_DIGITS]


def campaign_id(campaign: Campaign) -> str:
    """Returns an id of campaign.json's content.

    A copy of the archive has the same id; another start of the same campaign has another id.
    """
    runs = [[run.entry, run.condition_name, run.dst, run.iteration] for run in campaign.runs]
    return _digest([_origin_document(campaign.origin), campaign.ini, runs])


def _origin_document(origin: CampaignOrigin) -> Document:
    """Returns the origin in the form that campaign.json of schema 2 had.

    It is part of the campaign's id, which must not change when the schema does.
    """
    document = {name: value for name, value in asdict(origin).items() if value not in (None, ())}
    if origin.imported:
        overrides = {
            name: value for name, value in asdict(origin.imported.overrides).items() if value
        }
        document["imported"] = {
            "files": [asdict(file) for file in origin.imported.files],
            "told": overrides,
        }
    return document


def campaign_name(campaign: Campaign) -> str:
    """Returns a campaign's name: that of the INI file on its command line, without the suffix.

    If the command line names no INI file, it is the name of the campaign's folder.
    """
    names = [PurePath(word).stem for word in campaign.origin.command if word.endswith(".ini")]
    return names[0] if names else campaign.outdir.resolve().name


def run_id(campaign: str, run: Run) -> str:
    return _digest([campaign, run.entry, run.condition_name, run.dst, run.iteration])


def milliseconds(seconds: float) -> int:
    """Converts seconds since 1970 to the form of Elasticsearch's dates."""
    return round(seconds * 1000)


def begin_s(campaign: Campaign, finished: FinishedRun) -> float:
    """Returns when a run's traffic began in the real world, in seconds since 1970.

    Lab guests (kernels that run as processes in virtual time) always start in 2026. So for a run in
    the lab, this is the time at which the real machine started the run. If the time of a run is not
    known, it is the start of the campaign or of the import.
    """
    execution = finished.execution
    if finished.began_s is None:
        return started_s(campaign)
    if execution.machine != "lab":
        return finished.began_s
    if execution.measured_s is None or execution.real_seconds is None:
        return started_s(campaign)
    return execution.measured_s - execution.real_seconds


def started_s(campaign: Campaign) -> float:
    """Returns the start of the campaign. Raises ValueError if campaign.json does not have it."""
    if campaign.origin.started_s is None:
        raise ValueError(f"{campaign.outdir}: campaign.json has no started_s")
    return campaign.origin.started_s


def mean_loss(loss: Loss | None) -> float:
    """Returns the long-term share of lost packets of a loss model; 0 if there is no model."""
    return loss.mean if loss else 0.0


def sender_names(run: Run, facts: Facts) -> list[str]:
    """Returns the senders of an emulated path, or the source of a real one.

    'localhost' gets its real name.
    """
    if isinstance(run.path, Topology):
        return [sender.name for sender in run.path.senders]
    host = (facts.hosts or {}).get(SRC)
    return [known_name(run.host_path.src, host.hostname if host else None)]


def known_name(name: str, hostname: str | None) -> str:
    """Returns a host's name without the user: 'h1' for 'user@h1'.

    For 'localhost' it is `hostname`, the name that the host itself reports, if that is known.
    """
    without_user = name.rpartition("@")[2]
    return hostname or without_user if without_user == "localhost" else without_user


def shown_host(run: Run, facts: Facts) -> dict[str, str]:
    """Maps the sender's name in the series of a run to the name to show.

    In a run between hosts, series call the sender 'src'. On an emulated path, they already have the
    name to show, and the result is empty.
    """
    return {} if isinstance(run.path, Topology) else {SRC: sender_names(run, facts)[0]}


def _path_fields(finished: FinishedRun) -> Document:
    """Returns the fields of an emulated or real path that every document has."""
    path = finished.run.path
    if isinstance(path, Topology):
        return {
            "ccmix.path.kind": "emulated",
            "ccmix.path.base_rtt_s": path.base_rtt_s,
            "ccmix.path.loss": max(mean_loss(sender.loss) for sender in path.senders),
            "ccmix.path.rate_bps": path.rate_bps,
            "ccmix.path.buffer_bytes": path.buffer_bytes,
            "ccmix.path.buffer_bdp": path.buffer_bytes / path.bdp_bytes if path.bdp_bytes else None,
            "ccmix.path.qdisc": path.queue.kind,
        }
    generator, imported = finished.facts.generator, finished.facts.imported
    by_pscheduler = finished.run.traffic.task is not None or generator == PSCHEDULER
    return {
        "ccmix.path.kind": PSCHEDULER if by_pscheduler else "real",
        "ccmix.path.base_rtt_s": base_rtt_s(finished),
        "ccmix.path.loss": mean_loss(path.netem.loss) if path.netem else None,
        "ccmix.path.rate_bps": path.netem.rate_bps
        if path.netem
        else imported and imported.rate_bps,
    }


def _filter_labels(path: Document) -> Document:
    """Returns texts and round numbers of path settings, which Kibana's filters can list."""
    rtt_s, loss, buffer_bdp = (
        path.get(f"ccmix.path.{name}") for name in ("base_rtt_s", "loss", "buffer_bdp")
    )
    return {
        "ccmix.path.base_rtt_ms": None if rtt_s is None else float(f"{1000 * rtt_s:.6g}"),
        "ccmix.path.loss_label": None if loss is None else f"{100 * loss:.4g}%",
        "ccmix.path.buffer_label": None if buffer_bdp is None else f"{buffer_bdp:.3g} BDP",
    }


def campaign_fields(campaign: Campaign) -> Document:
    """Returns the fields that identify a campaign."""
    return {
        "@timestamp": milliseconds(started_s(campaign)),
        "ccmix.campaign.id": campaign_id(campaign),
        "ccmix.campaign.name": campaign_name(campaign),
    }


def condition_fields(
    finished: FinishedRun, unknown: Mapping[str, tuple[str, ...]] | None = None
) -> Document:
    """Returns the fields that all iterations of a condition share.

    A condition is one combination of swept values. `unknown` has, for each entry, the swept keys
    whose real value is not known. The field known_key leaves these keys out, so it is the same in
    all conditions that differ only in them.
    """
    run = finished.run
    senders, path = sender_names(run, finished.facts), _path_fields(finished)
    destination = run.path.dst.address if isinstance(run.path, HostPath) else run.dst
    return {
        "ccmix.entry": run.entry,
        "ccmix.condition.name": run.condition_name,
        "ccmix.condition.key": condition_key(finished),
        "ccmix.condition.known_key": condition_key(finished, (unknown or {}).get(run.entry, ())),
        "ccmix.mix": mix(finished),
        "ccmix.streams": run.traffic.streams or None,
        "ccmix.pacing_bps": run.traffic.pacing_bps,
        **path,
        **_filter_labels(path),
        "ccmix.path.pair": f"{','.join(senders)} > {run.dst}",
        "source.address": senders if len(senders) > 1 else senders[0],
        "destination.address": destination,
        "destination.domain": run.dst,
    }


def run_fields(campaign: Campaign, finished: FinishedRun) -> Document:
    """Returns the fields, without the time, that all documents of a run share."""
    run = finished.run
    shared = campaign_fields(campaign)
    del shared["@timestamp"]
    return {
        **shared,
        "ccmix.run.id": run_id(shared["ccmix.campaign.id"], run),
        "ccmix.run.iteration": run.iteration,
        "ccmix.validity.status": finished.verdict.status,
        **condition_fields(finished, campaign.plan.unknown),
    }


OF_DELAY = (
    "rtt_p95_s",
    "rtt_p99_s",
    "queueing_delay_median_s",
    "queueing_delay_p95_s",
    "queueing_delay_p99_s",
)
OF_START_UP = ("startup_s", "overshoot")
OF_GROUP = (*OF_DELAY, *OF_START_UP, "fair_share")
OF_FLOW = (*OF_DELAY, *OF_START_UP, "convergence_s")
OF_RUN = (
    *OF_DELAY,
    *OF_START_UP,
    "fairness_of_groups",
    "convergence_s",
    "netem_loss",
    "receiver_window_limited",
)
OF_BOTTLENECK = (
    "backlog_mean_bytes",
    "backlog_p95_bytes",
    "backlog_max_bytes",
    "occupancy_mean",
    "drop_rate",
    "utilisation",
)
OF_POLICER = ("drops", "drop_rate")

ESTIMATE = "ccmix.path.estimate"
# The field of each quantity that is a number, and its unit; the ends of its interval are _low and
# _high
NAMES = {
    "base RTT": ("base_rtt", "_s"),
    "RTT noise": ("rtt_noise", "_s"),
    "rate": ("rate", "_bps"),
    "cross traffic": ("cross_traffic", "_bps"),
    "buffer": ("buffer", "_bytes"),
    "random loss": ("loss", ""),
    "burst of losses": ("loss_burst", "_packets"),
    "reordering": ("reordering", ""),
    "policer's burst": ("policer_burst", "_bytes"),
    "receiver's window": ("receiver_window", "_bytes"),
    "MTU": ("mtu", "_bytes"),
}
WORDS = {"queue": "queue", "ECN": "ecn", "send buffer": "send_buffer"}


def run_measures(metrics: Metrics) -> Document:
    """Returns the metrics of a run, and those of its bottleneck and policer."""
    of_bottleneck = {
        f"ccmix.bottleneck.{name}": metric(metrics, f"bottleneck.{name}") for name in OF_BOTTLENECK
    }
    of_policer = {
        f"ccmix.policer.{name}": metric(metrics, f"policer.{name}") for name in OF_POLICER
    }
    return attribute_fields(metrics, OF_RUN) | of_bottleneck | of_policer


def settling_fields(settling: Settling | None, measured_s: float | None) -> Document:
    """Returns when and how a run's goodput settled; {} if ccmix did not judge whether it did.

    `measured_s` is the length of the measurement.
    """
    if settling is None:
        return {}
    names = ("warm_up_s", "slowest_period_s", "enough_omit_s")
    numbers = attribute_fields(settling, names, "ccmix.settling.")
    numbers["ccmix.settling.enough_s"] = measured_s if settling.settled else settling.enough_s
    return numbers | {"ccmix.settling.reasons": list(settling.reasons) or None}


def attribute_fields(values: object, names: tuple[str, ...], prefix: str = "ccmix.") -> Document:
    """Returns attributes of an object under fields of the same names: {'ccmix.cca': values.cca}."""
    return {f"{prefix}{name}": getattr(values, name) for name in names}


def estimates(result: Result) -> Document:
    """Returns the properties of the path that a run with `type = path` measured; {} for other runs.

    Each estimate has a value and both ends of its interval. If it is only a bound, it has one end.
    Raises ArchiveError if a series of the run can't be read.
    """
    if not result.run.traffic.steps:
        return {}
    [twin] = twins_of_runs([(result.finished, result.folder)])
    document: Document = {
        f"{ESTIMATE}.unknown": [each.quantity for each in twin.estimates if each.unknown] or None
    }
    for each in twin.estimates:
        if each.quantity in WORDS:
            document[f"{ESTIMATE}.{WORDS[each.quantity]}"] = each.word
        elif each.quantity in NAMES:
            name, unit = NAMES[each.quantity]
            ends = {"": each.value, "_low": each.low, "_high": each.high}
            document |= {f"{ESTIMATE}.{name}{end}{unit}": value for end, value in ends.items()}
    return document
