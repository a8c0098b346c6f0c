"""Builds the path between two real hosts from an entry's settings, and checks it.

For entries of type perfSONAR, also makes the task for pScheduler, which then runs the test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccmix.config.host_values import LOCAL, capture, read_address, read_host, with_user
from ccmix.config.hostlist import HostRow
from ccmix.config.problems import Contradiction, nearest, quoted
from ccmix.config.values import (
    LEAST_INTERVAL_S,
    MOST_INTERVAL_S,
    Duration,
    Kind,
    Settings,
    read_text,
)
from ccmix.generators.expected import expected_seconds
from ccmix.generators.pscheduler.task import (
    DECIDED_BY_KEYS,
    NUMBER_FIELDS,
    SLOT_S,
    SPEC_FIELDS,
    STARTS_AFTER_S,
    most_sent_bytes,
    read_number_field,
    split,
    wrong_file,
)
from ccmix.hosts.address import LOCAL_NAMES, AddressKind, parse_host
from ccmix.model import (
    Commands,
    CommandSource,
    Destination,
    HostPath,
    ModuleParameter,
    Netem,
    NetemPlace,
    PschedulerTask,
    Traffic,
)
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.units import format_time

if TYPE_CHECKING:
    from ccmix.config.profiles import Profile

TYPE = "perfsonar"  # in small letters
MIXING = "iperf3mix"  # the tool that understands groups
SHELL_COMMANDS = {
    "pre": "pre",
    "post": "post",
    "pre-src-cmd": "pre_src",
    "post-src-cmd": "post_src",
    "pre-dst-cmd": "pre_dst",
    "post-dst-cmd": "post_dst",
}
_TOOL = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_NOT_FORWARD = {
    "reverse": "data goes from src to dst, so swap these two instead",
    "udp": "ccmix's tables are about TCP",
    "loopback": "there is no path between a host and itself",
}


def _read_server(text: str) -> str:
    """Reads the address of a pScheduler server, HOST or HOST:PORT."""
    host, _ = split(text)
    read_address(LOCAL if host == LOCAL else host)
    return text


def _read_tool(text: str) -> str:
    """Reads the name of the tool that pScheduler should use, such as iperf3mix."""
    if not _TOOL.fullmatch(text):
        raise ValueError("is not a tool's name: write for instance iperf3mix")
    return text


def _read_json(text: str) -> str:
    """Reads the value of a field of pScheduler's test as JSON text; other text becomes a JSON
    string.
    """
    read_text(text)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text)
    return text


def read_field(name: str) -> str:
    """Reads the NAME of a key spec.NAME: a field of pScheduler's throughput test. Raises ValueError
    for a field that another key of ccmix sets, or that ccmix does not support.
    """
    if name in DECIDED_BY_KEYS:
        raise ValueError(f"is set by the key {DECIDED_BY_KEYS[name]}: write that key instead")
    if name in _NOT_FORWARD:
        raise ValueError(f"is not supported: {_NOT_FORWARD[name]}")
    if name not in SPEC_FIELDS:
        raise ValueError(
            f"{quoted(name)} is not a field of a throughput test{nearest(name, SPEC_FIELDS)}"
        )
    return name


def _spec_value(name: str, text: str) -> str:
    """Returns the JSON text of a field of pScheduler's test, in which numbers have no units."""
    number = read_number_field(name, json.loads(text)) if name in NUMBER_FIELDS else None
    return text if number is None else str(number)


SERVER = Kind("host, or HOST:PORT", "", _read_server)
TOOL = Kind("tool", "", _read_tool)
JSON = Kind("JSON, or text", "as pScheduler takes it", _read_json)


def task(settings: Settings, folder: Path) -> PschedulerTask:
    """Returns the task that asks pScheduler for the runs of an entry of type perfSONAR.

    `folder` is the folder of the INI file; names of other files are relative to it. In the task,
    `source` is the host that sends (None: the lead itself), `lead` the host whose pScheduler gets
    the task, and `observed` whether ccmix can run commands on the source.
    """
    src = parse_host(settings["src"])
    src_name = src.host if src.kind is AddressKind.SSH else None
    spec_fields = {
        field.name: _spec_value(field.name, field.value)
        for key, field in settings.items()
        if key.startswith("spec.")
    }
    return PschedulerTask(
        lead=settings.get("lead")
        or (f"[{src_name}]" if src_name and ":" in src_name else src_name)
        or LOCAL,
        source=src_name,
        observed=src_name is None or settings.get("src-host") is not None,
        tool=settings.get("tool"),
        slip_s=settings["slip"],
        wait_s=settings.get("wait")
        or settings["slip"] + _posting_to_end_s(settings["omit"] + settings["duration"].seconds),
        priority=settings.get("priority"),
        repeat_s=settings.get("repeat"),
        most_runs=settings["iterations"],
        tls_ca=str((folder / settings["tls-ca"]).absolute()) if settings.get("tls-ca") else None,
        spec=tuple(sorted(spec_fields.items())),
    )


