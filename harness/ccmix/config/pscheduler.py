"""Keys of entries of type perfSONAR, and what their values come to: what pScheduler is asked."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccmix.config.addresses import LOCAL, read_address
from ccmix.config.problems import nearest, quoted
from ccmix.config.values import Kind, read_text
from ccmix.generators.most_sent import most_sent_bytes
from ccmix.generators.pscheduler.server_address import split
from ccmix.generators.pscheduler.task import DECIDED_BY_KEYS, SLOT_S, SPEC_FIELDS, STARTS_AFTER_S
from ccmix.generators.pscheduler.tls import wrong_file
from ccmix.hosts.address import AddressKind, parse_host
from ccmix.model import HostPath, PschedulerTask, Traffic
from ccmix.units import format_time

TYPE = "perfsonar"  # in small letters
MIXING = "iperf3mix"  # the tool that understands groups
NEED_A_SHELL = {
    "pre": "pre", "post": "post", "pre-src-cmd": "pre_src", "post-src-cmd": "post_src", "pre-dst-cmd": "pre_dst",
    "post-dst-cmd": "post_dst",
}  # fmt: skip
_TOOL = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_NOT_FORWARD = {
    "reverse": "data goes from src to dst: name them the other way round",
    "udp": "ccmix's tables are of TCP",
    "loopback": "there is no path between a host and itself",
}


def _server(text: str) -> str:
    host, _ = split(text)
    read_address(LOCAL if host == LOCAL else host)
    return text


def _tool(text: str) -> str:
    if not _TOOL.fullmatch(text):
        raise ValueError("is no tool's name: write for instance iperf3mix")
    return text


def _json(text: str) -> str:
    """Reads JSON; other text is a JSON string."""
    read_text(text)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text)
    return text


def read_field(name: str) -> str:
    """Reads the name of a further field of the test."""
    if name in DECIDED_BY_KEYS:
        raise ValueError(f"is said by the key {DECIDED_BY_KEYS[name]}")
    if name in _NOT_FORWARD:
        raise ValueError(f"can't be asked for: {_NOT_FORWARD[name]}")
    if name not in SPEC_FIELDS:
        raise ValueError(f"has {quoted(name)}, no field of a throughput test{nearest(name, SPEC_FIELDS)}")
    return name


SERVER = Kind("host, or HOST:PORT", "", _server)
TOOL = Kind("tool", "", _tool)
JSON = Kind("JSON, or text", "as pScheduler takes it", _json)


def task(settings: Mapping[str, Any], folder: Path) -> PschedulerTask:
    """Returns what pScheduler is asked; `folder` is the INI file's."""
    src = parse_host(settings["src"])
    source = src.host if src.kind is AddressKind.SSH else None
    further = {field.name: field.value for key, field in settings.items() if key.startswith("spec.")}
    return PschedulerTask(
        lead=settings.get("lead") or (f"[{source}]" if source and ":" in source else source) or LOCAL,
        source=source,
        observed=source is None or settings.get("src-host") is not None,
        tool=settings.get("tool"),
        slip_s=settings["slip"],
        wait_s=settings.get("wait") or settings["slip"] + _takes_s(settings["omit"] + settings["duration"].seconds),
        priority=settings.get("priority"),
        repeat_s=settings.get("repeat"),
        most_runs=settings["iterations"],
        tls_ca=str((folder / settings["tls-ca"]).absolute()) if settings.get("tls-ca") else None,
        spec=tuple(sorted(further.items())),
    )


def task_contradiction(
    path: HostPath, traffic: Traffic, asked: PschedulerTask, settings: Mapping[str, Any]
) -> tuple[str | None, str] | None:
    """Returns what values of one condition say against each other: the key to name, if one, and the sentence."""
    if parse_host(settings["src"]).user:
        return "src", "is a name by which pScheduler knows the host, without a login: that belongs to src-host"
    if asked.tls_ca and (wrong := wrong_file(Path(asked.tls_ca))):
        return "tls-ca", f"{quoted(asked.tls_ca)} {wrong}"
    grouped = len(traffic.groups) > 1 or any(str(group) != group.cca for group in traffic.groups)
    if grouped and asked.tool not in (None, MIXING):
        return "tool", f"{asked.tool} knows no groups, which cca names: write tool = {MIXING}, or leave it out"
    if not asked.observed and (key := _needs_a_shell(path, traffic)):
        return key, f"acts on a host, and ccmix has no shell on {asked.source}: name one with src-host, or leave it out"
    return _schedule_contradiction(path, traffic, asked) or _budget_contradiction(path, traffic)


def _needs_a_shell(path: HostPath, traffic: Traffic) -> str | None:
    has = {key: getattr(path.commands, name) for key, name in NEED_A_SHELL.items()} | {
        "pacing": traffic.pacing_bps, "rtt-probe": traffic.rtt_probe, "tcpdump": path.capture,
        "mpstat": path.mpstat_cores, "profile": path.profile, "param-sweep": path.module_parameter,
        "cca-load": path.cca_load, "netem-at": path.netem,
    }  # fmt: skip
    return next((key for key, value in has.items() if value), None)


def _takes_s(traffic_s: float) -> float:
    """Returns the seconds from posting a task until its run is over, if nothing else is scheduled."""
    return traffic_s + SLOT_S + STARTS_AFTER_S


def _schedule_contradiction(path: HostPath, traffic: Traffic, asked: PschedulerTask) -> tuple[str, str] | None:
    if asked.wait_s < asked.slip_s:
        slip, wait = format_time(asked.slip_s), format_time(asked.wait_s)
        return "wait", f"{wait} is less than slip, {slip}: pScheduler may choose a slot that would be given up at once"
    if asked.repeat_s is None:
        return None
    repeat_s, takes_s = asked.repeat_s, _takes_s(traffic.total_s)
    if repeat_s < takes_s:
        return "repeat", f"{format_time(repeat_s)} is less than a run takes, {format_time(takes_s)}"
    if path.rate_budget or path.time_window:
        return "repeat", "goes on by pScheduler's schedule, which rate-budget and time-window can't hold: leave one out"
    return None


def _budget_contradiction(path: HostPath, traffic: Traffic) -> tuple[str, str] | None:
    if not path.rate_budget or most_sent_bytes(path, traffic) is not None:
        return None
    return "rate-budget", (
        "can't be held: nothing bounds what this run sends, and pScheduler can't end it: write the most that a "
        "stream may send, spec.bandwidth = 1000000000, or leave it out"
    )
