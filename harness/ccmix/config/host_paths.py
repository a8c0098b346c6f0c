"""Settings of an entry between real hosts to its paths, and what they say against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccmix.config.addresses import LOCAL, read_host, with_user
from ccmix.config.capture import capture
from ccmix.config.hostlist import HostRow
from ccmix.config.problems import Contradiction
from ccmix.config.values import LEAST_INTERVAL_S, MOST_INTERVAL_S, Duration
from ccmix.generators.expected import expected_seconds
from ccmix.hosts.address import LOCAL_NAMES
from ccmix.model import (
    Commands,
    CommandSource,
    Destination,
    HostPath,
    ModuleParameter,
    Netem,
    NetemPlace,
    Traffic,
)
from ccmix.model.traffic import BETWEEN_HOSTS
from ccmix.units import format_time

if TYPE_CHECKING:
    from ccmix.config.profiles import Profile

NETEM_KEYS = ("netem-lat", "netem-loss", "netem-limit")
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class PathDefaults:
    """Holds what a path is made from beside the entry's settings."""

    nic: str | None
    netem_at: NetemPlace | None
    profiles: Mapping[str, Profile]


def destination_of_entry(settings: Settings) -> Destination:
    user, address = settings["dst"]
    if settings.get("dst-host"):
        host = with_user(settings["dst-host"], settings.get("user"))
    else:
        host = _host(user, address, settings)
    return Destination(settings.get("alias") or address, address, host, settings.get("profile"))


def destination_of_row(row: HostRow, settings: Settings) -> Destination:
    host = _host(row.user, row.address, settings)
    return Destination(row.name, row.address, host, row.profile or settings.get("profile"), row.metadata)


def _host(user: str | None, address: str, settings: Settings) -> str:
    return with_user(f"{user}@{address}" if user else read_host(address), settings.get("user"))


def host_path(
    settings: Settings,
    dst: Destination,
    parameter: ModuleParameter | None,
    defaults: PathDefaults,
    by_pscheduler: bool,
) -> HostPath:
    """Returns the path to one destination in one condition; `by_pscheduler`: that makes the traffic."""
    profile = defaults.profiles[dst.profile] if dst.profile else None
    netem = _netem(settings)
    return HostPath(
        src=_src(settings, by_pscheduler),
        dst=dst,
        label=settings["type"],
        commands=_commands(settings, dst.address),
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
    if by_pscheduler and not settings.get("src-host"):
        return str(settings["src"])
    return with_user(settings.get("src-host") or settings["src"], settings.get("user"))


def command_traffic(settings: Settings, address: str) -> Traffic:
    """Returns the traffic of src-cmd to the address. Raises Contradiction."""
    command = settings["src-cmd"].replace("{dst}", address)
    duration: Duration | None = settings.get("duration")
    if duration and duration.settled:
        raise Contradiction("duration", "ends a run once it has settled, and src-cmd decides when it ends: give a time")
    return Traffic(
        sources=(CommandSource("", BETWEEN_HOSTS, command, kept=_src_cmd_is_kept(settings)),),
        duration_s=duration.seconds if duration else expected_seconds(command),
        omit_s=0.0,
        interval_s=settings["interval"],
        pacing_bps=settings["pacing"],
        rtt_probe=settings["rtt-probe"],
    )


def _netem(settings: Settings) -> Netem | None:
    if not any(key in settings for key in NETEM_KEYS):
        return None
    delay_s, loss, limit = (settings.get(key) for key in NETEM_KEYS)
    return Netem(delay_s=delay_s or 0.0, loss=loss, limit_packets=limit)


def _src_cmd_is_kept(settings: Settings) -> bool:
    return "src-cmd" in settings and settings.get("src-cmd-once", False) and settings.get("duration") is not None


def _commands(settings: Settings, address: str) -> Commands:
    def line(key: str) -> str | None:
        text: str | None = settings.get(key)
        return text.replace("{dst}", address) if text else None

    return Commands(
        pre=line("pre"),
        post=line("post"),
        pre_src=line("pre-src-cmd"),
        post_src=line("post-src-cmd"),
        pre_dst=line("pre-dst-cmd"),
        post_dst=line("post-dst-cmd"),
        dst=line("dst-cmd"),
        # a kept src-cmd talks to it all the time
        dst_once=settings.get("dst-cmd-once", False) or _src_cmd_is_kept(settings),
    )


def path_contradiction(path: HostPath, traffic: Traffic) -> tuple[str | None, str] | None:
    """Returns what two right values say against each other: the key to name, if one, and the sentence."""
    if message := _netem_contradiction(path) or _device_contradiction(path, traffic):
        return message
    if traffic.command and not LEAST_INTERVAL_S <= traffic.interval_s <= MOST_INTERVAL_S:
        return "interval", "a time between two samples is from 1ms to 60s"
    if traffic.command and traffic.command.kept and (path.rate_budget or path.time_window):
        return "src-cmd-once", "keeps sending between runs, which rate-budget and time-window can't hold: leave one out"
    seconds = traffic.seconds or 0.0
    if path.timeout_s is not None and path.timeout_s < seconds:
        return "timeout", f"{format_time(path.timeout_s)} is less than a run takes, {format_time(seconds)}"
    if path.dst.host == LOCAL and path.dst.address in LOCAL_NAMES and path.src != LOCAL:
        return (
            "dst",
            f"{path.dst.address} is src itself, seen from {path.src}: name dst as src reaches it",
        )
    return None


def _netem_contradiction(path: HostPath) -> tuple[str | None, str] | None:
    if path.netem and not path.netem_at:
        return None, (
            "has netem settings, and nothing says where they act: write netem-at = HOST:DATA_DEVICE,ACK_DEVICE, "
            "or give --netem-at"
        )
    if path.netem and path.netem_at and path.netem.delay_s and not path.netem_at.ack_device:
        return None, (
            "has a delay in each direction, and netem-at names one device: write "
            f"{path.netem_at.host}:{path.netem_at.data_device},ACK_DEVICE"
        )
    return None


def _device_contradiction(path: HostPath, traffic: Traffic) -> tuple[str | None, str] | None:
    """Returns what is wrong where pacing and netem both need the one root queue of a device."""
    paced = traffic.pacing_bps is not None
    if paced and path.profile and path.nic in (None, path.profile_device):
        device = path.profile_device
        return "pacing", (
            f"and the profile {path.dst.profile} may act on one device: give -i NIC, the sending device, "
            f"which may not be {device}"
            if path.nic is None
            else f"and the profile {path.dst.profile} act on one device, {device}: leave one out"
        )
    at = path.netem_at
    if path.netem and at and at.host == path.src:
        taken = [path.profile_device] if path.profile else []
        taken += [path.nic] if paced else []
        for device in (at.data_device, at.ack_device):
            if device and device in taken:
                return "netem-at", f"{device} of {at.host} has pacing or a profile already: leave one out"
    return None