def check_task(path: HostPath, traffic: Traffic, task: PschedulerTask, settings: Settings) -> None:
    """Checks the values of one condition that pScheduler runs against each other. Raises
    Contradiction.
    """
    for name, text in task.spec:
        if name in NUMBER_FIELDS and not text.isdecimal():
            raise Contradiction(
                f"spec.{name}", f"{text} is not a number: write for instance 1000000000 or 1G"
            )
    if parse_host(settings["src"]).user:
        raise Contradiction(
            "src",
            "has a login, but pScheduler knows hosts only by their names: write the login in "
            "src-host",
        )
    if task.tls_ca and (reason := wrong_file(Path(task.tls_ca))):
        raise Contradiction("tls-ca", f"{quoted(task.tls_ca)} {reason}")
    uses_groups = len(traffic.groups) > 1 or any(
        str(group) != group.cca for group in traffic.groups
    )
    if uses_groups and task.tool not in (None, MIXING):
        raise Contradiction(
            "tool",
            f"{task.tool} does not support groups, which cca has: write tool = {MIXING}, or "
            "remove tool",
        )
    if not task.observed and (key := _key_that_needs_a_shell(path, traffic)):
        raise Contradiction(
            key,
            f"needs a shell on {task.source}, which ccmix does not have: set src-host, or remove "
            f"{key}",
        )
    _check_schedule(path, traffic, task)
    if path.rate_budget and most_sent_bytes(path, traffic) is None:
        raise Contradiction(
            "rate-budget",
            "can't be kept, because nothing limits the data of this run and pScheduler can't end "
            "it: limit each stream, such as spec.bandwidth = 1000000000, or remove rate-budget",
        )


def _key_that_needs_a_shell(path: HostPath, traffic: Traffic) -> str | None:
    """Returns the first key that is set and needs commands on the sending host (for instance
    pacing); None if no key does.
    """
    value_by_key = {key: getattr(path.commands, name) for key, name in SHELL_COMMANDS.items()} | {
        "pacing": traffic.pacing_bps,
        "rtt-probe": traffic.rtt_probe,
        "tcpdump": path.capture,
        "mpstat": path.mpstat_cores,
        "profile": path.profile,
        "param-sweep": path.module_parameter,
        "cca-load": path.cca_load,
        "netem-at": path.netem,
    }
    return next((key for key, value in value_by_key.items() if value), None)


def _posting_to_end_s(traffic_s: float) -> float:
    """Returns the seconds from posting a task to the end of its run, if pScheduler has nothing else
    scheduled.
    """
    return traffic_s + SLOT_S + STARTS_AFTER_S


def _check_schedule(path: HostPath, traffic: Traffic, task: PschedulerTask) -> None:
    """Checks the times of a task against each other. Raises Contradiction.

    pScheduler may start a run later by up to `slip`, so `wait` (how long ccmix waits for the run)
    must not be shorter. `repeat` (from one run to the next) must not be shorter than a run.
    """
    if task.wait_s < task.slip_s:
        slip, wait = format_time(task.slip_s), format_time(task.wait_s)
        raise Contradiction(
            "wait",
            f"{wait} is less than the slip of {slip}, so ccmix would give up on some slots that "
            "pScheduler may choose: write a longer wait",
        )
    if task.repeat_s is None:
        return
    repeat_s, run_s = task.repeat_s, _posting_to_end_s(traffic.total_s)
    if repeat_s < run_s:
        raise Contradiction(
            "repeat",
            f"{format_time(repeat_s)} is less than the {format_time(run_s)} that a run takes: "
            "write more",
        )
    if path.rate_budget or path.time_window:
        raise Contradiction(
            "repeat",
            "follows pScheduler's schedule, which rate-budget and time-window can't stop: remove "
            "one of them",
        )


