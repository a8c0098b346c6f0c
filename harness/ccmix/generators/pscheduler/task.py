"""Builds a pScheduler task from a run, with a throughput test, and reads pScheduler's texts.

Also calculates how much a run between hosts can send, and prepares TLS for a server.
"""

import datetime
import json
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ccmix.files import check_regular
from ccmix.model import HostPath, PschedulerTask, Run, Traffic
from ccmix.model.group_grammar import DEFAULT_CCA, format_groups, streams_of_groups

TASK_SCHEMA = 3  # the first schema with a priority
SPEC_SCHEMA = (
    4  # the first schema that takes any name, and so groups, as congestion control algorithm
)
SCHEMA_OF = {
    "loopback": 5,
    "reverse-connections": 6,
    "fq-rate": 7,
}  # fields of the test in later schemas
STARTS_AFTER_S = (
    12.0  # from posting a task to the begin of its first run, if nothing else is scheduled
)
# by which a throughput test's slot is longer than its traffic, with pScheduler's own estimate of
# RTTs
SLOT_S = 15.0
MERGED_WITHIN_S = 60.0  # results, after the end of the slot

# The fields of a throughput test of schema 7, except fields that an entry's keys set and those that
# ccmix can't tabulate
_SPEC_FIELDS = (
    "bandwidth bandwidth-strict buffer-length burst-size client-cpu-affinity dest-node flow-label "
    "fq-rate ip-tos ip-version link-rtt local-address mss no-delay reverse-connections "
    "server-cpu-affinity single-ended single-ended-port source-node window-size zero-copy"
)
SPEC_FIELDS = tuple(_SPEC_FIELDS.split())
DECIDED_BY_KEYS = {
    "source": "src",
    "dest": "dst",
    "duration": "duration",
    "omit": "omit",
    "interval": "interval",
    "parallel": "streams",
    "congestion": "cca",
}
_DURATION = re.compile(
    r"P(?:(?P<w>\d{1,9}(?:\.\d{1,9})?)W)?(?:(?P<d>\d{1,9}(?:\.\d{1,9})?)D)?"
    r"(?:T(?:(?P<h>\d{1,9}(?:\.\d{1,9})?)H)?(?:(?P<m>\d{1,9}(?:\.\d{1,9})?)M)?(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_RATE_FIELDS = ("bandwidth", "fq-rate")  # of each stream, in bit/s
NUMBER_FIELDS = (*_RATE_FIELDS, "buffer-length", "burst-size", "mss", "window-size")
_SI_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(?:([kmgtp])(i?))?", re.ASCII | re.IGNORECASE)
_UNIT_S = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
PORT = 443
# OpenSSL's numbers (X509_V_ERR_*, openssl/x509_vfy.h) for certificates of an untrusted issuer
_UNTRUSTED = (18, 19, 20, 21)
MOST_CERTIFICATES_BYTES = 10_000_000
_EXPIRED, _NOT_YET_VALID = 10, 9


def iso_duration(seconds: float) -> str:
    """Returns a duration in the form of ISO 8601, only in seconds: 'PT90S'."""
    return f"PT{seconds:.6f}".rstrip("0").rstrip(".") + "S"


def duration_s(text: str) -> float:
    """Returns the seconds of an ISO 8601 duration, 'PT1M30S', without years and months. Raises
    ValueError.
    """
    match = _DURATION.fullmatch(text)
    if not match or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is not an ISO 8601 duration")
    return sum(float(match[unit] or 0) * scale for unit, scale in _UNIT_S.items())


def timestamp_s(text: str) -> float:
    """Returns the seconds since the epoch of an ISO 8601 time with its time zone. Raises
    ValueError.
    """
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return time.timestamp()


def stream_rate_bps(task: PschedulerTask) -> float | None:
    """Returns the maximum rate of each stream of a task, in bit/s: the smaller of its fields
    'bandwidth' and 'fq-rate'. None if the task sets neither.
    """
    further = {name: json.loads(text) for name, text in task.spec}
    rates_bps = [_read_si_number(further[name]) for name in _RATE_FIELDS if name in further]
    return min((rate_bps for rate_bps in rates_bps if rate_bps), default=None)


def read_number_field(name: str, value: object) -> int | None:
    """Returns the whole number that pScheduler wants in one of NUMBER_FIELDS: 1000000000 for '1G'
    or '1gbit', 65536 for '64KiB'. None if the value is not such a number.
    """
    unit = "bits?(/s)?|bps" if name in _RATE_FIELDS else "B"
    number = _read_si_number(re.sub(f"(?i)({unit})$", "", str(value).strip()))
    return None if number is None else round(number)


def _read_si_number(value: object) -> float | None:
    """Reads a number in the forms of pScheduler: 20000000, '20M' or '20Mi'. Returns None for
    anything else.
    """
    match = _SI_NUMBER.fullmatch(str(value))
    if not match:
        return None
    number, prefix, binary = match.groups()
    power = "kmgtp".index(prefix.lower()) + 1 if prefix else 0
    return float(number) * float(1024 if binary else 1000) ** power


def throughput_spec(path: HostPath, traffic: Traffic) -> dict[str, Any]:
    """Returns the specification of pScheduler's throughput test for a run, as JSON that pScheduler
    reads. Fields that the entry does not set are left out, so pScheduler's defaults apply to them.
    """
    task = traffic.task
    assert task
    further = {name: json.loads(text) for name, text in task.spec}
    spec: dict[str, Any] = {
        "schema": max([SPEC_SCHEMA, *(SCHEMA_OF.get(name, SPEC_SCHEMA) for name in further)]),
        "dest": path.dst.address,
        "duration": iso_duration(traffic.measured_s),
        "interval": iso_duration(
            max(1, round(traffic.interval_s))
        ),  # stock iperf3 gets whole seconds
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
    """Returns the task's reference: a note that pScheduler stores with the task. It names the run,
    so that the task can be found later, also in archives. `identity` is a UUID, which is different
    each time a task is posted.
    """
    return {
        "ccmix": {
            "id": identity,
            "entry": run.entry,
            "condition": run.condition,
            "iteration": run.iteration,
        }
    }


def task_document(run: Run, identity: str, slip_s: float) -> dict[str, Any]:
    """Returns the task for a run as JSON that pScheduler reads. pScheduler begins its first run as
    soon as possible, and may delay it by up to `slip_s`. A repeated task is also for all further
    iterations. `identity` is the UUID by which the task can be found.
    """
    task = run.traffic.task
    assert task
    schedule: dict[str, Any] = {"slip": iso_duration(slip_s)}
    if task.repeat_s is not None:
        schedule |= {
            "repeat": iso_duration(task.repeat_s),
            "max-runs": task.most_runs - run.iteration + 1,
        }
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
    """Returns the hosts that take part in a test with pScheduler: the lead, which schedules it, and
    the destination, unless the test is single-ended (the destination does not run pScheduler).
    """
    return [lead] if spec.get("single-ended") else [lead, str(spec.get("dest-node", spec["dest"]))]


def split(address: str) -> tuple[str, int]:
    """Splits 'HOST' or 'HOST:PORT' into host and port; the default port is 443. An IPv6 address
    with a port is written in brackets. Raises ValueError if the port is not valid.
    """
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    else:
        host, port = address, ""
    if not port:
        return host, PORT
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(f"has the port {port!r}: give one from 1 to 65535")
    return host, int(port)


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """Returns a TLS context that trusts only the certificates in a PEM file; without a file, those
    that this machine trusts.

    The file may have a server's own certificate, self-signed or not. The server's name and dates
    are always checked. Raises OSError (including ssl.SSLError) if the file can't be read or has no
    certificate.
    """
    if ca_file:
        check_regular(Path(ca_file), MOST_CERTIFICATES_BYTES)
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # so that a certificate in the file need not be a root certificate
    return context


def wrong_file(path: Path) -> str | None:
    """Returns the mistake in a file of certificates to trust (the key `tls-ca`); None if the file
    is usable.
    """
    try:
        trusting(str(path))
    except ssl.SSLError:
        return "has no certificate in PEM form, -----BEGIN CERTIFICATE-----"
    except OSError as error:
        return f"can't be read: {error.strerror}"
    return None


def mistrust(host: str, error: ssl.SSLCertVerificationError, ca_file: str | None) -> str:
    """Returns the message for a server whose certificate is not trusted: why, and what to do about
    it. `ca_file` is the file with the trusted certificates; None: those that this machine trusts.
    """
    if error.verify_code == _EXPIRED:
        return f"{host}: its certificate has expired: renew it there"
    if error.verify_code == _NOT_YET_VALID:
        return f"{host}: its certificate is not valid yet: check the clocks of both hosts"
    if error.verify_code not in _UNTRUSTED:
        return f"{host}: its certificate is refused: {error.verify_message}"
    if ca_file:
        return (
            f"{host}: its certificate is not one of {ca_file}, nor issued by one of them: "
            f"{error.verify_message}"
        )
    return (
        f"{host}: its certificate is not signed by anybody whom this machine trusts "
        f"({error.verify_message}): give the file of that certificate, or of its issuer's, with "
        "tls-ca = FILE"
    )


def most_sent_bytes(path: HostPath, traffic: Traffic) -> float | None:
    """Returns the maximum number of bytes that a run can send, which is compared with the user's
    traffic budget. Limits are the pacing of the flows and the rate of an emulated bottleneck, each
    times the duration. None if ccmix knows no limit.
    """
    if traffic.seconds is None:
        return None
    rates_bps = [
        netem.rate_bps
        for netem in (path.netem, path.profile)
        if netem and netem.rate_bps is not None
    ]
    bounds = [rate_bps * traffic.seconds / 8 for rate_bps in rates_bps]
    paced = _bytes_by_pacing(traffic, traffic.seconds)
    return min([*bounds, *([] if paced is None else [paced])], default=None)


def _bytes_by_pacing(traffic: Traffic, seconds: float) -> float | None:
    """Returns the maximum number of bytes that the test's flows can send because of pacing; None if
    some flows are not paced. Pacing may be set by the key `pacing`, by pScheduler's task, and for
    each group of flows; the lowest rate counts. The steps that measure a path have a common limit.
    """
    if traffic.steps:
        return traffic.steps.most_bps * seconds / 8
    if not traffic.streams:
        return None
    limits_of_all_bps = (
        traffic.pacing_bps,
        stream_rate_bps(traffic.task) if traffic.task else None,
    )
    sent = 0.0
    for group, streams in zip(
        traffic.groups, streams_of_groups(traffic.groups, traffic.streams), strict=True
    ):
        rates_bps = [
            rate_bps for rate_bps in (group.pacing_bps, *limits_of_all_bps) if rate_bps is not None
        ]
        if not rates_bps:
            return None
        sent += streams * min(rates_bps) * max(0.0, seconds - group.delay_s) / 8
    return sent
