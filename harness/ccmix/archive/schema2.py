"""Converts campaign.json and run.json of schema 2, which ccmix wrote until November 2026, to today's schema."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from ccmix.archive.schema2_run import convert_run
from ccmix.flattening import flattened
from ccmix.model.results import FlowMetrics, GroupMetrics, Metrics

SCHEMA = 2
_IMPORT_FACTS = ("kind", "source", "missing", "estimated", "base_rtt_s", "rate_bps")
_FACTS = ("kernel", "kernel_version", "iperf3", "sysctls", "generator", "device", "capture", "probes", "offloads")
_DETAILS_ARE_NOT = (*_FACTS, "commands", "hosts", "imported", "pscheduler")
_CLOCK = ("time", "synchronized", "source", "reference", "ahead_s", "within_s", "error")


def convert_campaign_plan(data: dict[str, Any]) -> dict[str, Any]:
    """Returns today's JSON of a campaign. Raises LookupError, TypeError, ValueError or AttributeError."""
    about = dict(data["about"])
    imported = about.pop("imported", None)
    if imported is not None:
        about["imported"] = {"files": imported["files"], "overrides": imported["told"]}
    return {"origin": about, "ini": data["ini"], "runs": [convert_run(run) for run in data["runs"]]}


def convert_finished_run(data: dict[str, Any]) -> dict[str, Any]:
    """Returns today's JSON of a finished run. Raises what convert_campaign_plan() raises."""
    run, where = convert_run(data["run"]), dict(data["where"])
    where["diagnostics"] = where.pop("notices", [])
    return {
        "run": run,
        "execution": where,
        "facts": _convert_facts(data["facts"], imported=where["machine"] == "imported"),
        "started_s": data["started_s"],
        "began_s": data.get("began_s", data["started_s"]),
        "ended_s": data["ended_s"],
        "ping_rtt_s": _by_sender(data["ping_rtt_s"]),
        "metrics": _with_gaps(Metrics, data["metrics"])
        | {
            "groups": [_with_gaps(GroupMetrics, group) for group in data["metrics"]["groups"]],
            "flows": [_with_gaps(FlowMetrics, flow) for flow in data["metrics"].get("flows", ())],
        },
        "verdict": data["validity"],
    }


def _with_gaps(kind: type, metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns the metrics with null for those that earlier versions did not have."""
    return {field.name: None for field in fields(kind) if "None" in str(field.type)} | metrics


def _by_sender(pings: Any) -> dict[str, Any]:
    if isinstance(pings, dict):
        return pings
    return {"src": pings} if pings else {}


def _convert_facts(facts: dict[str, Any], *, imported: bool) -> dict[str, Any]:
    converted = {name: facts[name] for name in _FACTS if name in facts}
    commands = facts.get("commands")
    if isinstance(commands, list) and commands and isinstance(commands[0], list):
        commands = dict(zip(("client", "server"), commands, strict=False))
    converted["commands"] = [{"role": role, "line": line} for role, line in _commands(commands)]
    if "hosts" in facts:
        converted["hosts"] = {role: host | {"cpus": int(host["cpus"])} for role, host in facts["hosts"].items()}
    if facts.get("pscheduler"):
        converted["pscheduler"] = _convert_pscheduler(facts["pscheduler"])
    if imported:
        source = facts["imported"]
        besides = {name: value for name, value in facts.items() if name not in _DETAILS_ARE_NOT}
        converted["imported"] = {name: source[name] for name in _IMPORT_FACTS if name in source} | {
            "details": flattened(besides) if besides else []
        }
    return converted


def _convert_pscheduler(facts: dict[str, Any]) -> dict[str, Any]:
    converted = {name.replace("-", "_"): value for name, value in facts.items() if value is not None}
    converted["task"] = json.dumps(facts["task"])
    converted["clocks"] = {
        host: {name: clock[name] for name in _CLOCK if name in clock}
        | ({"offset_s": clock["offset"]} if "offset" in clock else {})
        for host, clock in facts["clocks"].items()
    }
    return converted


def _commands(data: Any, role: str = "") -> Iterator[tuple[str, str]]:
    """Yields each command with its role: ('h1 client', 'iperf3 --client ...'); users' own are lines of the shell."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _commands(value, f"{role} {name}".strip())
    elif isinstance(data, list) and data and all(isinstance(item, list) for item in data):
        for argv in data:
            yield from _commands(argv, role)
    elif isinstance(data, list) and role:
        yield role, shlex.join(map(str, data))
    elif isinstance(data, list):
        yield from (("", str(line)) for line in data if line)
    elif data:
        yield role, str(data)