NETEM_KEYS = ("netem-lat", "netem-loss", "netem-limit")


@dataclass(frozen=True)
class PathDefaults:
    """Holds the values for paths that come from the command line and the file of profiles: the
    sending network device, the place of netem, and profiles (netem settings of a device) by name.
    """

    nic: str | None
    netem_at: NetemPlace | None
    profiles: Mapping[str, Profile]


def destination_of_entry(settings: Settings) -> Destination:
    """Returns the destination that an entry's keys describe: dst, dst-host, alias and profile."""
    user, address = settings["dst"]
    if settings.get("dst-host"):
        host = with_user(settings["dst-host"], settings.get("user"))
    else:
        host = _command_host(user, address, settings)
    return Destination(settings.get("alias") or address, address, host, settings.get("profile"))


def destination_of_row(row: HostRow, settings: Settings) -> Destination:
    """Returns the destination in a row of the list of hosts; the entry's user and profile apply if
    the row has none.
    """
    host = _command_host(row.user, row.address, settings)
    return Destination(
        row.name, row.address, host, row.profile or settings.get("profile"), row.metadata
    )


def _command_host(user: str | None, address: str, settings: Settings) -> str:
    """Returns the host on which commands for a destination run, as 'USER@ADDRESS'. `user` is the
    login that is written before the address. If there is none (None), the key user applies.
    """
    return with_user(f"{user}@{address}" if user else read_host(address), settings.get("user"))


def host_path(
    settings: Settings,
    dst: Destination,
    parameter: ModuleParameter | None,
    defaults: PathDefaults,
    by_pscheduler: bool,
) -> HostPath:
    """Returns the path from src to one destination in one condition, with all that ccmix does on
    it: commands, netem, captures, retries and limits.

    `parameter` is the swept kernel module parameter with its value; None if the entry sweeps none.
    With `by_pscheduler`, pScheduler makes the traffic, so ccmix starts no iperf3 server.
    """
    profile = defaults.profiles[dst.profile] if dst.profile else None
    netem = _netem(settings)
    return HostPath(
        src=_src(settings, by_pscheduler),
        dst=dst,
        label=settings["type"],
        commands=_filled_commands(settings, dst.address),
        **({} if by_pscheduler else {"server": settings["server"], "port": settings["port"]}),
        nic=defaults.nic,
        netem=netem,
        netem_at=(defaults.netem_at or settings.get("netem-at")) if netem else None,
        profile=profile.netem if profile else None,
        profile_device=profile.device if profile else None,
        module_parameter=parameter,
        cca_load=settings.get("cca-load", ()),
        capture=capture(settings, dst.address, defaults.nic) if settings["tcpdump"] else None,
        mpstat_cores=settings.get("mpstat"),
        timeout_s=settings.get("timeout"),
        connect_timeout_s=settings["connect-timeout"],
        retries=settings["retries"],
        pause_s=settings["pause"],
        rate_budget=settings.get("rate-budget"),
        time_window=settings.get("time-window"),
    )


def _src(settings: Settings, by_pscheduler: bool) -> str:
    """Returns the sending host, on which ccmix runs commands. If pScheduler makes the traffic and
    the key src-host is not set, it is only a name, and ccmix does not connect to it.
    """
    if by_pscheduler and not settings.get("src-host"):
        return str(settings["src"])
    return with_user(settings.get("src-host") or settings["src"], settings.get("user"))


def command_traffic(settings: Settings, address: str) -> Traffic:
    """Returns the traffic of the user's own command src-cmd, with {dst} in it replaced by the
    address. Raises Contradiction if the duration is 'settled', because the command decides when a
    run ends.
    """
    command = settings["src-cmd"].replace("{dst}", address)
    duration: Duration | None = settings.get("duration")
    if duration and duration.settled:
        raise Contradiction(
            "duration",
            "can't be settled, because src-cmd decides when a run ends: write a time",
        )
    return Traffic(
        sources=(CommandSource("", BETWEEN_HOSTS, command, kept=_src_cmd_is_kept(settings)),),
        duration_s=duration.seconds if duration else expected_seconds(command),
        omit_s=0.0,
        interval_s=settings["interval"],
        pacing_bps=settings["pacing"],
        rtt_probe=settings["rtt-probe"],
    )


