"""Converts a run of schema 2, whose unions had no tags and whose unset values were sentinels, to today's schema."""

from collections.abc import Mapping
from typing import Any

from ccmix.model.netem import mean_loss
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.terms import IMPORTED

Json = dict[str, Any]

# What a source made, by the names of all its fields, which only one kind had; and fields that have a new name
_KINDS: Mapping[frozenset[str], tuple[str, Mapping[str, str]]] = {
    frozenset(("groups", "streams")): ("iperf3", {}),
    frozenset(("rate_bps", "udp_streams")): ("udp", {"udp_streams": "streams"}),
    frozenset(("requests", "size_bytes", "parallel", "http_cca")): ("http", {"http_cca": "cca"}),
    frozenset(("distribution", "sizes", "offered_bps", "workload_cca")): ("workload", {"workload_cca": "cca"}),
    frozenset(("line",)): ("command", {}),
}
_TRAFFIC = ("omit_s", "interval_s", "pacing_bps", "rtt_probe")
_SENDER = ("delay_s", "jitter_s", "reorder", "rate_bps")
_TOPOLOGY = (
    "rate_bps", "buffer", "mtu_bytes", "offloads", "receivers", "shaper", "queue", "ecn", "name",
)  # fmt: skip
_HOST_PATH = (
    "src", "dst", "label", "server", "port", "nic", "netem_at", "profile_device", "module_parameter", "capture",
    "mpstat_cores", "timeout_s", "retries", "pause_s", "rate_budget", "time_window",
)  # fmt: skip
_COMMANDS = ("pre", "post", "pre_src", "post_src", "pre_dst", "post_dst", "dst", "dst_once")


def convert_run(data: Json) -> Json:
    """Returns today's JSON of a run. What schema 2 allowed to lack may lack.

    Raises KeyError, TypeError, ValueError or AttributeError where it is no run of schema 2.
    """
    old_path = data["path"]
    path = _host_path(old_path) if "src" in old_path else _topology(old_path)
    return {**data, "path": path, "traffic": _traffic(data["traffic"], old_path)}


def _kept(data: Json, names: tuple[str, ...]) -> Json:
    return {name: data[name] for name in names if name in data}


def _traffic(data: Json, path: Json) -> Json:
    duration_s = data["duration_s"]
    return {
        "sources": [_named_source(flows) for flows in data.get("flows") or ()] or list(_sources_of_test(data, path)),
        "duration_s": None if duration_s == 0 else duration_s,
        **_kept(data, _TRAFFIC),
    }


def _named_source(flows: Json) -> Json:
    kind, renamed = _KINDS[frozenset(flows["what"])]
    what = {renamed.get(name, name): value for name, value in flows["what"].items()}
    return {"kind": kind, **_kept(flows, ("name", "host", "start_s")), **what}


def _sources_of_test(data: Json, path: Json) -> list[Json]:
    """Returns what the entry's cca and streams, or its src-cmd, described: one source for each sender."""
    test = {"name": "", "groups": data["groups"], "streams": data["streams"]}
    if "src" not in path:
        return [{"kind": "iperf3", "host": sender["name"], **test} for sender in _senders(path)]
    commands = path.get("commands") or {}
    if line := commands.get("src"):
        kept = commands.get("src_once", False)
        return [{"kind": "command", "name": "", "host": BETWEEN_HOSTS, "line": line, "kept": kept}]
    if task := path.get("task"):
        return [{"kind": "pscheduler", "host": BETWEEN_HOSTS, **test, "task": task}]
    if path["label"] == IMPORTED:
        streams = None if data["streams"] == 0 else data["streams"]
        return [{"kind": "imported", "host": BETWEEN_HOSTS, **test, "streams": streams}]
    return [{"kind": "iperf3", "host": BETWEEN_HOSTS, **test}]


def _topology(data: Json) -> Json:
    return {
        "kind": "emulated",
        **_kept(data, _TOPOLOGY),
        "senders": _senders(data),
        "changes": [_change(change) for change in data.get("changes") or ()],
    }


def _senders(path: Json) -> list[Json]:
    """Returns the hosts; without any, the one sender that the path's own delay, loss, jitter and reorder described."""
    hosts = path.get("hosts") or [{**path, "name": "h1", "rate_bps": None}]
    return [{"name": host["name"], **_kept(host, _SENDER), "loss": _loss(host.get("loss"))} for host in hosts]


def _change(data: Json) -> Json:
    if data.get("rate_bps") is not None:
        return {"kind": "rate", "at_s": data["at_s"], "rate_bps": data["rate_bps"]}
    changed = {"at_s": data["at_s"], "sender": data.get("sender")}
    if data.get("delay_s") is not None:
        return {"kind": "delay", **changed, "delay_s": data["delay_s"]}
    return {"kind": "loss", **changed, "loss": _loss(data["loss"])}


def _host_path(data: Json) -> Json:
    return {
        "kind": "hosts",
        **_kept(data, _HOST_PATH),
        "commands": _kept(data.get("commands") or {}, _COMMANDS),
        "netem": _netem(data.get("netem")),
        "profile": _netem(data.get("profile")),
    }


def _netem(data: Json | None) -> Json | None:
    return data and {**data, "loss": _loss(data.get("loss"))}


def _loss(data: Json | None) -> Json | None:
    """Returns None for all that schema 2 had for no loss."""
    return data if data and mean_loss(data["model"], data["parameters"]) else None
