"""Decides whether both ends can make a test: each end by itself, from the same data, before
anything is sent. Chooses the addresses that the client connects from and to, and divides the time
of a run.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from dataclasses import dataclass

from . import group_grammar
from .host import Ability, AbilityError, read_ability
from .spec import Request

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
# Time to start: the clocks of the two hosts differ, both processes start, the first connection may
# be refused.
STARTING_S = 2.0
# Time to end: iperf3 reads the data that is still in flight, and the tool writes the result before
# pScheduler collects it.
ENDING_S = 2.0
# The results must be written before the slot ends, because the lead participant then collects them,
# and the runner kills the tool.
WRITING_S = 0.5
# Round trips of an iperf3 test, in addition to one for each stream's connection: the control
# connection, cookie, parameters, creation and exchange of streams, start; end, results (which may
# take two), good-bye. tests/plugin count them.
ROUND_TRIPS = 10
CLIENT, SERVER = 0, 1  # participants of the test: its source connects to its dest


class Disagreement(Exception):
    """Reports that the test can't be made; the text names the host and what it lacks."""


@dataclass(frozen=True)
class Agreement:
    """Holds the server's port and token of a test that both ends can make.

    The token is empty if the test is single-ended, or if its server didn't get participant-data.
    """

    port: int
    token: str


def agree(request: Request, participant_data: object) -> Agreement:
    """Returns the agreement of both ends; raises Disagreement."""
    expected = 1 if request.single_ended else 2
    if not isinstance(participant_data, list) or len(participant_data) != expected:
        raise Disagreement(
            f"pScheduler did not give the data of {expected} participant{'s'[: expected - 1]}"
        )
    every_group_sends(request)
    abilities = [_read(number, data, request) for number, data in enumerate(participant_data)]
    sender = SERVER if request.reverse else CLIENT
    if sender < len(abilities):  # nobody reports what the server of a single-ended test can do
        _can_send(abilities[sender], request, sender)
    if request.single_ended:
        return Agreement(request.single_ended_port, "")
    server = abilities[SERVER]
    if not server.port or not server.token:
        raise Disagreement(
            f"{name_of(SERVER, server.host, request)} sent no port or no token of its server"
        )
    return Agreement(server.port, server.token)


def data_is_missing(participant_data: object) -> bool:
    """Returns whether pScheduler gave no participant-data, or lacks that of a participant.

    pScheduler 5.2 starts a run on the other participants even if the lead's message with the data
    didn't arrive.
    """
    if participant_data is None:
        return True
    return isinstance(participant_data, list) and (
        len(participant_data) < 2 or not all(participant_data)
    )


def every_group_sends(request: Request) -> None:
    """Raises Disagreement if a group would measure nothing, which iperf3 only warns about."""
    shares = group_grammar.streams_of_groups(request.groups, request.streams)
    for number, (group, share) in enumerate(zip(request.groups, shares), start=1):
        if share == 0:
            raise Disagreement(
                f"{request.group_name(number)} gets none of the {request.streams} streams: "
                f"ask for more with parallel, such as {sum(each.weight for each in request.groups)}"
            )
        if group.delay_s >= request.traffic_s:
            raise Disagreement(
                f"{request.group_name(number)} would not send: the test ends after "
                f"{request.traffic_s} s"
            )


def name_of(participant: int, host: str, request: Request) -> str:
    """Returns a participant's name for messages: "ps1.example.org (source)", with the host's own
    name if that differs.
    """
    asked = request.source if participant == CLIENT else request.dest
    role = "source" if participant == CLIENT else "dest"
    if asked is None or asked == host:
        return f"{host} ({role})"
    return f"{asked} ({role}; its own name is {host})"


def _read(participant: int, data: object, request: Request) -> Ability:
    try:
        able = read_ability(data)
    except AbilityError as error:
        asked = (request.source or "the source") if participant == CLIENT else request.dest
        raise Disagreement(f"{asked} (participant {participant}) {error}") from None
    if able.error is not None:
        raise Disagreement(f"{name_of(participant, able.host, request)}: {able.error}")
    return able


