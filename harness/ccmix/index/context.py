"""Makes the fields that all documents of a run have: Kibana filters by them, since it joins nothing."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from ccmix.analysis.conditions import base_rtt_s, condition_key, mix
from ccmix.analysis.series import SRC
from ccmix.archive import Campaign
from ccmix.index.json_types import Document
from ccmix.model import Facts, HostPath, Loss, Run, Topology
from ccmix.model.results import CampaignOrigin, FinishedRun

ID_DIGITS = 16
PSCHEDULER = "pscheduler"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:ID_DIGITS]


def campaign_id(campaign: Campaign) -> str:
    """Returns an id of campaign.json's content: a copy of the archive has the same id, another start another one."""
    runs = [[run.entry, run.condition_name, run.dst, run.iteration] for run in campaign.runs]
    return _digest([_origin_document(campaign.origin), campaign.ini, runs])


def _origin_document(origin: CampaignOrigin) -> Document:
    """Returns the origin as campaign.json of schema 2 had it: so a campaign keeps the id that it was indexed by."""
    document = {name: value for name, value in asdict(origin).items() if value not in (None, ())}
    if origin.imported:
        overrides = {name: value for name, value in asdict(origin.imported.overrides).items() if value}
        document["imported"] = {"files": [asdict(file) for file in origin.imported.files], "told": overrides}
    return document


def campaign_name(campaign: Campaign) -> str:
    """Returns the INI file's name, as the command line has it; the archive's folder if that names none."""
    names = [PurePath(word).stem for word in campaign.origin.command if word.endswith(".ini")]
    return names[0] if names else campaign.outdir.resolve().name


def run_id(campaign: str, run: Run) -> str:
    return _digest([campaign, run.entry, run.condition_name, run.dst, run.iteration])


def milliseconds(seconds: float) -> int:
    """Returns a moment as dates are sent, in milliseconds since 1970."""
    return round(seconds * 1000)


def begin_s(campaign: Campaign, finished: FinishedRun) -> float:
    """Returns when a run's traffic began, in seconds since 1970.

    In the lab, whose own clock always starts in 2026, that is when the machine around it started the run. If an
    imported run lacks its time, it is the time of the import.
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
    """Returns when the campaign was started. Raises ValueError if campaign.json does not say it."""
    if campaign.origin.started_s is None:
        raise ValueError(f"{campaign.outdir}: campaign.json has no started_s")
    return campaign.origin.started_s


def mean_loss(loss: Loss | None) -> float:
    """Returns the share of packets that is lost in the long run; 0 without loss."""
    return loss.mean if loss else 0.0


def sender_names(run: Run, facts: Facts) -> list[str]:
    """Returns those of an emulated path, or the source's; what 'localhost' is called elsewhere."""
    if isinstance(run.path, Topology):
        return [sender.name for sender in run.path.senders]
    host = (facts.hosts or {}).get(SRC)
    return [known_name(run.host_path.src, host.hostname if host else None)]


def known_name(name: str, hostname: str | None) -> str:
    """Returns a host's name without the user, as the entry has it, or the host name of 'localhost' if it is known."""
    own = name.rpartition("@")[2]
    return hostname or own if own == "localhost" else own


def shown_host(run: Run, facts: Facts) -> dict[str, str]:
    """Maps what series call a sender to its name: 'src' between hosts."""
    return {} if isinstance(run.path, Topology) else {SRC: sender_names(run, facts)[0]}


def _path(finished: FinishedRun) -> Document:
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
    return {
        "ccmix.path.kind": PSCHEDULER if _by_pscheduler(finished) else "real",
        "ccmix.path.base_rtt_s": base_rtt_s(finished),
        "ccmix.path.loss": mean_loss(path.netem.loss) if path.netem else None,
        "ccmix.path.rate_bps": path.netem.rate_bps if path.netem else _imported_rate_bps(finished),
    }


def _for_filters(path: Document) -> Document:
    """Returns settings of the path as Kibana's filters can offer them."""
    rtt_s, loss, buffer_bdp = (path.get(f"ccmix.path.{name}") for name in ("base_rtt_s", "loss", "buffer_bdp"))
    return {
        "ccmix.path.base_rtt_ms": None if rtt_s is None else float(f"{1000 * rtt_s:.6g}"),
        "ccmix.path.loss_label": None if loss is None else f"{100 * loss:.4g}%",
        "ccmix.path.buffer_label": None if buffer_bdp is None else f"{buffer_bdp:.3g} BDP",
    }


def _imported_rate_bps(finished: FinishedRun) -> float | None:
    return finished.facts.imported.rate_bps if finished.facts.imported else None


def _by_pscheduler(finished: FinishedRun) -> bool:
    return finished.run.traffic.task is not None or finished.facts.generator == PSCHEDULER


def of_campaign(campaign: Campaign) -> Document:
    return {
        "@timestamp": milliseconds(started_s(campaign)),
        "ccmix.campaign.id": campaign_id(campaign),
        "ccmix.campaign.name": campaign_name(campaign),
    }


def of_condition(finished: FinishedRun, unknown: Mapping[str, tuple[str, ...]] | None = None) -> Document:
    """Returns what all iterations of a condition have in common; `unknown` are the campaign's unknown keys by entry."""
    run = finished.run
    senders, path = sender_names(run, finished.facts), _path(finished)
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
        **_for_filters(path),
        "ccmix.path.pair": f"{','.join(senders)} > {run.dst}",
        "source.address": senders if len(senders) > 1 else senders[0],
        "destination.address": destination,
        "destination.domain": run.dst,
    }


def of_run(campaign: Campaign, finished: FinishedRun) -> Document:
    """Returns what all documents of a run have in common: all but the moment."""
    run = finished.run
    shared = of_campaign(campaign)
    del shared["@timestamp"]
    return {
        **shared,
        "ccmix.run.id": run_id(shared["ccmix.campaign.id"], run),
        "ccmix.run.iteration": run.iteration,
        "ccmix.validity.status": finished.verdict.status,
        **of_condition(finished, campaign.plan.unknown),
    }
