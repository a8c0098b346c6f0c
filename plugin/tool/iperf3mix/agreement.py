"""Decides whether both ends can make a test: each end by itself, from the same data, before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

from . import ability, group_grammar
from .ability import Ability, AbilityError
from .spec import Request

CLIENT, SERVER = 0, 1  # participants of the test: its source connects to its dest


class Disagreement(Exception):
    """Reports that the test can't be made; the text names the host and what it lacks."""


@dataclass(frozen=True)
class Agreement:
    """Holds where the ends meet, since both can make the test.

    The token is empty where no end has it: the test is single-ended, or its server didn't get participant-data.
    """

    port: int
    token: str


def agree(request: Request, participant_data: object) -> Agreement:
    """Returns where and how the ends meet; raises Disagreement."""
    expected = 1 if request.single_ended else 2
    if not isinstance(participant_data, list) or len(participant_data) != expected:
        raise Disagreement(f"pScheduler did not give the data of {expected} participant{'s'[: expected - 1]}")
    every_group_sends(request)
    abilities = [_read(number, data, request) for number, data in enumerate(participant_data)]
    sender = SERVER if request.reverse else CLIENT
    if sender < len(abilities):  # nobody reports what the server of a single-ended test can do
        _can_send(abilities[sender], request, sender)
    if request.single_ended:
        return Agreement(request.single_ended_port, "")
    server = abilities[SERVER]
    if not server.port or not server.token:
        raise Disagreement(f"{name_of(SERVER, server.host, request)} sent no port or no token of its server")
    return Agreement(server.port, server.token)


def data_is_missing(participant_data: object) -> bool:
    """Returns whether pScheduler gave no participant-data, or not that of every participant.

    pScheduler 5.2 starts a run on the other participants although the lead's message with the data didn't come.
    """
    if participant_data is None:
        return True
    return isinstance(participant_data, list) and (len(participant_data) < 2 or not all(participant_data))


def every_group_sends(request: Request) -> None:
    """Raises Disagreement where a group would measure nothing; iperf3 only warns about it."""
    shares = group_grammar.streams_of_groups(request.groups, request.streams)
    for number, (group, share) in enumerate(zip(request.groups, shares), start=1):
        if share == 0:
            raise Disagreement(
                f"{request.group_name(number)} gets none of the {request.streams} streams: "
                f"ask for more with parallel, such as {sum(each.weight for each in request.groups)}"
            )
        if group.delay_s >= request.traffic_s:
            raise Disagreement(
                f"{request.group_name(number)} would not send: the test ends after {request.traffic_s} s"
            )


def name_of(participant: int, host: str, request: Request) -> str:
    """Returns how messages name a participant: "ps1.example.org (source)", and the host's name where it differs."""
    asked = request.source if participant == CLIENT else request.dest
    role = "source" if participant == CLIENT else "dest"
    if asked is None or asked == host:
        return f"{host} ({role})"
    return f"{asked} ({role}; its own name is {host})"


def _read(participant: int, data: object, request: Request) -> Ability:
    try:
        able = ability.read(data)
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
    wanted = dict.fromkeys(group.cca for group in request.groups if group.cca != group_grammar.DEFAULT_CCA)
    problems = []
    for cca in wanted:
        # With the capability, the kernel may load a module; whether there is one shows when the socket asks for the CCA
        if cca not in able.available and not able.net_admin:
            problems.append(f"CCA {cca} is not available on {host}, which has {' '.join(able.available)}")
        elif cca not in able.allowed and not able.net_admin:
            problems.append(
                f"CCA {cca} is not allowed on {host}, where net.ipv4.tcp_allowed_congestion_control is "
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
