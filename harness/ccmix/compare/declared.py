"""Lists all settings that a run declares, as names and values, so that two runs can be compared.

They come from its environment, path, traffic and entry (a section of the INI file). Every field of
the model is listed, so that a new key needs no code here.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ccmix.analysis import path_text
from ccmix.analysis.counting import imported
from ccmix.analysis.results import Result
from ccmix.config import Entry
from ccmix.config.keys import ENTRY_KEYS
from ccmix.model import Destination, Group, HostPath, Sender, Topology
from ccmix.units import UNITS, format_exact, format_exact_percent

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NONE, UNKNOWN, EMULATED = "none", "unknown", "emulated"
# swept keys that the mix, streams and pacing of a run already contain
OF_TRAFFIC = "cca", "streams", "pacing"
TOLD_BY_FEW_IMPORTS = ("duration", "omit", "interval", "pacing")
IN_TUPLE = ""
MOST_CHARACTERS = 500  # of a value
_FIELD = re.compile(rf"(.+?)(?:_({'|'.join(UNITS)}))?")
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b")
# Fields whose name is not that of the key. The name of a family ends as it is joined to its members
_NAMES = dict(
    line.split(":")
    for line in """
Topology.name:topology
Topology.queue:qdisc
Topology.offloads:offloads
Sender.queue:sender-qdisc
Sender.rate_bps:sender-rate
delay_s:data-delay
ack_bottleneck:ack-
capture:tcpdump-
arguments:filt
most_bytes:size
conversion:convert-
within_s:time
module_parameter:param-sweep
HostPath.dst:
label:type
commands:
pre_src:pre-src-cmd
post_src:post-src-cmd
pre_dst:pre-dst-cmd
post_dst:post-dst-cmd
Commands.dst:dst-cmd
dst_once:dst-cmd-once
netem:netem-
Netem.delay_s:lat
limit_packets:limit
mpstat_cores:mpstat
Destination.name:alias
Destination.address:dst
Destination.host:dst-host
kind:type
groups:cca
line:command
kept:src-cmd-once
most_bps:load-cap
offered_bps:load
at_most_s:settled
task:
Facts.kernel:kernel release
sysctls:sysctl.
Facts.offloads:offloads.
hosts:host.
sender_qdiscs:sender-queue.
bpf_ccas:cca.
lab_programs:lab-program.
""".strip().splitlines()
)
_LEFT_OUT = (
    "Topology.kind",
    "Topology.senders",
    "Topology.changes",
    "Sender.name",
    "Sender.drawn_delay_s",
    "HostPath.kind",
    "HostPath.cap_bytes",
    "Traffic.sources",
    "Facts.imported",
)
# Keys of which no run has a trace
_OF_ENTRIES = {each.name.replace("_", "-") for each in fields(Entry)} - {
    "name",
    "conditions",
    "accept-limits",
}
_OF_ENTRIES |= {key.name for key in ENTRY_KEYS.values() if key.obsolete}

Setting = tuple[str, str]
"""A family, such as 'sysctl.' or '', and a name in it."""
Settings = Mapping[str, Mapping[str, str]]
"""Values by family and name; a missing value is NONE."""


Declared = Mapping[str, Settings]
"""The declared values of a run, by part: its environment, path, traffic and entry; of an imported
run, the values that its source reports.
"""


def declared(result: Result, section: Mapping[str, str]) -> Declared:
    """Returns the settings of a run by part: 'environment', 'path', 'traffic' and 'entry'.

    `section` has the keys of the run's entry as the INI file has them, and is empty for an imported
    run, which has no file.
    """
    keys = sorted(_OF_ENTRIES) if section else ()
    parts = {
        "environment": _declared_environment(result),
        "path": _declared_path(result),
        "traffic": _declared_traffic(result),
        "entry": ((("", key), section.get(key) or ENTRY_KEYS[key].default or NONE) for key in keys),
    }
    return {part: _by_family(settings) for part, settings in parts.items()}


def path_settings(result: Result) -> dict[str, str]:
    """Returns the settings of a run's path by name, such as {'rate': '100 Mbit/s'}.

    The name of the path's section is left out: two campaigns may call the same path differently.
    """
    return {
        family + name: value
        for (family, name), value in _declared_path(result)
        if name != "topology"
    }


@functools.cache
def path_defaults() -> Settings:
    """Returns the settings of a real path that sets nothing: a key that equals its default is not a
    difference.
    """
    return _by_family(_field_settings(HostPath("", Destination("", "", ""), "iperf3")))


def _by_family(settings: Iterable[tuple[Setting, str]]) -> Settings:
    """Sorts settings into {family: {name: value}}; joins values with the same name by commas.

    A family is a prefix of names, such as 'sysctl.'.
    """
    families: dict[str, dict[str, str]] = {}
    for (family, name), value in settings:
        members = families.setdefault(family, {})
        members[name] = f"{members[name]}, {value}" if name in members else value
    return families


def _declared_environment(result: Result) -> Iterator[tuple[Setting, str]]:
    """Yields ((family, name), value) of the machine, and of facts about hosts, kernels and tools.

    A family is a prefix of names, such as 'sysctl.'. A value that was not recorded is UNKNOWN.
    """
    facts = result.finished.facts
    build = facts.kernel_version or UNKNOWN
    tool = facts.iperf3 or UNKNOWN
    generator = facts.generator or "iperf3"
    yield ("", "machine"), result.finished.execution.machine
    yield from _field_settings(
        replace(facts, kernel_version=build, iperf3=tool, generator=generator)
    )


def _declared_path(result: Result) -> Iterator[tuple[Setting, str]]:
    """Yields ((family, name), value) of the settings of a run's path, emulated or real.

    A family is a prefix of names, such as 'sender-'. Of an imported run only its condition (swept
    values), source, destination and perhaps the rate are known.
    """
    path = result.run.path
    yield ("", "path"), EMULATED if isinstance(path, Topology) else "real"
    if isinstance(path, HostPath) and imported(result.finished):
        condition = {
            name: value for name, value in result.run.condition.items() if name not in OF_TRAFFIC
        }
        facts = result.finished.facts.imported
        rate = (
            {"rate": _value_text(facts.rate_bps, "rate_bps", "bps")}
            if facts and facts.rate_bps
            else {}
        )
        known = {"src": path.src, "alias": path.dst.name} | rate | condition
        yield from ((("", name), value) for name, value in known.items())
        return
    yield from _field_settings(path)
    if isinstance(path, Topology):
        yield ("", "hosts"), ", ".join(sender.name for sender in path.senders)
        yield from _joined_hosts(
            {sender.name: dict(_declared_sender(sender)) for sender in path.senders}
        )
        yield from (
            (("", f"at.{change.at_s:.12g}s"), path_text.change(change)) for change in path.changes
        )


def _declared_sender(sender: Sender) -> Iterator[tuple[Setting, str]]:
    """Yields ((family, name), value) of a sending host of an emulated path.

    If it sets no delay for ACKs, each direction has half of the RTT: a single setting says so.
    """
    for (family, name), value in _field_settings(sender):
        if sender.ack_delay_s is not None or name not in ("data-delay", "ack-delay"):
            yield (family, name), value
        elif name == "data-delay":
            yield ("", "delay (half of rtt)"), value


def _declared_traffic(result: Result) -> Iterator[tuple[Setting, str]]:
    """Yields ((family, name), value) of the traffic and of each of its sources.

    A named source (a section flows.NAME) on several hosts is listed once, with the values of all
    hosts. Values that few imported files tell are UNKNOWN instead of none.
    """
    run, sources = result.run, dict[str, dict[str, dict[Setting, str]]]()
    for (family, name), value in _field_settings(run.traffic):
        is_unknown = (
            imported(result.finished) and name in TOLD_BY_FEW_IMPORTS and value in (NONE, "0 s")
        )
        yield (family, name), UNKNOWN if is_unknown else value
    yield ("", "accept-limits"), _value_text(run.accept_limits, "accept_limits")
    for source in run.traffic.sources:
        sources.setdefault(source.name, {})[source.host] = dict(_field_settings(source))
    for source_name, by_host in sources.items():
        prefix = f"flows.{source_name} " if source_name else ""
        if source_name:
            yield (prefix, "host"), ", ".join(by_host)
        for (family, name), value in _joined_hosts(by_host):
            if name not in ("name", "host") and (source_name or name not in ("type", "start")):
                key = "src-cmd" if name == "command" and not source_name else name
                yield (prefix + family, key), value


def _joined_hosts(hosts: Mapping[str, Mapping[Setting, str]]) -> Iterator[tuple[Setting, str]]:
    """Yields the settings of several hosts, given by host name.

    The value is a single one if all hosts have it, otherwise it names the hosts: 'h1 none, h2 3%'.
    """
    for setting in dict.fromkeys(setting for settings in hosts.values() for setting in settings):
        values = {host: settings.get(setting, NONE) for host, settings in hosts.items()}
        first, *others = dict.fromkeys(values.values())
        yield setting, ", ".join(map(" ".join, values.items())) if others else first


def _field_settings(value: DataclassInstance, family: str = "") -> Iterator[tuple[Setting, str]]:
    """Yields ((family, name), value) of a dataclass's fields, and of dataclasses in them.

    A setting is called like its INI key: the field 'rate_bps' gives 'rate'. `family` is the prefix
    of the names, such as 'netem-'.
    """
    for each in fields(value):
        in_class = f"{type(value).__name__}.{each.name}"
        if in_class not in _LEFT_OUT:
            name, unit = _FIELD.fullmatch(each.name).groups()  # type: ignore[union-attr]
            name = _NAMES.get(in_class, _NAMES.get(each.name, name.replace("_", "-")))
            yield from _value_settings(getattr(value, each.name), family, name, each.name, unit)


def _value_settings(
    value: object, family: str, name: str, field: str, unit: str | None
) -> Iterator[tuple[Setting, str]]:
    """Yields ((family, name), value) of one field: several for a mapping or a dataclass.

    `name` is the name of the setting, `field` that of the dataclass's field, and `unit` its unit,
    such as 'bps'; None without a unit.
    """
    # the prefix of nested names: 'mpstat ', but 'ack-' and 'sysctl.' as they are
    joined = family + name + " " * name[-1:].isalnum()
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _value_settings(member, joined, key, field, None)
    elif (
        is_dataclass(value)
        and not isinstance(value, type)
        and type(value).__str__ is object.__str__
    ):
        yield from _field_settings(value, joined)
    else:
        yield (family, name), _value_text(value, field, unit)


def _value_text(value: object, field: str, unit: str | None = None) -> str:
    """Returns a value as an INI file would have it: '100 Mbit/s', 'on', 'none'.

    Long texts are cut after MOST_CHARACTERS; a hash of the whole text tells them apart.
    """
    match field, value:
        case _, None | () | "":
            return NONE
        case "arguments", tuple():
            text = shlex.join(value)
        case "mtu_bytes", int():
            text = f"{value} B"
        case "reorder", float():
            text = format_exact_percent(value)
        case "tls_ca", str():
            text = Path(value).name
        case "rate_budget", (float() as size_bytes, float() as seconds):
            text = f"{format_exact(size_bytes, 'bytes')} in {format_exact(seconds, 's')}"
        case "time_window", tuple():
            text = (
                "-".join(f"{time // 3600:02.0f}:{time % 3600 // 60:02.0f}" for time in value)
                + " UTC"
            )
        case _, bool():
            text = "on" if value else "off"
        case _, int() | float():
            text = format_exact(value, unit) if unit else f"{value:.12g}"
        case _, tuple():
            text = (" " if field == IN_TUPLE else ", ").join(
                _value_text(each, IN_TUPLE, unit) for each in value
            )
        case _, Group(pacing_bps=float() as pacing_bps):
            text = str(value).replace(f"@{pacing_bps:.0f}", f"@{format_exact(pacing_bps, 'bps')}")
        case _:
            text = _HASH.sub(r"\1", str(value)).replace("\n", r"\n").expandtabs(1)
    more = (
        f"... (sha256 {sha256(text.encode()).hexdigest()[:12]})"
        if len(text) > MOST_CHARACTERS
        else ""
    )
    return text[:MOST_CHARACTERS] + more
