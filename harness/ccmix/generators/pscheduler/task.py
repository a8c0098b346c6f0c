"""Builds what pScheduler is asked for: a task with a throughput test, from a run. It is pure."""

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

from ccmix.model import HostPath, PschedulerTask, Run, Traffic
from ccmix.model.group_grammar import DEFAULT_CCA, format_groups

TASK_SCHEMA = 3  # the first with a priority
SPEC_SCHEMA = 4  # the first that takes any name, and so groups, for the congestion control algorithm
SCHEMA_OF = {"loopback": 5, "reverse-connections": 6, "fq-rate": 7}  # fields of the test that came later
STARTS_AFTER_S = 12.0  # from posting a task until its first run begins, if nothing else is scheduled
SLOT_S = 15.0  # by which a throughput test's slot is longer than its traffic, with pScheduler's own estimate of RTTs
MERGED_WITHIN_S = 60.0  # results, after the end of the slot

# The fields of a throughput test of schema 7, except those that an entry's keys set or that ccmix can't tabulate
SPEC_FIELDS = (
    "bandwidth", "bandwidth-strict", "buffer-length", "burst-size", "client-cpu-affinity", "dest-node", "flow-label",
    "fq-rate", "ip-tos", "ip-version", "link-rtt", "local-address", "mss", "no-delay", "reverse-connections",
    "server-cpu-affinity", "single-ended", "single-ended-port", "source-node", "window-size", "zero-copy",
)  # fmt: skip
DECIDED_BY_KEYS = {
    "source": "src", "dest": "dst", "duration": "duration", "omit": "omit", "interval": "interval",
    "parallel": "streams", "congestion": "cca",
}  # fmt: skip
_DURATION = re.compile(
    r"P(?:(?P<w>\d{1,9}(?:\.\d{1,9})?)W)?(?:(?P<d>\d{1,9}(?:\.\d{1,9})?)D)?"
    r"(?:T(?:(?P<h>\d{1,9}(?:\.\d{1,9})?)H)?(?:(?P<m>\d{1,9}(?:\.\d{1,9})?)M)?(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_RATE_FIELDS = ("bandwidth", "fq-rate")  # of each stream, in bit/s
_SI_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(?:([kmgtp])(i?))?", re.ASCII | re.IGNORECASE)
_UNIT_S = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def iso_duration(seconds: float) -> str:
    """Returns a duration as ISO 8601 writes it, in seconds alone: 'PT90S'."""
    return f"PT{seconds:.6f}".rstrip("0").rstrip(".") + "S"


def duration_s(text: str) -> float:
    """Returns the seconds of an ISO 8601 duration without years and months. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not match or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is not an ISO 8601 duration")
    return sum(float(match[unit] or 0) * scale for unit, scale in _UNIT_S.items())


def timestamp_s(text: str) -> float:
    """Returns the seconds since the epoch of an ISO 8601 time with its zone. Raises ValueError."""
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return time.timestamp()


def stream_rate_bps(task: PschedulerTask) -> float | None:
    """Returns the most that the test's further fields let a stream send; None where they bound nothing."""
    further = {name: json.loads(text) for name, text in task.spec}
    rates_bps = [_si_number(further[name]) for name in _RATE_FIELDS if name in further]
    return min((rate_bps for rate_bps in rates_bps if rate_bps), default=None)


def _si_number(value: object) -> float | None:
    """Reads a number as pScheduler writes it: 20000000, or '20M', or '20Mi'. Returns None for anything else."""
    match = _SI_NUMBER.fullmatch(str(value))
    if not match:
        return None
    number, prefix, binary = match.groups()
    power = "kmgtp".index(prefix.lower()) + 1 if prefix else 0
    return float(number) * float(1024 if binary else 1000) ** power


def throughput_spec(path: HostPath, traffic: Traffic) -> dict[str, Any]:
    """Returns the test, with no more than what the entry says."""
    task = traffic.task
    assert task
    further = {name: json.loads(text) for name, text in task.spec}
    spec: dict[str, Any] = {
        "schema": max([SPEC_SCHEMA, *(SCHEMA_OF.get(name, SPEC_SCHEMA) for name in further)]),
        "dest": path.dst.address,
        "duration": iso_duration(traffic.measured_s),
        "interval": iso_duration(max(1, round(traffic.interval_s))),  # stock iperf3 gets whole seconds
        "parallel": traffic.streams,
    }
    if task.source:
        spec["source"] = task.source
    if traffic.omit_s:
        spec["omit"] = iso_duration(traffic.omit_s)
    if (congestion := format_groups(traffic.groups)) != DEFAULT_CCA:
        spec["congestion"] = congestion
    return spec | further


def reference(run: Run, identity: str) -> dict[str, Any]:
    """Returns by what the task is known afterwards, in archives too; `identity` is of this posting alone."""
    return {"ccmix": {"id": identity, "entry": run.entry, "condition": run.condition, "iteration": run.iteration}}


def task_document(run: Run, identity: str, slip_s: float) -> dict[str, Any]:
    """Returns the task, for a first run as soon as may be; a repeated one for all iterations that are left."""
    task = run.traffic.task
    assert task
    schedule: dict[str, Any] = {"slip": iso_duration(slip_s)}
    if task.repeat_s is not None:
        schedule |= {"repeat": iso_duration(task.repeat_s), "max-runs": task.most_runs - run.iteration + 1}
    document: dict[str, Any] = {
        "schema": TASK_SCHEMA,
        "test": {"type": "throughput", "spec": throughput_spec(run.host_path, run.traffic)},
        "schedule": schedule,
        "reference": reference(run, identity),
    }
    if task.tool:
        document["tools"] = [task.tool]
    if task.priority is not None:
        document["priority"] = task.priority
    return document


def participants(spec: Mapping[str, Any], lead: str) -> list[str]:
    """Returns who carries out the test: the lead, and the destination unless that has no pScheduler."""
    return [lead] if spec.get("single-ended") else [lead, str(spec.get("dest-node", spec["dest"]))]
