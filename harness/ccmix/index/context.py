"""What all documents of a run say of it: by this they are filtered, since Kibana joins nothing."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ccmix.analysis.conditions import base_rtt_s, condition_key, mix
from ccmix.analysis.series import SRC
from ccmix.archive import Campaign
from ccmix.model import HostPath, Loss, Run, Topology

Document = dict[str, Any]  # field to value; None: no value
ID_DIGITS = 16
PSCHEDULER = "pscheduler"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:ID_DIGITS]


def campaign_id(campaign: Campaign) -> str:
    """Of campaign.json's content: a copy of the archive is the same campaign, another start of it is another one."""
    runs = [[run.entry, run.condition_name, run.dst, run.iteration] for run in campaign.runs]
    return _digest([campaign.about, campaign.ini, runs])


def campaign_name(campaign: Campaign) -> str:
    """The INI file's, as the command line has it; the archive's folder where that names none."""
    names = [PurePath(word).stem for word in campaign.about.get("command", ()) if str(word).endswith(".ini")]
    return names[0] if names else campaign.outdir.resolve().name


def run_id(campaign: str, run: Run) -> str:
    return _digest([campaign, run.entry, run.condition_name, run.dst, run.iteration])


def milliseconds(seconds: float) -> int:
    """As dates are sent: since 1970."""
    return round(seconds * 1000)


def begin_s(campaign: Campaign, summary: Mapping[str, Any]) -> float:
    """When a run's traffic began, in seconds since 1970; in the lab, whose own clock always starts in 2026, when the
    machine around it took to the run. Of an imported run that doesn't tell, when it was imported.
    """
    began_s = summary.get("began_s", summary["started_s"])
    if began_s is None:
        return float(campaign.about["started_s"])
    if summary["where"]["machine"] != "lab":
        return float(began_s)
    measured_s = summary["where"].get("measured_s")
    if measured_s is None:
        return float(campaign.about["started_s"])
    return float(measured_s - summary["where"]["real_seconds"])


def mean_loss(loss: Loss | None) -> float:
    """The fraction of packets lost; of gemodel in the long run, p / (p + r) in the bad state (tc-netem(8))."""
    if loss is None:
        return 0.0
    if loss.model == "random":
        return loss.parameters[0]
    p, r, lost_bad, lost_good = (*loss.parameters, *(1.0, 1.0, 0.0)[len(loss.parameters) - 1 :])
    if len(loss.parameters) == 1:
        r = 1.0 - p
    bad = p / (p + r) if p + r else 0.0
    return bad * lost_bad + (1 - bad) * lost_good


def sender_names(run: Run, facts: Mapping[str, Any]) -> list[str]:
    """Those of an emulated path, or the source's; what 'localhost' is called elsewhere."""
    if isinstance(run.path, Topology):
        return [sender.name for sender in run.path.senders]
    return [known_name(facts.get("hosts", {}).get("src", {}) | {"name": run.host_path.src})]


def known_name(host: Mapping[str, Any]) -> str:
    """A host's, from `facts.hosts`: as the entry names it, or what 'localhost' is called elsewhere."""
    name = str(host["name"]).rpartition("@")[2]
    return str(host.get("hostname", name)) if name == "localhost" else name


def shown_host(run: Run, facts: Mapping[str, Any]) -> dict[str, str]:
    """What series call a sender, to its name: 'src' between hosts."""
    return {} if isinstance(run.path, Topology) else {SRC: sender_names(run, facts)[0]}


def _path(run: Run, summary: Mapping[str, Any]) -> Document:
    path = run.path
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
        "ccmix.path.kind": PSCHEDULER if _by_pscheduler(path, summary) else "real",
        "ccmix.path.base_rtt_s": base_rtt_s(run, summary),
        "ccmix.path.loss": mean_loss(path.netem.loss) if path.netem else None,
        "ccmix.path.rate_bps": path.netem.rate_bps if path.netem else _told_rate_bps(summary),
    }


def _told_rate_bps(summary: Mapping[str, Any]) -> float | None:
    """Of an imported run, as its user knows it."""
    rate_bps: float | None = (summary["facts"].get("imported") or {}).get("rate_bps")
    return rate_bps


def _by_pscheduler(path: HostPath, summary: Mapping[str, Any]) -> bool:
    return path.task is not None or summary["facts"].get("generator") == PSCHEDULER


def of_campaign(campaign: Campaign) -> Document:
    return {
        "@timestamp": milliseconds(campaign.about["started_s"]),
        "ccmix.campaign.id": campaign_id(campaign),
        "ccmix.campaign.name": campaign_name(campaign),
    }


def of_condition(run: Run, summary: Mapping[str, Any]) -> Document:
    """What all iterations of a condition have in common."""
    senders = sender_names(run, summary["facts"])
    destination = run.path.dst.address if isinstance(run.path, HostPath) else run.dst
    return {
        "ccmix.entry": run.entry,
        "ccmix.condition.name": run.condition_name,
        "ccmix.condition.key": condition_key(run, summary),
        "ccmix.mix": mix(summary),
        "ccmix.streams": run.traffic.streams or None,
        "ccmix.pacing_bps": run.traffic.pacing_bps,
        **_path(run, summary),
        "ccmix.path.pair": f"{','.join(senders)} > {run.dst}",
        "source.address": senders if len(senders) > 1 else senders[0],
        "destination.address": destination,
        "destination.domain": run.dst,
    }


def of_run(campaign: Campaign, run: Run, summary: Mapping[str, Any]) -> Document:
    """All but the moment, which is each document's own."""
    shared = of_campaign(campaign)
    del shared["@timestamp"]
    return {
        **shared,
        "ccmix.run.id": run_id(shared["ccmix.campaign.id"], run),
        "ccmix.run.iteration": run.iteration,
        "ccmix.validity.status": summary["validity"]["status"],
        **of_condition(run, summary),
    }