def _netem(settings: Settings) -> Netem | None:
    """Returns the settings of netem from the keys netem-lat, netem-loss and netem-limit; None
    without any of them.
    """
    if not any(key in settings for key in NETEM_KEYS):
        return None
    delay_s, loss, limit = (settings.get(key) for key in NETEM_KEYS)
    return Netem(delay_s=delay_s or 0.0, loss=loss, limit_packets=limit)


def _src_cmd_is_kept(settings: Settings) -> bool:
    """Returns whether src-cmd starts only once and keeps sending during all runs: src-cmd-once with
    a duration, which is then the length of each run.
    """
    return (
        "src-cmd" in settings
        and settings.get("src-cmd-once", False)
        and settings.get("duration") is not None
    )


def _filled_commands(settings: Settings, address: str) -> Commands:
    """Returns the user's commands before, during and after a run, with {dst} replaced by the
    address of the destination.
    """

    def filled_line(key: str) -> str | None:
        """Returns the command of a key with the address in it; None if the key is not set."""
        text: str | None = settings.get(key)
        return text.replace("{dst}", address) if text else None

    return Commands(
        **{name: filled_line(key) for key, name in SHELL_COMMANDS.items()},
        dst=filled_line("dst-cmd"),
        # a kept src-cmd uses dst-cmd all the time
        dst_once=settings.get("dst-cmd-once", False) or _src_cmd_is_kept(settings),
    )


def check_host_path(path: HostPath, traffic: Traffic) -> None:
    """Checks the path and the traffic of one condition against each other. Raises Contradiction."""
    _check_netem(path)
    _check_devices(path, traffic)
    if traffic.command and not LEAST_INTERVAL_S <= traffic.interval_s <= MOST_INTERVAL_S:
        raise Contradiction("interval", "the time between two samples must be from 1ms to 60s")
    if traffic.command and traffic.command.kept and (path.rate_budget or path.time_window):
        raise Contradiction(
            "src-cmd-once",
            "keeps src-cmd sending between runs, which rate-budget and time-window can't stop: "
            "remove one of them",
        )
    seconds = traffic.seconds or 0.0
    if path.timeout_s is not None and path.timeout_s < seconds:
        raise Contradiction(
            "timeout",
            f"{format_time(path.timeout_s)} is less than the {format_time(seconds)} that a run "
            "takes: write more",
        )
    if path.dst.host == LOCAL and path.dst.address in LOCAL_NAMES and path.src != LOCAL:
        raise Contradiction(
            "dst",
            f"on {path.src}, {path.dst.address} is src itself: write the address at which src "
            "reaches dst",
        )


def _check_netem(path: HostPath) -> None:
    """Raises Contradiction if netem has settings but no device, or a delay in each direction but
    only one device.
    """
    if path.netem and not path.netem_at:
        raise Contradiction(
            None,
            "has netem settings, but no place for them: write netem-at = "
            "HOST:DATA_DEVICE,ACK_DEVICE, or give --netem-at",
        )
    if path.netem and path.netem_at and path.netem.delay_s and not path.netem_at.ack_device:
        raise Contradiction(
            None,
            "has a delay in each direction, but netem-at names only one device: write "
            f"{path.netem_at.host}:{path.netem_at.data_device},ACK_DEVICE",
        )


def _check_devices(path: HostPath, traffic: Traffic) -> None:
    """Raises Contradiction if two of these act on the same device: pacing, a profile, and netem. A
    device has only one root queue discipline.
    """
    is_paced = traffic.pacing_bps is not None
    if is_paced and path.profile and path.nic in (None, path.profile_device):
        device = path.profile_device
        raise Contradiction(
            "pacing",
            f"may act on the same device as the profile {path.dst.profile}: name the sending "
            f"device with -i NIC, which must not be {device}"
            if path.nic is None
            else f"acts on the same device as the profile {path.dst.profile}, {device}: remove one",
        )
    netem_at = path.netem_at
    if path.netem and netem_at and netem_at.host == path.src:
        used_devices = [path.profile_device] if path.profile else []
        used_devices += [path.nic] if is_paced else []
        for device in (netem_at.data_device, netem_at.ack_device):
            if device and device in used_devices:
                raise Contradiction(
                    "netem-at",
                    f"{device} of {netem_at.host} already has pacing or a profile: remove one of "
                    "them",
                )