def _can_send(able: Ability, request: Request, participant: int) -> None:
    host = name_of(participant, able.host, request)
    if missing := _needed_features(request) - able.features:
        raise Disagreement(f"the iperf3 of {host} does not support {', '.join(sorted(missing))}")
    wanted = dict.fromkeys(
        group.cca for group in request.groups if group.cca != group_grammar.DEFAULT_CCA
    )
    problems = []
    for cca in wanted:
        # With the capability, the kernel may load a module. Whether it exists becomes clear only
        # when the socket requests the CCA
        if cca not in able.available and not able.net_admin:
            problems.append(
                f"CCA {cca} is not available on {host}, which has {' '.join(able.available)}"
            )
        elif cca not in able.allowed and not able.net_admin:
            problems.append(
                f"CCA {cca} is not allowed on {host}, where "
                "net.ipv4.tcp_allowed_congestion_control is "
                f"{' '.join(able.allowed)}"
            )
    if problems:
        raise Disagreement("; ".join(problems))


def _needed_features(request: Request) -> set[str]:
    needed = {"groups"}
    for group in request.groups:
        needed |= {"weights"} if group.weight > 1 else set()
        needed |= {"rates"} if group.pacing_bps is not None else set()
        needed |= {"delays"} if group.delay_s > 0 else set()
    return needed


def needed_s(request: Request) -> float:
    """Returns the length of the slot that the test needs, in seconds."""
    handshake_s = (ROUND_TRIPS + request.streams) * request.link_rtt_s
    return STARTING_S + handshake_s + request.traffic_s + ENDING_S


@dataclass(frozen=True)
class RunSlot:
    """Holds the start and the end of a run's slot, in seconds since 1970."""

    start: float
    end: float

    @property
    def stop(self) -> float:
        """Returns the time at which the tool ends iperf3, so that it can write the result in
        time.
        """
        return self.end - WRITING_S

    def last_start(self, request: Request) -> float:
        """Returns the latest start of a test that can still end in time."""
        return self.stop - request.traffic_s

    def wait_for_start(self) -> None:
        while (left := self.start - time.time()) > 0:
            time.sleep(min(left, 1.0))  # in steps, because the clock may be set meanwhile


class AddressError(Exception):
    """Reports that two hosts have no addresses to reach each other."""


@dataclass(frozen=True)
class Route:
    """Holds numeric addresses of one family. If `local` is None, the kernel chooses it."""

    remote: str
    local: str | None


def choose_route(request: Request) -> Route:
    """Returns the addresses of a test's connections.

    The family is the requested one, otherwise the first in the resolver's order in which both sides
    have an address. The client binds to local-address. Without local-address, it binds to the
    source's address if this host has that address; it doesn't behind an address translator, or if
    the host's name is an alias of the loopback (Debian's 127.0.1.1).

    Raises AddressError.
    """
    remotes = _resolve(request.dest, request.ip_version)
    if request.flow_label is not None:
        remotes = [address for address in remotes if _version(address) == 6]
        if not remotes:
            raise AddressError(f"{request.dest} has no IPv6 address, which a flow-label needs")
    if request.local_address is not None:
        locals_ = _resolve(request.local_address, request.ip_version)
        for remote in remotes:
            for local in locals_:
                if _version(local) == _version(remote):
                    return Route(remote, local)
        raise AddressError(
            f"the local-address {request.local_address} ({', '.join(locals_)}) and {request.dest} "
            f"({', '.join(remotes)}) have no IP version in common"
        )
    if request.source is not None:
        for remote in remotes:
            for local in _resolve(request.source, request.ip_version, or_none=True):
                if _version(local) == _version(remote) and _is_for(local, remote):
                    return Route(remote, local)
    return Route(remotes[0], None)


def _resolve(name: str, version: int | None, *, or_none: bool = False) -> list[str]:
    family = _FAMILIES[version] if version is not None else socket.AF_UNSPEC
    try:
        records = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if or_none:
            return []
        of_version = f" in IPv{version}" if version is not None else ""
        raise AddressError(f"{name} has no address{of_version}: {error}") from None
    return list(dict.fromkeys(str(address[4][0]) for address in records))


def _version(address: str) -> int:
    return ipaddress.ip_address(address.partition("%")[0]).version


def _is_for(local: str, remote: str) -> bool:
    """Returns whether a connection to the remote address can come from the local one."""
    loopback = [
        ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in (local, remote)
    ]
    if loopback[0] != loopback[1]:
        return False
    with socket.socket(_FAMILIES[_version(local)], socket.SOCK_STREAM) as probe:
        try:
            probe.bind((local, 0))
        except OSError:
            return False
    return True
